"""Rows of a stream as Arrow batches, where Spark hands over rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

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

from spark_segmentlog.spark import versions
from spark_segmentlog.spark.row_stream_writer import ROWS_OF_A_BATCH, to_arrow_batches


@pytest.fixture(autouse=True)
def _each_lack_is_said_anew() -> Iterator[None]:
    versions.warn_of_lack.cache_clear()
    yield
    versions.warn_of_lack.cache_clear()


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
    assert [arrow_batch.num_rows for arrow_batch in many] == [ROWS_OF_A_BATCH, 1]
