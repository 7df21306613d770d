"""Memory for the ordinary blocks of a group of batches."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

import numpy as np

from spark_segmentlog.record.codec.codec import (
    SMALL_BLOCK_BYTES,
    WHOLE_BLOCK_BYTES,
    BlockError,
    BlockTooLargeError,
    OutputFullError,
    check_block_size,
)
from spark_segmentlog.record.codec.codecs import ZSTD, decompress_into, is_surely_large
from spark_segmentlog.record.codec.lz4 import decompress_frames
from spark_segmentlog.record.codec.zstd import raw_frame
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.record.types import Bytes, Int64s, bytes_view

_MARKER_PREFIX = b"\x80" * 6
_MARKER_SECRET_BYTES = 16


def _make_marker() -> tuple[Bytes, bytes]:
    """Make a secret that no record can start with, plain and as a zstd frame."""
    marker = _MARKER_PREFIX + secrets.token_bytes(_MARKER_SECRET_BYTES)
    return np.frombuffer(bytearray(marker), np.uint8), raw_frame(marker)


class DecompressionBuffer:
    """Memory that ordinary blocks are decompressed into, one after the other, group by group.

    What does not fit alone is for `block_window`.
    """

    BYTES = WHOLE_BLOCK_BYTES
    # Decompressed bytes that a group should have: a few batches, still in the CPU's cache.
    GROUP_BYTES = 512 << 10
    _FIRST_JOINED_BYTES = 32 << 10
    _MAX_JOINED_BYTES = 256 << 10

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.joined_bytes = self._FIRST_JOINED_BYTES
        self.marker, self._marker_frame = _make_marker()
        self.data: Bytes = np.empty(0, np.uint8)
        self._view = bytes_view(self.data)
        self.used_bytes = 0

    def clear(self) -> None:
        """Forget the blocks."""
        self.used_bytes = 0
        if not len(self.data):
            self.data = np.empty(self.BYTES, np.uint8)
            self._view = bytes_view(self.data)

    def append(self, codec: int, block: memoryview, *, magic: int) -> bool:
        """Decompress a block after those that are there.

        Returns
        -------
        bool
            False when it does not fit after others: use those up, clear, and come again.

        Raises
        ------
        OutputFullError
            When it does not fit alone.
        BlockError, BlockTooLargeError
            Where the block is bad, or above the limit.
        """
        used = self.used_bytes
        try:
            if len(block) >= SMALL_BLOCK_BYTES and is_surely_large(codec, block):
                raise OutputFullError
            size = decompress_into(codec, block, self._view[used:], magic=magic)
        except OutputFullError:
            if not used:
                raise
            return False
        if size > self.max_bytes:
            check_block_size(size, self.max_bytes)
        self.used_bytes = used + size
        return True

    def append_each(self, blocks: Iterable[tuple[int, memoryview, int]]) -> Int64s:
        """Decompress blocks (codec, block, format) one after the other into an empty buffer.

        Returns
        -------
        ndarray of int64, shape (n, 2)
            Start and end of each, up to the first that is bad or does not fit. Those before it are
            to be decoded first; then it is the first of its group, and is told.

        Raises
        ------
        OutputFullError
            When the first does not fit alone.
        """
        assert not self.used_bytes
        spans: list[tuple[int, int]] = []
        for codec, block, magic in blocks:
            used = self.used_bytes
            try:
                if used >= self.GROUP_BYTES or not self.append(codec, block, magic=magic):
                    break
            except (BlockError, BlockTooLargeError):
                break
            spans.append((used, self.used_bytes))
        return np.array(spans, np.int64).reshape(-1, 2)

    def append_frames(self, buffer: Bytes, spans: Int64s) -> Int64s:
        """Decompress lz4 frames that lie in a buffer, into an empty one.

        Returns
        -------
        ndarray of int64, shape (n, 2)
            As of `append_each`, but none where the first is no plain frame or does not fit.
        """
        assert not self.used_bytes
        sizes = spans[:, 1] - spans[:, 0]
        spans = spans[: np.searchsorted(np.cumsum(sizes), self.GROUP_BYTES) + 1]
        found = decompress_frames(buffer, spans, self._view, enough_bytes=self.GROUP_BYTES)
        self.used_bytes = int(found[-1, 1]) if len(found) else 0
        return found

    def append_joined(self, blocks: Sequence[memoryview]) -> bool:
        """Decompress zstd blocks by one call, a marker after each, into an empty buffer.

        A fresh decoder costs more than a small block does. The caller has seen that each block is
        whole frames, so that none uses bytes of what follows. Where a block ends in the output is
        for the caller to find, by what it holds; the marker must be there. It is a secret, so a
        block cannot hold one, and it starts with what no record starts with.

        Returns
        -------
        bool
            False when a block is bad, or all of them are too large for one call: each is then to be
            decompressed alone.
        """
        assert not self.used_bytes
        parts = [part for block in blocks for part in (block, self._marker_frame)]
        joined = memoryview(b"".join(parts))
        try:
            self.used_bytes = decompress_into(ZSTD.number, joined, self._view, magic=MAGIC_V2)
        except OutputFullError:
            self.joined_bytes = max(self.joined_bytes // 8, 1)
            return False
        except BlockError:
            return False
        self.learn(len(joined))
        return True

    def learn(self, compressed_bytes: int) -> None:
        """Choose how many bytes to join next time, by what the blocks that are there came from."""
        ratio = max(self.used_bytes, 1) / max(compressed_bytes, 1)
        self.joined_bytes = min(int(self.GROUP_BYTES / ratio) + 1, self._MAX_JOINED_BYTES)
