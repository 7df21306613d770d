"""The columns of rows, their types, and a schema that asks for some of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import (
    MalformedTimestampError,
    SchemaError,
)
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    legacy_message,
    legacy_message_set,
    v2_batch,
)
from tests.support.arrow_reading import batch, offsets


def test_rows_have_the_schema_of_the_kafka_source(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    records = [
        RecordSpec(key=None, value=b"", timestamp_ms=-1),
        RecordSpec(key=b"", value=None, headers=[("trace-id", None), ("x", b"")]),
    ]
    log.partition("t", 3, [[v2_batch(records, base_offset=7)]])
    table = read_arrow(log.path, include_headers=True).read_all()
    assert table.schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    first, second = table.to_pylist()
    assert (first["key"], first["value"], first["headers"]) == (None, b"", None)
    assert (second["key"], second["value"]) == (b"", None)
    assert second["headers"] == [{"key": "trace-id", "value": None}, {"key": "x", "value": b""}]
    assert (first["topic"], first["partition"], first["offset"]) == ("t", 3, 7)
    assert first["timestamp"].isoformat() == "1969-12-31T23:59:59.999000+00:00"
    assert second["timestampType"] == 0
    assert "headers" not in read_arrow(log.path).schema.names


def test_rows_of_all_formats_show_no_timestamp_as_the_kafka_source_does(tmp_path: Path) -> None:
    none = [RecordSpec(value=b"v", timestamp_ms=-1)]
    entries = [
        legacy_message(0, offset=0, value=b"v"),
        legacy_message(1, offset=1, value=b"v", timestamp_ms=-1),
        legacy_message_set(0, none, base_offset=2, codec="gzip"),
        legacy_message_set(1, none, base_offset=3, codec="gzip"),
        v2_batch(none, base_offset=4, base_timestamp=-1),
    ]
    LogBuilder(tmp_path).partition("t", 0, [entries])
    columns = ["timestamp", "timestampType"]
    rows = read_arrow(tmp_path, columns=columns).read_all().to_pylist()
    assert {row["timestamp"].isoformat() for row in rows} == {"1969-12-31T23:59:59.999000+00:00"}
    assert [row["timestampType"] for row in rows] == [-1, 0, -1, 0, 0]


def test_columns_are_a_subset_in_any_order_and_case(three_segments: Path) -> None:
    reader = read_arrow(three_segments, columns=["VALUE", "offset"])
    assert reader.schema.names == ["value", "offset"]
    assert reader.read_all().to_pylist()[29] == {"value": b"0029", "offset": 29}
    with pytest.raises(SchemaError, match=r"no column 'ofset'; the nearest one is 'offset'"):
        read_arrow(three_segments, columns=["ofset"])
    with pytest.raises(SchemaError, match="more than once: offset"):
        read_arrow(three_segments, columns=["offset", "offset"])


def test_timestamp_that_spark_cannot_hold_names_its_record(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(4, 1_700_000_000_000_000)]])
    with pytest.raises(
        MalformedTimestampError, match=r"1700000000000000 ms at topic t, partition 0, offset 4"
    ):
        read_arrow(log.path).read_all()
    assert offsets(log.path) == [4]
