from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.errors import UnknownTopicOrPartitionError
from spark_segmentlog.log.names import MAX_OFFSET, OffsetRange, TopicPartition
from spark_segmentlog.query.planning import (
    PlannedRange,
    RowBounds,
    choose_partitions,
    cut_at_index,
    cut_at_segments,
    divide_ranges,
    pack,
)
from spark_segmentlog.query.read_options import TopicSelection

T0, T1 = (TopicPartition("t", number) for number in range(2))
AVAILABLE = [
    TopicPartition("audit.events", 0),
    TopicPartition("audit-events", 0),
    TopicPartition("my-topic-2", 10),
    TopicPartition("my-topic-2", 9),
    TopicPartition("a", 0),
    TopicPartition("__consumer_offsets", 3),
    TopicPartition("__mine", 0),
]


def sizes(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [
        (range.topic_partition.partition, range.start_offset, range.end_offset) for range in ranges
    ]


# Choice of partitions


def names(selection: TopicSelection) -> list[str]:
    return [str(choose_partition) for choose_partition in choose_partitions(selection, AVAILABLE)]


def test_default_is_every_topic_that_is_not_internal() -> None:
    assert names(TopicSelection()) == [
        "a-0",
        "audit-events-0",
        "audit.events-0",
        "my-topic-2-9",
        "my-topic-2-10",
    ]


def test_subscribe_is_literal() -> None:
    assert names(TopicSelection(subscribe=("audit.events",))) == ["audit.events-0"]
    assert names(TopicSelection(subscribe=("__consumer_offsets",))) == ["__consumer_offsets-3"]


def test_pattern_matches_whole_names_and_no_topic_of_the_broker() -> None:
    assert names(TopicSelection(pattern=re.compile("audit.events"))) == [
        "audit-events-0",
        "audit.events-0",
    ]
    assert names(TopicSelection(pattern=re.compile("a"))) == ["a-0"]
    assert names(TopicSelection(pattern=re.compile("__.*"))) == ["__mine-0"]
    assert names(TopicSelection(pattern=re.compile("zz"))) == []


def test_assign_takes_partitions() -> None:
    chosen = TopicSelection(assign=(TopicPartition("my-topic-2", 10),))
    assert names(chosen) == ["my-topic-2-10"]


def test_what_is_named_must_be_there() -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="not in this log: b; there are __cons"):
        names(TopicSelection(subscribe=("a", "b")))
    with pytest.raises(UnknownTopicOrPartitionError, match="not in this log: a-1"):
        names(TopicSelection(assign=(TopicPartition("a", 1),)))


# Bounds of rows


def test_bounds_intersect() -> None:
    left = RowBounds(topics=frozenset("ab"), start_offset=3, min_timestamp_ms=5)
    right = RowBounds(
        topics=frozenset("bc"), partitions=frozenset([1]), end_offset=9, min_timestamp_ms=7
    )
    assert left.intersect(right) == RowBounds(
        topics=frozenset("b"),
        partitions=frozenset([1]),
        start_offset=3,
        end_offset=9,
        min_timestamp_ms=7,
    )


def test_bounds_that_hold_no_row_choose_no_partition() -> None:
    assert RowBounds(start_offset=5, end_offset=5).choose(AVAILABLE) == []
    assert RowBounds(min_timestamp_ms=5, max_timestamp_ms=4).choose(AVAILABLE) == []
    assert RowBounds(topics=frozenset("a")).choose(AVAILABLE) == [TopicPartition("a", 0)]
    assert RowBounds(partitions=frozenset([10])).choose(AVAILABLE) == [
        TopicPartition("my-topic-2", 10)
    ]


# Division as the Kafka source has it (the tables of KafkaOffsetRangeCalculatorSuite)


@pytest.mark.parametrize(
    ("ranges", "minimum", "divided"),
    [
        ([(0, 1, 2)], None, [(0, 1, 2)]),
        ([(0, 1, 2), (1, 1, 2)], 1, [(0, 1, 2), (1, 1, 2)]),
        ([(0, 1, 2), (1, 1, 1)], 1, [(0, 1, 2)]),
        ([(0, 1, 5)], 2, [(0, 1, 3), (0, 3, 5)]),
        ([(0, 1, 5)], 3, [(0, 1, 2), (0, 2, 3), (0, 3, 5)]),
        ([(0, 1, 2), (1, 1, 1), (2, 1, 2)], 4, [(0, 1, 2), (2, 1, 2)]),
        (
            [(0, 0, 3), (1, 0, 70)],
            4,
            [(0, 0, 3), (1, 0, 23), (1, 23, 46), (1, 46, 70)],
        ),
        ([(0, 1, 1000)], 1, [(0, 1, 1000)]),
    ],
)
def test_ranges_divide_as_in_the_kafka_source(
    ranges: list[tuple[int, int, int]], minimum: int | None, divided: list[tuple[int, int, int]]
) -> None:
    given_ranges = [OffsetRange(TopicPartition("t", n), start, end) for n, start, end in ranges]
    assert sizes(divide_ranges(given_ranges, min_partitions=minimum)) == divided


def test_ranges_divide_by_records() -> None:
    ranges = [OffsetRange(T0, 0, 10), OffsetRange(T1, 0, 3)]
    divided = divide_ranges(ranges, max_records_per_partition=4)
    assert sizes(divided) == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 3)]
    more = divide_ranges(ranges, max_records_per_partition=4, min_partitions=2)
    assert more == divided


offset_ranges = st.lists(
    st.tuples(st.integers(0, 2**40), st.one_of(st.just(0), st.integers(1, 10**7))), max_size=8
).map(
    lambda pairs: [
        OffsetRange(TopicPartition("t", number), start, start + size)
        for number, (start, size) in enumerate(pairs)
    ]
)


@given(
    ranges=offset_ranges,
    minimum=st.one_of(st.none(), st.integers(1, 200)),
    maximum=st.one_of(st.none(), st.integers(10**4, 10**5)),
)
def test_division_drops_no_offset_and_makes_no_empty_range(
    ranges: list[OffsetRange], minimum: int | None, maximum: int | None
) -> None:
    divided = divide_ranges(ranges, min_partitions=minimum, max_records_per_partition=maximum)
    assert_covers(divided, ranges)
    if maximum is not None:
        assert all(part.end_offset - part.start_offset <= maximum for part in divided)


@given(sizes=st.lists(st.integers(1, 50), max_size=5), maximum=st.integers(1, 60))
def test_division_of_small_ranges_by_records(sizes: list[int], maximum: int) -> None:
    ranges = [OffsetRange(TopicPartition("t", n), 5, 5 + size) for n, size in enumerate(sizes)]
    divided = divide_ranges(ranges, max_records_per_partition=maximum, min_partitions=maximum)
    assert_covers(divided, ranges)
    assert all(part.end_offset - part.start_offset <= maximum for part in divided)


def assert_covers(divided: list[OffsetRange], ranges: list[OffsetRange]) -> None:
    assert all(part.start_offset < part.end_offset for part in divided)
    joined: list[OffsetRange] = []
    for part in divided:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.topic_partition == part.topic_partition
            and last.end_offset == part.start_offset
        ):
            joined[-1] = OffsetRange(part.topic_partition, last.start_offset, part.end_offset)
        else:
            joined.append(part)
    assert joined == [range for range in ranges if range.start_offset < range.end_offset]


# Segments and index entries


def test_range_is_cut_where_segments_begin() -> None:
    cut = cut_at_segments(
        OffsetRange(T0, 15, 40), np.array([10, 20, 30]), np.array([20, 30, MAX_OFFSET])
    )
    assert sizes(cut) == [(0, 15, 20), (0, 20, 30), (0, 30, 40)]


def test_segment_is_cut_after_index_entries() -> None:
    # Batches of 10 offsets and 100 bytes; an entry a batch, from the second on.
    last_offsets = np.arange(19, 100, 10)
    positions = np.arange(100, 1000, 100)
    pieces = cut_at_index(OffsetRange(T0, 0, 100), 1000, last_offsets, positions, 350)
    assert pieces[0] == PlannedRange(OffsetRange(T0, 0, 30), 300)
    assert_covers([piece.offset_range for piece in pieces], [OffsetRange(T0, 0, 100)])
    assert all(piece.size_bytes <= 350 for piece in pieces)


def test_segment_without_index_is_one_piece() -> None:
    nothing = np.empty(0, np.int64)
    wanted = OffsetRange(T0, 3, 9)
    assert cut_at_index(wanted, 5000, nothing, nothing, 10) == [PlannedRange(wanted, 5000)]


@given(
    entries=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 10**6)), max_size=20),
    start=st.integers(0, 400),
    size=st.integers(1, 400),
    max_bytes=st.integers(1, 10**6),
)
def test_pieces_of_a_segment_hold_each_offset_once_whatever_the_index_says(
    entries: list[tuple[int, int]], start: int, size: int, max_bytes: int
) -> None:
    last_offsets = np.array(sorted(offset for offset, _ in entries), np.int64)
    positions = np.array(sorted(position for _, position in entries), np.int64)
    wanted = OffsetRange(T0, start, start + size)
    pieces = cut_at_index(wanted, 10**6 + 1, last_offsets, positions, max_bytes)
    assert_covers([piece.offset_range for piece in pieces], [wanted])


# Packing


def test_neighbours_are_packed_up_to_a_size() -> None:
    pieces = [PlannedRange(OffsetRange(T0, start, start + 10), 40) for start in range(0, 50, 10)]
    packs = pack(pieces, 100)
    assert [sizes(pack) for pack in packs] == [[(0, 0, 20)], [(0, 20, 40)], [(0, 40, 50)]]


def test_ranges_that_do_not_meet_stay_apart_in_a_pack() -> None:
    pieces = [
        PlannedRange(OffsetRange(T0, 0, 10), 1),
        PlannedRange(OffsetRange(T0, 20, 30), 1),
        PlannedRange(OffsetRange(T1, 30, 40), 1),
    ]
    assert [sizes(packed) for packed in pack(pieces, 100)] == [
        [(0, 0, 10), (0, 20, 30), (1, 30, 40)]
    ]


def test_large_piece_is_a_pack_of_its_own() -> None:
    pieces = [PlannedRange(OffsetRange(T0, 0, 1), 500), PlannedRange(OffsetRange(T0, 1, 2), 1)]
    assert [sizes(packed) for packed in pack(pieces, 100)] == [[(0, 0, 1)], [(0, 1, 2)]]


def test_opening_a_file_weighs_something() -> None:
    pieces = [PlannedRange(OffsetRange(T0, start, start + 1), 0) for start in range(10)]
    assert len(pack(pieces, 100, open_cost_bytes=25)) == 3
