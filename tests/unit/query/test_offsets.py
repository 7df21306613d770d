from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from spark_segmentlog.errors import DataLossError, OptionValueError
from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.query.offsets import (
    EARLIEST,
    LATEST,
    EarliestOffsets,
    GlobalTimestamp,
    LatestOffsets,
    MissingTimestampStrategy,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
    check_assigned,
    check_available,
    check_resolved,
    parse_assign_json,
    parse_offsets_json,
    parse_timestamps_json,
    resolve_end,
    resolve_start,
)

T0, T1, A10 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("a", 10)


@dataclass
class Bounds:
    """A partition with offsets [start, end), the last segment at `last_base_offset`."""

    log_start_offset: int = 10
    last_base_offset: int = 20
    end: int = 30
    latest: int = 30
    times: dict[int, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    remote_start_offset: int | None = None

    def latest_offset(self) -> int:
        return self.latest

    def log_end_offset(self) -> int:
        self.asked.append("end")
        return self.end

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        return min(
            (offset for offset, time in self.times.items() if time >= timestamp_ms), default=None
        )


def test_a_tiered_log_starts_in_remote_storage() -> None:
    bounds = Bounds(times={10: 100, 15: 200}, remote_start_offset=3)
    cases: list[tuple[OffsetLimit, int]] = [
        (EarliestOffsets(), 3),
        (SpecificOffsets({T0: EARLIEST}), 3),
        (SpecificOffsets({T0: 12}), 12),
        # What comes first on this disk may not be the first there is.
        (GlobalTimestamp(100), 3),
        (GlobalTimestamp(200), 15),
    ]
    for limit, expected in cases:
        assert resolve_start(limit, T0, bounds, MissingTimestampStrategy.ERROR) == expected, limit
    with pytest.raises(DataLossError, match=r"\[3, 10\) lie in remote storage, which is not read"):
        check_available(OffsetRange(T0, 3, 30), bounds, fail_on_data_loss=True, warn=print)


def test_json_of_the_kafka_source() -> None:
    assert parse_offsets_json('{"t":{"0":23,"1":-1}, "a":{"10":-2}}') == {
        T0: 23,
        T1: LATEST,
        A10: EARLIEST,
    }
    assert parse_timestamps_json('{"t":{"0":1700000000000}}') == {T0: 1700000000000}
    assert parse_assign_json('{"t":[1,0,1]}') == (T0, T1)


def test_start_from_each_limit() -> None:
    bounds = Bounds(times={12: 100, 15: 200})
    cases: list[tuple[OffsetLimit, int]] = [
        (EarliestOffsets(), 10),
        (LatestOffsets(), 30),
        (SpecificOffsets({T0: 17}), 17),
        (SpecificOffsets({T0: EARLIEST}), 10),
        (SpecificOffsets({T0: LATEST}), 30),
        (GlobalTimestamp(0), 12),
        (GlobalTimestamp(101), 15),
        (SpecificTimestamps({T0: 100}), 12),
    ]
    for limit, offset in cases:
        assert resolve_start(limit, T0, bounds, MissingTimestampStrategy.ERROR) == offset


def test_timestamps_name_the_earliest_and_latest_offset_as_offsets_do() -> None:
    bounds = Bounds(times={12: 100})
    for limit, start, end in (
        (GlobalTimestamp(EARLIEST), 10, 10),
        (GlobalTimestamp(LATEST), 30, None),
        (SpecificTimestamps({T0: LATEST}), 30, None),
    ):
        assert resolve_start(limit, T0, bounds, MissingTimestampStrategy.ERROR) == start
        assert resolve_end(limit, T0, bounds) == end


def test_no_record_at_a_starting_timestamp() -> None:
    bounds = Bounds(times={12: 100})
    with pytest.raises(OptionValueError, match=r"t-0 and timestamp 101.*Strategy to latest"):
        resolve_start(GlobalTimestamp(101), T0, bounds, MissingTimestampStrategy.ERROR)
    assert resolve_start(GlobalTimestamp(101), T0, bounds, MissingTimestampStrategy.LATEST) == 30


def test_match_above_the_last_stable_offset_is_none() -> None:
    bounds = Bounds(latest=20, times={25: 100})
    with pytest.raises(OptionValueError, match="no offset matched"):
        resolve_start(GlobalTimestamp(100), T0, bounds, MissingTimestampStrategy.ERROR)
    assert resolve_end(GlobalTimestamp(100), T0, bounds) is None


def test_empty_partition_has_nothing_to_miss() -> None:
    bounds = Bounds(log_start_offset=7, last_base_offset=7, end=7, latest=7)
    assert resolve_start(GlobalTimestamp(1), T0, bounds, MissingTimestampStrategy.ERROR) == 7


def test_end_from_each_limit() -> None:
    bounds = Bounds(times={12: 100})
    assert resolve_end(LatestOffsets(), T0, bounds) is None
    assert resolve_end(SpecificOffsets({T0: LATEST}), T0, bounds) is None
    assert resolve_end(SpecificOffsets({T0: 17}), T0, bounds) == 17
    assert resolve_end(GlobalTimestamp(100), T0, bounds) == 12
    assert resolve_end(GlobalTimestamp(101), T0, bounds) is None


@pytest.mark.parametrize("named", [{T0: 5}, {T0: 5, T1: 5, A10: 5}, {T0: 5, A10: 5}])
def test_partitions_named_must_be_the_chosen_ones(named: dict[TopicPartition, int]) -> None:
    with pytest.raises(OptionValueError) as caught:
        check_assigned(SpecificOffsets(named), [T1, T0], position="start")
    text = str(caught.value)
    assert "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED" in text
    assert "Assigned: [t-0, t-1]" in text
    assert f"Specified: [{', '.join(map(str, sorted(named)))}]" in text
    with pytest.raises(OptionValueError, match="KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        check_assigned(SpecificTimestamps(named), [T1, T0], position="end")


def test_partitions_named_exactly_are_taken() -> None:
    check_assigned(SpecificOffsets({T0: 1, T1: -2}), [T1, T0], position="start")
    check_assigned(EarliestOffsets(), [T1], position="start")


@pytest.mark.parametrize(
    ("start", "end", "available"),
    [
        (5, 25, (10, 25)),
        (0, 5, (10, 10)),
        (12, 31, (12, 30)),
        (31, 40, (30, 30)),
    ],
)
def test_what_is_gone_or_not_yet_there_is_loss(
    start: int, end: int, available: tuple[int, int]
) -> None:
    wanted = OffsetRange(T0, start, end)
    with pytest.raises(DataLossError) as caught:
        check_available(wanted, Bounds(), fail_on_data_loss=True, warn=pytest.fail)
    assert caught.value.condition == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    for part in (f"[{start}, {end})", "t-0", "[10, 30)", "failOnDataLoss to false"):
        assert part in str(caught.value)
    warnings: list[str] = []
    cut = check_available(wanted, Bounds(), fail_on_data_loss=False, warn=warnings.append)
    assert (cut.start_offset, cut.end_offset) == available
    assert len(warnings) == 1


def test_range_below_the_last_segment_asks_for_no_end() -> None:
    bounds = Bounds()
    wanted = OffsetRange(T0, 10, 20)
    assert check_available(wanted, bounds, fail_on_data_loss=True, warn=pytest.fail) == wanted
    assert bounds.asked == []


def test_resolved_start_above_end_is_an_error() -> None:
    check_resolved(T0, 5, 5)
    with pytest.raises(OptionValueError, match="RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"):
        check_resolved(T0, 6, 5)
