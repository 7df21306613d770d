"""What one task of a read is given, and how it reads that: splits to Arrow batches.

A split carries the segments it needs, so a task opens their files and nothing else.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.scan import scan_pieces, scan_segments
from spark_segmentlog.log.segment.decode_threads import decode_pieces
from spark_segmentlog.log.segment.scanned_piece import ScannedPiece
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import CorruptRange
from spark_segmentlog.query.planning import EVERYTHING, RowBounds
from spark_segmentlog.query.read_options import Mode, ReadOptions
from spark_segmentlog.query.schema import RowShape
from spark_segmentlog.record.read.record_filter import RecordFilter

SMALL_ARROW_ROWS: Final = 4096


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets [start, end) of one partition, and the neighbouring segments that hold them.

    `read_range` is that of the whole read, where it is cut into slices. `log` is the partition, for
    a reader in this process that looks at all of it. `topic_id` is that of the topic whose rows are
    wanted, for a reader that looks whether it was made again.
    """

    segments: tuple[Segment, ...]
    start_offset: int
    end_offset: int
    read_range: tuple[int, int] | None = None
    log: PartitionLog | None = None
    topic_id: str | None = None


Split = tuple[Slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What a task must know besides its split; travels once with the reader."""

    options: ReadOptions
    shape: RowShape
    bounds: RowBounds = EVERYTHING
    read_ahead: bool = False

    @property
    def gives_corrupt_rows(self) -> bool:
        """Whether bad bytes become rows: only where the schema has a column for them."""
        is_permissive = self.options.mode is Mode.PERMISSIVE
        return is_permissive and self.shape.corrupt_index is not None

    def narrowed(self, bounds: RowBounds) -> ReadRequest:
        """Give the same request for fewer rows."""
        return replace(self, bounds=self.bounds.intersect(bounds))

    def scan_options(self, part: Slice) -> ScanOptions:
        """Say what a scan of a slice gives."""
        return ScanOptions(
            columns=self.shape.columns,
            record_filter=RecordFilter(
                start_offset=part.start_offset,
                end_offset=part.end_offset,
                min_timestamp_ms=self.bounds.min_timestamp_ms,
                max_timestamp_ms=self.bounds.max_timestamp_ms,
            ),
            isolation_level=self.options.isolation_level,
            check_crcs=self.options.check_crcs,
            skip_corrupt=self.options.skips_corrupt,
            fail_on_data_loss=self.options.fail_on_data_loss,
            max_decompressed_bytes=self.options.max_decompressed_bytes,
            read_ahead=self.read_ahead,
            read_range=part.read_range,
        )


def read_split(split: Split, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split, in the order of its slices."""
    batches = (batch for part in split for batch in _read_slice(part, request))
    return joined(batches) if len(split) > 1 else batches


def _read_slice(part: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    corrupt: list[CorruptRange] = []
    for batch in scan_segments(
        part.segments,
        request.scan_options(part),
        on_corrupt=corrupt.append if request.gives_corrupt_rows else None,
        partition_log=part.log,
        finds_stable_offset=part.log is not None,
    ):
        yield request.shape.fit(batch)
        if corrupt:
            yield request.shape.corrupt_rows(_pop_rows(corrupt))
    if corrupt:
        yield request.shape.corrupt_rows(_pop_rows(corrupt))


def read_in_threads(
    splits: Iterable[Split], request: ReadRequest, threads_count: int
) -> Generator[pa.RecordBatch]:
    """Read the rows of splits one after the other, decoded by several threads.

    Not where bad bytes become rows, which stand in the order in which they are met.
    """
    assert not request.gives_corrupt_rows
    with closing(decode_pieces(_scan_pieces(splits, request), threads_count)) as arrow_batches:
        for arrow_batch in arrow_batches:
            yield request.shape.fit(arrow_batch)


def _scan_pieces(splits: Iterable[Split], request: ReadRequest) -> Generator[ScannedPiece]:
    for split in splits:
        for part in split:
            yield from scan_pieces(
                part.segments,
                request.scan_options(part),
                partition_log=part.log,
                finds_stable_offset=part.log is not None,
            )


def _pop_rows(corrupt: list[CorruptRange]) -> list[dict[str, Any]]:
    rows = [
        {
            "path": lost.path,
            "position": lost.position,
            "length": lost.length,
            "reason": lost.reason,
            "startOffset": lost.start_offset,
            "endOffset": lost.end_offset,
        }
        for lost in corrupt
    ]
    corrupt.clear()
    return rows


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small Arrow batches together, since each one has its price in Spark."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= SMALL_ARROW_ROWS:
            yield _join(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if batches[0].num_columns == 0:
        return _rows_without_columns(sum(batch.num_rows for batch in batches))
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _rows_without_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["nothing"]).select([])
