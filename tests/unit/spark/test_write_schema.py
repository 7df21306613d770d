"""Which columns can be written, as it is seen when a query is planned."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_segmentlog.errors import SchemaError
from spark_segmentlog.query.write_columns import WriteColumns
from spark_segmentlog.spark.write_schema import find_write_columns


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in columns.items()])


def header_type(**fields: DataType) -> ArrayType:
    return ArrayType(schema(**fields))


HEADERS = header_type(key=StringType(), value=BinaryType())


def test_columns_are_found_whatever_their_order_and_case() -> None:
    found = find_write_columns(
        schema(
            Headers=HEADERS,
            PARTITION=IntegerType(),
            Value=BinaryType(),
            timestamp=TimestampType(),
            topic=StringType(),
            KEY=StringType(),
        ),
        topic=None,
    )
    assert found == WriteColumns(
        encoded=(("key", 5), ("value", 2), ("timestamp", 3), ("headers", 0)),
        topic=4,
        partition=1,
    )
    assert found.key == 5


def test_value_alone_will_do_where_the_topic_is_an_option() -> None:
    found = find_write_columns(schema(value=StringType()), topic="t")
    assert found == WriteColumns(encoded=(("value", 0),), topic=None, partition=None)
    assert found.key is None


def test_what_a_read_adds_is_ignored_whatever_it_is() -> None:
    found = find_write_columns(
        schema(offset=StringType(), value=BinaryType(), timestampType=LongType()), topic="t"
    )
    assert found.encoded == (("value", 1),)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"value": BinaryType(), "keyy": BinaryType()}, "no column 'keyy' .* nearest one is 'key'"),
        ({"value": BinaryType(), "_corrupt_record": StringType()}, "no column '_corrupt_record'"),
        ({"key": BinaryType()}, "Required attribute 'value' not found"),
        ({"value": IntegerType()}, "column 'value' is INT, allowed is STRING and BINARY"),
        ({"VALUE": BinaryType(), "KEY": LongType()}, "column 'KEY' is BIGINT, allowed is STRING"),
        ({"value": BinaryType(), "partition": LongType()}, "'partition' is BIGINT, allowed is INT"),
        ({"value": BinaryType(), "topic": BinaryType()}, "'topic' is BINARY, allowed is STRING"),
        (
            {"value": BinaryType(), "timestamp": TimestampNTZType()},
            "'timestamp' is TIMESTAMP_NTZ, allowed is TIMESTAMP: a time without zone",
        ),
        ({"value": BinaryType(), "timestamp": LongType()}, "'timestamp' is BIGINT"),
        ({"value": BinaryType(), "headers": StringType()}, "'headers' is STRING, allowed is ARRAY"),
        (
            {"value": BinaryType(), "headers": MapType(StringType(), BinaryType())},
            "'headers' is MAP<STRING,BINARY>",
        ),
        (
            {"value": BinaryType(), "headers": header_type(key=BinaryType(), value=BinaryType())},
            "'headers' is ARRAY<STRUCT<KEY:BINARY,VALUE:BINARY>>",
        ),
        (
            {"value": BinaryType(), "headers": header_type(value=BinaryType(), key=StringType())},
            "'headers' is ARRAY<STRUCT<VALUE",
        ),
    ],
)
def test_any_other_column_is_refused_by_name(columns: dict[str, DataType], text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        find_write_columns(schema(**columns), topic="t")


def test_a_column_that_is_named_twice_is_refused() -> None:
    twice = StructType([StructField("value", BinaryType()), StructField("Value", BinaryType())])
    with pytest.raises(SchemaError, match="column 'Value' is there more than once"):
        find_write_columns(twice, topic="t")


def test_a_topic_must_come_from_somewhere() -> None:
    with pytest.raises(SchemaError, match="topic option required when no 'topic' attribute"):
        find_write_columns(schema(value=BinaryType()), topic=None)
