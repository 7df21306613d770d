"""Whether a commit is open in a log directory, and which journals are its parts.

A part is ended together with the other parts only where both journals name each other, each from
its own path. So a directory that was copied is ended alone, as the copy that it is, and whoever
else the journal speaks of stays as it is.

Journals of format 1, one for all directories with their absolute paths, are still read. They count
for a directory only where that says the same of itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.commit_fields import (
    checked_integer,
    checked_optional_text,
    checked_path,
    checked_staged_name,
    checked_text,
    decode,
    object_from_bytes,
    parsing,
    partition_from_fields,
    read_commit_file,
)
from spark_segmentlog.log.directory.journal import (
    COMMIT_DIRECTORY_NAME,
    CommitPhase,
    Journal,
    Participant,
    journal_path,
)
from spark_segmentlog.log.directory.versions import read_versions
from spark_segmentlog.log.names import TopicPartition

# One journal for all directories, with absolute paths.
FIRST_JOURNAL_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class CommitState:
    """What a reader compares before and after it lists a log directory.

    Attributes
    ----------
    counter : int
        Commits that the directory has seen; 0 where this library never wrote.
    write_id : str or None
        The open commit, None where there is none or where it is visible already.
    visible_ranges : mapping of TopicPartition to (start offset, end offset) or None
        While a commit is open: for each partition that it touches, in whichever log directory, the
        log start offset and the log end offset (exclusive) from before, or None for a partition
        that was not there. Of any other partition all is visible. None: all of every partition.
    """

    counter: int
    write_id: str | None = None
    visible_ranges: Mapping[TopicPartition, tuple[int, int] | None] | None = None


# Reading


def read_commit_state(log_directory: str | os.PathLike[str]) -> CommitState:
    """Read the commit counter and what an open commit leaves visible of one log directory.

    A reader takes this before and after it lists the directory, for all the log directories that
    it reads, and lists again until both are equal. Never writes, needs no lock.

    Raises
    ------
    RecoveryError
        A journal that is not one of ours.
    """
    path = os.path.realpath(log_directory)
    journal = _read_own(path)
    counter = read_versions(path).counter
    if journal is None:
        return CommitState(counter)
    parts = [journal, *_peers(journal)]
    if any(part.is_visible for part in parts):
        return CommitState(counter)
    visible_ranges = {
        plan.topic_partition: plan.visible_range for part in parts for plan in part.partitions
    }
    return CommitState(counter, journal.write_id, visible_ranges)


def read_open_commit(log_directory: str) -> Journal | None:
    """Read a directory's part of an open commit; None where none is open.

    Raises
    ------
    RecoveryError
        Whether it is committed cannot be told.
    """
    return next(iter(read_journals(os.path.realpath(log_directory))), None)


def read_journals(log_directory: str, beside: Iterable[str] = ()) -> tuple[Journal, ...]:
    """Read the parts of a directory's open commit that are ended together, its own one first.

    Parameters
    ----------
    beside : iterable of str
        Directories among which the deciding one is looked for first.

    Returns
    -------
    tuple of Journal
        Empty where no commit is open here, or one that never began.

    Raises
    ------
    RecoveryError
        A journal that is not one of ours, or one whose commit is decided in a directory that is
        not to be found.
    """
    own = _read_own(log_directory)
    if own is None:
        return ()
    if own.phase is CommitPhase.PREPARED:
        deciding = _find_deciding(own, beside)
        if deciding is None or deciding.phase is CommitPhase.PREPARED:
            return ()
        own = own.in_phase(CommitPhase.DECIDED)
    parts = [own, *_peers(own)]
    if any(part.is_visible for part in parts):
        return tuple(part.in_phase(CommitPhase.VISIBLE) for part in parts)
    return tuple(part.in_phase(CommitPhase.DECIDED) for part in parts)


def has_commit_directory(log_directory: str) -> bool:
    """Tell whether a commit is open, or was ended or begun by half."""
    return os.path.lexists(os.path.join(log_directory, COMMIT_DIRECTORY_NAME))


def _read_own(log_directory: str) -> Journal | None:
    """Read the journal that lies in a directory, as it stands there."""
    path = journal_path(log_directory)
    folder = os.path.dirname(path)
    # One look: beside a reader a writer takes the folder away.
    try:
        mode = os.lstat(folder).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(mode):
        raise RecoveryError(f"{folder} is no folder, or a link to one, as a commit's never is")
    data = read_commit_file(path)
    if data is None:
        return None
    if data.lstrip()[:1] != b"{":
        return Journal.from_bytes(data, log_directory, source=path)
    return _read_first_format(data, log_directory, path)


def _peers(journal: Journal) -> list[Journal]:
    """Read the other parts of a commit, where each names the other from its own path."""
    found = []
    for participant in journal.participants:
        path = journal.path_of(participant)
        if path == journal.log_directory or not has_commit_directory(path):
            continue
        peer = _read_part(path, journal, participant)
        if peer is not None and peer.names(journal.log_directory):
            found.append(peer)
    return found


def _read_part(path: str, journal: Journal, participant: Participant) -> Journal | None:
    if read_versions(path).directory_id != participant.directory_id:
        return None
    peer = _read_own(path)
    return peer if peer is not None and peer.write_id == journal.write_id else None


def _find_deciding(own: Journal, beside: Iterable[str]) -> Journal | None:
    """Read the journal that decides; None where its directory is there, and no such journal."""
    first = own.participants[0]
    for path in (*beside, own.path_of(first)):
        if not os.path.isdir(path) or read_versions(path).directory_id != first.directory_id:
            continue
        return _read_part(path, own, first)
    folder = os.path.dirname(journal_path(own.log_directory))
    raise RecoveryError(
        f"whether write {own.write_id} is committed in {own.log_directory} is decided in another "
        f"log directory, once at {own.path_of(first)}, which is not there: bring it back, or name "
        f"it beside this one; to go on alone, without that write, remove {folder} (nothing of the "
        "write is in this directory yet)"
    )


# Format 1


def _read_first_format(data: bytes, log_directory: str, source: str) -> Journal | None:
    """Read a directory's part of a journal of format 1, through its pointer if need be."""
    with parsing(source):
        found = object_from_bytes(data, FIRST_JOURNAL_FORMAT)
        if "deciding_directory" not in found:
            return _first_format_part(found, min(found["clean_shutdown_marks"]), log_directory)
        deciding = checked_path(found["deciding_directory"])
        write_id = checked_text(found["write_id"])
    if not os.path.isdir(deciding):
        raise RecoveryError(
            f"the open commit {write_id} of {log_directory} is decided in {deciding}, which is not "
            "there: bring that log directory back, then run segmentlog recover"
        )
    path = journal_path(deciding)
    data_there = read_commit_file(path)
    if data_there is None or data_there.lstrip()[:1] != b"{":
        return None
    with parsing(path):
        found = object_from_bytes(data_there, FIRST_JOURNAL_FORMAT)
        if "deciding_directory" in found or found["write_id"] != write_id:
            return None
        recorded = set(found["clean_shutdown_marks"])
        if log_directory in recorded:
            return _first_format_part(found, log_directory, log_directory)
    raise RecoveryError(
        f"{log_directory} is a copy of a log directory with a commit open, {write_id}, that is "
        f"decided in {deciding} and knows of {sorted(recorded)} only: end that commit there with "
        "segmentlog recover, and copy again"
    )


def _first_format_part(found: dict[str, Any], recorded: str, log_directory: str) -> Journal:
    """Take a directory's part out of a journal of format 1.

    `recorded` is the path under which the journal speaks of it, another one where it was copied.
    """
    marks = {
        checked_text(path): decode(mark) for path, mark in found["clean_shutdown_marks"].items()
    }
    paths = [checked_text(path) for path in found["staged_paths"]]
    # A step may copy from a file of another directory, which then has to be where it was.
    staged = tuple(
        os.path.join(
            log_directory if os.path.dirname(path) == recorded else _member(path, marks),
            checked_staged_name(os.path.basename(path)),
        )
        for path in paths
    )
    return Journal(
        log_directory=log_directory,
        inode=0,
        write_id=checked_text(found["write_id"]),
        phase=CommitPhase.VISIBLE if found["visible"] is True else CommitPhase.DECIDED,
        participants=tuple(
            Participant(
                directory_id=read_versions(path).directory_id if os.path.isdir(path) else None,
                relative_path=log_directory if path == recorded else path,
            )
            for path in sorted(marks)
        ),
        application=checked_optional_text(found["application"]),
        version=None if found["version"] is None else checked_integer(found["version"]),
        index_interval_bytes=checked_integer(found["index_interval_bytes"]),
        clean_shutdown_mark=marks[recorded],
        staged_paths=staged,
        partitions=tuple(
            partition_from_fields(plan, log_directory, staged)
            for plan in found["partitions"]
            if plan["log_directory"] == recorded
        ),
    )


def _member(path: str, marks: Mapping[str, bytes | None]) -> str:
    folder = os.path.dirname(path)
    if folder not in marks:
        raise ValueError(f"staged file {path!r} lies in none of its log directories")
    return folder
