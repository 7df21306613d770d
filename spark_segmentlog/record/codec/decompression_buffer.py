"""Memory for the ordinary blocks of a group of batches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from spark_segmentlog.record.codec.codec import (
    SMALL_BLOCK_BYTES,
    WHOLE_BLOCK_BYTES,
    BlockError,
    BlockTooLargeError,
    OutputFullError,
    check_block_size,
)
from spark_segmentlog.record.codec.codecs import (
    decompress_into,
    is_surely_large,
    many_decompressor,
)
from spark_segmentlog.record.types import NO_SPANS, Bytes, Int64s, bytes_view


class DecompressionBuffer:
    """Memory that ordinary blocks are decompressed into, one after the other, group by group.

    What does not fit alone is for `block_window`.
    """

    BYTES = WHOLE_BLOCK_BYTES
    # Decompressed bytes that a group should have: a few batches, still in the CPU's cache.
    GROUP_BYTES = 512 << 10

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.data: Bytes = np.empty(0, np.uint8)
        self._view = bytes_view(self.data)
        self._limits = np.array((self.GROUP_BYTES, max_bytes), np.int64)
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
            if _is_surely_large(codec, block):
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

    def append_many(self, codec: int, buffer: Bytes, spans: Int64s) -> Int64s:
        """Decompress blocks that lie in a buffer, by one call, into an empty one.

        Returns
        -------
        ndarray of int64, shape (n, 2)
            As of `append_each`, but none where the first is not taken so, for whatever reason.
        """
        assert not self.used_bytes
        decompress = many_decompressor(codec)
        first, end = spans[0].tolist()
        if decompress is None or _is_surely_large(codec, bytes_view(buffer)[first:end]):
            return NO_SPANS
        sizes = spans[:, 1] - spans[:, 0]
        spans = spans[: np.searchsorted(np.cumsum(sizes), self.GROUP_BYTES) + 1]
        found = decompress(buffer, spans, self.data, self._limits)
        self.used_bytes = int(found[-1, 1]) if len(found) else 0
        return found


def _is_surely_large(codec: int, block: memoryview) -> bool:
    return len(block) >= SMALL_BLOCK_BYTES and is_surely_large(codec, block)
