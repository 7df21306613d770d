"""Shares of a read limit, held beside the arithmetic of Spark's KafkaMicroBatchStream.rateLimit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.query.admission import (
    AdmissionLimits,
    TriggerDelay,
    count_new_offsets,
    limit_offsets,
    share_out,
)

LONG_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("limit", "begin", "end", "expected"),
    [
        # C85: floor, but ceil below one, so that small partitions are not starved.
        (10, {0: 0, 1: 0, 2: 0}, {0: 101, 1: 11, 2: 1}, {0: 8, 1: 1, 2: 1}),
        # The same log one micro-batch later, as in Spark's own test of maxOffsetsPerTrigger.
        (10, {0: 8, 1: 1, 2: 1}, {0: 101, 1: 11, 2: 1}, {0: 17, 1: 1 + 1, 2: 1}),
        # Everything fits.
        (1000, {0: 5, 1: 7}, {0: 10, 1: 9}, {0: 10, 1: 9}),
        # Nothing waits: the ends stay as they are.
        (10, {0: 10}, {0: 10}, {0: 10}),
        # An end below its beginning is not touched, nor counted.
        (10, {0: 500, 1: 0}, {0: 20, 1: 100}, {0: 20, 1: 10}),
        # A partition without a beginning is left to the check of data loss.
        (10, {1: 0}, {0: 20, 1: 100}, {0: 20, 1: 10}),
        # No overflow near the largest offset.
        (LONG_MAX, {0: LONG_MAX - 5}, {0: LONG_MAX}, {0: LONG_MAX}),
        # Every partition moves, although the limit is below their number.
        (1, {0: 0, 1: 0, 2: 0}, {0: 50, 1: 50, 2: 50}, {0: 1, 1: 1, 2: 1}),
        # One share is rounded up, the other down.
        (3, {0: 0, 1: 0}, {0: 1, 1: 9}, {0: 1, 1: 2}),
    ],
)
def test_offsets_are_shared_as_the_kafka_source_shares_them(
    limit: int, begin: dict[int, int], end: dict[int, int], expected: dict[int, int]
) -> None:
    assert limit_offsets(limit, begin, end) == expected


def kafka_rate_limit(limit: int, begin: dict[int, int], end: dict[int, int]) -> dict[int, int]:
    """State the documented arithmetic once more, partition by partition."""
    sizes = {p: end[p] - begin[p] for p in end if end[p] > begin[p]}
    total = float(sum(sizes.values()))
    if total < 1:
        return dict(end)
    result = dict(end)
    for partition, size in sizes.items():
        prorate = limit * (size / total)
        prorate_long = int(math.ceil(prorate) if prorate < 1 else math.floor(prorate))
        off = (
            LONG_MAX
            if prorate_long > LONG_MAX - begin[partition]
            else begin[partition] + prorate_long
        )
        result[partition] = min(end[partition], off)
    return result


RANGES = st.dictionaries(
    st.integers(0, 20),
    st.tuples(st.integers(0, 2**40), st.integers(-100, 10**9)),
    max_size=12,
)


@given(limit=st.integers(1, 2**40), ranges=RANGES)
def test_any_ranges_are_shared_as_the_kafka_source_shares_them(
    limit: int, ranges: dict[int, tuple[int, int]]
) -> None:
    begin = {p: start for p, (start, _) in ranges.items()}
    end = {p: start + size for p, (start, size) in ranges.items()}
    assert limit_offsets(limit, begin, end) == kafka_rate_limit(limit, begin, end)


@given(limit=st.integers(1, 1000), ranges=RANGES)
def test_repeated_shares_reach_the_end(limit: int, ranges: dict[int, tuple[int, int]]) -> None:
    begin = {p: start for p, (start, _) in ranges.items()}
    end = {p: start + abs(size) % 500 for p, (start, size) in ranges.items()}
    for _ in range(500 * len(ranges) + 1):
        if begin == end:
            break
        begin = limit_offsets(limit, begin, end)
    assert begin == end


def test_shares_never_exceed_sizes() -> None:
    assert share_out(1_000_000, {"a": 3, "b": 0, "c": -4}) == {"a": 3}


def test_new_offsets_are_counted_from_the_beginning_and_never_negative() -> None:
    assert count_new_offsets({"a": 5, "b": 100}, {"a": 8, "b": 20}) == 3


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_the_first_trigger_fires_at_once_and_later_ones_after_the_delay() -> None:
    clock = Clock()
    delay = TriggerDelay(clock)
    limits = AdmissionLimits(min_offsets=100, max_delay_ms=2000)
    assert not delay.holds_back(5, limits)
    assert delay.holds_back(5, limits)
    clock.now_ms = 1999
    assert delay.holds_back(99, limits)
    clock.now_ms = 2000
    assert not delay.holds_back(5, limits)
    clock.now_ms = 2001
    assert delay.holds_back(5, limits)


def test_enough_offsets_end_the_wait_and_start_the_next_one() -> None:
    clock = Clock()
    delay = TriggerDelay(clock)
    limits = AdmissionLimits(min_offsets=100, max_delay_ms=2000)
    assert not delay.holds_back(0, limits)
    clock.now_ms = 1500
    assert not delay.holds_back(100, limits)
    clock.now_ms = 3000
    assert delay.holds_back(99, limits)
    clock.now_ms = 3500
    assert not delay.holds_back(99, limits)


def test_without_a_minimum_nothing_is_held_back() -> None:
    assert not TriggerDelay(Clock()).holds_back(0, AdmissionLimits(max_offsets=1))
