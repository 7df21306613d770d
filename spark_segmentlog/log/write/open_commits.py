"""Holding log directories for writing, and ending the commits that are open in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from spark_segmentlog.errors import CommitPendingError, SegmentLogError
from spark_segmentlog.log.directory.journal import Journal, journal_path
from spark_segmentlog.log.directory.open_commit import (
    has_commit_directory,
    read_journals,
    read_open_commit,
)
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS, locked
from spark_segmentlog.log.io.reading import local_path
from spark_segmentlog.log.write.owner_check import check_owner
from spark_segmentlog.log.write.roll_forward import KnownBatches, remove_journals, roll_forward
from spark_segmentlog.log.write.staged_leftovers import discard_staged


@contextmanager
def locked_for_writing(
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
    check_owner({os.path.realpath(path) for path in log_directories})
    while True:
        involved = with_open_commits(log_directories)
        with locked(involved, timeout_ms=timeout_ms) as held:
            # Another writer may have left one behind, or ended it, before the locks were ours.
            if set(with_open_commits(log_directories)) <= set(involved):
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
    parts = [
        (directory, read_journals(directory, directories))
        for directory in directories
        if has_commit_directory(directory)
    ]
    # What decides goes last: parts that were moved away from it are ended without it, and once its
    # journal is gone nothing tells that they are committed.
    parts.sort(key=lambda part: any(journal.is_deciding for journal in part[1]))
    finished = []
    for directory, journals in parts:
        if not journals:
            # A commit that never began or is over, or a folder without a journal.
            remove_journals([directory])
        elif has_commit_directory(directory):
            finish_commit(sorted(journals, key=lambda journal: not journal.is_deciding), None)
            finished.append(journals[0].write_id)
    return finished


def with_open_commits(log_directories: Iterable[str]) -> list[str]:
    """Name log directories and all that take part in commits open in them: real paths, sorted."""
    directories = sorted({os.path.realpath(path) for path in log_directories})
    others = {
        journal.log_directory
        for directory in directories
        for journal in read_journals(directory, directories)
    }
    return sorted(others.union(directories))


def find_open_commits(log_directories: Sequence[str]) -> dict[str, Journal | None]:
    """Read the parts of open commits, by log directory.

    Parameters
    ----------
    log_directories : sequence of str
        As `with_open_commits` names them.

    Returns
    -------
    dict of str to Journal or None
        None for what is left of a commit that never began or is over; nothing of a directory
        without either.
    """
    return {
        directory: next(iter(read_journals(directory, log_directories)), None)
        for directory in log_directories
        if has_commit_directory(directory)
    }


def finish_commit(journals: Sequence[Journal], known_batches: KnownBatches | None) -> None:
    """Roll a decided commit forward; what stands in the way leaves it pending."""
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


def discard_write(log_directories: Sequence[str], write_ids: Sequence[str]) -> None:
    """Remove what a write that failed has staged, unless it is committed and waits to be ended."""
    for directory in log_directories:
        if read_open_commit(directory) is not None:
            return
    discard_staged(log_directories, write_ids)
