"""One log directory's part of an open commit, and its bytes: ``.segmentlog-commit/journal.json``.

It is there only while a commit is open: it says what every partition of this directory held before
and which steps lead to what it holds after. It lies in a directory on purpose, since a broker
refuses to start beside a directory that is not named topic-partition, and so cannot serve half a
commit.

A journal is a line with the checksum of what follows, then JSON. It names nothing outside of its
directory but other log directories, each by its id and by its path as seen from here: partitions
are names, staged files are names. One commit may touch several log directories; each of them has a
journal of the same write id with its own part, which is all that it takes to end that part. The
*deciding* directory is the first by real path:

1. the others' journals are written as *prepared*;
2. the deciding one is written as *decided*: now the write is committed;
3. the others become *decided*, and from here on need nobody;
4. once all steps are taken the deciding one becomes *visible*, which shows what is new in all
   directories at once, before the journals are taken away, the deciding one last.

Everything here is written under a temporary name, synced and renamed, so nobody sees half of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.log.directory.commit_fields import (
    checked_integer,
    checked_optional_text,
    checked_staged_name,
    checked_text,
    decode,
    encode,
    object_from_bytes,
    object_to_bytes,
    parsing,
    partition_from_fields,
    partition_to_fields,
)
from spark_segmentlog.log.directory.commit_steps import PartitionPlan
from spark_segmentlog.record.plain.crc import crc32c

COMMIT_DIRECTORY_NAME: Final = ".segmentlog-commit"

JOURNAL_FILE_NAME: Final = "journal.json"

JOURNAL_FORMAT: Final = 2


class CommitPhase(StrEnum):
    """How far a commit is, as the journal of one of its directories knows it."""

    PREPARED = "prepared"
    DECIDED = "decided"
    VISIBLE = "visible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A log directory that takes part in a commit: its id, and its path as seen from another."""

    directory_id: str | None
    relative_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """One directory's part of an open commit: all that is needed to end it there.

    Attributes
    ----------
    log_directory : str
        Its real path, which is not in the file.
    inode : int
        Of the log directory when the commit began.
    participants : tuple of Participant
        All directories of the commit, this one too; the first one decides.
    """

    log_directory: str
    inode: int
    write_id: str
    phase: CommitPhase
    participants: tuple[Participant, ...]
    application: str | None
    version: int | None
    index_interval_bytes: int
    clean_shutdown_mark: bytes | None
    staged_paths: tuple[str, ...]
    partitions: tuple[PartitionPlan, ...]

    @property
    def is_visible(self) -> bool:
        """Whether this journal itself says that all steps are taken."""
        return self.phase is CommitPhase.VISIBLE

    @property
    def is_deciding(self) -> bool:
        """Whether this is the directory that decides."""
        return self.path_of(self.participants[0]) == self.log_directory

    def path_of(self, participant: Participant) -> str:
        """Tell where another directory would be, by its real path."""
        return os.path.realpath(os.path.join(self.log_directory, participant.relative_path))

    def names(self, log_directory: str) -> bool:
        """Tell whether a directory takes part in this commit, from where this one stands."""
        return any(self.path_of(participant) == log_directory for participant in self.participants)

    def in_phase(self, phase: CommitPhase) -> Journal:
        """Give the same journal in another phase."""
        return replace(self, phase=phase)

    def to_bytes(self) -> bytes:
        """Give the bytes of ``journal.json``."""
        path_numbers = {path: number for number, path in enumerate(self.staged_paths)}
        body = object_to_bytes(
            {
                "format": JOURNAL_FORMAT,
                "write_id": self.write_id,
                "phase": self.phase,
                "inode": self.inode,
                "participants": [
                    [participant.directory_id, participant.relative_path]
                    for participant in self.participants
                ],
                "application": self.application,
                "version": self.version,
                "index_interval_bytes": self.index_interval_bytes,
                "clean_shutdown_mark": encode(self.clean_shutdown_mark),
                "staged": [os.path.basename(path) for path in self.staged_paths],
                "partitions": [partition_to_fields(plan, path_numbers) for plan in self.partitions],
            }
        )
        return b"%08x\n%s" % (crc32c(body), body)

    @classmethod
    def from_bytes(cls, data: bytes, log_directory: str, *, source: str) -> Journal:
        """Parse the bytes of a ``journal.json``; `source` is named in errors."""
        with parsing(source):
            checksum, _, body = data.partition(b"\n")
            if checksum != b"%08x" % crc32c(body):
                raise ValueError("its checksum is not that of what it holds")
            found = object_from_bytes(body, JOURNAL_FORMAT)
            staged = tuple(
                os.path.join(log_directory, checked_staged_name(name)) for name in found["staged"]
            )
            return cls(
                log_directory=log_directory,
                inode=checked_integer(found["inode"]),
                write_id=checked_text(found["write_id"]),
                phase=CommitPhase(found["phase"]),
                participants=_participants(found["participants"]),
                application=checked_optional_text(found["application"]),
                version=None if found["version"] is None else checked_integer(found["version"]),
                index_interval_bytes=checked_integer(found["index_interval_bytes"]),
                clean_shutdown_mark=decode(found["clean_shutdown_mark"]),
                staged_paths=staged,
                partitions=tuple(
                    partition_from_fields(plan, log_directory, staged)
                    for plan in found["partitions"]
                ),
            )


def journal_path(log_directory: str) -> str:
    """Name the journal file of a log directory."""
    return os.path.join(log_directory, COMMIT_DIRECTORY_NAME, JOURNAL_FILE_NAME)


def participants_of(
    log_directories: Sequence[str], ids: Mapping[str, str], seen_from: str
) -> tuple[Participant, ...]:
    """Describe the directories of a commit as one of them sees them."""
    return tuple(
        Participant(directory_id=ids.get(path), relative_path=os.path.relpath(path, seen_from))
        for path in log_directories
    )


def _participants(found: list[Any]) -> tuple[Participant, ...]:
    if not found:
        raise ValueError("no log directory takes part")
    return tuple(
        Participant(
            directory_id=checked_optional_text(directory_id), relative_path=checked_text(place)
        )
        for directory_id, place in found
    )
