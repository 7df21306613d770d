"""The commit: staged batches become part of their logs, all of them or none, and survive any crash.

Under the locks of all log directories, taken in the order of their real paths:

1. every staged file is compared with its report; final base offsets and leader epochs are written
   into it, and it is synced; room on the disk is reserved for what will be copied;
2. the journal is written and synced, `roll_forward.write_journals`: from here the write is
   committed;
3. and 4. its steps are taken, `roll_forward.roll_forward`, at whose end it becomes visible.

An error before the second step leaves everything as it was. An error behind it is a
`CommitPendingError`: the next writer, or ``segmentlog recover``, takes the steps to their end
first.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

from spark_segmentlog.clock import now_ms
from spark_segmentlog.errors import CommitPendingError, SegmentLogError, StagingError
from spark_segmentlog.log.directory.journal import (
    VERSIONS_FILE_NAME,
    AdoptStep,
    CommitPhase,
    CopyStep,
    Journal,
    Participant,
    PartitionPlan,
    has_commit_directory,
    journal_path,
    new_directory_id,
    participants_of,
    read_journals,
    read_open_commit,
    read_versions,
)
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import CLEAN_SHUTDOWN_MARK
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS, locked
from spark_segmentlog.log.io.reading import LOCAL, local_path
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import STAGED_PREFIX, STAGED_SUFFIX, OffsetRange, TopicPartition
from spark_segmentlog.log.segment.growth import BatchExtents, SegmentConfig
from spark_segmentlog.log.write.append_state import (
    PartitionTail,
    absent_partition_tail,
    read_partition_tail,
)
from spark_segmentlog.log.write.plan import PlacedExtent, PlannedPartition, plan_partition
from spark_segmentlog.log.write.preflight import check_owner, check_tail, check_write
from spark_segmentlog.log.write.roll_forward import (
    KnownBatches,
    remove_journals,
    roll_forward,
    write_journals,
)
from spark_segmentlog.log.write.staging import (
    StagedWrite,
    discard_staged,
    new_write_id,
    sweep_staged,
)
from spark_segmentlog.log.write.stamping import StagedPlace, find_staged, stamp_offsets
from spark_segmentlog.log.write.targets import TargetLayout, read_target_layout

RESERVED_MARGIN_BYTES: Final = 64 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """What is to be committed, and how.

    Attributes
    ----------
    layout : TargetLayout
        As it was when the write was planned.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a commit did; `is_skipped` where its version was there already."""

    is_skipped: bool = False
    offset_ranges: tuple[OffsetRange, ...] = ()


def commit_staged_batches(request: CommitRequest) -> CommitResult:
    """Commit what tasks have staged; on the driver.

    Returns
    -------
    CommitResult
        The offsets that the rows got, a range a partition.

    Raises
    ------
    LogLockedError
        A broker or another writer has one of the log directories.
    StagingError
        Staged files are not what their tasks reported, or the disk is full or failed, before the
        commit: nothing happened.
    UnsafeTargetError
        Topics that may not be written: nothing happened.
    PreflightError
        A broker, or a reader, would not see what is written: nothing happened.
    CommitPendingError
        The write is committed but not visible yet; do not try again.
    """
    directories = request.layout.log_directories
    with writing(directories, timeout_ms=request.lock_timeout_ms):
        if _is_committed(request):
            _clear_staging(request)
            return CommitResult(is_skipped=True)
        with _before_the_journal():
            prepared = _prepare(request)
        if prepared is None:
            return CommitResult()
        journals = prepared.journals
        with _before_the_journal(), _reserved(journals):
            _enter(journals)
        _finish(journals, prepared.known_batches)
        _clear_staging(request)
    plans = [plan for journal in journals for plan in journal.partitions]
    return CommitResult(offset_ranges=_offset_ranges(plans))


@contextmanager
def writing(
    log_directories: Sequence[str], *, timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS
) -> Iterator[tuple[str, ...]]:
    """Hold log directories for writing, with no commit open in them: one that was is ended first.

    Raises
    ------
    LogLockedError
        A broker or another writer has one of them.
    CommitPendingError
        An open commit could not be ended.
    RecoveryError
        An open commit is in a state that no crash leaves.
    """
    log_directories = [local_path(path) for path in log_directories]
    with locked_with_open_commits(log_directories, timeout_ms=timeout_ms) as involved:
        finish_open_commits(involved)
        yield tuple(sorted({os.path.realpath(path) for path in log_directories}))


@contextmanager
def locked_with_open_commits(
    log_directories: Sequence[str], *, timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS
) -> Iterator[tuple[str, ...]]:
    """Hold the locks of log directories, and of all that take part in commits open in them.

    Yields
    ------
    tuple of str
        The real paths of all of them, sorted.

    Raises
    ------
    PreflightError
        What this process creates there, their broker could not open; nothing was created.
    """
    wanted = {os.path.realpath(path) for path in log_directories}
    check_owner(wanted)
    while True:
        involved = wanted | _directories_of_open_commits(wanted)
        with locked(sorted(involved), timeout_ms=timeout_ms) as held:
            # Another writer may have left one behind, or ended it, before the locks were ours.
            if _directories_of_open_commits(wanted) <= involved:
                yield held
                return


def finish_open_commits(log_directories: Iterable[str]) -> list[str]:
    """End the commits that are open in log directories, and clear away what is left of others.

    The caller holds the locks of these directories and of all that their journals name.

    Returns
    -------
    list of str
        The ids of the writes that were ended.
    """
    directories = [os.path.realpath(path) for path in log_directories]
    finished = []
    for directory in directories:
        if not has_commit_directory(directory):
            continue
        journals = read_journals(directory, directories)
        if not journals:
            # A commit that never began or is over, or a folder without a journal.
            remove_journals([directory])
        else:
            _finish(sorted(journals, key=lambda it: not it.is_deciding), None)
            finished.append(journals[0].write_id)
    return finished


def _directories_of_open_commits(log_directories: Iterable[str]) -> set[str]:
    directories = sorted(log_directories)
    return {
        journal.log_directory
        for directory in directories
        for journal in read_journals(directory, directories)
    }


def _is_committed(request: CommitRequest) -> bool:
    if request.application is None or request.version is None:
        return False
    for directory in request.layout.log_directories:
        entry = read_versions(directory).applications.get(request.application)
        if entry is not None and entry.version >= request.version:
            return True
    return False


# Before the journal


@contextmanager
def _before_the_journal() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, SegmentLogError):
            raise
        raise StagingError(f"nothing was committed: {error}") from error


@dataclass(frozen=True, slots=True)
class _Prepared:
    journals: tuple[Journal, ...]
    known_batches: KnownBatches


def _prepare(request: CommitRequest) -> _Prepared | None:
    """Work out the commit and make the staged files ready; None where there is nothing to do."""
    places = [find_staged(file) for write in request.staged for file in write.files]
    planned = _plan(request, places)
    if not planned and request.application is None:
        return None
    known_batches = dict(_stamp(request, places, planned))
    plans = _with_own_files([partition.plan for partition in planned.values()], known_batches)
    touched = sorted({plan.log_directory for plan in plans}) or [request.layout.log_directories[0]]
    ids = _directory_ids(touched) if len(touched) > 1 else {}
    write_id = new_write_id(request.application, request.version)
    return _Prepared(
        tuple(
            _journal(
                request,
                directory,
                write_id,
                participants_of(touched, ids, directory),
                tuple(plan for plan in plans if plan.log_directory == directory),
                places,
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
    places: Sequence[StagedPlace],
) -> Journal:
    staged = {place.file.path for place in places if os.path.dirname(place.file.path) == directory}
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
        clean_shutdown_mark=_read_mark(directory),
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
    request: CommitRequest, places: Sequence[StagedPlace]
) -> dict[TopicPartition, PlannedPartition]:
    layout = read_target_layout(
        request.layout.log_directories,
        new_partition_count=request.layout.new_partition_count,
        allow_unsafe=request.layout.allow_unsafe,
        may_grow=request.layout.may_grow,
    )
    states = {path: LogDirectoryState.read(path) for path in layout.log_directories}
    extents = _extents_by_partition(request, places)
    touched = _touched(request, layout, extents)
    check_write(layout, touched, states)
    topic_id_files: dict[str, bytes] = {}
    planned = {}
    for topic_partition in touched:
        state = states[layout.directory_of(topic_partition)]
        exists = layout.exists(topic_partition)
        topic = topic_partition.topic
        needs_id = layout.lacks_topic_id(topic_partition)
        if needs_id and topic not in topic_id_files:
            topic_id_files[topic] = layout.topic_id_file(topic)
        planned[topic_partition] = plan_partition(
            _tail(state, topic_partition, request.config, exists=exists),
            extents.get(topic_partition, ()),
            config=request.config,
            exists=exists,
            overwrite=request.overwrite,
            partition_metadata=topic_id_files[topic] if needs_id else None,
            now_ms=now_ms(),
        )
    return planned


def _touched(
    request: CommitRequest,
    layout: TargetLayout,
    extents: Mapping[TopicPartition, Sequence[PlacedExtent]],
) -> list[TopicPartition]:
    """List the partitions with rows, all those of a new topic, and of one that is overwritten."""
    touched = set(extents)
    for topic in {*request.topics, *(partition.topic for partition in extents)}:
        layout.check_topic(topic)
        existing = layout.partitions.get(topic)
        named = [it.partition + 1 for it in extents if it.topic == topic]
        if not existing or (layout.may_grow and max(named, default=0) > max(existing) + 1):
            count = max(layout.partition_count(topic), *named, 0)
            touched.update(TopicPartition(topic, partition) for partition in range(count))
        if existing and request.overwrite:
            touched.update(TopicPartition(topic, partition) for partition in existing)
    return sorted(touched)


def _tail(
    state: LogDirectoryState,
    topic_partition: TopicPartition,
    config: SegmentConfig,
    *,
    exists: bool,
) -> PartitionTail:
    if not exists:
        return absent_partition_tail(state.path, topic_partition)
    tail = read_partition_tail(
        state, topic_partition, index_interval_bytes=config.index_interval_bytes
    )
    check_tail(tail)
    return tail


def _extents_by_partition(
    request: CommitRequest, places: Sequence[StagedPlace]
) -> dict[TopicPartition, list[PlacedExtent]]:
    """Sort extents by partition, in the order of tasks, then of writing."""
    by_path = {place.file.path: place for place in places}
    found: dict[TopicPartition, list[PlacedExtent]] = {}
    for write in sorted(request.staged, key=lambda write: write.task_id):
        for file in write.files:
            place = by_path[file.path]
            position = 0
            for extent in place.extents:
                placed = PlacedExtent(
                    extent=extent,
                    staged_path=file.path,
                    position=position,
                    inode=place.inode,
                    first_header=place.first_header,
                    header_checksum=file.header_checksum,
                    is_whole_file=len(place.extents) == 1,
                )
                found.setdefault(write.topic_partitions[extent.slot], []).append(placed)
                position += extent.size_bytes
    return found


def _read_mark(log_directory: str) -> bytes | None:
    return LOCAL.read_file(os.path.join(log_directory, CLEAN_SHUTDOWN_MARK))


def _stamp(
    request: CommitRequest,
    places: Sequence[StagedPlace],
    planned: Mapping[TopicPartition, PlannedPartition],
) -> KnownBatches:
    """Write final offsets into the staged files, in the order in which they were dealt out."""
    by_path = {place.file.path: place for place in places}
    offsets = {key: iter(partition.base_offsets) for key, partition in planned.items()}
    dealt: list[tuple[StagedPlace, list[int], list[int]]] = []
    for write in sorted(request.staged, key=lambda write: write.task_id):
        for file in write.files:
            place = by_path[file.path]
            keys = [write.topic_partitions[extent.slot] for extent in place.extents]
            base_offsets = [next(offsets[key]) for key in keys]
            dealt.append((place, base_offsets, [planned[key].plan.leader_epoch for key in keys]))
    known: dict[tuple[str, int], BatchExtents] = {}
    stamped = in_parallel(lambda it: stamp_offsets(*it), dealt)
    for (place, _, _), batches in zip(dealt, stamped, strict=True):
        sizes = [extent.size_bytes for extent in place.extents]
        positions = accumulate([0, *sizes[:-1]])
        for position, extent in zip(positions, batches, strict=False):
            known[place.file.path, position] = extent
    return known


@contextmanager
def _reserved(journals: Sequence[Journal]) -> Iterator[None]:
    """Have the disk keep room for what will be copied until the journal is written."""
    with ExitStack() as reserved:
        for journal in journals:
            copied = sum(
                step.length_bytes
                for plan in journal.partitions
                for step in plan.steps
                if isinstance(step, CopyStep)
            )
            name = f"{STAGED_PREFIX}{journal.write_id}-0-0-0{STAGED_SUFFIX}"
            path = os.path.join(journal.log_directory, name)
            descriptor = files.create_exclusive(path)
            reserved.callback(_release, path, descriptor)
            files.allocate(descriptor, copied + RESERVED_MARGIN_BYTES)
        yield


def _release(path: str, descriptor: int) -> None:
    """Give room back; by now the write may be committed, so this is no reason to fail it."""
    files.close(descriptor)
    try:
        files.unlink(path)
    except OSError as error:
        _log.warning("%s stays until it is swept: %s", path, error)


# The journal, and behind it


def _enter(journals: Sequence[Journal]) -> None:
    """Write the journals; where that fails, take them back, so that nothing is committed."""
    try:
        write_journals(journals)
    except OSError as error:
        try:
            # The deciding one first: without it the others are void.
            remove_journals([it.log_directory for it in (*journals[1:], journals[0])])
        except OSError as again:
            raise CommitPendingError(
                f"the journal of write {journals[0].write_id} could neither be synced ({error}) "
                f"nor taken back ({again}): the next writer, or segmentlog recover, tells whether "
                "it is committed"
            ) from again
        raise


def _finish(journals: Sequence[Journal], known_batches: KnownBatches | None) -> None:
    try:
        roll_forward(journals, known_batches=known_batches)
    except OSError as error:
        raise _pending(journals[0], error) from error
    except SegmentLogError as error:
        if known_batches is None:
            raise
        raise _pending(journals[0], error) from error


def _pending(journal: Journal, error: Exception) -> CommitPendingError:
    return CommitPendingError(
        f"write {journal.write_id} is committed but not visible yet: {error}. Do not write it "
        f"again; segmentlog recover, or the next writer, ends it (journal "
        f"{journal_path(journal.log_directory)})"
    )


def _clear_staging(request: CommitRequest) -> None:
    """Remove what is left of this write and of dead ones; what stays is swept later."""
    directories = request.layout.log_directories
    try:
        discard_staged(directories, request.write_ids)
        sweep_staged(directories, application=request.application, version=request.version)
    except OSError as error:
        _log.warning("staged files stay until they are swept: %s", error)


def _offset_ranges(plans: Iterable[PartitionPlan]) -> tuple[OffsetRange, ...]:
    return tuple(
        OffsetRange(plan.topic_partition, plan.end_before or 0, plan.end_after)
        for plan in plans
        if plan.end_after > (plan.end_before or 0)
    )


def discard_write(log_directories: Sequence[str], write_ids: Sequence[str]) -> None:
    """Remove what a write that failed has staged, unless it is committed and waits to be ended."""
    for directory in log_directories:
        if read_open_commit(directory) is not None:
            return
    discard_staged(log_directories, write_ids)
