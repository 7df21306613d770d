"""Where a micro-batch starts and ends, and what of the log it has lost: offset arithmetic alone.

A stream's offset is, for every partition, the next offset to read. These rules hold:

- An offset only grows, but for one case: a topic that was made again starts again at its log start
  offset. That takes a micro-batch of its own, which reads nothing, so that a replay of it can read
  nothing twice; and so a range whose end is not above its start is always empty.
- Loss is a start below the log start offset, a start past the end, a partition that is gone, a
  topic made again. Offsets that are missing inside of the log (compaction, markers) are no loss.
- A partition that is gone keeps its offset, so that it goes on from there should it come back.

After a restart, offsets alone must tell a topic made again: its end lies below the start. While a
query runs, the topic's id tells it too, and tells it apart from a log that was cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_segmentlog.log.names import OffsetRange, TopicPartition

Offsets = dict[TopicPartition, int]
TopicIds = Mapping[TopicPartition, str | None]

PARTITIONS_DELETED: Final = "KAFKA_DATA_LOSS.PARTITIONS_DELETED"
PARTITION_OFFSET_CHANGED: Final = "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"
START_OFFSET_RESET: Final = "KAFKA_DATA_LOSS.START_OFFSET_RESET"
COULD_NOT_READ_OFFSET_RANGE: Final = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: Final = (
    "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
)

TASKS_OF_A_BACKLOG: Final = 8
SMALL_TASK_BYTES: Final = 4 << 20
LARGE_TASK_BYTES: Final = 128 << 20
OPEN_COST_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """What a query sees of one partition at one moment.

    Attributes
    ----------
    log_start_offset, log_end_offset : int
        Of the log on disk; the end is exclusive.
    end_offset : int
        Up to where this query may read: the log end, or the last stable offset, the high watermark
        or the ending offset where one of them is lower. Exclusive.
    topic_id : str or None
        That of `partition.metadata`; None where a broker wrote none.
    """

    log_start_offset: int
    log_end_offset: int
    end_offset: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class DataLoss:
    """One loss: the condition of Spark's Kafka source, and what was lost."""

    condition: str
    message: str


@dataclass(slots=True)
class _Plan:
    """What was lost, and partitions of topics made again, whose end lies below their start."""

    losses: list[DataLoss] = field(default_factory=list)
    restarted: set[TopicPartition] = field(default_factory=set)

    def lose(self, condition: str, message: str) -> None:
        self.losses.append(DataLoss(condition, message))


@dataclass(slots=True)
class Advance(_Plan):
    """How far a query could go from its start.

    Attributes
    ----------
    begin : dict of TopicPartition to int
        Where reading would start: the start itself, or the log start offset of a partition that
        is new or has lost rows.
    end : dict of TopicPartition to int
        The next offset of every partition.
    """

    begin: Offsets = field(default_factory=dict)
    end: Offsets = field(default_factory=dict)

    def plan(self, topic_partition: TopicPartition, begin: int, end: int) -> None:
        """Set where reading would start in a partition, and its next offset."""
        self.begin[topic_partition] = begin
        self.end[topic_partition] = end


@dataclass(slots=True)
class RangePlan(_Plan):
    """Offset ranges of one micro-batch, in the order of their partitions, none of them empty."""

    ranges: list[OffsetRange] = field(default_factory=list)


def advance(
    start: Mapping[TopicPartition, int],
    views: Mapping[TopicPartition, PartitionView],
    seen_topic_ids: TopicIds,
    made_again: Collection[TopicPartition] = (),
) -> Advance:
    """Find the furthest end of a micro-batch that starts at these offsets.

    Parameters
    ----------
    start : mapping of TopicPartition to int
        Where the last micro-batch ended.
    views : mapping of TopicPartition to PartitionView
        Every partition that the query reads now.
    seen_topic_ids : mapping of TopicPartition to str or None
        Topic ids as this process saw them when the offsets were made.
    made_again : collection of TopicPartition
        Partitions that are known to be made again, whatever their ids say.
    """
    found = Advance()
    for topic_partition in sorted(start.keys() | views.keys()):
        view = views.get(topic_partition)
        if view is None:
            found.plan(topic_partition, start[topic_partition], start[topic_partition])
        elif topic_partition not in start:
            begin = _begin_added(found, topic_partition, view)
            found.plan(topic_partition, begin, max(begin, view.end_offset))
        else:
            is_known_new = topic_partition in made_again
            known = not is_known_new and _is_same_topic(topic_partition, view, seen_topic_ids)
            _advance_known(found, topic_partition, start[topic_partition], view, known)
    _lose_deleted(found, start.keys() - views.keys())
    return found


def _begin_added(plan: _Plan, topic_partition: TopicPartition, view: PartitionView) -> int:
    begin = view.log_start_offset
    if begin != 0:
        plan.lose(
            ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO,
            f"Added partition {topic_partition} starts from {begin} instead of 0.",
        )
    return begin


def _advance_known(
    found: Advance,
    topic_partition: TopicPartition,
    start: int,
    view: PartitionView,
    is_same: bool | None,
) -> None:
    log_start, log_end = view.log_start_offset, view.log_end_offset
    if is_same is False and log_start < start:
        found.lose(PARTITION_OFFSET_CHANGED, _made_again(topic_partition, start, log_start))
        found.restarted.add(topic_partition)
        found.plan(topic_partition, start, log_start)
    elif start > log_end:
        next_offset = log_end if is_same else min(log_start, log_end)
        found.lose(PARTITION_OFFSET_CHANGED, _changed(topic_partition, start, log_end))
        found.restarted.add(topic_partition)
        found.plan(topic_partition, start, next_offset)
    elif start < log_start:
        found.lose(COULD_NOT_READ_OFFSET_RANGE, _aged_out(topic_partition, start, log_start))
        found.plan(topic_partition, log_start, max(log_start, view.end_offset))
    else:
        found.plan(topic_partition, start, max(start, view.end_offset))


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    views: Mapping[TopicPartition, PartitionView],
    seen_topic_ids: TopicIds,
) -> RangePlan:
    """Find the offset ranges between two offsets as far as the log still holds them.

    A partition that the start does not name begins at its log start offset. What an end names
    past the log end is read only of a topic that is known to be the same: of one made again
    `advance` will begin at its start, and rows must not be read twice.
    """
    plan = RangePlan()
    gone = set()
    for topic_partition in sorted(end):
        end_offset = end[topic_partition]
        if topic_partition in start and start[topic_partition] >= end_offset:
            continue
        view = views.get(topic_partition)
        if view is None:
            gone.add(topic_partition)
            continue
        if topic_partition in start:
            start_offset = start[topic_partition]
        else:
            start_offset = _begin_added(plan, topic_partition, view)
        known = _is_same_topic(topic_partition, view, seen_topic_ids)
        offset_range = _clip(
            plan, OffsetRange(topic_partition, start_offset, end_offset), view, known
        )
        if offset_range.start_offset < offset_range.end_offset:
            plan.ranges.append(offset_range)
    _lose_deleted(plan, gone)
    return plan


def _clip(
    plan: RangePlan, wanted: OffsetRange, view: PartitionView, is_same: bool | None
) -> OffsetRange:
    topic_partition, start, end = wanted.topic_partition, wanted.start_offset, wanted.end_offset
    if is_same is False or (end > view.log_end_offset and not is_same):
        plan.lose(PARTITION_OFFSET_CHANGED, _changed(topic_partition, end, view.log_end_offset))
        plan.restarted.add(topic_partition)
        return OffsetRange(topic_partition, end, end)
    if start < view.log_start_offset:
        lost_end = min(end, view.log_start_offset)
        plan.lose(COULD_NOT_READ_OFFSET_RANGE, _aged_out(topic_partition, start, lost_end))
        start = lost_end
    if end > view.log_end_offset:
        plan.lose(PARTITION_OFFSET_CHANGED, _changed(topic_partition, end, view.log_end_offset))
        end = view.log_end_offset
    return OffsetRange(topic_partition, start, end)


def _is_same_topic(
    topic_partition: TopicPartition, view: PartitionView, seen_topic_ids: TopicIds
) -> bool | None:
    """Compare topic ids; None where one of them is not known."""
    seen = seen_topic_ids.get(topic_partition)
    if seen is None or view.topic_id is None:
        return None
    return seen == view.topic_id


def _lose_deleted(plan: _Plan, gone: set[TopicPartition]) -> None:
    if gone:
        names = ", ".join(str(topic_partition) for topic_partition in sorted(gone))
        plan.lose(PARTITIONS_DELETED, f"Partitions {names} have been deleted.")


def _made_again(topic_partition: TopicPartition, offset: int, log_start_offset: int) -> str:
    return (
        f"Partition {topic_partition} offset was changed from {offset} to {log_start_offset}: the "
        "topic was deleted and made again, and what it held from there on is gone."
    )


def _changed(topic_partition: TopicPartition, offset: int, log_end_offset: int) -> str:
    return (
        f"Partition {topic_partition} offset was changed from {offset} to {log_end_offset}: the "
        "log ends there now. It was cut, or the topic was deleted and made again."
    )


def _aged_out(topic_partition: TopicPartition, start_offset: int, end_offset: int) -> str:
    return (
        f"Could not read records in offset [{start_offset}, {end_offset}) for topic partition "
        f"{topic_partition}: the log starts after them."
    )


# Tasks


def task_bytes(total_bytes: int) -> int:
    """Choose how much of a micro-batch one task reads, where the options leave that open.

    An empty task costs Spark about 30 ms, as much as some MiB do; so small partitions share a
    task, and what piles up is cut into tasks enough for several cores.
    """
    return min(max(total_bytes // TASKS_OF_A_BACKLOG, SMALL_TASK_BYTES), LARGE_TASK_BYTES)


# Kafka's JSON


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Make the object that Spark writes to its checkpoint; always in the same order."""
    by_topic: dict[str, dict[str, int]] = {}
    for topic_partition in sorted(offsets):
        partitions = by_topic.setdefault(topic_partition.topic, {})
        partitions[str(topic_partition.partition)] = offsets[topic_partition]
    return by_topic


def from_json(by_topic: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read an object of `to_json`, or one of the Kafka source."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in by_topic.items()
        for partition, offset in partitions.items()
    }
