"""Rows about a log instead of rows of it: its batch headers, its segments, its transactions.

Timestamps are milliseconds as they stand on disk, so that no value is an error here. Nothing is
decompressed and no checksum is compared.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from spark_segmentlog.log.io.as_listed import waiting_threads
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import OffsetRange
from spark_segmentlog.log.partition.pursuit import SegmentPursuit
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.transactions.transaction_walk import walk_transactions
from spark_segmentlog.query.offsets import could_not_read
from spark_segmentlog.query.read_options import SYSTEM_TOPICS, View
from spark_segmentlog.query.split_reader import ReadRequest, Slice, Split, joined
from spark_segmentlog.query.system_views import open_partition, read_system_view
from spark_segmentlog.query.view_columns import (
    BatchRows,
    SegmentRow,
    make_batches,
    make_row,
    schema_of,
)

_log = logging.getLogger(__name__)


def read_view(split: Split, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read the rows of a view that lie in the slices of a split; runs in a task.

    Raises
    ------
    DataLossError
        A file is gone since the plan was made, unless ``failOnDataLoss`` is false.
    CorruptRecordError
        Bytes that are no batch, unless ``mode`` says to step over them.
    """
    read = _READERS[request.options.view]
    rows = (batch for part in split for batch in read(part, request))
    for batch in joined(rows):
        yield request.shape.fit(batch.select(list(request.shape.columns)))


def _report_lost(request: ReadRequest, lost: OffsetRange) -> None:
    loss = could_not_read(lost, "its files are gone")
    if request.options.fail_on_data_loss:
        raise loss
    _log.warning("%s", loss)


def _pursuit(part: Slice, request: ReadRequest, *, reads_logs: bool = True) -> SegmentPursuit:
    topic_partition = part.segments[0].topic_partition
    # The last segment may be an empty one, that starts at the end.
    end_offset = max(part.end_offset, part.segments[-1].base_offset + 1)
    return SegmentPursuit(
        part.segments,
        end_offset,
        lambda start, end: _report_lost(request, OffsetRange(topic_partition, start, end)),
        skip_corrupt=request.options.skips_corrupt,
        opens_ahead=reads_logs,
    )


def _read_batches(part: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    pursuit = _pursuit(part, request)
    reached = part.start_offset

    def read(segment: Segment, start_offset: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        nonlocal reached
        is_begun = start_offset > max(segment.base_offset, part.start_offset)
        first = start_offset if is_begun else part.start_offset
        start_position = segment.position_for(first)
        for table in segment.headers(start_position, skip_corrupt=request.options.skips_corrupt):
            chosen = table.last_offset >= first
            chosen &= table.base_offset < part.end_offset
            if chosen.any():
                rows = table.select(chosen)
                reached = max(reached, int(rows.last_offset[-1]) + 1)
                yield make_batches(BatchRows(segment, rows)), reached
            if int(table.base_offset[-1]) >= part.end_offset:
                break

    yield from pursuit.visit(part.start_offset, read)
    pursuit.look_at_end(reached, part.end_offset)


def _read_segments(part: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read all rows of a partition before the first is given: they are of one listing."""
    pursuit = _pursuit(part, request, reads_logs=False)
    at_once = waiting_threads(part.segments[0].storage)
    rows: list[dict[str, Any]] = []
    while some := [*islice(iter(pursuit.next, None), at_once)]:
        try:
            rows += in_parallel(partial(_segment_row, part.end_offset), some, at_once)
        except FileNotFoundError:
            is_gone = True
        else:
            is_gone = pursuit.held_less(some[-1].base_offset, part.end_offset)
        if is_gone:
            rows.clear()
            pursuit.look_again(part.start_offset)
    yield pa.RecordBatch.from_pylist(rows, schema_of(View.SEGMENTS))


def _segment_row(end_offset: int, segment: Segment) -> dict[str, Any]:
    with segment.offset_index() as offset_index, segment.time_index() as time_index:
        return make_row(View.SEGMENTS, SegmentRow(segment, offset_index, time_index, end_offset))


def _read_transactions(part: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    first = part.segments[0]
    try:
        log = part.log or open_partition(part, request)
        transactions = log.resolved(lambda: list(walk_transactions(log, part.end_offset)))
    except FileNotFoundError:
        _report_lost(
            request, OffsetRange(first.topic_partition, part.start_offset, part.end_offset)
        )
        return
    rows = [
        {
            "topic": first.topic_partition.topic,
            "partition": first.topic_partition.partition,
            **transaction.as_fields(),
        }
        for transaction in transactions
        if transaction.last_offset >= part.start_offset
    ]
    yield pa.RecordBatch.from_pylist(rows, schema_of(View.TRANSACTIONS))


_READERS: Final = {
    View.BATCHES: _read_batches,
    View.SEGMENTS: _read_segments,
    View.TRANSACTIONS: _read_transactions,
    **dict.fromkeys(SYSTEM_TOPICS, read_system_view),
}
