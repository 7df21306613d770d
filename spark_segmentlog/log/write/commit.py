"""The commit: staged batches become part of their logs, all of them or none, and survive any crash.

Under the locks of all log directories, taken in the order of their real paths:

1. every staged file is compared with its report; final base offsets and leader epochs are written
   into it, and it is synced; room on the disk is reserved for what will be copied;
2. the journal is written and synced, `roll_forward.write_journals`: from here the write is
   committed;
3. and 4. its steps are taken, `roll_forward.roll_forward`, at whose end it becomes visible.

An error before the second step leaves everything as it was. An error after it is a
`CommitPendingError`: the next writer, or ``segmentlog recover``, takes the steps to their end
first.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from spark_segmentlog.errors import CommitPendingError, SegmentLogError, StagingError
from spark_segmentlog.log.directory.commit_steps import CopyStep, PartitionPlan
from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.directory.versions import read_versions
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import STAGED_PREFIX, STAGED_SUFFIX, OffsetRange
from spark_segmentlog.log.write.open_commits import finish_commit, locked_for_writing
from spark_segmentlog.log.write.prepare import CommitRequest, prepare_commit
from spark_segmentlog.log.write.roll_forward import remove_journals, write_journals
from spark_segmentlog.log.write.staged_leftovers import discard_staged, sweep_staged

RESERVED_MARGIN_BYTES: Final = 64 * 1024

_log = logging.getLogger(__name__)


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
    with locked_for_writing(directories, timeout_ms=request.lock_timeout_ms):
        if _is_committed(request):
            _clear_staging(request)
            return CommitResult(is_skipped=True)
        with _before_the_journal():
            prepared = prepare_commit(request)
        if prepared is None:
            return CommitResult()
        journals = prepared.journals
        with _before_the_journal(), _reserved(journals):
            _enter(journals)
        finish_commit(journals, prepared.known_batches)
        _clear_staging(request)
    plans = [plan for journal in journals for plan in journal.partitions]
    return CommitResult(offset_ranges=_offset_ranges(plans))


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


# The journal, and after it


def _enter(journals: Sequence[Journal]) -> None:
    """Write the journals; where that fails, take them back, so that nothing is committed."""
    try:
        write_journals(journals)
    except OSError as error:
        try:
            # The deciding one first: without it the others are void.
            remove_journals([journal.log_directory for journal in (*journals[1:], journals[0])])
        except OSError as again:
            raise CommitPendingError(
                f"the journal of write {journals[0].write_id} could neither be synced ({error}) "
                f"nor taken back ({again}): the next writer, or segmentlog recover, tells whether "
                "it is committed"
            ) from again
        raise


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
