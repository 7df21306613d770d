"""Rows as flat arrays: what is refused of them, and how timestamps are rounded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.errors import InvalidRowError, RecordTooLargeError, SchemaError
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from spark_segmentlog.record.write.rows import joined_records
from spark_segmentlog.testing.builder import RecordSpec
from tests.support.encoding import arrow_batch, encode_in_order, noise, read_by_decoder, values


def test_rows_without_a_timestamp_get_the_append_time() -> None:
    encoder = RecordBatchEncoder()
    assert read_by_decoder(encode_in_order(encoder, values(b"a"), append_time_ms=99))[0][1] == 99
    batch = values(b"a", b"b").append_column("timestamp", pa.array([5, None], pa.int64()))
    rows = read_by_decoder(encode_in_order(encoder, batch, append_time_ms=99))
    assert [row[1] for row in rows] == [5, 99]


@pytest.mark.parametrize(
    ("unit", "ticks", "milliseconds"),
    [("s", 2, 2000), ("ms", 7, 7), ("us", 1_999, 1), ("us", -1, -1), ("ns", -1, -1)],
)
def test_arrow_timestamps_are_rounded_down(unit: str, ticks: int, milliseconds: int) -> None:
    column = pa.array([ticks], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    batch = values(b"a").append_column("timestamp", column)
    assert read_by_decoder(encode_in_order(RecordBatchEncoder(), batch))[0][1] == milliseconds


def test_row_numbers_in_group_errors_are_those_of_the_arrow_batch() -> None:
    batch = values(b"a", noise(500), b"b")
    encoder = RecordBatchEncoder(max_message_bytes=400)
    with pytest.raises(RecordTooLargeError, match="row 1:"):
        encoder.encode_groups(batch, np.array([2, 1, 0]), np.array([1, 3]))


def test_a_timestamp_before_1970_is_refused_with_its_row_and_none_is_kept() -> None:
    rows = arrow_batch([RecordSpec(timestamp_ms=t, value=b"") for t in (0, -1, -2)])
    with pytest.raises(InvalidRowError, match=r"column timestamp, row 42: -2 ms is before 1970"):
        encode_in_order(RecordBatchEncoder(), rows, first_row=40)
    kept = encode_in_order(RecordBatchEncoder(), rows.slice(0, 2))
    assert [row[1] for row in read_by_decoder(kept)] == [0, -1]
    encode_in_order(RecordBatchEncoder(log_append_time=True), rows)


@pytest.mark.parametrize(
    ("ticks", "unit"),
    [(253_402_300_800_000, None), (2**63 - 1, None), (2**61 + 1, "s"), (-(2**61), "s")],
)
def test_a_timestamp_that_no_reader_takes_is_refused(ticks: int, unit: str | None) -> None:
    last = 253_402_300_799_999
    column = pa.array([ticks], pa.int64())
    column = column if unit is None else column.cast(pa.timestamp(unit))
    with pytest.raises(InvalidRowError, match=f"row 0: .*allowed are 0 to {last}, and -1 for no"):
        encode_in_order(RecordBatchEncoder(), values(b"a").append_column("timestamp", column))
    kept = values(b"a").append_column("timestamp", pa.array([last], pa.int64()))
    assert read_by_decoder(encode_in_order(RecordBatchEncoder(), kept))[0][1] == last


def test_tables_of_several_chunks_or_none_are_one_batch() -> None:
    batch = values(b"a", b"b")
    table = pa.Table.from_batches([batch, batch])
    assert joined_records(batch) is batch
    assert joined_records(table)["value"].to_pylist() == [b"a", b"b"] * 2
    assert joined_records(table.slice(0, 0)).num_rows == 0
    assert joined_records(pa.Table.from_batches([], batch.schema)).num_rows == 0


@pytest.mark.parametrize("name", ["key", "topic"])
def test_columns_that_no_record_has_and_no_value_are_refused(name: str) -> None:
    batch = values(b"a")
    with pytest.raises(SchemaError, match="value is needed"):
        joined_records(batch.rename_columns([name]))
