"""A compressed batch of format 2 of any size, handed to the kernels a window of it at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.codec.block_window import BlockWindow
from spark_segmentlog.record.codec.codec import BlockError
from spark_segmentlog.record.kernels.records import good_records, whole_records
from spark_segmentlog.record.types import Bytes, Int64s


@dataclass(frozen=True, slots=True)
class BatchPiece:
    """Some whole records of a batch, as if they were a batch of their own.

    Attributes
    ----------
    body : ndarray of uint8
        Holds them, until the next piece is asked for.
    entries : ndarray of int64, shape (1, fields)
        The batch's row of its header table, with the number of these records.
    spans : ndarray of int64, shape (1, 2)
        Where in `body` they start and end.
    first : tuple of (int, int)
        Number of the first of them, and where it starts in the batch.
    """

    body: Bytes
    entries: Int64s
    spans: Int64s
    first: tuple[int, int]


class StreamedBatch:
    """Cuts the records of one batch into pieces.

    Parameters
    ----------
    window : BlockWindow
        On the batch's block.
    header : ndarray of int64
        The batch's row of its header table.

    Attributes
    ----------
    reached : tuple of (int, int)
        Number of the first record that no piece has held yet, and where it starts.
    """

    def __init__(self, window: BlockWindow, header: Int64s) -> None:
        self._window = window
        self._header = header
        self.reached = (0, 0)

    def check(self) -> None:
        """Check all records, down to the last byte."""
        last_delta = int(self._header[fields.LAST_OFFSET] - self._header[fields.BASE_OFFSET])
        for piece in self.pieces():
            start, end = piece.spans[0].tolist()
            count = int(piece.entries[0, fields.RECORDS_COUNT])
            if good_records(piece.body, start, end, count, last_delta) != (count, end):
                raise BlockError("a record reaches beyond the batch, or its offset does")
        self._window.rewind()
        self.reached = (0, 0)

    def pieces(self) -> Iterator[BatchPiece]:
        """Give the records, as many at a time as are in memory.

        Raises
        ------
        BlockError, BlockTooLargeError
            Where the block is bad or above the limit, or holds other than the declared records.
        """
        window = self._window
        left = int(self._header[fields.RECORDS_COUNT])
        window.fill()
        while left:
            count, stop, needed = whole_records(window.data, window.start, window.end, left)
            if count:
                yield self._piece(count, stop)
                window.start = stop
                left -= count
                self.reached = (self.reached[0] + count, window.position)
                window.fill()
            elif needed < 0 or not window.hold(needed):
                raise BlockError("a record reaches beyond the batch, or its offset does")
        if window.hold(1):
            raise BlockError("bytes are left over after the records")

    def _piece(self, count: int, stop: int) -> BatchPiece:
        entries = self._header.reshape(1, -1).copy()
        entries[0, fields.RECORDS_COUNT] = count
        spans = np.array([[self._window.start, stop]], np.int64)
        return BatchPiece(self._window.data, entries, spans, self.reached)
