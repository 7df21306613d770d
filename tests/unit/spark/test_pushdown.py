from __future__ import annotations

import datetime
import sys
from typing import Any

import pyspark
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.planning import EVERYTHING, RowBounds
from spark_segmentlog.spark.pushdown import bounds_of_filters, may_push_filters

TOPIC, PARTITION, OFFSET, TIMESTAMP = ("topic",), ("partition",), ("offset",), ("timestamp",)
SECOND = datetime.datetime(2026, 11, 27, 21, 0, 1, tzinfo=datetime.UTC)
SECOND_MS = int(SECOND.timestamp()) * 1000


def at(micros: int, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime:
    return (SECOND + datetime.timedelta(microseconds=micros)).astimezone(zone)


EXACT = [
    (EqualTo(TOPIC, "a"), RowBounds(topics=frozenset("a"))),
    (EqualNullSafe(TOPIC, "a"), RowBounds(topics=frozenset("a"))),
    (In(TOPIC, ("a", "b")), RowBounds(topics=frozenset("ab"))),
    (In(TOPIC, ()), RowBounds(topics=frozenset())),
    (EqualTo(PARTITION, 3), RowBounds(partitions=frozenset([3]))),
    (In(PARTITION, (3, 4)), RowBounds(partitions=frozenset([3, 4]))),
    (EqualTo(OFFSET, 7), RowBounds(start_offset=7, end_offset=8)),
    (GreaterThan(OFFSET, 7), RowBounds(start_offset=8)),
    (GreaterThanOrEqual(OFFSET, 7), RowBounds(start_offset=7)),
    (LessThan(OFFSET, 7), RowBounds(end_offset=7)),
    (LessThanOrEqual(OFFSET, 7), RowBounds(end_offset=8)),
    (In(OFFSET, (5, 7, 6)), RowBounds(start_offset=5, end_offset=8)),
    (LessThan(OFFSET, -5), RowBounds(end_offset=0)),
    (GreaterThan(OFFSET, -5), EVERYTHING),
    (GreaterThan(OFFSET, MAX_OFFSET), RowBounds(start_offset=MAX_OFFSET + 1)),
    (LessThanOrEqual(OFFSET, MAX_OFFSET), EVERYTHING),
    (EqualTo(("OFFSET",), 7), RowBounds(start_offset=7, end_offset=8)),
    (GreaterThanOrEqual(TIMESTAMP, at(0)), RowBounds(min_timestamp_ms=SECOND_MS)),
    (GreaterThanOrEqual(TIMESTAMP, at(1)), RowBounds(min_timestamp_ms=SECOND_MS + 1)),
    (GreaterThan(TIMESTAMP, at(0)), RowBounds(min_timestamp_ms=SECOND_MS + 1)),
    (GreaterThan(TIMESTAMP, at(-1)), RowBounds(min_timestamp_ms=SECOND_MS)),
    (LessThanOrEqual(TIMESTAMP, at(0)), RowBounds(max_timestamp_ms=SECOND_MS)),
    (LessThanOrEqual(TIMESTAMP, at(-1)), RowBounds(max_timestamp_ms=SECOND_MS - 1)),
    (LessThan(TIMESTAMP, at(0)), RowBounds(max_timestamp_ms=SECOND_MS - 1)),
    (LessThan(TIMESTAMP, at(1)), RowBounds(max_timestamp_ms=SECOND_MS)),
    (
        EqualTo(TIMESTAMP, at(2000)),
        RowBounds(min_timestamp_ms=SECOND_MS + 2, max_timestamp_ms=SECOND_MS + 2),
    ),
    (EqualTo(TIMESTAMP, at(1)), RowBounds(end_offset=0)),
    (
        In(TIMESTAMP, (at(1), at(0))),
        RowBounds(min_timestamp_ms=SECOND_MS, max_timestamp_ms=SECOND_MS),
    ),
    (IsNotNull(OFFSET), EVERYTHING),
    (IsNotNull(("timestampType",)), EVERYTHING),
    (
        GreaterThan(TIMESTAMP, datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)),
        RowBounds(min_timestamp_ms=-62_135_596_799_999),
    ),
]

GIVEN_BACK = [
    (In(OFFSET, (5, 7)), RowBounds(start_offset=5, end_offset=8)),
    (
        In(TIMESTAMP, (at(0), at(5000))),
        RowBounds(min_timestamp_ms=SECOND_MS, max_timestamp_ms=SECOND_MS + 5),
    ),
    (EqualTo(TOPIC, None), EVERYTHING),
    (EqualNullSafe(OFFSET, None), EVERYTHING),
    (In(TOPIC, ("a", None)), EVERYTHING),
    (In(OFFSET, ()), EVERYTHING),
    (GreaterThan(TOPIC, "a"), EVERYTHING),
    (StringStartsWith(TOPIC, "a"), EVERYTHING),
    (GreaterThan(PARTITION, 1), EVERYTHING),
    (Not(EqualTo(OFFSET, 7)), EVERYTHING),
    (IsNull(OFFSET), EVERYTHING),
    (IsNotNull(("key",)), EVERYTHING),
    (EqualTo(("value",), b"x"), EVERYTHING),
    (EqualTo(("headers", "key"), "x"), EVERYTHING),
    (EqualTo(("timestampType",), 0), EVERYTHING),
    (GreaterThan(TIMESTAMP, datetime.datetime(2026, 1, 1)), EVERYTHING),
    (EqualTo(OFFSET, True), EVERYTHING),
]


@pytest.mark.parametrize(("pushed", "bounds"), EXACT)
def test_filter_that_bounds_say_exactly(pushed: Filter, bounds: RowBounds) -> None:
    assert bounds_of_filters([pushed]) == (bounds, [])


@pytest.mark.parametrize(("pushed", "bounds"), GIVEN_BACK)
def test_filter_that_spark_must_still_apply(pushed: Filter, bounds: RowBounds) -> None:
    assert bounds_of_filters([pushed]) == (bounds, [pushed])


def test_timestamps_of_any_zone_are_points_in_time() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
    bounds, left = bounds_of_filters([GreaterThanOrEqual(TIMESTAMP, at(0, zone))])
    assert (bounds, left) == (RowBounds(min_timestamp_ms=SECOND_MS), [])


def test_all_filters_hold() -> None:
    kept = EqualTo(("value",), b"x")
    bounds, left = bounds_of_filters(
        [IsNotNull(OFFSET), GreaterThan(OFFSET, 4), kept, LessThan(OFFSET, 9), EqualTo(TOPIC, "t")]
    )
    assert bounds == RowBounds(start_offset=5, end_offset=9, topics=frozenset("t"))
    assert left == [kept]
    assert left[0] is kept


@pytest.mark.parametrize(
    ("version", "pushdown", "is_pushing", "expected"),
    [
        ("4.2.0", "auto", True, False),
        ("4.3.0", "auto", True, False),
        ("5.0.0", "auto", True, True),
        ("5.0.0.dev1", "auto", True, True),
        ("5.0.0", "auto", False, False),
        ("4.3.0", "true", True, True),
        ("4.3.0", "true", False, False),
        ("5.0.0", "false", True, False),
    ],
)
def test_when_predicates_narrow(
    monkeypatch: pytest.MonkeyPatch, version: str, pushdown: str, is_pushing: bool, expected: bool
) -> None:
    worker: Any = pyspark
    monkeypatch.setattr(pyspark, "__version__", version)
    if is_pushing:
        monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", worker)
    else:
        monkeypatch.delitem(
            sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", raising=False
        )
    assert may_push_filters(parse_read_options({"path": "/logs", "pushdown": pushdown})) is expected
    assert not may_push_filters(
        parse_read_options({"path": "/logs", "pushdown": pushdown, "view": "batches"})
    )
