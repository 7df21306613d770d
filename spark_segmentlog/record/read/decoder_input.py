"""What a decoder works on at a time: bytes, the headers in them, and runs of rows of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.kernels import headers
from spark_segmentlog.record.layout import RECORD_BATCH_OVERHEAD
from spark_segmentlog.record.types import Bools, Bytes, Int64s


@dataclass(frozen=True, slots=True)
class DecoderInput:
    """What one call of `decode` works on."""

    buffer: Bytes
    view: memoryview
    entries: Int64s
    file_position: int

    def span(self, row: int) -> tuple[int, int]:
        """Give where an entry starts and ends in the buffer."""
        start = int(self.entries[row, fields.POSITION]) - self.file_position
        return start, start + int(self.entries[row, fields.SIZE_BYTES])

    def records(self, row: int) -> memoryview:
        """What stands after the header of a batch."""
        start, end = self.span(row)
        return self.view[start + RECORD_BATCH_OVERHEAD : end]


def cut_into_runs(
    source: DecoderInput, selected: Bools | Int64s | None, formats: Int64s
) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Cut the chosen rows where their kind changes: the kind, rows, and spans of their records."""
    rows: Int64s = np.arange(len(source.entries))
    if selected is not None:
        rows = rows[selected]
    planned, kinds = np.empty_like(rows), np.empty_like(rows)
    spans = np.empty((len(rows), 2), np.int64)
    count = headers.plan_entries(
        source.entries,
        rows,
        source.file_position,
        len(source.buffer),
        formats,
        planned,
        kinds,
        spans,
    )
    if count < 0:
        raise IndexError("header table of other bytes than these")
    kinds = kinds[:count]
    starts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), count]
    for start, end in pairwise(starts):
        if start < end:
            yield int(kinds[start]), planned[start:end], spans[start:end]
