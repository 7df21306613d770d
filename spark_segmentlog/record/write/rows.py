"""Rows that are to be written: their columns as flat arrays, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_segmentlog.errors import InvalidRowError, SchemaError
from spark_segmentlog.record.kernels import encode as encode_kernels
from spark_segmentlog.record.kernels.output import SPARK_MAX_TIMESTAMP_MS
from spark_segmentlog.record.layout import NO_TIMESTAMP
from spark_segmentlog.record.types import NO_INTS, ArrowArray, Int64s
from spark_segmentlog.record.write.arrow_columns import (
    NO_HEADERS,
    BinaryColumn,
    HeadersColumn,
    binary_column,
    headers_column,
    null_column,
    own_int64s,
)

RECORD_COLUMNS: Final = frozenset(("key", "value", "headers", "timestamp"))


@dataclass(frozen=True, slots=True)
class Rows:
    """One Arrow batch as flat arrays, and the order in which its rows are written."""

    order: Int64s
    group_ends: Int64s
    timestamps: Int64s
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeadersColumn

    def header_sizes(self) -> Int64s:
        """Measure what the headers of each row will take, in bytes."""
        headers = self.headers
        if headers is NO_HEADERS:
            return NO_INTS
        sizes = np.empty(len(headers.starts), np.int64)
        encode_kernels.header_section_sizes(
            headers.starts, headers.lengths, headers.keys.lengths, headers.values.lengths, sizes
        )
        return sizes


def checked_rows(
    records: pa.RecordBatch,
    order: Int64s,
    group_ends: Int64s,
    append_time_ms: int,
    *,
    keeps_timestamps: bool,
    first_row: int,
) -> Rows:
    """Lay rows out as flat arrays; what is wrong with one is an error that names it.

    Parameters are those of `RecordBatchEncoder.encode_groups`; `keeps_timestamps` says whether a
    column of timestamps counts.

    Raises
    ------
    InvalidRowError, SchemaError
        As of `RecordBatchEncoder.encode_groups`.
    """
    headers = NO_HEADERS
    if "headers" in records.schema.names:
        headers = headers_column(records.column("headers"))
        _check_header_keys(headers, first_row)
    timestamps = np.full(records.num_rows, append_time_ms)
    if keeps_timestamps and "timestamp" in records.schema.names:
        timestamps = _timestamps_ms(records.column("timestamp"), append_time_ms)
        _check_timestamps(timestamps, first_row)
    return Rows(
        own_int64s(order),
        own_int64s(group_ends),
        timestamps,
        _column_or_nulls(records, "key"),
        _column_or_nulls(records, "value"),
        headers,
    )


def _column_or_nulls(records: pa.RecordBatch, name: str) -> BinaryColumn:
    if name not in records.schema.names:
        return null_column(records.num_rows)
    return binary_column(records.column(name), name)


def _timestamps_ms(array: ArrowArray, append_time_ms: int) -> Int64s:
    per_ms = {"us": 1_000, "ns": 1_000_000}
    if not (pa.types.is_timestamp(array.type) or array.type == pa.int64()):
        raise SchemaError(f"column timestamp is {array.type}, allowed is TIMESTAMP")
    ticks = array.cast(pa.int64())
    filled = ticks.fill_null(0) if ticks.null_count else ticks
    values: Int64s = filled.to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(array.type):
        if array.type.unit == "s":
            values = np.clip(values, -SPARK_MAX_TIMESTAMP_MS, SPARK_MAX_TIMESTAMP_MS) * 1_000
        elif array.type.unit != "ms":
            values = values // per_ms[array.type.unit]
    if ticks.null_count:
        values = np.where(ticks.is_null().to_numpy(zero_copy_only=False), append_time_ms, values)
    return own_int64s(values)


def _check_timestamps(timestamps: Int64s, first_row: int) -> None:
    """Refuse times before 1970, as Kafka's producer and log cleaner do, and those no reader takes.

    -1 stands for none.
    """
    bad = np.flatnonzero((timestamps < NO_TIMESTAMP) | (timestamps > SPARK_MAX_TIMESTAMP_MS))
    if len(bad):
        row = int(bad[0])
        reason = (
            "before 1970, which Kafka's log cleaner stops at"
            if timestamps[row] < NO_TIMESTAMP
            else "after the year 9999, which Spark does not read"
        )
        raise InvalidRowError(
            f"column timestamp, row {first_row + row}: {timestamps[row]} ms is {reason}; allowed "
            f"are 0 to {SPARK_MAX_TIMESTAMP_MS}, and -1 for no timestamp"
        )


def _check_header_keys(headers: HeadersColumn, first_row: int) -> None:
    """Refuse the first row that has a header without a key; keys outside of lists do not count."""
    missing = headers.keys.lengths < 0
    if not missing.any():
        return
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(missing)])
    in_row = before[headers.starts + headers.lengths] - before[headers.starts]
    rows = np.flatnonzero(in_row)
    if len(rows):
        row = int(rows[0])
        start = int(headers.starts[row])
        header = int(np.argmax(missing[start:]))
        raise InvalidRowError(
            f"column headers, row {first_row + row}: the key of header {header} is null, "
            "allowed is text"
        )


def joined_records(records: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """Give records as one Arrow batch; an error where they have other columns than records."""
    names = set(records.schema.names)
    if "value" not in names or not names <= RECORD_COLUMNS:
        raise SchemaError(
            f"columns are {sorted(names)}: value is needed, and key, headers and timestamp are "
            "allowed"
        )
    if isinstance(records, pa.RecordBatch):
        return records
    batches = records.combine_chunks().to_batches()
    return pa.concat_batches(batches or [pa.RecordBatch.from_pylist([], records.schema)])
