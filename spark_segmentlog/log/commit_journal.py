"""How a log directory tells of commits: ``.segmentlog-versions`` and ``.segmentlog-commit``.

``.segmentlog-versions`` is a plain JSON file: a counter that every commit raises, and for each
application the last version that it committed. ``.segmentlog-commit/journal.json`` is there only
while a commit is open: it says what every partition held before and which steps lead to what it
holds after. It lies in a directory on purpose, since a broker refuses to start beside a directory
that is not named topic-partition, and so cannot serve half a commit.

One commit may touch several log directories. Every one of them has a journal of the same write id;
the *deciding* one carries all the partitions, the others are pointers at it. A pointer without its
deciding journal is void: that commit either never began or is over. ``visible`` in the deciding
journal ends the caps of all directories at once, before the journals are taken away one by one.

Everything here is written under a temporary name, synced and renamed, so nobody sees half of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.file_names import TopicPartition
from spark_segmentlog.log.segment_tail import SegmentTail

VERSIONS_FILE_NAME = ".segmentlog-versions"
COMMIT_DIRECTORY_NAME = ".segmentlog-commit"
JOURNAL_FILE_NAME = "journal.json"

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class CommitState:
    """What a reader compares before and after it lists a log directory.

    Attributes
    ----------
    counter : int
        Commits that the directory has seen; 0 where this library never wrote.
    write_id : str or None
        The open commit, None where there is none or where it is visible already.
    caps : mapping of TopicPartition to (start offset, end offset) or None
        While a commit is open: for each partition that it touches, in whichever log directory, the
        log start offset and the log end offset (exclusive) from before, or None for a partition
        that was not there. A partition that is not named is not capped. None: nothing is capped.
    """

    counter: int
    write_id: str | None = None
    caps: Mapping[TopicPartition, tuple[int, int] | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationVersion:
    """The last commit of one application in a log directory."""

    version: int
    write_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Contents of ``.segmentlog-versions``."""

    counter: int = 0
    applications: Mapping[str, ApplicationVersion] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Give the bytes of the file."""
        applications = {
            name: {"version": entry.version, "write_id": entry.write_id}
            for name, entry in sorted(self.applications.items())
        }
        return _to_json({"counter": self.counter, "applications": applications})

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str) -> Versions:
        """Parse the bytes of the file; `source` is named in errors."""
        fields = _from_json(data, source)
        with _parsing(source):
            applications = {
                str(name): ApplicationVersion(
                    version=int(entry["version"]), write_id=str(entry["write_id"])
                )
                for name, entry in fields["applications"].items()
            }
            return cls(counter=int(fields["counter"]), applications=applications)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptStep:
    """Rename a staged file to the segment of this base offset.

    The renamed file is known again by its inode, its size and its first batch header; where it was
    copied to another file system since, by the checksum over all its batch headers.
    """

    staged_path: str
    base_offset: int
    size_bytes: int
    inode: int
    first_header: bytes
    header_checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """Copy bytes of a staged file to a position of the segment of this base offset."""

    staged_path: str
    staged_position: int
    length_bytes: int
    base_offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlan:
    """A touched segment: its `.log` before and after, and from where its indexes are completed.

    Attributes
    ----------
    file_bytes_before : int
        Size of the `.log`; -1 for a segment that the commit makes.
    valid_bytes_before : int
        Where the first copy goes; what the file holds behind it is a torn tail and is cut off.
    bytes_after : int
        Size of the `.log` once all steps are taken.
    indexed : SegmentTail
        The segment up to where its indexes hold; entries for batches behind that are made anew.
    """

    base_offset: int
    file_bytes_before: int
    valid_bytes_before: int
    bytes_after: int
    indexed: SegmentTail


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What a commit does to one partition; offsets before are None for one that was not there."""

    topic_partition: TopicPartition
    log_directory: str
    start_before: int | None
    end_before: int | None
    start_after: int
    end_after: int
    leader_epoch: int
    epoch_start_offset: int | None
    partition_metadata: bytes | None
    segments: tuple[SegmentPlan, ...]
    steps: tuple[AdoptStep | CopyStep, ...]

    @property
    def cap(self) -> tuple[int, int] | None:
        """What readers see of the partition while the commit is open."""
        if self.start_before is None or self.end_before is None:
            return None
        return self.start_before, self.end_before


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The deciding journal of an open commit: all that is needed to end it."""

    write_id: str
    application: str | None
    version: int | None
    index_interval_bytes: int
    clean_shutdown_marks: Mapping[str, bytes | None]
    staged_paths: tuple[str, ...]
    partitions: tuple[PartitionPlan, ...]
    visible: bool = False

    @property
    def log_directories(self) -> tuple[str, ...]:
        """All touched log directories by real path; the first one holds the deciding journal."""
        return tuple(sorted(self.clean_shutdown_marks))

    def to_bytes(self) -> bytes:
        """Give the bytes of the deciding ``journal.json``."""
        slots = {path: slot for slot, path in enumerate(self.staged_paths)}
        return _to_json(
            {
                "write_id": self.write_id,
                "visible": self.visible,
                "application": self.application,
                "version": self.version,
                "index_interval_bytes": self.index_interval_bytes,
                "clean_shutdown_marks": {
                    path: _encode(mark) for path, mark in self.clean_shutdown_marks.items()
                },
                "staged_paths": list(self.staged_paths),
                "partitions": [_partition_to_fields(plan, slots) for plan in self.partitions],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str) -> Journal:
        """Parse the bytes of a deciding ``journal.json``; `source` is named in errors."""
        return cls._from_fields(_from_json(data, source), source)

    @classmethod
    def _from_fields(cls, fields: dict[str, Any], source: str) -> Journal:
        with _parsing(source):
            staged_paths = tuple(fields["staged_paths"])
            return cls(
                write_id=str(fields["write_id"]),
                visible=bool(fields["visible"]),
                application=fields["application"],
                version=fields["version"],
                index_interval_bytes=int(fields["index_interval_bytes"]),
                clean_shutdown_marks={
                    path: _decode(mark) for path, mark in fields["clean_shutdown_marks"].items()
                },
                staged_paths=staged_paths,
                partitions=tuple(
                    _partition_from_fields(plan, staged_paths) for plan in fields["partitions"]
                ),
            )

    def made_visible(self) -> Journal:
        """Give the same journal with its caps ended."""
        return replace(self, visible=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPointer:
    """The journal of a log directory that is not the deciding one."""

    write_id: str
    deciding_directory: str

    def to_bytes(self) -> bytes:
        """Give the bytes of this ``journal.json``."""
        return _to_json({"write_id": self.write_id, "deciding_directory": self.deciding_directory})


def read_commit_state(log_directory: str | os.PathLike[str]) -> CommitState:
    """Read the commit counter and the caps of an open commit of one log directory.

    A reader takes this before and after it lists the directory, for all the log directories that
    it reads, and lists again until both are equal. Never writes, needs no lock.

    Raises
    ------
    RecoveryError
        A journal that is not one of ours, or that points at a directory which is gone.
    """
    path = os.fspath(log_directory)
    journal = read_journal(path)
    counter = read_versions(path).counter
    if journal is None or journal.visible:
        return CommitState(counter)
    return CommitState(
        counter, journal.write_id, {plan.topic_partition: plan.cap for plan in journal.partitions}
    )


def read_versions(log_directory: str) -> Versions:
    """Read ``.segmentlog-versions``; an absent file is a directory without a commit."""
    path = os.path.join(log_directory, VERSIONS_FILE_NAME)
    data = _read_if_there(path)
    return Versions() if data is None else Versions.from_bytes(data, source=path)


def read_journal(log_directory: str) -> Journal | None:
    """Read the open commit that a log directory takes part in, through its pointer if need be."""
    entry = read_journal_entry(log_directory)
    if not isinstance(entry, JournalPointer):
        return entry
    deciding = entry.deciding_directory
    if not os.path.isdir(deciding):
        raise RecoveryError(
            f"the open commit {entry.write_id} of {log_directory} is decided in {deciding}, "
            "which is not there: bring that log directory back, then run segmentlog recover"
        )
    journal = read_journal_entry(deciding)
    if not isinstance(journal, Journal) or journal.write_id != entry.write_id:
        return None
    return journal


def read_journal_entry(log_directory: str) -> Journal | JournalPointer | None:
    """Read the journal file that lies in this log directory itself."""
    path = journal_path(log_directory)
    data = _read_if_there(path)
    if data is None:
        return None
    fields = _from_json(data, path)
    if "deciding_directory" not in fields:
        return Journal._from_fields(fields, path)
    with _parsing(path):
        return JournalPointer(
            write_id=str(fields["write_id"]), deciding_directory=str(fields["deciding_directory"])
        )


def journal_path(log_directory: str) -> str:
    """Name the journal file of a log directory."""
    return os.path.join(log_directory, COMMIT_DIRECTORY_NAME, JOURNAL_FILE_NAME)


def has_commit_directory(log_directory: str) -> bool:
    """Tell whether a commit is open, or was ended or begun by half."""
    return os.path.lexists(os.path.join(log_directory, COMMIT_DIRECTORY_NAME))


def _partition_to_fields(plan: PartitionPlan, slots: Mapping[str, int]) -> dict[str, Any]:
    return {
        "topic": plan.topic_partition.topic,
        "partition": plan.topic_partition.partition,
        "log_directory": plan.log_directory,
        "before": None if plan.cap is None else list(plan.cap),
        "after": [plan.start_after, plan.end_after],
        "leader_epoch": plan.leader_epoch,
        "epoch_start_offset": plan.epoch_start_offset,
        "partition_metadata": _encode(plan.partition_metadata),
        "segments": [_segment_to_fields(segment) for segment in plan.segments],
        "steps": [_step_to_fields(step, slots[step.staged_path]) for step in plan.steps],
    }


def _partition_from_fields(fields: dict[str, Any], staged_paths: tuple[str, ...]) -> PartitionPlan:
    before = fields["before"] or (None, None)
    return PartitionPlan(
        topic_partition=TopicPartition(fields["topic"], int(fields["partition"])),
        log_directory=fields["log_directory"],
        start_before=before[0],
        end_before=before[1],
        start_after=fields["after"][0],
        end_after=fields["after"][1],
        leader_epoch=fields["leader_epoch"],
        epoch_start_offset=fields["epoch_start_offset"],
        partition_metadata=_decode(fields["partition_metadata"]),
        segments=tuple(_segment_from_fields(segment) for segment in fields["segments"]),
        steps=tuple(_step_from_fields(step, staged_paths) for step in fields["steps"]),
    )


def _segment_to_fields(plan: SegmentPlan) -> dict[str, Any]:
    fields = {name: getattr(plan, name) for name in SegmentPlan.__slots__}
    return {**fields, "indexed": asdict(plan.indexed)}


def _segment_from_fields(fields: dict[str, Any]) -> SegmentPlan:
    return SegmentPlan(**{**fields, "indexed": SegmentTail(**fields["indexed"])})


def _step_to_fields(step: AdoptStep | CopyStep, slot: int) -> list[Any]:
    if isinstance(step, CopyStep):
        return [
            "copy",
            slot,
            step.staged_position,
            step.length_bytes,
            step.base_offset,
            step.position,
        ]
    return [
        "adopt",
        slot,
        step.base_offset,
        step.size_bytes,
        step.inode,
        _encode(step.first_header),
        step.header_checksum,
    ]


def _step_from_fields(fields: list[Any], staged_paths: tuple[str, ...]) -> AdoptStep | CopyStep:
    if fields[0] == "copy":
        return CopyStep(
            staged_path=staged_paths[fields[1]],
            staged_position=fields[2],
            length_bytes=fields[3],
            base_offset=fields[4],
            position=fields[5],
        )
    if fields[0] != "adopt":
        raise ValueError(f"step {fields[0]!r}, known are adopt and copy")
    return AdoptStep(
        staged_path=staged_paths[fields[1]],
        base_offset=fields[2],
        size_bytes=fields[3],
        inode=fields[4],
        first_header=_decode(fields[5]) or b"",
        header_checksum=fields[6],
    )


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _to_json(fields: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT_VERSION, **fields}, separators=(",", ":")).encode("ascii")


def _from_json(data: bytes, source: str) -> dict[str, Any]:
    with _parsing(source):
        fields = json.loads(data)
        if not isinstance(fields, dict) or "format" not in fields:
            raise ValueError("no format version in it")
        if fields["format"] != FORMAT_VERSION:
            raise ValueError(f"format {fields['format']!r}, this release knows {FORMAT_VERSION}")
        return fields


@contextmanager
def _parsing(source: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, binascii.Error) as error:
        raise RecoveryError(
            f"not a commit file of this library: {type(error).__name__}: {error} (file {source})"
        ) from error


def _read_if_there(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
