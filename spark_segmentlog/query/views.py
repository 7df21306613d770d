"""Rows about a log instead of rows of it: its batch headers, its segments, its transactions.

Timestamps are milliseconds as they stand on disk, so that no value is an error here. Nothing is
decompressed and no checksum is compared.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.partition.partition_log import PartitionLog, SegmentPursuit
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.transactions.outcomes import walk_transactions
from spark_segmentlog.query.offsets import could_not_read
from spark_segmentlog.query.option_table import SYSTEM_TOPICS, Mode, View
from spark_segmentlog.query.read_plan import ReadRequest, Slice, Split, joined
from spark_segmentlog.query.schema import BATCHES_SCHEMA, SEGMENTS_SCHEMA, TRANSACTIONS_SCHEMA
from spark_segmentlog.query.system_views import read_system_view
from spark_segmentlog.record.codec.codecs import names_by_number
from spark_segmentlog.record.read.header_table import HeaderTable

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
    rows = (batch for it in split for batch in read(it, request))
    for batch in joined(rows):
        yield request.shape.fit(batch.select(list(request.shape.columns)))


def _report_lost(request: ReadRequest, lost: OffsetRange) -> None:
    loss = could_not_read(lost, "its files are gone")
    if request.options.fail_on_data_loss:
        raise loss
    _log.warning("%s", loss)


def _pursuit(it: Slice, request: ReadRequest) -> SegmentPursuit:
    topic_partition = it.segments[0].topic_partition
    # The last segment may be an empty one, that starts at the end.
    end_offset = max(it.end_offset, it.segments[-1].base_offset + 1)
    return SegmentPursuit(
        it.segments,
        end_offset,
        lambda start, end: _report_lost(request, OffsetRange(topic_partition, start, end)),
    )


def _read_batches(it: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    def read(segment: Segment, start_offset: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        is_begun = start_offset > max(segment.base_offset, it.start_offset)
        first = start_offset if is_begun else it.start_offset
        start_position = segment.position_for(first)
        for table in segment.headers(start_position, skip_corrupt=_skips_corrupt(request)):
            chosen = table.last_offset >= first
            chosen &= table.base_offset < it.end_offset
            if chosen.any():
                rows = table.select(chosen)
                yield _batch_rows(segment, rows), int(rows.last_offset[-1]) + 1
            if int(table.base_offset[-1]) >= it.end_offset:
                break

    yield from _pursuit(it, request).visit(it.start_offset, read)


def _batch_rows(segment: Segment, table: HeaderTable) -> pa.RecordBatch:
    count = len(table)
    has_horizon = table.has_delete_horizon
    columns = {
        **_place_columns(segment.topic_partition, count),
        "path": _repeated(segment.log_path, count),
        "position": table.position,
        "sizeBytes": table.size_bytes,
        "magic": table.magic,
        "baseOffset": table.base_offset,
        "lastOffset": table.last_offset,
        "recordCount": pa.array(table.records_count, mask=table.records_count < 0),
        "codec": pa.array(names_by_number()).take(pa.array(table.codec)),
        "timestampType": table.timestamp_type,
        # With the delete-horizon flag the field is that horizon, and no record's time.
        "baseTimestampMs": pa.array(table.base_timestamp, mask=has_horizon),
        "maxTimestampMs": table.max_timestamp,
        "producerId": table.producer_id,
        "producerEpoch": table.producer_epoch,
        "baseSequence": table.base_sequence,
        "partitionLeaderEpoch": table.partition_leader_epoch,
        "isTransactional": table.is_transactional,
        "isControl": table.is_control,
        "deleteHorizonMs": pa.array(table.base_timestamp, mask=~has_horizon),
        "crc": table.crc,
    }
    return _arrow_batch(columns, BATCHES_SCHEMA)


def _read_segments(it: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read all rows of a partition before the first is given: they are of one listing."""
    pursuit = _pursuit(it, request)
    rows: list[dict[str, Any]] = []
    while (segment := pursuit.next()) is not None:
        try:
            rows.append(_segment_row(segment, it))
        except FileNotFoundError:
            is_gone = True
        else:
            is_gone = pursuit.was_split(segment, it.end_offset)
        if is_gone:
            rows.clear()
            pursuit.look_again(it.start_offset)
    yield pa.RecordBatch.from_pylist(rows, SEGMENTS_SCHEMA)


def _segment_row(segment: Segment, it: Slice) -> dict[str, Any]:
    with segment.offset_index() as offset_index, segment.time_index() as time_index:
        last_time = time_index.last_entry()
        return {
            "topic": segment.topic_partition.topic,
            "partition": segment.topic_partition.partition,
            "path": segment.log_path,
            "baseOffset": segment.base_offset,
            "endOffset": it.end_offset
            if segment.end_offset_bound is None
            else segment.end_offset_bound,
            "sizeBytes": segment.size_bytes(),
            "maxTimestampMs": None if last_time is None else last_time.timestamp,
            "offsetIndexEntries": offset_index.entries_count,
            "timeIndexEntries": time_index.entries_count,
            "abortedTransactions": len(segment.transaction_index()),
            "isActive": segment.end_offset_bound is None,
            "tier": segment.tier,
        }


def _read_transactions(it: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    first = it.segments[0]
    try:
        log = PartitionLog.open(
            first.directory, storage=first.storage, topic_partition=first.topic_partition
        )
        log.skip_corrupt = _skips_corrupt(request)
        transactions = log.resolved(lambda: list(walk_transactions(log, it.end_offset)))
    except FileNotFoundError:
        _report_lost(request, OffsetRange(first.topic_partition, it.start_offset, it.end_offset))
        return
    rows = [
        {
            "topic": first.topic_partition.topic,
            "partition": first.topic_partition.partition,
            **transaction.as_fields(),
        }
        for transaction in transactions
        if transaction.last_offset >= it.start_offset
    ]
    yield pa.RecordBatch.from_pylist(rows, TRANSACTIONS_SCHEMA)


_READERS: Final = {
    View.BATCHES: _read_batches,
    View.SEGMENTS: _read_segments,
    View.TRANSACTIONS: _read_transactions,
    **dict.fromkeys(SYSTEM_TOPICS, read_system_view),
}


def _skips_corrupt(request: ReadRequest) -> bool:
    return request.options.mode is not Mode.FAILFAST


def _place_columns(topic_partition: TopicPartition, count: int) -> dict[str, Any]:
    return {
        "topic": _repeated(topic_partition.topic, count),
        "partition": np.full(count, topic_partition.partition),
    }


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text), count)


def _arrow_batch(columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for it in schema:
        column = columns[it.name]
        array = column if isinstance(column, pa.Array) else pa.array(column)
        arrays.append(array if array.type.equals(it.type) else array.cast(it.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
