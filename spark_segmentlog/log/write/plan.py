"""Where staged extents go: which become segments by a rename, which are copied to which position.

Extents of a partition are taken in the order of their tasks, and within a task in the order in
which they were written. An extent that is a whole staged file becomes a segment by a rename where
it is large (`ADOPTED_BYTES`, or a quarter of `segment.bytes` if that is less) or where a segment
starts anyway. Others are copied after the last segment, or into a new one where Kafka's rules say
that the last one is full. An extent is never cut. Offsets are dense from the partition's end.

Pure arithmetic: no file is touched here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spark_segmentlog.log.directory.commit_steps import (
    AdoptStep,
    CopyStep,
    PartitionPlan,
    SegmentPlan,
)
from spark_segmentlog.log.segment.growth import SegmentConfig, SegmentEnd, must_roll
from spark_segmentlog.log.write.append_state import AppendState
from spark_segmentlog.log.write.staged_file import StagedExtent
from spark_segmentlog.record.layout import (
    MAGIC_OFFSET,
    OFFSET_LENGTH,
    PARTITION_LEADER_EPOCH_LENGTH,
    PARTITION_LEADER_EPOCH_OFFSET,
    SIZE_OFFSET,
)

ADOPTED_SHARE: Final = 4
# To copy and sync so much takes a tenth of the time in which a task makes it.
ADOPTED_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSpan:
    """An extent in its file; `adoptable` where it is all of the file."""

    extent: StagedExtent
    staged_path: str
    position: int
    inode: int
    first_header: bytes
    header_checksum: int
    is_whole_file: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """The plan, and the first offset of each extent, in their order."""

    plan: PartitionPlan
    base_offsets: tuple[int, ...]


def plan_partition(
    append_state: AppendState,
    extents: Sequence[StagedSpan],
    *,
    config: SegmentConfig,
    exists: bool,
    overwrite: bool,
    partition_metadata: bytes | None,
    now_ms: int,
) -> PlannedPartition:
    """Plan what a commit does to one partition.

    Parameters
    ----------
    extents : sequence of StagedSpan
        In the order of their rows; may be empty.
    exists : bool
        False for a partition that the commit makes.
    overwrite : bool
        Whether the log start offset moves to the old end.
    partition_metadata : bytes or None
        Contents of `partition.metadata` to write; None where it stays.
    now_ms : int
        Wall clock.
    """
    planner = _Planner(append_state, config, now_ms)
    if overwrite and extents and append_state.segment.size_bytes > 0:
        planner.roll()
    base_offsets = tuple(planner.place(extent) for extent in extents)
    segments = planner.segment_plans()
    end_after = planner.current.next_offset
    return PlannedPartition(
        base_offsets=base_offsets,
        plan=PartitionPlan(
            topic_partition=append_state.topic_partition,
            log_directory=append_state.log_directory,
            start_before=append_state.log_start_offset if exists else None,
            end_before=append_state.log_end_offset if exists else None,
            start_after=append_state.log_end_offset if overwrite else append_state.log_start_offset,
            end_after=end_after,
            leader_epoch=append_state.leader_epoch,
            leader_epochs=None if append_state.epochs_are_kept else append_state.leader_epochs,
            partition_metadata=partition_metadata,
            segments=segments,
            steps=tuple(planner.steps),
            linked_inode=append_state.folder.linked_inode,
        ),
    )


def _stamped(header: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Give a batch header as it will be once final offsets are written into it."""
    return (
        base_offset.to_bytes(OFFSET_LENGTH, "big")
        + header[SIZE_OFFSET:PARTITION_LEADER_EPOCH_OFFSET]
        + leader_epoch.to_bytes(PARTITION_LEADER_EPOCH_LENGTH, "big")
        + header[MAGIC_OFFSET:]
    )


class _Planner:
    """Walks extents along the end of a partition."""

    def __init__(self, append_state: AppendState, config: SegmentConfig, now_ms: int) -> None:
        self._before = append_state
        self._config = config
        self._now_ms = now_ms
        self.current = append_state.segment
        if (
            append_state.file_bytes < 0
            or append_state.log_end_offset > append_state.segment.next_offset
        ):
            self.current = self._empty(append_state.log_end_offset)
        self._made: list[SegmentEnd] = []
        self.steps: list[AdoptStep | CopyStep] = []

    def place(self, placed: StagedSpan) -> int:
        """Give an extent its place; return its first offset."""
        extent = placed.extent
        base_offset = self.current.next_offset
        if self._is_adoptable(placed):
            if self.current.size_bytes > 0:
                self.roll()
            self.steps.append(
                AdoptStep(
                    staged_path=placed.staged_path,
                    base_offset=self.current.base_offset,
                    size_bytes=extent.size_bytes,
                    inode=placed.inode,
                    first_header=_stamped(
                        placed.first_header, base_offset, self._before.leader_epoch
                    ),
                    header_checksum=placed.header_checksum,
                )
            )
        else:
            if self._is_full_for(extent):
                self.roll()
            self.steps.append(
                CopyStep(
                    staged_path=placed.staged_path,
                    staged_position=placed.position,
                    length_bytes=extent.size_bytes,
                    base_offset=self.current.base_offset,
                    position=self.current.size_bytes,
                )
            )
        self.current = self._grown(extent)
        return base_offset

    def roll(self) -> None:
        """Close the segment; the next one starts at its end."""
        self._made.append(self.current)
        self.current = self._empty(self.current.next_offset)

    def segment_plans(self) -> tuple[SegmentPlan, ...]:
        """List the touched segments, the one that was there before among them where it is."""
        is_touched = bool(self.steps) or self._before.file_bytes < 0
        if not is_touched:
            return ()
        return tuple(self._segment_plan(segment) for segment in [*self._made, self.current])

    def _segment_plan(self, segment: SegmentEnd) -> SegmentPlan:
        before = self._before
        existed = before.file_bytes >= 0 and segment.base_offset == before.segment.base_offset
        return SegmentPlan(
            base_offset=segment.base_offset,
            file_bytes_before=before.file_bytes if existed else -1,
            valid_bytes_before=before.segment.size_bytes if existed else 0,
            bytes_after=segment.size_bytes,
            indexed=(before.indexed if existed else self._empty(segment.base_offset)),
        )

    def _is_adoptable(self, placed: StagedSpan) -> bool:
        return (
            placed.is_whole_file
            and (self.current.size_bytes == 0 or self._is_large(placed.extent))
            and os.path.dirname(placed.staged_path) == self._before.log_directory
            and self._before.folder.takes_renames
        )

    def _is_large(self, extent: StagedExtent) -> bool:
        return extent.size_bytes >= min(ADOPTED_BYTES, self._config.segment_bytes // ADOPTED_SHARE)

    def _is_full_for(self, extent: StagedExtent) -> bool:
        return must_roll(
            self.current,
            self._config,
            size_bytes=extent.size_bytes,
            last_offset=self.current.next_offset + extent.offset_count - 1,
            largest_timestamp=extent.largest_timestamp,
            now_ms=self._now_ms,
            index_entries=self._most_entries(extent),
        )

    def _grown(self, extent: StagedExtent) -> SegmentEnd:
        """Describe the segment after an extent; its index entries are counted at their most."""
        current = self.current
        is_first = current.size_bytes == 0
        return replace(
            current,
            next_offset=current.next_offset + extent.offset_count,
            size_bytes=current.size_bytes + extent.size_bytes,
            rolling_timestamp=extent.first_timestamp if is_first else current.rolling_timestamp,
            largest_timestamp=max(current.largest_timestamp, extent.largest_timestamp),
            offset_entries=current.offset_entries + self._most_entries(extent),
            time_entries=current.time_entries + self._most_entries(extent),
        )

    def _most_entries(self, extent: StagedExtent) -> int:
        by_size = extent.size_bytes // (self._config.index_interval_bytes + 1) + 1
        return min(extent.batch_count, by_size)

    def _empty(self, base_offset: int) -> SegmentEnd:
        return SegmentEnd.empty(base_offset, created_ms=self._now_ms)
