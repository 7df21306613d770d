"""Reads that predicates narrow equal a full read that is filtered afterwards.

Random logs with out-of-order timestamps, random predicates, random ways to cut the read into tasks.
What Spark would do with the filters that come back is done here by a plain predicate.
"""

from __future__ import annotations

import datetime
import operator
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from spark_segmentlog import read_arrow
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.read_plan import plan_splits
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest, read_split
from spark_segmentlog.spark.pushdown import bounds_of_filters
from spark_segmentlog.testing.builder import DEFAULT_TIMESTAMP_MS, LogBuilder, SegmentSpec
from spark_segmentlog.testing.strategies import GeneratedLog, partition_logs

Row = dict[str, Any]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}

offsets = st.integers(-2, 60)
# Half of them whole milliseconds, around those of the logs.
times = st.builds(
    lambda ms, micros: (
        EPOCH + datetime.timedelta(milliseconds=DEFAULT_TIMESTAMP_MS + ms, microseconds=micros)
    ),
    st.integers(-1100, 1100),
    st.sampled_from([0, 0, 0, 1, 500, 999]),
)
values: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["a", "b", "c"]),
    "partition": st.integers(0, 2),
    "offset": offsets,
    "timestamp": times,
}


@st.composite
def predicates(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(["topic", "partition", "offset", "offset", "timestamp"] * 2))
    kind: Any = draw(st.sampled_from([*COMPARISONS, In, IsNotNull, Not]))
    if kind is IsNotNull:
        return IsNotNull((column,))
    if kind is In:
        return In((column,), tuple(draw(st.lists(values[column], min_size=1, max_size=3))))
    if kind is Not:
        return Not(EqualTo((column,), draw(values[column])))
    made: Filter = kind((column,), draw(values[column]))
    return made


options = st.fixed_dictionaries(
    {},
    optional={
        "maxPartitionBytes": st.sampled_from(["200", "2000", "1m"]),
        "minPartitions": st.sampled_from(["1", "3", "20"]),
        "maxRecordsPerPartition": st.sampled_from(["1", "7"]),
        "kafka.isolation.level": st.sampled_from(["read_committed", "read_uncommitted"]),
    },
)


def holds(predicate: Filter, row: Row) -> bool:
    """Evaluate a predicate as Spark does."""
    if isinstance(predicate, Not):
        return not holds(predicate.child, row)
    (column,) = predicate.attribute  # type: ignore[attr-defined]
    if isinstance(predicate, IsNotNull):
        return row[column] is not None
    if isinstance(predicate, In):
        return row[column] in predicate.value
    return COMPARISONS[type(predicate)](row[column], predicate.value)  # type: ignore[attr-defined]


def build(path: Path, logs: list[GeneratedLog], *, clean: bool) -> None:
    builder = LogBuilder(path)
    places = [("a", 0), ("a", 1), ("b", 0)]
    for (topic, partition), log in zip(places, logs, strict=False):
        specs = [
            SegmentSpec(batches, base_offset=None if place else 0, index_interval_bytes=150)
            for place, batches in enumerate(log.segments)
        ]
        builder.partition(topic, partition, specs)
    if clean:
        builder.clean_shutdown()


def narrowed_rows(path: Path, filters: list[Filter], given_options: dict[str, str]) -> list[Row]:
    """Plan with filters pushed, read every split, then apply the filters that came back."""
    parsed = parse_read_options({"path": str(path), **given_options})
    bounds, left = bounds_of_filters(filters)
    shape = shape_rows(default_schema(parsed), parsed)
    request = ReadRequest(options=parsed, shape=shape, bounds=bounds)
    rows = [
        row
        for split in plan_splits(parsed, bounds)
        for batch in read_split(split, request)
        for row in batch.to_pylist()
    ]
    return [row for row in rows if all(holds(bound, row) for bound in left)]


@settings(max_examples=150)
@given(
    logs=st.lists(partition_logs(max_batches=6), min_size=1, max_size=3),
    filters=st.lists(predicates(), min_size=1, max_size=4),
    given_options=options,
    clean=st.booleans(),
)
def test_narrowed_read_is_a_full_read_filtered(
    logs: list[GeneratedLog], filters: list[Filter], given_options: dict[str, str], clean: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        build(path, logs, clean=clean)
        level = given_options.get("kafka.isolation.level")
        whole = read_arrow(path, kafka_isolation_level=level).read_all().to_pylist()
        expected = [row for row in whole if all(holds(filter, row) for filter in filters)]
        assert narrowed_rows(path, filters, given_options) == expected


def sql(predicate: Filter) -> str:
    """Write a predicate as SQL."""
    if isinstance(predicate, Not):
        return f"NOT ({sql(predicate.child)})"
    (column,) = predicate.attribute  # type: ignore[attr-defined]
    if isinstance(predicate, IsNotNull):
        return f"{column} IS NOT NULL"
    if isinstance(predicate, In):
        return f"{column} IN ({', '.join(map(literal, predicate.value))})"
    sign = {EqualTo: "=", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<"}
    value = literal(predicate.value)  # type: ignore[attr-defined]
    return f"{column} {sign.get(type(predicate), '<=')} {value}"


def literal(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize("pushdown", ["auto", "true"])
# The setting of the session is one for all examples.
@settings(
    max_examples=4,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    log=partition_logs(max_batches=5, max_records=8),
    filters=st.lists(predicates(), min_size=1, max_size=3),
)
def test_narrowed_read_through_spark_is_a_full_read_filtered(
    spark: SparkSession,
    spark_settings: Callable[[str, str], None],
    pushdown: str,
    log: GeneratedLog,
    filters: list[Filter],
) -> None:
    spark_settings("spark.sql.python.filterPushdown.enabled", "true")
    columns = ["topic", "partition", "offset"]
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory), [log], clean=True)
        whole = read_arrow(directory).read_all().to_pylist()
        expected = [
            tuple(row[name] for name in columns)
            for row in whole
            if all(holds(filter, row) for filter in filters)
        ]
        reader = spark.read.format("segmentlog").option("pushdown", pushdown)
        frame = reader.option("maxPartitionBytes", "1m").load(directory)
        for filter in filters:
            frame = frame.where(sql(filter))
        rows = sorted(map(tuple, frame.select(*columns).collect()))
        assert rows == sorted(expected)
