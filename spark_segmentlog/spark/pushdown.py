"""From Spark's filters to bounds of rows.

Predicates on topic, partition, offset and timestamp narrow what is read; every filter that the
bounds do not apply exactly goes back to Spark. Timestamps are compared in microseconds and records
have milliseconds, so a bound is rounded inward.

Spark before 5.0 keeps the narrowed reader for every scan of one ``load()``, so that a second, whole
use of the DataFrame would get the narrowed rows. Where that is so, ``pushdown=auto`` narrows
nothing.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from pyspark.sql import datasource

from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.query.planning import EVERYTHING, RowBounds
from spark_segmentlog.query.read_options import Pushdown, ReadOptions, View
from spark_segmentlog.spark import versions

_PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_NEVER_NULL: Final = frozenset(("topic", "partition", "offset", "timestamp", "timestamptype"))
_NOTHING: Final = RowBounds(end_offset=0)


def may_push_filters(options: ReadOptions) -> bool:
    """Tell whether predicates may narrow this load, and Spark is about to push them.

    Spark refuses a reader whose class overrides ``pushFilters`` while its conf is off. The worker
    that pushes is another one than the worker that plans without filters.
    """
    is_safe = options.pushdown is Pushdown.TRUE or (
        options.pushdown is Pushdown.AUTO and versions.has_a_reader_for_each_scan()
    )
    return is_safe and options.view is View.RECORDS and _PUSHING_WORKER in sys.modules


def warn_unless_pushed(options: ReadOptions) -> None:
    """Say that predicates narrow nothing where they were to and Spark pushes none."""
    if options.pushdown is Pushdown.TRUE and not versions.PUSHES_FILTERS:
        versions.warn_of_lack("option 'pushdown' has no effect, filters are not pushed", "4.1")


def bounds_of_filters(
    filters: Iterable[datasource.Filter],
) -> tuple[RowBounds, list[datasource.Filter]]:
    """Turn filters, which all must hold, into bounds.

    Returns
    -------
    tuple of (RowBounds, list of Filter)
        The bounds, and the filters that Spark must still apply.
    """
    bounds, left = EVERYTHING, []
    for predicate in filters:
        narrowed, is_exact = _bounds_of(predicate)
        bounds = bounds.intersect(narrowed)
        if not is_exact:
            left.append(predicate)
    return bounds, left


def _bounds_of(predicate: datasource.Filter) -> tuple[RowBounds, bool]:
    """Give the bounds of one filter, and whether they are all that it says."""
    attribute: tuple[str, ...] = getattr(predicate, "attribute", ())
    if len(attribute) != 1:
        return EVERYTHING, False
    column = attribute[0].lower()
    if isinstance(predicate, datasource.IsNotNull):
        return EVERYTHING, column in _NEVER_NULL
    make = _COLUMNS.get(column)
    if make is None or not hasattr(predicate, "value"):
        return EVERYTHING, False
    return make(predicate, predicate.value)


def _topic_bounds(predicate: datasource.Filter, value: Any) -> tuple[RowBounds, bool]:
    names = _equal_values(predicate, value)
    if names is None or not all(isinstance(name, str) for name in names):
        return EVERYTHING, False
    return RowBounds(topics=frozenset(names)), True


def _partition_bounds(predicate: datasource.Filter, value: Any) -> tuple[RowBounds, bool]:
    numbers = _equal_values(predicate, value)
    if numbers is None or not all(_is_integer(number) for number in numbers):
        return EVERYTHING, False
    return RowBounds(partitions=frozenset(numbers)), True


def _offset_bounds(predicate: datasource.Filter, value: Any) -> tuple[RowBounds, bool]:
    offsets = _equal_values(predicate, value)
    if offsets is not None:
        if not offsets or not all(_is_integer(offset) for offset in offsets):
            return EVERYTHING, False
        low, high = min(offsets), max(offsets)
        return _offsets(low, high + 1), high - low + 1 == len(set(offsets))
    if not _is_integer(value):
        return EVERYTHING, False
    match predicate:
        case datasource.GreaterThan():
            return _offsets(value + 1, MAX_OFFSET), True
        case datasource.GreaterThanOrEqual():
            return _offsets(value, MAX_OFFSET), True
        case datasource.LessThan():
            return _offsets(0, value), True
        case datasource.LessThanOrEqual():
            return _offsets(0, value + 1), True
    return EVERYTHING, False


def _offsets(start: int, end: int) -> RowBounds:
    # No record has the largest offset there is, which stands for an end that is open.
    return RowBounds(start_offset=max(start, 0), end_offset=max(min(end, MAX_OFFSET), 0))


def _timestamp_bounds(predicate: datasource.Filter, value: Any) -> tuple[RowBounds, bool]:
    times = _equal_values(predicate, value)
    if times is not None:
        return _equal_timestamps(times)
    if not _is_time(value):
        return EVERYTHING, False
    micros = _micros(value)
    match predicate:
        case datasource.GreaterThan():
            return RowBounds(min_timestamp_ms=micros // 1000 + 1), True
        case datasource.GreaterThanOrEqual():
            return RowBounds(min_timestamp_ms=-(-micros // 1000)), True
        case datasource.LessThan():
            return RowBounds(max_timestamp_ms=-(-micros // 1000) - 1), True
        case datasource.LessThanOrEqual():
            return RowBounds(max_timestamp_ms=micros // 1000), True
    return EVERYTHING, False


def _equal_timestamps(times: list[Any]) -> tuple[RowBounds, bool]:
    if not times or not all(map(_is_time, times)):
        return EVERYTHING, False
    whole = {micros // 1000 for micros in map(_micros, times) if micros % 1000 == 0}
    if not whole:
        return _NOTHING, True
    bounds = RowBounds(min_timestamp_ms=min(whole), max_timestamp_ms=max(whole))
    return bounds, len(whole) == 1


def _equal_values(predicate: datasource.Filter, value: Any) -> list[Any] | None:
    """Give the values that a filter compares for equality; None for another comparison."""
    if isinstance(predicate, datasource.In):
        return list(value)
    if isinstance(predicate, datasource.EqualTo | datasource.EqualNullSafe):
        return [value]
    return None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _micros(value: datetime.datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


_COLUMNS: Final[dict[str, Callable[[datasource.Filter, Any], tuple[RowBounds, bool]]]] = {
    "topic": _topic_bounds,
    "partition": _partition_bounds,
    "offset": _offset_bounds,
    "timestamp": _timestamp_bounds,
}
