"""Where the options end a stream, partition by partition; a timestamp may have no record yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_watch import WatchedPartitionLog
from spark_segmentlog.query.offsets import (
    EARLIEST,
    LATEST,
    GlobalTimestamp,
    LatestOffsets,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
)


@dataclass(slots=True)
class _Ending:
    """What is known of a partition's ending offset; a timestamp may have none yet."""

    offset: int | None = None
    searched_offset: int = 0


class StreamEndings:
    """Where the options end the partitions of a stream; what was found once stays."""

    def __init__(self, limit: OffsetLimit) -> None:
        self._limit = limit
        self._endings: dict[TopicPartition, _Ending] = {}

    def keep(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Forget what was found for any other partitions."""
        self.forget(self._endings.keys() - set(topic_partitions))

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Forget what was found for some partitions: they are gone, or were made again."""
        for topic_partition in topic_partitions:
            self._endings.pop(topic_partition, None)

    def find(self, topic_partition: TopicPartition, log: WatchedPartitionLog) -> int | None:
        """Find where the options end a partition; None where they do not, or not yet."""
        if isinstance(self._limit, LatestOffsets):
            return None
        ending = self._endings.setdefault(topic_partition, _Ending())
        if ending.offset is None:
            ending.offset = self._search(topic_partition, log, ending)
            ending.searched_offset = log.log_end_offset
        return ending.offset

    def _search(
        self, topic_partition: TopicPartition, log: WatchedPartitionLog, ending: _Ending
    ) -> int | None:
        match self._limit:
            case SpecificOffsets(by_partition) | SpecificTimestamps(by_partition):
                number = by_partition.get(topic_partition, EARLIEST)
            case GlobalTimestamp(timestamp_ms):
                number = timestamp_ms
            case _:
                number = EARLIEST
        if number == LATEST:
            return None
        if number == EARLIEST:
            return log.log_start_offset
        if isinstance(self._limit, SpecificOffsets):
            return number
        return log.first_offset_at(number, ending.searched_offset)
