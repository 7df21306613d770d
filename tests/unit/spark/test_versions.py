"""What older versions of Spark take another way through, on whichever version is installed."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest
from spark_segmentlog.spark import versions
from spark_segmentlog.spark.row_stream_writer import ROWS_OF_A_BATCH, to_arrow_batches
from spark_segmentlog.spark.stream_reader import SegmentLogStreamReader, make_stream_reader
from tests.support.stream import GrowingLog, batch


@pytest.fixture(autouse=True)
def _each_lack_is_said_anew() -> Iterator[None]:
    versions.warn_of_lack.cache_clear()
    yield
    versions.warn_of_lack.cache_clear()


def request_of(path: Path, **options: str) -> ReadRequest:
    parsed = parse_read_options({"path": str(path), **options}, streaming=True)
    return ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))


def rows_between(reader: SegmentLogStreamReader, start: Any, end: Any) -> list[int]:
    return [
        offset
        for share in reader.partitions(start, end)
        for arrow_batch in reader.read(share)
        for offset in arrow_batch.column("offset").to_pylist()
    ]


def test_a_reader_that_is_told_no_start_takes_all_there_is_and_goes_on(tmp_path: Path) -> None:
    """As Spark 4.0 and 4.1 drive it: the end first, then the start of a new query."""
    log = GrowingLog(tmp_path)
    log.append(batch(0, 3))
    request = request_of(tmp_path, startingOffsets="earliest")
    reader = SegmentLogStreamReader(request)
    end = reader.latestOffset()
    assert rows_between(reader, reader.initialOffset(), end) == [0, 1, 2]
    log.append(batch(3, 2))
    following = reader.latestOffset()
    assert rows_between(reader, end, following) == [3, 4]
    assert reader.latestOffset() == following

    restarted = SegmentLogStreamReader(request)
    assert restarted.latestOffset() == following
    log.append(batch(5))
    assert rows_between(restarted, following, restarted.latestOffset()) == [5]


def test_a_new_query_from_the_latest_offset_neither_misses_nor_repeats_rows(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path)
    log.append(batch(0, 3))
    reader = SegmentLogStreamReader(request_of(tmp_path, startingOffsets="latest"))
    end = reader.latestOffset()
    log.append(batch(3, 2))
    assert rows_between(reader, reader.initialOffset(), end) == []
    assert rows_between(reader, end, reader.latestOffset()) == [3, 4]


def test_limits_that_spark_cannot_hand_over_are_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(versions, "LIMITS_MICRO_BATCHES", False)
    GrowingLog(tmp_path).append(batch(0))
    limited = request_of(tmp_path, maxOffsetsPerTrigger="5")
    with caplog.at_level(logging.WARNING):
        assert type(make_stream_reader(limited)) is SegmentLogStreamReader
        make_stream_reader(limited)
        make_stream_reader(request_of(tmp_path))
    told = [it for it in caplog.messages if "limits have no effect; Spark 4.2 and later can" in it]
    assert len(told) == 1


def test_rows_become_the_arrow_batches_that_newer_versions_hand_over() -> None:
    headers = ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    )
    schema = StructType(
        [
            StructField("key", BinaryType()),
            StructField("value", StringType()),
            StructField("timestamp", TimestampType()),
            StructField("headers", headers),
            StructField("offset", LongType()),
        ]
    )
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 6000, datetime.UTC)
    local = moment.astimezone().replace(tzinfo=None)
    whole = Row(
        key=bytearray(b"k"),
        value="v",
        timestamp=local,
        headers=[Row(key="h", value=bytearray(b"x")), Row(key="h", value=None)],
        offset=7,
    )
    empty = Row(key=None, value=None, timestamp=None, headers=None, offset=None)
    [arrow_batch] = to_arrow_batches([whole, empty], schema)
    assert arrow_batch.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    assert arrow_batch.to_pylist() == [
        {
            "key": b"k",
            "value": "v",
            "timestamp": moment,
            "headers": [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
            "offset": 7,
        },
        dict.fromkeys(schema.names),
    ]
    many = to_arrow_batches([whole] * (ROWS_OF_A_BATCH + 1), schema)
    assert [it.num_rows for it in many] == [ROWS_OF_A_BATCH, 1]
