"""Columns of the views of batches, segments and transactions: name, Arrow type, and where from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

import pyarrow as pa

from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.formats.time_index import TimeIndex
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.query.read_options import View
from spark_segmentlog.record.codec.codecs import names_by_number
from spark_segmentlog.record.read.header_table import HeaderTable


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows of the view of batches: headers, and the segment that they are in."""

    segment: Segment
    headers: HeaderTable


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A row of the view of segments; `end_offset` is that of what is read."""

    segment: Segment
    offset_index: OffsetIndex
    time_index: TimeIndex
    end_offset: int


Column: TypeAlias = tuple[str, pa.DataType, Callable[[Any], Any]]
"""Name, type, and what makes the values: an array of `BatchRows`, a value of any other row."""


def _header(name: str) -> Callable[[BatchRows], Any]:
    return lambda rows: getattr(rows.headers, name)


def _repeated(value: Callable[[Segment], str | int]) -> Callable[[BatchRows], Any]:
    return lambda rows: pa.repeat(pa.scalar(value(rows.segment)), len(rows.headers))


def _records_count(rows: BatchRows) -> Any:
    return pa.array(rows.headers.records_count, mask=rows.headers.records_count < 0)


def _codec(rows: BatchRows) -> Any:
    return pa.array(names_by_number()).take(pa.array(rows.headers.codec))


def _base_timestamp(*, is_horizon: bool) -> Callable[[BatchRows], Any]:
    # With the delete-horizon flag the field is that horizon, and no record's time.
    def values(rows: BatchRows) -> Any:
        return pa.array(
            rows.headers.base_timestamp, mask=rows.headers.has_delete_horizon != is_horizon
        )

    return values


def _end_offset(row: SegmentRow) -> int:
    bound = row.segment.end_offset_bound
    return row.end_offset if bound is None else bound


def _max_timestamp(row: SegmentRow) -> int | None:
    last = row.time_index.last_entry()
    return None if last is None else last.timestamp


VIEW_COLUMNS: Final[dict[View, tuple[Column, ...]]] = {
    View.BATCHES: (
        ("topic", pa.string(), _repeated(attrgetter("topic_partition.topic"))),
        ("partition", pa.int32(), _repeated(attrgetter("topic_partition.partition"))),
        ("path", pa.string(), _repeated(attrgetter("log_path"))),
        ("position", pa.int64(), _header("position")),
        ("sizeBytes", pa.int32(), _header("size_bytes")),
        ("magic", pa.int32(), _header("magic")),
        ("baseOffset", pa.int64(), _header("base_offset")),
        ("lastOffset", pa.int64(), _header("last_offset")),
        ("recordCount", pa.int32(), _records_count),
        ("codec", pa.string(), _codec),
        ("timestampType", pa.int32(), _header("timestamp_type")),
        ("baseTimestampMs", pa.int64(), _base_timestamp(is_horizon=False)),
        ("maxTimestampMs", pa.int64(), _header("max_timestamp")),
        ("producerId", pa.int64(), _header("producer_id")),
        ("producerEpoch", pa.int32(), _header("producer_epoch")),
        ("baseSequence", pa.int32(), _header("base_sequence")),
        ("partitionLeaderEpoch", pa.int32(), _header("partition_leader_epoch")),
        ("isTransactional", pa.bool_(), _header("is_transactional")),
        ("isControl", pa.bool_(), _header("is_control")),
        ("deleteHorizonMs", pa.int64(), _base_timestamp(is_horizon=True)),
        ("crc", pa.int64(), _header("crc")),
    ),
    View.SEGMENTS: (
        ("topic", pa.string(), attrgetter("segment.topic_partition.topic")),
        ("partition", pa.int32(), attrgetter("segment.topic_partition.partition")),
        ("path", pa.string(), attrgetter("segment.log_path")),
        ("baseOffset", pa.int64(), attrgetter("segment.base_offset")),
        ("endOffset", pa.int64(), _end_offset),
        ("sizeBytes", pa.int64(), lambda row: row.segment.size_bytes()),
        ("maxTimestampMs", pa.int64(), _max_timestamp),
        ("offsetIndexEntries", pa.int64(), attrgetter("offset_index.entries_count")),
        ("timeIndexEntries", pa.int64(), attrgetter("time_index.entries_count")),
        ("abortedTransactions", pa.int64(), lambda row: len(row.segment.transaction_index())),
        ("isActive", pa.bool_(), lambda row: row.segment.end_offset_bound is None),
        ("tier", pa.string(), attrgetter("segment.tier")),
    ),
    View.TRANSACTIONS: (
        ("topic", pa.string(), itemgetter("topic")),
        ("partition", pa.int32(), itemgetter("partition")),
        ("producerId", pa.int64(), itemgetter("producerId")),
        ("producerEpoch", pa.int32(), itemgetter("producerEpoch")),
        ("state", pa.string(), itemgetter("state")),
        ("firstOffset", pa.int64(), itemgetter("firstOffset")),
        ("lastOffset", pa.int64(), itemgetter("lastOffset")),
        ("recordCount", pa.int64(), itemgetter("recordCount")),
        ("markerOffset", pa.int64(), itemgetter("markerOffset")),
    ),
}


def schema_of(view: View) -> pa.Schema:
    """Give the schema of a view's rows."""
    return pa.schema([(name, kind) for name, kind, _ in VIEW_COLUMNS[view]])


def make_batches(rows: BatchRows) -> pa.RecordBatch:
    """Make rows of the view of batches."""
    arrays = [_as_array(values(rows), kind) for _, kind, values in VIEW_COLUMNS[View.BATCHES]]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(View.BATCHES))


def make_row(view: View, row: SegmentRow | dict[str, Any]) -> dict[str, Any]:
    """Make a row of another view."""
    return {name: value(row) for name, _, value in VIEW_COLUMNS[view]}


def _as_array(values: Any, kind: pa.DataType) -> Any:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array if array.type.equals(kind) else array.cast(kind)
