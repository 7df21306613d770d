"""Where a micro-batch may start and end: tables over plain offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.query.stream_planning import (
    ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO,
    COULD_NOT_READ_OFFSET_RANGE,
    PARTITION_OFFSET_CHANGED,
    PARTITIONS_DELETED,
    PartitionView,
    advance,
    plan_ranges,
)

T0 = TopicPartition("t", 0)


def view(
    log_start: int, log_end: int, end: int | None = None, topic_id: str | None = None
) -> PartitionView:
    return PartitionView(
        log_start_offset=log_start,
        log_end_offset=log_end,
        end_offset=log_end if end is None else end,
        topic_id=topic_id,
    )


@pytest.mark.parametrize(
    ("start", "seen", "now", "begin", "end", "loss"),
    [
        pytest.param(5, None, view(0, 9), 5, 9, None, id="new records"),
        pytest.param(9, None, view(0, 9), 9, 9, None, id="nothing new"),
        pytest.param(5, None, view(0, 9, end=7), 5, 7, None, id="up to the last stable offset"),
        pytest.param(
            8, None, view(0, 9, end=7), 8, 8, None, id="beyond the last stable offset: waits"
        ),
        pytest.param(5, None, view(5, 9), 5, 9, None, id="retention just reached the start"),
        pytest.param(
            5, None, view(7, 9), 7, 9, COULD_NOT_READ_OFFSET_RANGE, id="retention passed the start"
        ),
        pytest.param(
            5, None, view(7, 7), 7, 7, COULD_NOT_READ_OFFSET_RANGE, id="an empty log starts later"
        ),
        pytest.param(
            500, None, view(0, 20), 500, 0, PARTITION_OFFSET_CHANGED, id="made again, after restart"
        ),
        pytest.param(
            500, "a", view(0, 20, topic_id="b"), 500, 0, PARTITION_OFFSET_CHANGED, id="made again"
        ),
        pytest.param(
            500,
            "a",
            view(0, 700, topic_id="b"),
            500,
            0,
            PARTITION_OFFSET_CHANGED,
            id="made again and already longer",
        ),
        pytest.param(
            500,
            "a",
            view(0, 480, topic_id="a"),
            500,
            480,
            PARTITION_OFFSET_CHANGED,
            id="the same topic, cut",
        ),
        pytest.param(
            5,
            "a",
            view(7, 9, topic_id="b"),
            7,
            9,
            COULD_NOT_READ_OFFSET_RANGE,
            id="made again, but starts beyond us",
        ),
        pytest.param(
            5, None, view(0, 9, topic_id="a"), 5, 9, None, id="a broker adds the topic id"
        ),
    ],
)
def test_a_known_partition_advances(
    start: int, seen: str | None, now: PartitionView, begin: int, end: int, loss: str | None
) -> None:
    result = advance({T0: start}, {T0: now}, {T0: seen})
    assert (result.begin[T0], result.end[T0]) == (begin, end)
    assert [each.condition for each in result.losses] == ([] if loss is None else [loss])
    assert result.restarted == ({T0} if end < start else set())


def test_a_partition_that_appears_later_starts_at_its_log_start_offset() -> None:
    result = advance({}, {T0: view(0, 4)}, {})
    assert (result.begin, result.end, result.losses) == ({T0: 0}, {T0: 4}, [])


def test_an_added_partition_that_lost_its_first_rows_is_a_loss() -> None:
    result = advance({}, {T0: view(3, 4)}, {})
    assert (result.begin, result.end) == ({T0: 3}, {T0: 4})
    assert [loss.condition for loss in result.losses] == [
        ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO
    ]


def test_a_partition_that_is_gone_keeps_its_offset_and_goes_on_when_it_comes_back() -> None:
    gone = advance({T0: 5}, {}, {})
    assert (gone.end, [loss.condition for loss in gone.losses]) == ({T0: 5}, [PARTITIONS_DELETED])
    back = advance(gone.end, {T0: view(0, 9)}, {})
    assert (back.begin, back.end, back.losses) == ({T0: 5}, {T0: 9}, [])


@pytest.mark.parametrize(
    ("start", "end", "seen", "now", "expected", "loss"),
    [
        pytest.param(5, 9, None, view(0, 9), (5, 9), None, id="whole"),
        pytest.param(5, 5, None, view(7, 9), None, None, id="empty, whatever was deleted"),
        pytest.param(9, 5, None, view(0, 9), None, None, id="end below start reads nothing"),
        pytest.param(
            5, 9, None, view(7, 9), (7, 9), COULD_NOT_READ_OFFSET_RANGE, id="partly aged out"
        ),
        pytest.param(
            5, 9, None, view(20, 30), None, COULD_NOT_READ_OFFSET_RANGE, id="wholly aged out"
        ),
        pytest.param(
            5, 9, None, view(0, 7), None, PARTITION_OFFSET_CHANGED, id="replayed on another log"
        ),
        pytest.param(
            5, 9, "a", view(0, 7, topic_id="a"), (5, 7), PARTITION_OFFSET_CHANGED, id="cut"
        ),
        pytest.param(
            5,
            9,
            "a",
            view(0, 70, topic_id="b"),
            None,
            PARTITION_OFFSET_CHANGED,
            id="made again between planning and reading",
        ),
        pytest.param(5, 9, None, view(0, 9, end=6), (5, 9), None, id="a replay keeps its own end"),
    ],
)
def test_ranges_are_what_the_log_still_holds(
    start: int,
    end: int,
    seen: str | None,
    now: PartitionView,
    expected: tuple[int, int] | None,
    loss: str | None,
) -> None:
    plan = plan_ranges({T0: start}, {T0: end}, {T0: now}, {T0: seen})
    assert plan.ranges == ([] if expected is None else [OffsetRange(T0, *expected)])
    assert [each.condition for each in plan.losses] == ([] if loss is None else [loss])


@pytest.mark.parametrize(("end", "ranges"), [(9, [OffsetRange(T0, 3, 9)]), (2, [])])
def test_a_replay_of_an_added_partition_that_lost_its_first_rows_is_a_loss(
    end: int, ranges: list[OffsetRange]
) -> None:
    plan = plan_ranges({}, {T0: end}, {T0: view(3, 20)}, {})
    assert plan.ranges == ranges
    assert [loss.condition for loss in plan.losses] == [
        ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO
    ]


def test_a_range_of_a_partition_that_is_gone_is_a_loss() -> None:
    plan = plan_ranges({T0: 1}, {T0: 2}, {}, {})
    assert (plan.ranges, [loss.condition for loss in plan.losses]) == ([], [PARTITIONS_DELETED])


@given(
    start=st.integers(0, 50),
    log_start=st.integers(0, 50),
    length=st.integers(0, 50),
    seen=st.sampled_from([None, "a"]),
    now=st.sampled_from([None, "a", "b"]),
)
def test_what_advances_can_be_planned_without_a_further_loss(
    start: int, log_start: int, length: int, seen: str | None, now: str | None
) -> None:
    views = {T0: view(log_start, log_start + length, topic_id=now)}
    result = advance({T0: start}, views, {T0: seen})
    ids = {T0: now} if result.restarted else {T0: seen if seen == now else None}
    plan = plan_ranges(result.begin, result.end, views, ids)
    expected = max(0, result.end[T0] - result.begin[T0])
    assert sum(r.end_offset - r.start_offset for r in plan.ranges) == expected
    assert plan.losses == []
