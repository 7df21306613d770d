"""Compaction: of each key only the latest record stays, with its offset.

Cleaned are the closed segments below the last stable offset (and, with several replicas, below the
high watermark), as long as none of them has a record younger than `min.compaction.lag.ms`. What
``cleaner-offset-checkpoint`` says to be clean already is not put into the map of latest offsets
again, but is cleaned by it. A map that is full ends the pass early; the next pass goes on after
it.

Neighbouring segments become one, as long as their sizes together allow it. A group is swapped in by
the steps of `segment_files`, each of which a broker's start, or ours, can end or undo; groups go in
the order of the log, so that a tombstone never goes before what it deletes. Producer snapshots of
segments that are no more go with them.

A log without anything new is cleaned again only where a delete horizon is over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_segmentlog.errors import OptionValueError, UnsafeTargetError
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats import offset_index, time_index
from spark_segmentlog.log.formats.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
)
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.segment.growth import MAX_RELATIVE_OFFSET, SegmentConfig
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.transactions.producer_survey import survey_producers
from spark_segmentlog.log.upkeep.cleaner import GroupCleaner, build_offset_map
from spark_segmentlog.log.upkeep.kept_records import CleaningCounts, CleaningRules
from spark_segmentlog.log.upkeep.kept_transactions import TransactionTracker
from spark_segmentlog.log.upkeep.partitions import (
    CleanupPolicy,
    MaintenanceConfig,
    OwnedPartition,
    announce_change,
    finish_earlier_pass,
    list_partitions,
    locked_partitions,
    wait_and_sweep,
    write_offset,
)
from spark_segmentlog.log.upkeep.retention import delete_below_log_start
from spark_segmentlog.log.upkeep.swap import (
    SegmentFile,
    Sweep,
    list_segment_files,
    replace_segments,
    sweep_deleted,
)
from spark_segmentlog.record.compact.batch_records import MAX_HELD_BYTES
from spark_segmentlog.record.compact.offset_map import SLOT_BYTES, OffsetMap

DAY_MS: Final = 24 * 60 * 60 * 1000
DEFAULT_DEDUPE_BUFFER_BYTES: Final = 128 * 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig(MaintenanceConfig):
    """Settings of compaction, by Kafka's names and defaults.

    Attributes
    ----------
    delete_retention_ms : int
        How long tombstones, and markers of transactions that are gone, stay after a pass kept them.
    min_compaction_lag_ms : int
        How old the youngest record of a segment must be.
    min_cleanable_ratio : float
        Part of the bytes that must be new; 0 cleans whatever there is.
    segment : SegmentConfig
        Up to which sizes segments are merged, and how far apart index entries are.
    dedupe_buffer_bytes : int
        Memory of the map of latest offsets, 24 bytes a slot; it need not hold all keys.
    producer_id_expiration_ms : int
        How long a producer's last batch is kept after its last write.
    max_decompressed_bytes : int
        Decompressed bytes that are held at most of one batch that loses records, or of one wrapper
        of formats 0 and 1; above it compaction fails, and leaves those segments as they are.
    """

    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    min_cleanable_ratio: float = 0.0
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    dedupe_buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES
    producer_id_expiration_ms: int = DAY_MS
    max_decompressed_bytes: int = MAX_HELD_BYTES

    def __post_init__(self) -> None:
        if self.dedupe_buffer_bytes < 2 * SLOT_BYTES:
            raise OptionValueError(
                f"dedupe buffer of {self.dedupe_buffer_bytes} bytes, at least {2 * SLOT_BYTES} are "
                "needed"
            )

    def settle(self, owned: OwnedPartition) -> CompactionConfig:
        """Give the settings for a partition: these."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCompaction(MaintenanceConfig):
    """Compaction as the cluster's metadata says of each topic, but for what is given.

    Attributes
    ----------
    delete_retention_ms, min_compaction_lag_ms : int or None
        None for what is set for the topic, or Kafka's default for one that the cluster knows.
    min_cleanable_ratio : float
    segment : SegmentConfig
    is_forced : bool
        Whether topics are compacted whose ``cleanup.policy`` is not to compact.
    leaves_out : bool
        Whether such topics are left out, rather than refused.
    """

    delete_retention_ms: int | None = None
    min_compaction_lag_ms: int | None = None
    min_cleanable_ratio: float = 0.0
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    is_forced: bool = False
    leaves_out: bool = False

    def settle(self, owned: OwnedPartition) -> CompactionConfig | None:
        """Give the settings for a partition; None where its topic is left out.

        Raises
        ------
        OptionValueError
            Nothing says what compaction may take away.
        UnsafeTargetError
            The topic is not to be compacted.
        """
        if owned.settings is None:
            self._check_given(owned)
        elif not self._may_compact(owned):
            return None
        return CompactionConfig(
            file_delete_delay_ms=self.file_delete_delay_ms,
            wait_for_deletion=self.wait_for_deletion,
            allow_replicated=self.allow_replicated,
            lock_timeout_ms=self.lock_timeout_ms,
            delete_retention_ms=_first(
                self.delete_retention_ms, owned.number("delete.retention.ms"), DAY_MS
            ),
            min_compaction_lag_ms=_first(
                self.min_compaction_lag_ms, owned.number("min.compaction.lag.ms"), 0
            ),
            min_cleanable_ratio=self.min_cleanable_ratio,
            segment=self.segment,
        )

    def _check_given(self, owned: OwnedPartition) -> None:
        given = {
            "delete.retention.ms": self.delete_retention_ms,
            "min.compaction.lag.ms": self.min_compaction_lag_ms,
        }
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise OptionValueError(
                f"what compaction may take away from topic {owned.topic_partition.topic} is not "
                f"known: no metadata of a cluster tells it; give {' and '.join(missing)}"
            )

    def _may_compact(self, owned: OwnedPartition) -> bool:
        policy = owned.cleanup_policy
        if self.is_forced or CleanupPolicy.COMPACT in (policy or ()):
            return True
        if self.leaves_out:
            return False
        said = "no cleanup.policy" if policy is None else f"cleanup.policy {','.join(policy)}"
        raise UnsafeTargetError(
            f"topic {owned.topic_partition.topic} has {said}: compaction takes away all records "
            "but the latest of each key, and those without a key; only where it is forced"
        )


def _first(*values: int | None) -> int:
    return next(it for it in values if it is not None)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What a call did, a row a partition."""

    partitions: tuple[PartitionCompaction, ...]


def compact(
    log_directories: Sequence[str],
    topics: Sequence[str] | None,
    config: CompactionConfig | TopicCompaction,
    now_ms: int,
) -> CompactionReport:
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
) -> CompactionReport:
    """Tell what `compact` would do now; takes no lock and writes nothing.

    Parameters and errors are those of `compact`, but for locks. The map of latest offsets holds all
    keys here, so that one pass tells what several would leave. ``.deleted`` files are not looked
    at.
    """
    owned_partitions = list_partitions(log_directories, topics, config)
    planned = (
        _CompactionPlan(owned, it, now_ms).run() for owned, it in _settled(owned_partitions, config)
    )
    return CompactionReport(partitions=tuple(planned))


def compact_partitions(
    owned_partitions: Sequence[OwnedPartition],
    config: CompactionConfig | TopicCompaction,
    now_ms: int,
) -> CompactionReport:
    """Compact partitions whose directories' locks are held."""
    settled = _settled(owned_partitions, config)
    done = tuple(_PartitionCompactor(owned, it, now_ms).run() for owned, it in settled)
    wait_and_sweep([owned for owned, _ in settled], config)
    return CompactionReport(partitions=done)


def _settled(
    owned_partitions: Sequence[OwnedPartition], config: CompactionConfig | TopicCompaction
) -> list[tuple[OwnedPartition, CompactionConfig]]:
    settled = ((owned, config.settle(owned)) for owned in owned_partitions)
    return [(owned, it) for owned, it in settled if it is not None]


def group_segments(
    segments: Sequence[SegmentFile], *, end_offset: int, config: SegmentConfig
) -> list[list[SegmentFile]]:
    """Group neighbouring segments that become one (Kafka's `groupSegmentsBySize`).

    Parameters
    ----------
    segments : sequence of SegmentFile
        Ascending.
    end_offset : int
        After the last one.
    config : SegmentConfig
        Sums of log and index sizes stay within it; the indexes are counted as large as they can
        get.
    """
    groups: list[list[SegmentFile]] = []
    size_bytes = entries = 0
    bounds = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, bound in zip(segments, bounds, strict=True):
        most_entries = segment.size_bytes // (config.index_interval_bytes + 1) + 1
        fits = (
            bool(groups)
            and size_bytes + segment.size_bytes <= config.segment_bytes
            and (entries + most_entries) * offset_index.ENTRY.itemsize <= config.segment_index_bytes
            and (entries + most_entries) * time_index.ENTRY.itemsize <= config.segment_index_bytes
            and (
                segment.size_bytes == 0
                or bound - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            )
        )
        if fits:
            groups[-1].append(segment)
            size_bytes += segment.size_bytes
            entries += most_entries
        else:
            groups.append([segment])
            size_bytes, entries = segment.size_bytes, most_entries
    return groups


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
        if len(before) > 1 and self._may_be_dirty_enough(before):
            self._survey = survey_producers(self._owned.segments(self._state, before))
            first_dirty = self._first_dirty_offset(before)
            cleaned_up_to = self._clean(before, first_dirty)
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
        write_offset(self._owned, CLEANER_OFFSET_CHECKPOINT, offset, self._cleaner_offsets())
        _log.info("%s: compacted up to offset %d", self._owned.directory, offset)

    # What both do.

    def _clean(self, segments: Sequence[SegmentFile], first_dirty: int) -> int:
        """Clean pass by pass; gives the offset below which the log is clean."""
        end_offset = self._first_uncleanable_offset(segments, first_dirty)
        dirty = first_dirty
        if dirty >= end_offset:
            if self._has_horizon_over(end_offset):
                self._clean_pass(dirty, end_offset)
            return dirty
        if not self._is_dirty_enough(segments, dirty, end_offset):
            return dirty
        while dirty < end_offset:
            dirty = self._clean_pass(dirty, end_offset)
        return dirty

    def _may_be_dirty_enough(self, segments: Sequence[SegmentFile]) -> bool:
        """Tell by the sizes of files whether a ratio can be reached, before a byte is read.

        Without a ratio all is looked at, since a delete horizon may be over.
        """
        end_offset = segments[-1].base_offset
        first_dirty = self._checkpointed_offset(segments)
        if self._config.min_cleanable_ratio <= 0 or first_dirty > end_offset:
            return True
        return self._is_dirty_enough(segments, first_dirty, end_offset)

    def _first_dirty_offset(self, segments: Sequence[SegmentFile]) -> int:
        checkpointed = self._checkpointed_offset(segments)
        # A checkpoint beyond the log's end is that of a log that was cut since.
        if checkpointed > self._survey.next_offset:
            return self._owned.log_start_offset(self._state, segments)
        return checkpointed

    def _checkpointed_offset(self, segments: Sequence[SegmentFile]) -> int:
        start = self._owned.log_start_offset(self._state, segments)
        offsets = self._cleaner_offsets()
        return max(offsets.get(self._owned.topic_partition, start), start)

    def _cleaner_offsets(self) -> dict[TopicPartition, int]:
        directory = self._owned.log_directory
        return read_offset_checkpoint(LOCAL, directory, CLEANER_OFFSET_CHECKPOINT) or {}

    def _first_uncleanable_offset(self, segments: Sequence[SegmentFile], first_dirty: int) -> int:
        """Find the base offset of the first segment that must stay as it is."""
        limit = min(self._survey.producers.last_stable_offset, segments[-1].base_offset)
        if self._owned.high_watermark is not None:
            limit = min(limit, self._owned.high_watermark)
        if self._config.min_compaction_lag_ms > 0:
            limit = min(limit, self._first_young_offset(segments, first_dirty, limit))
        return max(
            (segment.base_offset for segment in segments if segment.base_offset <= limit),
            default=segments[0].base_offset,
        )

    def _first_young_offset(
        self, segments: Sequence[SegmentFile], first_dirty: int, limit: int
    ) -> int:
        youngest_ms = self._now_ms - self._config.min_compaction_lag_ms
        bounds = [segment.base_offset for segment in segments[1:]]
        measured = zip(segments, bounds, self._survey.segments, strict=False)
        for segment, bound, survey in measured:
            largest = survey.largest_timestamp
            if largest < 0:
                largest = segment.modified_ns // 1_000_000
            if bound > first_dirty and largest > youngest_ms:
                return segment.base_offset
        return limit

    def _has_horizon_over(self, end_offset: int) -> bool:
        return any(
            0 <= survey.earliest_horizon_ms <= self._now_ms
            for survey in self._survey.segments
            if survey.base_offset < end_offset
        )

    def _is_dirty_enough(
        self, segments: Sequence[SegmentFile], first_dirty: int, end_offset: int
    ) -> bool:
        bounds = [*(segment.base_offset for segment in segments[1:]), end_offset]
        clean = dirty = 0
        for segment, bound in zip(segments, bounds, strict=True):
            if segment.base_offset >= end_offset:
                break
            if bound <= first_dirty:
                clean += segment.size_bytes
            else:
                dirty += segment.size_bytes
        return dirty > 0 and dirty / (clean + dirty) >= self._config.min_cleanable_ratio

    def _clean_pass(self, first_dirty: int, end_offset: int) -> int:
        """Rewrite the segments below the end once; gives the offset that the map has reached."""
        self._passes += 1
        found = [segment for segment in self._segments() if segment.base_offset < end_offset]
        offset_map = self._offset_map(found, first_dirty, end_offset)
        reached = offset_map.latest_offset + 1
        cleaner = GroupCleaner(
            offset_map,
            TransactionTracker(self._survey.aborted),
            self._rules(found, first_dirty, end_offset),
        )
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
            self._clean_group(cleaner, group, [described[it.base_offset] for it in group])
        self._add_counts(cleaner.counts)
        self._note_reached(reached)
        return reached

    def _offset_map(
        self, found: Sequence[SegmentFile], first_dirty: int, end_offset: int
    ) -> OffsetMap:
        dirty = [
            segment
            for segment in self._owned.segments(self._state, found, end_offset)
            if segment.end_offset_bound is None or segment.end_offset_bound > first_dirty
        ]
        dirty_records = self._dirty_records(first_dirty)
        offset_map = OffsetMap(
            self._dedupe_buffer_bytes(dirty_records), expected_records=dirty_records
        )
        build_offset_map(
            offset_map,
            dirty,
            TransactionTracker(self._survey.aborted),
            start_offset=first_dirty,
            end_offset=end_offset,
            max_decompressed_bytes=self._config.max_decompressed_bytes,
        )
        return offset_map

    def _dirty_records(self, first_dirty: int) -> int:
        surveys = self._survey.segments
        bounds = [*(survey.base_offset for survey in surveys[1:]), self._survey.next_offset]
        return sum(
            survey.records_count
            for survey, bound in zip(surveys, bounds, strict=True)
            if bound > first_dirty
        )

    def _rules(
        self, found: Sequence[SegmentFile], first_dirty: int, end_offset: int
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
            last_batches=self._survey.producers.last_batches(
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
        announce_change(self._owned.log_directory)
        replace_segments(
            self._owned.directory,
            new_base_offsets=cleaned.base_offsets,
            old_base_offsets=[segment.base_offset for segment in group],
        )
        announce_change(self._owned.log_directory)

    def _add_counts(self, counts: CleaningCounts) -> None:
        total = self._counts
        total.records_read += counts.records_read
        total.records_kept += counts.records_kept
        total.records_without_key += counts.records_without_key
        total.bytes_read += counts.bytes_read
        total.bytes_kept += counts.bytes_kept


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
        return [it for it, end in zip(segments, ends, strict=True) if end > start]

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
            self._replaced_bytes += sum(it.size_bytes for it in group) - measured.size_bytes
