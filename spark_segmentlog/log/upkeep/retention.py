"""Retention: whole segments at the front of a log go, by age, by size, or by log start offset.

As a broker does it (UnifiedLog.deleteOldSegments): segments are looked at from the oldest on, up to
the first one that stays. One goes

- when the next one starts at or below the log start offset, whatever the cleanup policy;
- when the log without it still has `retention.bytes`;
- when its largest timestamp is more than `retention.ms` old; the largest one of all its records,
  from the time index where that can be trusted, else from the batch headers. Where no record has a
  timestamp, the file's own time of change stands in.

The last segment goes too, if it holds anything: an empty one is made after it first. Offsets never
restart. In order, each step lasting before the next one is taken: the new empty segment, with the
producers' state as its snapshot; ``log-start-offset-checkpoint`` with the raised start; the renames
to ``.deleted``. A crash between them leaves a log with the rows of before or of after, and the next
pass takes the rest of the steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TopicPartition,
)
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.transactions.producer_survey import survey_producers
from spark_segmentlog.log.upkeep.partitions import (
    CleanupPolicy,
    OwnedPartition,
    finish_earlier_pass,
    list_partitions,
    locked_partitions,
    raise_log_start_offset,
    wait_and_sweep,
)
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig, TopicRetention
from spark_segmentlog.log.upkeep.swap import (
    SegmentFile,
    Sweep,
    list_segment_files,
    mark_segment_deleted,
    mark_snapshots_deleted,
    segment_path,
    sweep_deleted,
    write_snapshot,
)
from spark_segmentlog.record.read.record_filter import RecordFilter

_log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Why a segment went."""

    LOG_START_OFFSET = "log start offset"
    SIZE = "retention.bytes"
    AGE = "retention.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedSegment:
    """A segment that went."""

    base_offset: int
    size_bytes: int
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRetention:
    """What a pass did to one partition; `waiting_files` are ``.deleted`` and still too young.

    `config` are the settings that it went by. `deleted_records` is told by a plan alone.
    """

    topic_partition: TopicPartition
    directory: str
    config: RetentionConfig
    log_start_offset_before: int
    log_start_offset: int
    deleted_segments: tuple[DeletedSegment, ...]
    removed_files: int
    waiting_files: int
    deleted_records: int | None = None

    @property
    def deleted_bytes(self) -> int:
        """Bytes of the logs that went."""
        return sum(segment.size_bytes for segment in self.deleted_segments)


def apply_retention(
    log_directories: Sequence[str],
    topics: Sequence[str] | None,
    config: RetentionConfig | TopicRetention,
    now_ms: int,
) -> tuple[PartitionRetention, ...]:
    """Delete what is too old or too much, under the locks of the log directories.

    Parameters
    ----------
    log_directories : sequence of str
        They are one log, as a broker's ``log.dirs``.
    topics : sequence of str or None
        None for all but a broker's own.
    config : RetentionConfig or TopicRetention
        The same for all topics, or as the cluster says of each.
    now_ms : int
        The time that ages are measured from.

    Raises
    ------
    OptionValueError
        Nothing says how long a topic keeps its records.
    LogLockedError
        A broker, or another writer, has one of the directories.
    UnsafeTargetError
        A topic that a broker keeps for itself, or that has several replicas.
    UnknownTopicOrPartitionError
        A topic that is not there.
    """
    with locked_partitions(log_directories, topics, config) as owned_partitions:
        return apply_retention_to(owned_partitions, config, now_ms)


def delete_below_log_start(owned: OwnedPartition, now_ms: int) -> None:
    """Delete the segments that lie whole below the log start, as a broker does to every log."""
    rules = RetentionConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    _delete(_choose(owned, rules, now_ms))


def plan_retention(
    log_directories: Sequence[str],
    topics: Sequence[str] | None,
    config: RetentionConfig | TopicRetention,
    now_ms: int,
) -> tuple[PartitionRetention, ...]:
    """Tell which segments `apply_retention` would delete now; takes no lock and writes nothing.

    Parameters and errors are those of `apply_retention`, but for locks. ``.deleted`` files are not
    looked at; the records that would go are counted.
    """
    owned_partitions = list_partitions(log_directories, topics, config)
    settled = [(owned, config.settle(owned)) for owned in owned_partitions]
    return tuple(_plan_partition(owned, settings, now_ms) for owned, settings in settled)


def apply_retention_to(
    owned_partitions: Sequence[OwnedPartition],
    config: RetentionConfig | TopicRetention,
    now_ms: int,
) -> tuple[PartitionRetention, ...]:
    """Apply retention to partitions whose directories' locks are held."""
    settled = [(owned, config.settle(owned)) for owned in owned_partitions]
    done = tuple(_retain_partition(owned, settings, now_ms) for owned, settings in settled)
    wait_and_sweep(owned_partitions, config)
    return done


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The segments of a partition, ascending, and those at the front that go."""

    owned: OwnedPartition
    config: RetentionConfig
    state: LogDirectoryState
    segments: Sequence[SegmentFile]
    log_start_offset: int
    doomed: Sequence[DeletedSegment]

    def described(self) -> list[Segment]:
        return self.owned.segments(self.state, self.segments)

    def new_start(self, end_offset: Callable[[], int]) -> int:
        """Tell where the log starts without them; at its end where none is left."""
        if not self.doomed:
            return self.log_start_offset
        kept = self.segments[len(self.doomed) :]
        return max(self.log_start_offset, kept[0].base_offset if kept else end_offset())

    def report(self, new_start: int, sweep: Sweep) -> PartitionRetention:
        return PartitionRetention(
            topic_partition=self.owned.topic_partition,
            directory=self.owned.directory,
            config=self.config,
            log_start_offset_before=self.log_start_offset,
            log_start_offset=new_start,
            deleted_segments=tuple(self.doomed),
            removed_files=sweep.removed,
            waiting_files=sweep.waiting,
        )


def _retain_partition(
    owned: OwnedPartition, config: RetentionConfig, now_ms: int
) -> PartitionRetention:
    finish_earlier_pass(owned)
    choice = _choose(owned, config, now_ms)
    new_start = _delete(choice)
    sweep = sweep_deleted(owned.directory, now_ms=now_ms, delay_ms=config.file_delete_delay_ms)
    return choice.report(new_start, sweep)


def _plan_partition(
    owned: OwnedPartition, config: RetentionConfig, now_ms: int
) -> PartitionRetention:
    choice = _choose(owned, config, now_ms)
    new_start = choice.new_start(lambda: choice.described()[-1].next_offset())
    report = choice.report(new_start, Sweep(removed=0, waiting=0))
    return replace(report, deleted_records=_count_records(choice, new_start))


def _count_records(choice: _Choice, end_offset: int) -> int:
    """Count the records that a reader still sees of the segments that go."""
    wanted = RecordFilter(start_offset=choice.log_start_offset, end_offset=end_offset)
    options = ScanOptions(columns=(), record_filter=wanted, skip_corrupt=True)
    doomed = choice.described()[: len(choice.doomed)]
    return sum(batch.num_rows for batch in scan_segments(doomed, options))


def _choose(owned: OwnedPartition, config: RetentionConfig, now_ms: int) -> _Choice:
    segments = list_segment_files(owned.directory)
    state = LogDirectoryState.read(owned.log_directory)
    start = owned.log_start_offset(state, segments)
    return _Choice(
        owned=owned,
        config=config,
        state=state,
        segments=segments,
        log_start_offset=start,
        doomed=_Selection(owned, state, segments, start, config, now_ms).run(),
    )


class _Selection:
    """Which segments at the front of a log go, by the three rules in a broker's order."""

    def __init__(
        self,
        owned: OwnedPartition,
        state: LogDirectoryState,
        segments: Sequence[SegmentFile],
        log_start_offset: int,
        config: RetentionConfig,
        now_ms: int,
    ) -> None:
        self._owned = owned
        self._state = state
        self._left = list(segments)
        self._log_start_offset = log_start_offset
        self._config = config
        self._now_ms = now_ms
        self._limit = owned.high_watermark
        self._doomed: list[DeletedSegment] = []
        self._buffer = ReadBuffer()

    def run(self) -> list[DeletedSegment]:
        """Give the segments that go, ascending."""
        self._take_below_start()
        if CleanupPolicy.DELETE in self._config.cleanup_policy:
            self._take_by_size()
            self._take_by_age()
        return self._doomed

    def _take_below_start(self) -> None:
        while len(self._left) > 1 and self._left[1].base_offset <= self._log_start_offset:
            self._doom(Reason.LOG_START_OFFSET)

    def _take_by_size(self) -> None:
        if self._config.retention_bytes < 0:
            return
        excess = sum(segment.size_bytes for segment in self._left) - self._config.retention_bytes
        while self._may_take_first() and excess - self._left[0].size_bytes >= 0:
            excess -= self._left[0].size_bytes
            self._doom(Reason.SIZE)

    def _take_by_age(self) -> None:
        if self._config.retention_ms < 0:
            return
        if self._may_take_first() and self._age_of_first_ms() < 0:
            _log.warning(
                "%s: segment %d has a record of the future: retention.ms deletes neither it "
                "nor a later one",
                self._owned.directory,
                self._left[0].base_offset,
            )
        while self._may_take_first() and self._age_of_first_ms() > self._config.retention_ms:
            self._doom(Reason.AGE)

    def _may_take_first(self) -> bool:
        """Tell whether the oldest may go: not an empty last one, none above the watermark."""
        if not self._left:
            return False
        if len(self._left) == 1 and self._end_of_first() == self._left[0].base_offset:
            return False
        return self._limit is None or self._end_of_first() <= self._limit

    def _end_of_first(self) -> int:
        if len(self._left) > 1:
            return self._left[1].base_offset
        return self._segment(self._left[0]).next_offset(buffer=self._buffer)

    def _doom(self, reason: Reason) -> None:
        segment = self._left.pop(0)
        self._doomed.append(
            DeletedSegment(
                base_offset=segment.base_offset, size_bytes=segment.size_bytes, reason=reason
            )
        )

    def _age_of_first_ms(self) -> int:
        first = self._left[0]
        largest = largest_timestamp(self._segment(first), self._buffer)
        if largest < 0:
            largest = first.modified_ns // 1_000_000
        return self._now_ms - largest

    def _segment(self, segment: SegmentFile) -> Segment:
        following = [
            left.base_offset for left in self._left if left.base_offset > segment.base_offset
        ]
        return self._owned.segment(self._state, segment.base_offset, min(following, default=None))


def largest_timestamp(segment: Segment, buffer: ReadBuffer) -> int:
    """Find the largest timestamp of a segment's records, in ms; -1 where none has one.

    After the last entry of the time index the batch headers are walked: a crash can leave an index
    that ends before the log does, or none.
    """
    largest, position = _last_time_entry(segment)
    for table in segment.headers(position, buffer=buffer):
        largest = max(largest, int(table.max_timestamp.max()))
    return largest


def _last_time_entry(segment: Segment) -> tuple[int, int]:
    """Read (largest timestamp so far, position that it reaches to) from the time index."""
    entry = segment.last_time_entry()
    return (-1, 0) if entry is None else (entry.timestamp, segment.position_for(entry.offset))


def _delete(choice: _Choice) -> int:
    """Take the steps; gives the log start offset after them."""
    owned = choice.owned
    new_start = choice.new_start(lambda: _roll_empty_segment(choice))
    if choice.doomed:
        raise_log_start_offset(owned, new_start)
        for segment in choice.doomed:
            mark_segment_deleted(owned.directory, segment.base_offset)
        mark_snapshots_deleted(owned.directory, [gone.base_offset for gone in choice.doomed])
        files.fsync_directory(owned.directory)
    return new_start


def _roll_empty_segment(choice: _Choice) -> int:
    """Make an empty segment at the log's end, with the producers' state there as its snapshot."""
    directory = choice.owned.directory
    survey = survey_producers(choice.described())
    end_offset = max(survey.next_offset, choice.segments[-1].base_offset)
    write_snapshot(directory, end_offset, survey.producers.states)
    # The log comes last: a segment without its indexes would be taken for a damaged one.
    for kind in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
        files.cut(segment_path(directory, end_offset, kind), 0, create=True)
    files.fsync_directory(directory)
    return end_offset
