"""Compressed blocks of any size, decompressed piece by piece, and the window that holds a piece.

A block that grows beyond the memory for ordinary ones is read through here: what is held is the
codec's own window (zstd's is refused above 128 MiB, as Kafka refuses it), one piece, and a record
that is larger than a piece. All framings of `compression` are taken, with the same checks.

No size is believed. A raw snappy block that declares more than its bytes can hold is refused before
anything is decompressed, and memory for a record beyond `CERTAIN_BYTES` (and twice the largest one
that was found) is taken only after a pass over the block, which holds nothing, has shown that the
record is there.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import Final

import cramjam
import numpy as np
import pyarrow as pa

from spark_segmentlog.record.codec import codec_kernels as kernels
from spark_segmentlog.record.codec.decompress import (
    SMALL_BLOCK_BYTES,
    WHOLE_BLOCK_BYTES,
    BlockError,
    BlockTooLargeError,
    OutputFullError,
    check_block_size,
    decompress_into,
    is_surely_large,
    is_xerial,
    next_xerial_block,
    snappy_block_into,
    with_right_header_checksum,
)
from spark_segmentlog.record.layout import MAGIC_V0, Codec
from spark_segmentlog.record.types import Bytes, ByteSource, Int64s, bytes_view, flat_bytes

NO_LIMIT: Final = 2**63 - 1
"""As a limit on decompressed bytes: none."""

CERTAIN_BYTES: Final = 32 << 20

_COUNTED_BYTES = 256 << 10
_GZIP_INPUT_BYTES = 64 << 10
_GZIP_WINDOW_BITS = 31
# Two bytes make at most 11, three at most 64.
_SNAPPY_LARGEST_RATIO = 22
_SNAPPY_WHOLE_BYTES = 1 << 20
_SNAPPY_HISTORY_BYTES = 8 << 20
_SNAPPY_ROOM_BYTES = 2 * _SNAPPY_HISTORY_BYTES + kernels.SNAPPY_SLACK_BYTES
_ARROW_NAMES = {Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}


class BlockStream(ABC):
    """Decompressed bytes of one block, in order."""

    @abstractmethod
    def read_into(self, view: memoryview) -> int:
        """Write the next bytes, at most as many as `view` has; 0 only at the block's end.

        Raises
        ------
        BlockError
            When the bytes are not what the codec says, or end too early.
        BlockTooLargeError
            When they declare more than they can hold.
        """


def open_block(codec: int, block: memoryview, *, magic: int) -> BlockStream:
    """Start to decompress a block; parameters as of `compression.decompress_into`."""
    if not len(block):
        raise BlockError(f"{Codec(codec).name.lower()} block: no bytes")
    if codec == Codec.GZIP:
        return _GzipStream(block)
    if codec == Codec.SNAPPY:
        return _XerialStream(block) if is_xerial(block) else _RawSnappyStream(block)
    if codec == Codec.LZ4 and magic == MAGIC_V0:
        block = with_right_header_checksum(block)
    return _ArrowStream(Codec(codec), block)


class _ArrowStream(BlockStream):
    """Frames of lz4 or zstd, by Arrow's binding of their libraries."""

    def __init__(self, codec: Codec, block: memoryview) -> None:
        self._name = codec.name.lower()
        source = pa.BufferReader(pa.py_buffer(block))
        self._stream = pa.CompressedInputStream(source, _ARROW_NAMES[codec])

    def read_into(self, view: memoryview) -> int:
        try:
            return int(self._stream.readinto(view))
        except OSError as error:
            raise BlockError(f"{self._name} block: {error}") from error


class _GzipStream(BlockStream):
    """One or more gzip members."""

    def __init__(self, block: memoryview) -> None:
        self._rest = block
        self._fed = b""
        self._member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        self._is_inside = False

    def read_into(self, view: memoryview) -> int:
        while self._has_input() or self._is_inside:
            try:
                data = self._member.decompress(self._fed, len(view))
            except zlib.error as error:
                raise BlockError(f"gzip block: {error}") from error
            was_fed = len(self._fed)
            self._fed = self._member.unconsumed_tail
            self._is_inside = True
            if self._member.eof:
                self._fed = self._member.unused_data
                self._member = zlib.decompressobj(_GZIP_WINDOW_BITS)
                self._is_inside = False
            if data:
                view[: len(data)] = data
                return len(data)
            if not was_fed:
                raise BlockError("gzip block: cut off")
        return 0

    def _has_input(self) -> bool:
        if not self._fed:
            self._fed = bytes(self._rest[:_GZIP_INPUT_BYTES])
            self._rest = self._rest[_GZIP_INPUT_BYTES:]
        return bool(self._fed)


class _RawSnappyStream(BlockStream):
    """One raw snappy block; small ones at once, large ones element by element.

    A copy may reach back over a whole block that fits `_SNAPPY_ROOM_BYTES`, and over
    `_SNAPPY_HISTORY_BYTES` in a larger one; encoders that cut a block into fragments of 64 KiB, as
    nearly all do, stay far below.
    """

    def __init__(self, block: memoryview) -> None:
        size = _declared_bytes(block)
        self._room: Bytes = np.empty(0, np.uint8)
        self._given = 0
        self._has_forgotten = False
        self._state: Int64s = np.zeros(kernels.SNAPPY_STATE_FIELDS, np.int64)
        self._is_done = size <= _SNAPPY_WHOLE_BYTES
        if self._is_done:
            self._room = _whole_snappy_block(block)
            self._state[kernels.SNAPPY_USED] = len(self._room)
            return
        self._block = flat_bytes(np.frombuffer(block, np.uint8))
        self._room = np.empty(min(size, _SNAPPY_ROOM_BYTES) + kernels.SNAPPY_SLACK_BYTES, np.uint8)
        self._state[kernels.SNAPPY_POSITION] = _varint_bytes(size)
        self._state[kernels.SNAPPY_MISSING] = size

    def read_into(self, view: memoryview) -> int:
        if self._given == self._state[kernels.SNAPPY_USED] and not self._is_done:
            self._decode()
        count = min(int(self._state[kernels.SNAPPY_USED]) - self._given, len(view))
        view[:count] = self._room[self._given : self._given + count].data
        self._given += count
        return count

    def _decode(self) -> None:
        used = int(self._state[kernels.SNAPPY_USED])
        if used > _SNAPPY_HISTORY_BYTES:
            # Never overlapping, as the room is full when more than that is used.
            self._room[:_SNAPPY_HISTORY_BYTES] = self._room[used - _SNAPPY_HISTORY_BYTES : used]
            self._state[kernels.SNAPPY_USED] = _SNAPPY_HISTORY_BYTES
            self._has_forgotten = True
        self._given = int(self._state[kernels.SNAPPY_USED])
        code = kernels.decode_snappy(self._block, self._room, self._state)
        if code == kernels.SNAPPY_BAD or (code == kernels.SNAPPY_FAR and not self._has_forgotten):
            position = self._state[kernels.SNAPPY_POSITION]
            raise BlockError(f"snappy block: bad element before byte {position}")
        if code == kernels.SNAPPY_FAR:
            raise BlockError(
                f"snappy block: copy from further back than the {_SNAPPY_HISTORY_BYTES} bytes that "
                "are kept"
            )
        self._is_done = code == kernels.SNAPPY_DONE


class _XerialStream(BlockStream):
    """Xerial framing: raw snappy blocks behind their lengths."""

    def __init__(self, block: memoryview) -> None:
        self._block = block
        self._position = 0
        self._inner: BlockStream | None = None

    def read_into(self, view: memoryview) -> int:
        if self._inner is not None and (count := self._inner.read_into(view)):
            return count
        self._inner = None
        written = 0
        while (found := next_xerial_block(self._block, self._position)) is not None:
            block = self._block[found[0] : found[1]]
            count = _snappy_block_within(block, view[written:])
            if count < 0 and written:
                break
            self._position = found[1]
            if count < 0:
                self._inner = _RawSnappyStream(block)
                return self._inner.read_into(view)
            written += count
            if written == len(view):
                break
        return written


def _snappy_block_within(block: memoryview, view: memoryview) -> int:
    """Decompress a raw block into a view; -1 where that has no room for it."""
    try:
        return snappy_block_into(block, view)
    except OutputFullError:
        return -1
    except cramjam.DecompressionError as error:
        raise BlockError(f"snappy block: {error}") from error


def _varint_bytes(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _whole_snappy_block(block: memoryview) -> Bytes:
    try:
        whole = cramjam.snappy.decompress_raw(block)
    except cramjam.DecompressionError as error:
        raise BlockError(f"snappy block: {error}") from error
    return np.frombuffer(memoryview(whole), np.uint8)


def _declared_bytes(block: memoryview) -> int:
    """Read the size that a raw snappy block declares, if its bytes can hold as much."""
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise BlockError(f"snappy block: {error}") from error
    largest = _SNAPPY_LARGEST_RATIO * len(block)
    if size > largest:
        raise BlockTooLargeError(
            f"snappy block of {len(block)} bytes declares {size} decompressed, "
            f"it can hold at most {largest}"
        )
    return size


class BlockWindow:
    """The bytes of a block that are in memory: ``data[start:end]``; the caller moves `start`.

    Parameters
    ----------
    codec, block, magic
        As of `open_block`.
    max_bytes : int
        The block may not grow beyond this.
    data : ndarray of uint8
        Memory to begin with; it is replaced when a record is larger.
    """

    def __init__(
        self, codec: int, block: memoryview, *, magic: int, max_bytes: int, data: Bytes
    ) -> None:
        self._codec = codec
        self._block = block
        self._magic = magic
        self._max_bytes = max_bytes
        self.data = data
        self._certain_bytes = CERTAIN_BYTES
        self.rewind()

    def rewind(self) -> None:
        """Start again at the front of the block."""
        self._stream: BlockStream | None = None
        self._position = self.start = self.end = 0
        self._is_at_end = False
        self._bytes_beyond = 0

    @property
    def position(self) -> int:
        """Where in the decompressed block the window starts."""
        return self._position + self.start

    @property
    def is_whole(self) -> bool:
        """Whether the whole block is in the window, and stays there."""
        return False

    @property
    def rest_bytes(self) -> int:
        """Bytes that are left in the block, where `hold` said no."""
        return self.end - self.start + self._bytes_beyond

    def hold(self, needed_bytes: int) -> bool:
        """Read until the window has this many bytes; false when the block ends before.

        Raises
        ------
        BlockError, BlockTooLargeError
            Where the block is bad, or above the limit.
        """
        while self.end - self.start < needed_bytes and not self._is_at_end:
            self._make_room(needed_bytes)
            if not self._is_at_end:
                self._read()
        return self.end - self.start >= needed_bytes

    def fill(self) -> None:
        """Read as much as there is room for, or to the block's end."""
        self._move_to_front()
        self.hold(len(self.data))

    def skip(self, count: int) -> None:
        """Step over bytes, as far as there are any."""
        while count and self.hold(1):
            step = min(count, self.end - self.start)
            self.start += step
            count -= step

    def _open(self) -> BlockStream:
        return open_block(self._codec, self._block, magic=self._magic)

    def _read(self) -> None:
        if self._stream is None:
            self._stream = self._open()
        count = self._stream.read_into(bytes_view(self.data[self.end :]))
        self._is_at_end = count == 0
        self.end += count
        check_block_size(self._position + self.end, self._max_bytes)

    def _make_room(self, needed_bytes: int) -> None:
        self._move_to_front()
        if self.end < len(self.data):
            return
        if needed_bytes > self._certain_bytes:
            beyond = self._count_beyond(needed_bytes)
            if beyond + self.end < needed_bytes:
                self._is_at_end, self._bytes_beyond = True, beyond
                return
            # So that records which grow bit by bit do not make a pass each.
            self._certain_bytes = 2 * needed_bytes
        grown = np.empty(max(needed_bytes, min(2 * len(self.data), CERTAIN_BYTES)), np.uint8)
        grown[: self.end] = self.data[: self.end]
        self.data = grown

    def _count_beyond(self, needed_bytes: int) -> int:
        """Count the bytes behind the window, or as many as are needed, and hold none of them."""
        stream = self._open()
        piece = memoryview(bytearray(_COUNTED_BYTES))
        total = 0
        while total < self._position + needed_bytes and (count := stream.read_into(piece)):
            total += count
            check_block_size(total, self._max_bytes)
        return total - self._position - self.end

    def _move_to_front(self) -> None:
        if self.start:
            held = self.end - self.start
            self.data[:held] = self.data[self.start : self.end]
            self._position += self.start
            self.start, self.end = 0, held


class HeldBlock(BlockWindow):
    """A window on a block that was decompressed whole: the first `used_bytes` of `data`."""

    def __init__(self, data: Bytes, used_bytes: int) -> None:
        self.data = data
        self._used_bytes = used_bytes
        self._is_at_end = True
        self._bytes_beyond = 0
        self.rewind()

    def rewind(self) -> None:
        """Start again at the front of the block."""
        self._position = self.start = 0
        self.end = self._used_bytes

    def fill(self) -> None:
        """Do nothing: all of it is there."""

    @property
    def is_whole(self) -> bool:
        """Whether the whole block is in the window, and stays there."""
        return True


def open_window(
    codec: int,
    block: memoryview,
    *,
    magic: int,
    max_bytes: int = NO_LIMIT,
    data: Bytes | None = None,
) -> BlockWindow:
    """Decompress a block whole where it is an ordinary one, else start to read it as a stream.

    Parameters
    ----------
    codec, block, magic, max_bytes
        As of `BlockWindow`.
    data : ndarray of uint8, optional
        Memory of `WHOLE_BLOCK_BYTES` to use.

    Raises
    ------
    BlockError, BlockTooLargeError
        Where the block is bad, or above the limit.
    """
    room = np.empty(WHOLE_BLOCK_BYTES, np.uint8) if data is None else data
    try:
        if len(block) >= SMALL_BLOCK_BYTES and is_surely_large(codec, block):
            raise OutputFullError
        size = decompress_into(codec, block, bytes_view(room), magic=magic)
    except OutputFullError:
        return BlockWindow(codec, block, magic=magic, max_bytes=max_bytes, data=room)
    check_block_size(size, max_bytes)
    return HeldBlock(room, size)


def decompress(
    codec: int, block: ByteSource, *, magic: int, max_bytes: int = NO_LIMIT
) -> memoryview:
    """Decompress one block whole; parameters and errors as of `open_window`."""
    window = open_window(codec, memoryview(block), magic=magic, max_bytes=max_bytes)
    while window.hold(len(window.data) + 1):
        pass
    return bytes_view(window.data[: window.end])
