"""snappy: xerial framing, as Java writes it, or one raw block, as librdkafka does.

The framing is magic, two versions, then blocks of a length and a raw snappy block. It is written in
blocks of 32 KiB.
"""

from __future__ import annotations

import struct

import cramjam
import numpy as np

from spark_segmentlog.record.codec import codec_kernels as kernels
from spark_segmentlog.record.codec.codec import (
    WHOLE_BLOCK_BYTES,
    BlockCode,
    BlockError,
    BlockStream,
    BlockTooLargeError,
    OutputFullError,
)
from spark_segmentlog.record.types import Bytes, Int64s, flat_bytes

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_LENGTH = struct.Struct(">i")
_FIRST_BLOCK = len(_HEADER) + _BLOCK_LENGTH.size
# What stands at the front of a header, read as a length.
_MAGIC_LENGTH = _BLOCK_LENGTH.unpack_from(_MAGIC)[0]
_WRITTEN_BLOCK_BYTES = 32 * 1024

# Two bytes make at most 11, three at most 64.
_LARGEST_RATIO = 22
_WHOLE_BYTES = 1 << 20
_HISTORY_BYTES = 8 << 20
_ROOM_BYTES = 2 * _HISTORY_BYTES + kernels.SNAPPY_SLACK_BYTES


class _RawStream(BlockStream):
    """One raw snappy block; small ones at once, large ones element by element.

    A copy may reach back over a whole block that fits `_ROOM_BYTES`, and over
    `_HISTORY_BYTES` in a larger one; encoders that cut a block into fragments of 64 KiB, as
    nearly all do, stay far below.
    """

    def __init__(self, block: memoryview) -> None:
        size = _declared_bytes(block)
        self._room: Bytes = np.empty(0, np.uint8)
        self._given = 0
        self._has_forgotten = False
        self._state: Int64s = np.zeros(kernels.SNAPPY_STATE_FIELDS, np.int64)
        self._is_done = size <= _WHOLE_BYTES
        if self._is_done:
            self._room = _whole_block(block)
            self._state[kernels.SNAPPY_USED] = len(self._room)
            return
        self._block = flat_bytes(np.frombuffer(block, np.uint8))
        self._room = np.empty(min(size, _ROOM_BYTES) + kernels.SNAPPY_SLACK_BYTES, np.uint8)
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
        if used > _HISTORY_BYTES:
            # Never overlapping, as the room is full when more than that is used.
            self._room[:_HISTORY_BYTES] = self._room[used - _HISTORY_BYTES : used]
            self._state[kernels.SNAPPY_USED] = _HISTORY_BYTES
            self._has_forgotten = True
        self._given = int(self._state[kernels.SNAPPY_USED])
        code = kernels.decode_snappy(self._block, self._room, self._state)
        if code == kernels.SNAPPY_BAD or (code == kernels.SNAPPY_FAR and not self._has_forgotten):
            position = self._state[kernels.SNAPPY_POSITION]
            raise BlockError(f"snappy block: bad element before byte {position}")
        if code == kernels.SNAPPY_FAR:
            raise BlockError(
                f"snappy block: copy from further back than the {_HISTORY_BYTES} bytes that "
                "are kept"
            )
        self._is_done = code == kernels.SNAPPY_DONE


class _XerialStream(BlockStream):
    """Xerial framing: raw snappy blocks after their lengths."""

    def __init__(self, block: memoryview) -> None:
        self._block = block
        self._position = 0
        self._inner: BlockStream | None = None

    def read_into(self, view: memoryview) -> int:
        if self._inner is not None and (count := self._inner.read_into(view)):
            return count
        self._inner = None
        written = 0
        while (found := _next_block(self._block, self._position)) is not None:
            block = self._block[found[0] : found[1]]
            count = _block_within(block, view[written:])
            if count < 0 and written:
                break
            self._position = found[1]
            if count < 0:
                self._inner = _RawStream(block)
                return self._inner.read_into(view)
            written += count
            if written == len(view):
                break
        return written


def _block_within(block: memoryview, view: memoryview) -> int:
    """Decompress a raw block into a view; -1 where that has no room for it."""
    try:
        return _block_into(block, view)
    except OutputFullError:
        return -1
    except cramjam.DecompressionError as error:
        raise BlockError(f"snappy block: {error}") from error


def _varint_bytes(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _whole_block(block: memoryview) -> Bytes:
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
    largest = _LARGEST_RATIO * len(block)
    if size > largest:
        raise BlockTooLargeError(
            f"snappy block of {len(block)} bytes declares {size} decompressed, "
            f"it can hold at most {largest}"
        )
    return size


def _decompress_into(block: memoryview, output: memoryview, _magic: int) -> int:
    if not _is_xerial(block):
        return _block_into(block, output)
    if _is_one_block(block):
        return _block_into(block[_FIRST_BLOCK:], output)
    position, written = 0, 0
    while (found := _next_block(block, position)) is not None:
        start, position = found
        written += _block_into(block[start:position], output[written:])
    return written


def _is_one_block(block: memoryview) -> bool:
    if len(block) <= _FIRST_BLOCK:
        return False
    (length,) = _BLOCK_LENGTH.unpack_from(block, len(_HEADER))
    return int(length) == len(block) - _FIRST_BLOCK


def _is_xerial(block: memoryview) -> bool:
    """Tell xerial framing from one raw snappy block."""
    return block[: len(_MAGIC)] == _MAGIC


def _next_block(block: memoryview, position: int) -> tuple[int, int] | None:
    """Find the raw block at or after a position of xerial framing: its start and end.

    Returns
    -------
    tuple of (int, int) or None
        None at the end of the bytes.

    Raises
    ------
    BlockError
        Where the framing is cut off, or a length does not fit.
    """
    while position < len(block):
        start = position + _BLOCK_LENGTH.size
        if start > len(block):
            raise BlockError(f"snappy block: xerial block length cut off at byte {position}")
        (length,) = _BLOCK_LENGTH.unpack_from(block, position)
        if 0 < length <= len(block) - start:
            return start, start + length
        # A second header inside the stream is legal: Java's writer flushes, then goes on.
        if length != _MAGIC_LENGTH or not _is_xerial(block[position:]):
            raise BlockError(
                f"snappy block: xerial block of {length} bytes at byte {position}, "
                f"{len(block) - start} are there"
            )
        position += len(_HEADER)
        if position > len(block):
            have = len(block) - position + len(_HEADER)
            raise BlockError(f"snappy block: xerial header of {have} bytes, 16 are needed")
    return None


def _block_into(block: memoryview, output: memoryview) -> int:
    """Decompress one raw snappy block; errors are those of cramjam, and `OutputFullError`."""
    if cramjam.snappy.decompress_raw_len(block) > len(output):
        raise OutputFullError
    if len(output) == 0:
        return 0
    return int(cramjam.snappy.decompress_raw_into(block, output))


def _is_surely_large(block: memoryview) -> bool:
    if not _is_xerial(block):
        return False
    data = flat_bytes(np.frombuffer(block, np.uint8))
    return kernels.xerial_bytes(data, len(_HEADER)) > WHOLE_BLOCK_BYTES


def _write(data: memoryview, output: memoryview) -> int:
    output[: len(_HEADER)] = _HEADER
    position = len(_HEADER)
    for start in range(0, len(data), _WRITTEN_BLOCK_BYTES):
        block = data[start : start + _WRITTEN_BLOCK_BYTES]
        length = int(cramjam.snappy.compress_raw_into(block, output[position + 4 :]))
        _BLOCK_LENGTH.pack_into(output, position, length)
        position += 4 + length
    return position


CODE = BlockCode(
    decompress_into=_decompress_into,
    open_stream=lambda block, _magic: (
        _XerialStream(block) if _is_xerial(block) else _RawStream(block)
    ),
    is_surely_large=_is_surely_large,
    writer=lambda _level: _write,
)
