"""From staged files to journals: what a commit will do, worked out before anything is decided."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from spark_segmentlog.clock import now_ms
from spark_segmentlog.log.directory.commit_steps import AdoptStep, CopyStep, PartitionPlan
from spark_segmentlog.log.directory.journal import (
    CommitPhase,
    Journal,
    Participant,
    participants_of,
)
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.directory.versions import (
    VERSIONS_FILE_NAME,
    new_directory_id,
    read_versions,
)
from spark_segmentlog.log.formats.checkpoints import CLEAN_SHUTDOWN_MARK
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import BatchExtents, SegmentConfig
from spark_segmentlog.log.write.append_state import (
    AppendState,
    absent_append_state,
    read_append_state,
)
from spark_segmentlog.log.write.plan import PlannedPartition, StagedSpan, plan_partition
from spark_segmentlog.log.write.roll_forward import KnownBatches
from spark_segmentlog.log.write.staged_leftovers import new_write_id
from spark_segmentlog.log.write.staging import StagedWrite
from spark_segmentlog.log.write.stamping import InspectedFile, inspect_staged, stamp_offsets
from spark_segmentlog.log.write.targets import TargetLayout, read_target_layout
from spark_segmentlog.log.write.write_check import check_log_start, check_write


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """What is to be committed, and how.

    Attributes
    ----------
    staged : tuple of StagedWrite
        One a task.
    write_ids : tuple of str
        Under which tasks staged: what is left of them is removed with the commit.
    application, version : str, int or None
        A version not above the last committed one of that application is skipped whole.
    topics : tuple of str
        Topics that are written even where no row is for them: made if new, emptied by `overwrite`.
    overwrite : bool
        Whether all the topics written lose their rows of before.
    """

    layout: TargetLayout
    staged: tuple[StagedWrite, ...] = ()
    write_ids: tuple[str, ...] = ()
    application: str | None = None
    version: int | None = None
    topics: tuple[str, ...] = ()
    overwrite: bool = False
    config: SegmentConfig = field(default_factory=SegmentConfig)
    lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """A commit worked out: its journals, the deciding one first, and the batches it writes."""

    journals: tuple[Journal, ...]
    known_batches: KnownBatches


def prepare_commit(request: CommitRequest) -> PreparedCommit | None:
    """Work out the commit and make the staged files ready; None where there is nothing to do."""
    inspected_files = [inspect_staged(file) for write in request.staged for file in write.files]
    planned = _plan(request, inspected_files)
    if not planned and request.application is None:
        return None
    known_batches = dict(_stamp(request, inspected_files, planned))
    plans = _with_own_files([partition.plan for partition in planned.values()], known_batches)
    touched = sorted({plan.log_directory for plan in plans}) or [request.layout.log_directories[0]]
    ids = _directory_ids(touched) if len(touched) > 1 else {}
    write_id = new_write_id(request.application, request.version)
    return PreparedCommit(
        tuple(
            _journal(
                request,
                directory,
                write_id,
                participants_of(touched, ids, directory),
                tuple(plan for plan in plans if plan.log_directory == directory),
                inspected_files,
            )
            for directory in touched
        ),
        known_batches,
    )


def _journal(
    request: CommitRequest,
    directory: str,
    write_id: str,
    participants: tuple[Participant, ...],
    plans: tuple[PartitionPlan, ...],
    inspected_files: Sequence[InspectedFile],
) -> Journal:
    staged = {
        inspected.file.path
        for inspected in inspected_files
        if os.path.dirname(inspected.file.path) == directory
    }
    staged.update(step.staged_path for plan in plans for step in plan.steps)
    return Journal(
        log_directory=directory,
        inode=os.stat(directory).st_ino,
        write_id=write_id,
        phase=CommitPhase.DECIDED,
        participants=participants,
        application=request.application,
        version=request.version,
        index_interval_bytes=request.config.index_interval_bytes,
        clean_shutdown_mark=LOCAL.read_file(os.path.join(directory, CLEAN_SHUTDOWN_MARK)),
        staged_paths=tuple(sorted(staged)),
        partitions=plans,
    )


def _directory_ids(directories: Iterable[str]) -> dict[str, str]:
    """Read the ids by which journals elsewhere speak of these; made where missing."""
    ids = {}
    for directory in directories:
        versions = read_versions(directory)
        ids[directory] = versions.directory_id or new_directory_id()
        if versions.directory_id is None:
            named = replace(versions, directory_id=ids[directory])
            files.write_atomically(os.path.join(directory, VERSIONS_FILE_NAME), named.to_bytes())
            files.fsync_directory(directory)
    return ids


def _with_own_files(
    plans: Sequence[PartitionPlan], known_batches: dict[tuple[str, int], BatchExtents]
) -> list[PartitionPlan]:
    """Bring staged files into the directory of a partition that was moved since they were staged.

    A directory's part of a commit must not depend on another directory.
    """
    copied: set[str] = set()
    moved = [replace(plan, steps=tuple(_own_steps(plan, copied, known_batches))) for plan in plans]
    for directory in sorted({os.path.dirname(path) for path in copied}):
        files.fsync_directory(directory)
    return moved


def _own_steps(
    plan: PartitionPlan,
    copied: set[str],
    known_batches: dict[tuple[str, int], BatchExtents],
) -> Iterator[AdoptStep | CopyStep]:
    for step in plan.steps:
        path = os.path.join(plan.log_directory, os.path.basename(step.staged_path))
        if path != step.staged_path:
            if path not in copied:
                # What an attempt before this one left has the offsets of that one.
                files.unlink(path, missing_ok=True)
                files.copy_file(step.staged_path, path)
                copied.add(path)
            position = step.staged_position if isinstance(step, CopyStep) else 0
            if (step.staged_path, position) in known_batches:
                known_batches[path, position] = known_batches[step.staged_path, position]
            step = replace(step, staged_path=path)
        yield step


def _plan(
    request: CommitRequest, inspected_files: Sequence[InspectedFile]
) -> dict[TopicPartition, PlannedPartition]:
    layout = read_target_layout(
        request.layout.log_directories,
        new_partition_count=request.layout.new_partition_count,
        allow_unsafe=request.layout.allow_unsafe,
        may_grow=request.layout.may_grow,
    )
    states = {path: LogDirectoryState.read(path) for path in layout.log_directories}
    extents = _extents_by_partition(request, inspected_files)
    touched = _touched(request, layout, extents)
    check_write(layout, touched, states)
    metadata_of_topics: dict[str, bytes] = {}
    planned = {}
    for topic_partition in touched:
        state = states[layout.directory_of(topic_partition)]
        exists = layout.exists(topic_partition)
        topic = topic_partition.topic
        needs_id = layout.lacks_topic_id(topic_partition)
        if needs_id and topic not in metadata_of_topics:
            metadata_of_topics[topic] = layout.partition_metadata_bytes(topic)
        planned[topic_partition] = plan_partition(
            _append_state(state, topic_partition, request.config, exists=exists),
            extents.get(topic_partition, ()),
            config=request.config,
            exists=exists,
            overwrite=request.overwrite,
            partition_metadata=metadata_of_topics[topic] if needs_id else None,
            now_ms=now_ms(),
        )
    return planned


def _touched(
    request: CommitRequest,
    layout: TargetLayout,
    extents: Mapping[TopicPartition, Sequence[StagedSpan]],
) -> list[TopicPartition]:
    """List the partitions with rows, all those of a new topic, and of one that is overwritten."""
    touched = set(extents)
    for topic in {*request.topics, *(partition.topic for partition in extents)}:
        layout.check_topic(topic)
        existing = layout.partitions.get(topic)
        named = [extent.partition + 1 for extent in extents if extent.topic == topic]
        if not existing or (layout.may_grow and max(named, default=0) > max(existing) + 1):
            count = max(layout.partition_count(topic), *named, 0)
            touched.update(TopicPartition(topic, partition) for partition in range(count))
        if existing and request.overwrite:
            touched.update(TopicPartition(topic, partition) for partition in existing)
    return sorted(touched)


def _append_state(
    state: LogDirectoryState,
    topic_partition: TopicPartition,
    config: SegmentConfig,
    *,
    exists: bool,
) -> AppendState:
    if not exists:
        return absent_append_state(state.path, topic_partition)
    append_state = read_append_state(
        state, topic_partition, index_interval_bytes=config.index_interval_bytes
    )
    check_log_start(append_state)
    return append_state


def _extents_by_partition(
    request: CommitRequest, inspected_files: Sequence[InspectedFile]
) -> dict[TopicPartition, list[StagedSpan]]:
    """Sort extents by partition, in the order of tasks, then of writing."""
    by_path = {inspected.file.path: inspected for inspected in inspected_files}
    found: dict[TopicPartition, list[StagedSpan]] = {}
    for write in sorted(request.staged, key=lambda write: write.task_id):
        for file in write.files:
            inspected = by_path[file.path]
            position = 0
            for extent in inspected.extents:
                placed = StagedSpan(
                    extent=extent,
                    staged_path=file.path,
                    position=position,
                    inode=inspected.inode,
                    first_header=inspected.first_header,
                    header_checksum=file.header_checksum,
                    is_whole_file=len(inspected.extents) == 1,
                )
                found.setdefault(write.topic_partitions[extent.partition_index], []).append(placed)
                position += extent.size_bytes
    return found


def _stamp(
    request: CommitRequest,
    inspected_files: Sequence[InspectedFile],
    planned: Mapping[TopicPartition, PlannedPartition],
) -> KnownBatches:
    """Write final offsets into the staged files, in the order in which they were dealt out."""
    by_path = {inspected.file.path: inspected for inspected in inspected_files}
    offsets = {key: iter(partition.base_offsets) for key, partition in planned.items()}
    dealt: list[_Dealt] = []
    for write in sorted(request.staged, key=lambda write: write.task_id):
        staged_rows = [0] * len(write.topic_partitions)
        for file in write.files:
            inspected = by_path[file.path]
            staged_offsets, base_offsets, leader_epochs = [], [], []
            for extent in inspected.extents:
                key = write.topic_partitions[extent.partition_index]
                staged_offsets.append(staged_rows[extent.partition_index])
                staged_rows[extent.partition_index] += extent.offset_count
                base_offsets.append(next(offsets[key]))
                leader_epochs.append(planned[key].plan.leader_epoch)
            are_as_staged = base_offsets == staged_offsets and not any(leader_epochs)
            dealt.append(_Dealt(inspected, base_offsets, leader_epochs, are_as_staged))
    known: dict[tuple[str, int], BatchExtents] = {}
    for each, batches in zip(dealt, in_parallel(_Dealt.stamp, dealt), strict=True):
        sizes = [extent.size_bytes for extent in each.inspected.extents]
        positions = accumulate([0, *sizes[:-1]])
        for position, extent_batches in zip(positions, batches, strict=False):
            known[each.inspected.file.path, position] = extent_batches
    return known


@dataclass(frozen=True, slots=True)
class _Dealt:
    """What the extents of a staged file are dealt, and whether its task wrote just that."""

    inspected: InspectedFile
    base_offsets: list[int]
    leader_epochs: list[int]
    are_as_staged: bool

    def stamp(self) -> list[BatchExtents]:
        return stamp_offsets(
            self.inspected,
            self.base_offsets,
            self.leader_epochs,
            are_as_staged=self.are_as_staged,
        )
