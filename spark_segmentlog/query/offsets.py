"""Kafka's JSON of offsets, and where a read starts and ends in each topic partition.

``{"topic":{"0":23,"1":-2}}`` is an offset (or a timestamp in ms) by topic and partition: -2 is the
earliest offset, -1 the latest, in both, as in the broker's protocol. Topics are written in order of
their names, partitions in order of their numbers, since Spark compares offsets of a stream as text.
An end is exclusive.

Rules and error conditions are those of Spark's Kafka source (KafkaSourceProvider,
KafkaOffsetReaderAdmin): partitions named by an option must be exactly the chosen ones, a start lies
at or below its end, and the first record at or after a timestamp gives the offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from spark_segmentlog.errors import DataLossError, OptionValueError
from spark_segmentlog.log.names import MAX_OFFSET, OffsetRange, TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
LEGAL_TIMESTAMPS: Final = "-2 (earliest), -1 (latest) and ms since the epoch from 0 on"

_DATA_LOSS_ADVICE: Final = (
    "Some data may have been lost because they are not available any more; either the data was "
    "aged out or the topic may have been deleted before all the data in the topic was processed. "
    "If you don't want your {} to fail on such cases, set the source option failOnDataLoss to "
    "false. Reason: {}"
)


class MissingTimestampStrategy(StrEnum):
    """What to do when no record is at or after a starting timestamp."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class EarliestOffsets:
    """Every partition at its log start offset."""


@dataclass(frozen=True, slots=True)
class LatestOffsets:
    """Every partition at its end, as the isolation level and the high watermark bound it."""


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset, EARLIEST or LATEST for each of the chosen partitions."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """The first record at or after one timestamp in ms, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """The first record at or after a timestamp in ms for each of the chosen partitions."""

    timestamps_ms: Mapping[TopicPartition, int]


OffsetLimit = (
    EarliestOffsets | LatestOffsets | SpecificOffsets | GlobalTimestamp | SpecificTimestamps
)


class PartitionBounds(Protocol):
    """What a partition tells of its offsets; each may be asked late, since most cost a read."""

    @property
    def log_start_offset(self) -> int:
        """First offset that is there."""

    @property
    def last_base_offset(self) -> int:
        """An offset at or below `latest_offset` that is known without opening a file."""

    @property
    def remote_start_offset(self) -> int | None:
        """Where the log starts in remote storage, below all that is there; None otherwise."""

    def latest_offset(self) -> int:
        """End of what may be read (exclusive): log end, last stable offset or high watermark."""

    def log_end_offset(self) -> int:
        """Offset after the last record (exclusive)."""

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """Offset of the first record at or after a timestamp; None where there is none."""


# JSON


def parse_offsets_json(text: str) -> dict[TopicPartition, int]:
    """Parse ``{"topic":{"0":23,"1":-1}}``; offsets from -2 on.

    Raises
    ------
    ValueError
        With an example of what is legal as its text.
    """
    expected = 'expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    offsets = _parse_numbers_json(text, expected)
    for topic_partition, offset in offsets.items():
        if offset < EARLIEST or offset > MAX_OFFSET:
            raise ValueError(
                f"{expected}; the offset of {topic_partition} is {offset}, legal are -2 "
                f"(earliest), -1 (latest) and 0 to {MAX_OFFSET}"
            )
    return offsets


def parse_timestamps_json(text: str) -> dict[TopicPartition, int]:
    """Parse ``{"topic":{"0":1700000000000}}``, ms since the epoch; -2 and -1 as in offsets.

    Raises
    ------
    ValueError
        With an example of what is legal as its text.
    """
    expected = 'expected e.g. {"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}'
    timestamps_ms = _parse_numbers_json(text, expected)
    for topic_partition, timestamp_ms in timestamps_ms.items():
        if timestamp_ms < EARLIEST:
            raise ValueError(
                f"{expected}; the timestamp of {topic_partition} is {timestamp_ms}, legal are "
                f"{LEGAL_TIMESTAMPS}"
            )
    return timestamps_ms


def parse_assign_json(text: str) -> tuple[TopicPartition, ...]:
    """Parse ``{"topicA":[0,1]}``.

    Raises
    ------
    ValueError
        With an example of what is legal as its text.
    """
    expected = 'expected e.g. {"topicA":[0,1],"topicB":[0,1]}'
    chosen = {
        TopicPartition(topic, _number(partition, expected))
        for topic, partitions in parse_json(text, dict, expected).items()
        for partition in _checked(partitions, list, expected)
    }
    if not chosen:
        raise ValueError(expected)
    return tuple(sorted(chosen))


def _parse_numbers_json(text: str, expected: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, _partition_key(key, expected)): _number(number, expected)
        for topic, by_partition in parse_json(text, dict, expected).items()
        for key, number in _checked(by_partition, dict, expected).items()
    }


def parse_json(text: str, kind: type, expected: str) -> Any:
    """Parse JSON of one kind.

    Raises
    ------
    ValueError
        With what is expected as its text.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{expected} ({error})") from error
    return _checked(value, kind, expected)


def _checked(value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(expected)
    return value


def _number(value: Any, expected: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_OFFSET:
        raise ValueError(expected)
    return value


def _partition_key(key: str, expected: str) -> int:
    if not (key.isascii() and key.isdigit()):
        raise ValueError(expected)
    return int(key)


# From options to offset ranges


def check_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Compare start and end as far as the options alone tell them.

    Raises
    ------
    OptionValueError
        Start and end name different partitions, or a start above its end.
    """
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        _check_pairs("offset", starting.offsets, ending.offsets)
    if isinstance(starting, SpecificTimestamps) and isinstance(ending, SpecificTimestamps):
        _check_pairs("timestamp", starting.timestamps_ms, ending.timestamps_ms)


def _check_pairs(
    kind: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    if starts.keys() != ends.keys():
        raise OptionValueError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET] The specified start "
            "offset and end offset should have the same topic-partitions. Topic-partitions for "
            f"start offset: {_names(starts)}, topic-partitions for end offset: {_names(ends)}."
        )
    for topic_partition, start in starts.items():
        end = ends[topic_partition]
        if start > end and start >= 0 and end >= 0:
            raise OptionValueError(
                "[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start "
                f"{kind} {start} is greater than the end {kind} {end} for topic "
                f"{topic_partition.topic} partition {topic_partition.partition}."
            )


def check_assigned(
    limit: OffsetLimit, assigned: Iterable[TopicPartition], *, position: str
) -> None:
    """Compare the partitions that an option names with the chosen ones.

    Raises
    ------
    OptionValueError
        They are not exactly the same.
    """
    chosen = set(assigned)
    if isinstance(limit, SpecificOffsets) and limit.offsets.keys() != chosen:
        raise OptionValueError(
            f"[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for {position} "
            "offsets don't match what are assigned. Use -1 for latest, -2 for earliest. "
            f"Specified: {_names(limit.offsets)} Assigned: {_names(chosen)}"
        )
    if isinstance(limit, SpecificTimestamps) and limit.timestamps_ms.keys() != chosen:
        raise OptionValueError(
            "[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for timestamp "
            f"based {position} offsets don't match what are assigned; all the partitions must be "
            f"specified. Specified: {_names(limit.timestamps_ms)} Assigned: {_names(chosen)}"
        )


def resolve_start(
    limit: OffsetLimit,
    topic_partition: TopicPartition,
    bounds: PartitionBounds,
    missing_timestamp: MissingTimestampStrategy,
) -> int:
    """Find the offset where a read of one partition starts, as the options say it.

    An empty partition starts at its end: a timestamp has nothing to match there, and nothing to
    miss.

    Raises
    ------
    OptionValueError
        No record is at or after the starting timestamp, and the strategy is ``error``.
    """
    wanted = _wanted_offset(limit, topic_partition, bounds)
    # Remote storage holds a match before the first record that is there.
    is_timestamp = isinstance(limit, GlobalTimestamp | SpecificTimestamps)
    if wanted == EARLIEST or (is_timestamp and wanted == bounds.log_start_offset):
        remote = bounds.remote_start_offset
        return bounds.log_start_offset if remote is None else remote
    if wanted == LATEST:
        return bounds.latest_offset()
    if wanted is not None:
        return wanted
    if (
        missing_timestamp is MissingTimestampStrategy.ERROR
        and bounds.latest_offset() > bounds.log_start_offset
    ):
        raise OptionValueError(
            f"no offset matched from request of topic-partition {topic_partition} and timestamp "
            f"{_timestamp(limit, topic_partition)}: its latest offset is {bounds.latest_offset()}; "
            "set startingOffsetsByTimestampStrategy to latest to start there"
        )
    return bounds.latest_offset()


def resolve_end(
    limit: OffsetLimit, topic_partition: TopicPartition, bounds: PartitionBounds
) -> int | None:
    """Find the offset where a read of one partition ends; None for the latest one."""
    wanted = _wanted_offset(limit, topic_partition, bounds)
    if wanted == EARLIEST:
        return bounds.log_start_offset
    return None if wanted == LATEST else wanted


def check_resolved(topic_partition: TopicPartition, start: int, end: int) -> None:
    """Refuse a start above its end.

    Raises
    ------
    OptionValueError
        It is.
    """
    if start > end:
        raise OptionValueError(
            f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The resolved start offset {start} is "
            f"greater than the resolved end offset {end} for topic {topic_partition.topic} "
            f"partition {topic_partition.partition}. Check whether the start offset is set beyond "
            "the end offset, and whether the topic-partition is deleted and re-created."
        )


def check_available(
    wanted: OffsetRange,
    bounds: PartitionBounds,
    *,
    fail_on_data_loss: bool,
    warn: Callable[[str], None],
) -> OffsetRange:
    """Cut a range to what the partition holds.

    Raises
    ------
    DataLossError
        Part of it is gone, or beyond the end, and `fail_on_data_loss` is true.
    """
    first = bounds.log_start_offset
    start, end = max(wanted.start_offset, first), max(wanted.end_offset, first)
    if max(start, end) > bounds.last_base_offset:
        last = bounds.log_end_offset()
        start, end = min(start, last), min(end, last)
    available = OffsetRange(wanted.topic_partition, start, end)
    if available != wanted:
        available_text = f"available is [{first}, {bounds.log_end_offset()})"
        error = could_not_read(wanted, available_text + remote_text(bounds))
        if fail_on_data_loss:
            raise error
        warn(str(error))
    return available


def remote_text(bounds: PartitionBounds) -> str:
    """Say which offsets lie in remote storage; nothing where none do."""
    remote = bounds.remote_start_offset
    if remote is None:
        return ""
    return (
        f"; [{remote}, {bounds.log_start_offset}) lie in remote storage, which is not read: option "
        "remoteStorage says where it is"
    )


def data_loss(condition: str, reason: str, *, query: str = "query") -> DataLossError:
    """Make the error for rows that are gone, with what can be done about it."""
    return DataLossError(condition, _DATA_LOSS_ADVICE.format(query, reason))


def could_not_read(wanted: OffsetRange, measured: str) -> DataLossError:
    """Make the error for a range whose records are not there."""
    return data_loss(
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        f"Could not read records in offset [{wanted.start_offset}, "
        f"{wanted.end_offset}) for topic partition {wanted.topic_partition}: {measured}",
    )


def _wanted_offset(
    limit: OffsetLimit, topic_partition: TopicPartition, bounds: PartitionBounds
) -> int | None:
    """Give an offset, EARLIEST or LATEST; None where no record is at or after a timestamp."""
    match limit:
        case EarliestOffsets():
            return EARLIEST
        case LatestOffsets():
            return LATEST
        case SpecificOffsets(offsets):
            return offsets[topic_partition]
        case _:
            timestamp_ms = _timestamp(limit, topic_partition)
            if timestamp_ms in (EARLIEST, LATEST):
                return timestamp_ms
            offset = bounds.offset_for_timestamp(timestamp_ms)
            return None if offset is None or offset >= bounds.latest_offset() else offset


def _timestamp(limit: OffsetLimit, topic_partition: TopicPartition) -> int:
    if isinstance(limit, SpecificTimestamps):
        return limit.timestamps_ms[topic_partition]
    assert isinstance(limit, GlobalTimestamp)
    return limit.timestamp_ms


def _names(topic_partitions: Iterable[TopicPartition]) -> str:
    return "[" + ", ".join(map(str, sorted(topic_partitions))) + "]"
