"""Compaction: of each key only the latest record stays, with its offset.

What is clean already is not put into the map of latest offsets again, but is cleaned by it. A map
that is full ends the pass early; the next pass goes on after it.

Neighbouring segments become one, as long as their sizes together allow it. A group is swapped in by
the steps of `swap`, each of which a broker's start, or ours, can end or undo; groups go in
the order of the log, so that a tombstone never goes before what it deletes. Producer snapshots of
segments that are no more go with them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import CLEANER_OFFSET_CHECKPOINT
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep.cleaner import GroupCleaner, build_offset_map
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig, TopicCompaction
from spark_segmentlog.log.upkeep.kept_records import CleaningCounts, CleaningRules, KeptRecords
from spark_segmentlog.log.upkeep.kept_transactions import TransactionTracker
from spark_segmentlog.log.upkeep.log_to_clean import LogToClean, read_cleaner_offsets
from spark_segmentlog.log.upkeep.partitions import (
    OwnedPartition,
    finish_earlier_pass,
    list_partitions,
    locked_partitions,
    raise_commit_counter,
    wait_and_sweep,
    write_offset,
)
from spark_segmentlog.log.upkeep.retention import delete_below_log_start
from spark_segmentlog.log.upkeep.segment_groups import group_segments
from spark_segmentlog.log.upkeep.swap import (
    SegmentFile,
    Sweep,
    list_segment_files,
    replace_segments,
    sweep_deleted,
)
from spark_segmentlog.record.compact.offset_map import SLOT_BYTES, OffsetMap

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCompaction:
    """What a call did to one partition.

    Attributes
    ----------
    config : CompactionConfig
        The settings that it went by.
    first_dirty_offset : int
        From where on the log had not been cleaned before.
    cleaned_up_to : int
        The log is clean below it (exclusive).
    passes : int
        How often the segments were rewritten; more than one where the map was too small.
    segments_before, segments_after : int
        The last, open one included.
    records_without_key : int
        Those that went because compaction has no use for them.
    removed_files, waiting_files : int
        ``.deleted`` files that were unlinked, and that are still too young.
    """

    topic_partition: TopicPartition
    directory: str
    config: CompactionConfig
    first_dirty_offset: int
    cleaned_up_to: int
    passes: int
    segments_before: int
    segments_after: int
    records_read: int
    records_kept: int
    records_without_key: int
    bytes_before: int
    bytes_after: int
    removed_files: int
    waiting_files: int


def compact(
    log_directories: Sequence[str],
    topics: Sequence[str] | None,
    config: CompactionConfig | TopicCompaction,
    now_ms: int,
) -> tuple[PartitionCompaction, ...]:
    """Compact topics by key, under the locks of the log directories.

    Parameters
    ----------
    log_directories : sequence of str
        They are one log, as a broker's ``log.dirs``.
    topics : sequence of str or None
        None for all but a broker's own.
    config : CompactionConfig or TopicCompaction
        The same for all topics, or as the cluster says of each.
    now_ms : int
        The time that horizons and lags are measured from.

    Raises
    ------
    OptionValueError
        Nothing says what compaction may take away from a topic.
    LogLockedError, UnsafeTargetError, UnknownTopicOrPartitionError
        As of `retention.apply_retention`; also for a topic that is not to be compacted.
    CorruptRecordError
        Bad bytes in a closed segment; its partition's records are as before.
    """
    with locked_partitions(log_directories, topics, config) as owned_partitions:
        return compact_partitions(owned_partitions, config, now_ms)


def plan_compaction(
    log_directories: Sequence[str],
    topics: Sequence[str] | None,
    config: CompactionConfig | TopicCompaction,
    now_ms: int,
) -> tuple[PartitionCompaction, ...]:
    """Tell what `compact` would do now; takes no lock and writes nothing.

    Parameters and errors are those of `compact`, but for locks. The map of latest offsets holds all
    keys here, so that one pass tells what several would leave. ``.deleted`` files are not looked
    at.
    """
    owned_partitions = list_partitions(log_directories, topics, config)
    planned = (
        _CompactionPlan(owned, settings, now_ms).run()
        for owned, settings in _settled(owned_partitions, config)
    )
    return tuple(planned)


def compact_partitions(
    owned_partitions: Sequence[OwnedPartition],
    config: CompactionConfig | TopicCompaction,
    now_ms: int,
) -> tuple[PartitionCompaction, ...]:
    """Compact partitions whose directories' locks are held."""
    settled = _settled(owned_partitions, config)
    done = tuple(_PartitionCompactor(owned, settings, now_ms).run() for owned, settings in settled)
    wait_and_sweep([owned for owned, _ in settled], config)
    return done


def _settled(
    owned_partitions: Sequence[OwnedPartition], config: CompactionConfig | TopicCompaction
) -> list[tuple[OwnedPartition, CompactionConfig]]:
    settled = ((owned, config.settle(owned)) for owned in owned_partitions)
    return [(owned, settings) for owned, settings in settled if settings is not None]


class _PartitionCompactor:
    """Compacts one partition; the lock of its directory is held."""

    def __init__(self, owned: OwnedPartition, config: CompactionConfig, now_ms: int) -> None:
        self._owned = owned
        self._config = config
        self._now_ms = now_ms
        self._counts = CleaningCounts()
        self._passes = 0

    def run(self) -> PartitionCompaction:
        self._begin()
        self._state = LogDirectoryState.read(self._owned.log_directory)
        before = self._segments()
        first_dirty = cleaned_up_to = before[0].base_offset if before else 0
        log = LogToClean(self._owned, self._state, before, self._config, self._now_ms)
        if len(before) > 1 and log.may_be_dirty_enough():
            first_dirty = log.first_dirty_offset()
            cleaned_up_to = self._clean(log, first_dirty)
        segments_after, bytes_after = self._sizes_after(before)
        sweep = self._sweep()
        return PartitionCompaction(
            topic_partition=self._owned.topic_partition,
            directory=self._owned.directory,
            config=self._config,
            first_dirty_offset=first_dirty,
            cleaned_up_to=cleaned_up_to,
            passes=self._passes,
            segments_before=len(before),
            segments_after=segments_after,
            records_read=self._counts.records_read,
            records_kept=self._counts.records_kept,
            records_without_key=self._counts.records_without_key,
            bytes_before=sum(segment.size_bytes for segment in before),
            bytes_after=bytes_after,
            removed_files=sweep.removed,
            waiting_files=sweep.waiting,
        )

    # What a plan does otherwise.

    def _begin(self) -> None:
        finish_earlier_pass(self._owned)
        delete_below_log_start(self._owned, self._now_ms)

    def _segments(self) -> list[SegmentFile]:
        return list_segment_files(self._owned.directory)

    def _sizes_after(self, before: Sequence[SegmentFile]) -> tuple[int, int]:
        after = self._segments()
        return len(after), sum(segment.size_bytes for segment in after)

    def _sweep(self) -> Sweep:
        return sweep_deleted(
            self._owned.directory,
            now_ms=self._now_ms,
            delay_ms=self._config.file_delete_delay_ms,
        )

    def _dedupe_buffer_bytes(self, dirty_records: int) -> int:
        return self._config.dedupe_buffer_bytes

    def _note_reached(self, offset: int) -> None:
        offsets = read_cleaner_offsets(self._owned.log_directory)
        write_offset(self._owned, CLEANER_OFFSET_CHECKPOINT, offset, offsets)
        _log.info("%s: compacted up to offset %d", self._owned.directory, offset)

    # What both do.

    def _clean(self, log: LogToClean, first_dirty: int) -> int:
        """Clean pass by pass; gives the offset below which the log is clean."""
        end_offset = log.first_uncleanable_offset(first_dirty)
        dirty = first_dirty
        if dirty >= end_offset:
            if log.has_horizon_over(end_offset):
                self._clean_pass(log, dirty, end_offset)
            return dirty
        if not log.is_dirty_enough(dirty, end_offset):
            return dirty
        while dirty < end_offset:
            dirty = self._clean_pass(log, dirty, end_offset)
        return dirty

    def _clean_pass(self, log: LogToClean, first_dirty: int, end_offset: int) -> int:
        """Rewrite the segments below the end once; gives the offset that the map has reached."""
        self._passes += 1
        found = [segment for segment in self._segments() if segment.base_offset < end_offset]
        offset_map = self._offset_map(log, found, first_dirty, end_offset)
        reached = offset_map.latest_offset + 1
        kept = KeptRecords(
            offset_map,
            TransactionTracker(log.survey.aborted),
            self._rules(log, found, first_dirty, end_offset),
            self._counts,
        )
        cleaner = GroupCleaner(kept)
        groups = group_segments(
            [segment for segment in found if segment.base_offset < reached],
            end_offset=end_offset,
            config=self._config.segment,
        )
        described = {
            segment.base_offset: segment
            for segment in self._owned.segments(self._state, found, end_offset)
        }
        for group in groups:
            self._clean_group(cleaner, group, [described[segment.base_offset] for segment in group])
        self._note_reached(reached)
        return reached

    def _offset_map(
        self, log: LogToClean, found: Sequence[SegmentFile], first_dirty: int, end_offset: int
    ) -> OffsetMap:
        dirty = [
            segment
            for segment in self._owned.segments(self._state, found, end_offset)
            if segment.end_offset_bound is None or segment.end_offset_bound > first_dirty
        ]
        dirty_records = log.count_dirty_records(first_dirty)
        offset_map = OffsetMap(
            self._dedupe_buffer_bytes(dirty_records), expected_records=dirty_records
        )
        build_offset_map(
            offset_map,
            dirty,
            TransactionTracker(log.survey.aborted),
            start_offset=first_dirty,
            end_offset=end_offset,
            max_decompressed_bytes=self._config.max_decompressed_bytes,
        )
        return offset_map

    def _rules(
        self, log: LogToClean, found: Sequence[SegmentFile], first_dirty: int, end_offset: int
    ) -> CleaningRules:
        clean = [segment for segment in found if segment.base_offset < first_dirty]
        legacy_horizon_ms = 0
        if clean:
            modified_ms = clean[-1].modified_ns // 1_000_000
            legacy_horizon_ms = modified_ms - self._config.delete_retention_ms
        return CleaningRules(
            now_ms=self._now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
            legacy_horizon_ms=legacy_horizon_ms,
            end_offset=end_offset,
            last_batches=log.survey.producers.last_batches(
                now_ms=self._now_ms, expiration_ms=self._config.producer_id_expiration_ms
            ),
            index_interval_bytes=self._config.segment.index_interval_bytes,
            max_decompressed_bytes=self._config.max_decompressed_bytes,
        )

    def _clean_group(
        self,
        cleaner: GroupCleaner,
        group: Sequence[SegmentFile],
        described: Sequence[Segment],
    ) -> None:
        cleaned = cleaner.clean(described, [segment.modified_ns for segment in group])
        if len(group) == 1 and not cleaned.has_changed and len(cleaned.base_offsets) == 1:
            cleaned.discard()
            return
        raise_commit_counter(self._owned.log_directory)
        replace_segments(
            self._owned.directory,
            new_base_offsets=cleaned.base_offsets,
            old_base_offsets=[segment.base_offset for segment in group],
        )
        raise_commit_counter(self._owned.log_directory)


class _CompactionPlan(_PartitionCompactor):
    """Tells what compaction of a partition would do; writes nothing."""

    def __init__(self, owned: OwnedPartition, config: CompactionConfig, now_ms: int) -> None:
        super().__init__(owned, config, now_ms)
        # Segments, and their bytes, that would go and that would stand there for them.
        self._replaced = self._replaced_bytes = 0

    def _begin(self) -> None:
        """Leave everything as it is."""

    def _segments(self) -> list[SegmentFile]:
        """List the segments that the deletion below the log start would leave."""
        segments = list_segment_files(self._owned.directory)
        start = self._owned.log_start_offset(self._state, segments)
        ends = [*(segment.base_offset for segment in segments[1:]), MAX_OFFSET]
        return [segment for segment, end in zip(segments, ends, strict=True) if end > start]

    def _sizes_after(self, before: Sequence[SegmentFile]) -> tuple[int, int]:
        size_bytes = sum(segment.size_bytes for segment in before)
        return len(before) - self._replaced, size_bytes - self._replaced_bytes

    def _sweep(self) -> Sweep:
        return Sweep(removed=0, waiting=0)

    def _dedupe_buffer_bytes(self, dirty_records: int) -> int:
        return max(self._config.dedupe_buffer_bytes, 4 * SLOT_BYTES * dirty_records)

    def _note_reached(self, offset: int) -> None:
        """Write nothing."""

    def _clean_group(
        self,
        cleaner: GroupCleaner,
        group: Sequence[SegmentFile],
        described: Sequence[Segment],
    ) -> None:
        measured = cleaner.measure(described, [segment.modified_ns for segment in group])
        if len(group) > 1 or measured.has_changed or len(measured.base_offsets) > 1:
            self._replaced += len(group) - len(measured.base_offsets)
            self._replaced_bytes += (
                sum(segment.size_bytes for segment in group) - measured.size_bytes
            )
