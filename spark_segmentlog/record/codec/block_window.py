"""Compressed blocks of any size, decompressed piece by piece, and the window that holds a piece.

A block that grows beyond the memory for ordinary ones is read through here: what is held is the
codec's own window (zstd's is refused above 128 MiB, as Kafka refuses it), one piece, and a record
that is larger than a piece. All framings are read, with the same checks.

No size is believed. A raw snappy block that declares more than its bytes can hold is refused before
anything is decompressed. Memory for a record beyond `CERTAIN_BYTES` (and twice the largest one that
was found) is asked for only after a pass over the block, which holds nothing, has shown that the
record is there.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spark_segmentlog.record.codec.codec import (
    SMALL_BLOCK_BYTES,
    WHOLE_BLOCK_BYTES,
    BlockStream,
    OutputFullError,
    check_block_size,
)
from spark_segmentlog.record.codec.codecs import decompress_into, is_surely_large, open_block
from spark_segmentlog.record.types import Bytes, bytes_view

NO_LIMIT: Final = 2**63 - 1
"""As a limit on decompressed bytes: none."""

CERTAIN_BYTES: Final = 32 << 20

_COUNTED_BYTES = 256 << 10


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
        """Count the bytes after the window, or as many as are needed, and hold none of them."""
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
