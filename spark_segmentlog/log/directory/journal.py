"""How a log directory tells of commits: ``.segmentlog-versions`` and ``.segmentlog-commit``.

``.segmentlog-versions`` is a plain JSON file: a counter that every commit raises, for each
application the last version that it committed, and, once a commit went over several log
directories, the directory's own id. ``.segmentlog-commit/journal.json`` is there only while a
commit is open: it says what every partition of this directory held before and which steps lead to
what it holds after. It lies in a directory on purpose, since a broker refuses to start beside a
directory that is not named topic-partition, and so cannot serve half a commit.

A journal is a line with the checksum of what follows, then JSON. It names nothing outside of its
directory but other log directories, each by its id and by its place as seen from here: partitions
are names, staged files are names. One commit may touch several log directories; each of them has a
journal of the same write id with its own part, which is all that it takes to end that part. The
*deciding* directory is the first by real path:

1. the others' journals are written as *prepared*;
2. the deciding one is written as *decided*: now the write is committed;
3. the others become *decided*, and from here on need nobody;
4. once all steps are taken the deciding one becomes *visible*, which ends the caps of all
   directories at once, before the journals are taken away, the deciding one last.

A part is ended together with the other parts only where both journals name each other, each from
its own place. So a directory that was copied is ended alone, as the copy that it is, and whoever
else the journal speaks of stays as it is.

Journals of format 1, one for all directories with their absolute paths, are still read. They count
for a directory only where that says the same of itself.

Everything here is written under a temporary name, synced and renamed, so nobody sees half of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.formats.checkpoints import MAX_LEADER_EPOCH, LeaderEpoch
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import MAX_OFFSET, STAGED_NAME, TopicPartition, find_topic_partition
from spark_segmentlog.log.segment.growth import SegmentTail
from spark_segmentlog.record.plain.crc import crc32c

VERSIONS_FILE_NAME: Final = ".segmentlog-versions"
COMMIT_DIRECTORY_NAME: Final = ".segmentlog-commit"
JOURNAL_FILE_NAME: Final = "journal.json"

VERSIONS_FORMAT: Final = 1
# One journal for all directories, with absolute paths.
FIRST_JOURNAL_FORMAT: Final = 1
JOURNAL_FORMAT: Final = 2
MAX_SEGMENT_BYTES: Final = 2**31 - 1


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
    directory_id: str | None = None

    def to_bytes(self) -> bytes:
        """Give the bytes of the file."""
        applications = {
            name: {"version": entry.version, "write_id": entry.write_id}
            for name, entry in sorted(self.applications.items())
        }
        own_id = {} if self.directory_id is None else {"directory_id": self.directory_id}
        return _to_json(
            {
                "format": VERSIONS_FORMAT,
                "counter": self.counter,
                "applications": applications,
                **own_id,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str) -> Versions:
        """Parse the bytes of the file; `source` is named in errors."""
        with _parsing(source):
            found = _from_json(data, VERSIONS_FORMAT)
            applications = {
                name: ApplicationVersion(
                    version=_integer(entry["version"]), write_id=_text(entry["write_id"])
                )
                for name, entry in found["applications"].items()
            }
            own_id = found.get("directory_id")
            return cls(
                counter=_integer(found["counter"]),
                applications=applications,
                directory_id=None if own_id is None else _text(own_id),
            )


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
    """What a commit does to one partition; offsets before are None for one that was not there.

    `leader_epochs` is what `leader-epoch-checkpoint` is to hold; None where it stays as it is.

    `linked_inode` is that of the folder which a partition's folder is a link to; None where the
    folder is none. A journal leads through a link only where both still are what they were.
    """

    topic_partition: TopicPartition
    log_directory: str
    start_before: int | None
    end_before: int | None
    start_after: int
    end_after: int
    leader_epoch: int
    leader_epochs: tuple[LeaderEpoch, ...] | None
    partition_metadata: bytes | None
    segments: tuple[SegmentPlan, ...]
    steps: tuple[AdoptStep | CopyStep, ...]
    linked_inode: int | None = None

    @property
    def directory(self) -> str:
        """The partition directory."""
        return os.path.join(self.log_directory, str(self.topic_partition))

    @property
    def cap(self) -> tuple[int, int] | None:
        """What readers see of the partition while the commit is open."""
        if self.start_before is None or self.end_before is None:
            return None
        return self.start_before, self.end_before


class CommitPhase(StrEnum):
    """How far a commit is, as the journal of one of its directories knows it."""

    PREPARED = "prepared"
    DECIDED = "decided"
    VISIBLE = "visible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A log directory that takes part in a commit: its id, and its place as seen from another."""

    directory_id: str | None
    place: str


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
    clean_shutdown_mark : bytes or None
    staged_paths : tuple of str
        Files of this directory.
    partitions : tuple of PartitionPlan
        Those of this directory.
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
        return self.place_of(self.participants[0]) == self.log_directory

    def place_of(self, participant: Participant) -> str:
        """Tell where another directory would be, by its real path."""
        return os.path.realpath(os.path.join(self.log_directory, participant.place))

    def names(self, log_directory: str) -> bool:
        """Tell whether a directory takes part in this commit, from where this one stands."""
        return any(self.place_of(it) == log_directory for it in self.participants)

    def in_phase(self, phase: CommitPhase) -> Journal:
        """Give the same journal in another phase."""
        return replace(self, phase=phase)

    def to_bytes(self) -> bytes:
        """Give the bytes of ``journal.json``."""
        slots = {path: slot for slot, path in enumerate(self.staged_paths)}
        body = _to_json(
            {
                "format": JOURNAL_FORMAT,
                "write_id": self.write_id,
                "phase": self.phase,
                "inode": self.inode,
                "participants": [[it.directory_id, it.place] for it in self.participants],
                "application": self.application,
                "version": self.version,
                "index_interval_bytes": self.index_interval_bytes,
                "clean_shutdown_mark": _encode(self.clean_shutdown_mark),
                "staged": [os.path.basename(path) for path in self.staged_paths],
                "partitions": [_partition_to_fields(plan, slots) for plan in self.partitions],
            }
        )
        return b"%08x\n%s" % (crc32c(body), body)

    @classmethod
    def from_bytes(cls, data: bytes, log_directory: str, *, source: str) -> Journal:
        """Parse the bytes of a ``journal.json``; `source` is named in errors."""
        with _parsing(source):
            checksum, _, body = data.partition(b"\n")
            if checksum != b"%08x" % crc32c(body):
                raise ValueError("its checksum is not that of what it holds")
            found = _from_json(body, JOURNAL_FORMAT)
            staged = tuple(
                os.path.join(log_directory, _staged_name(name)) for name in found["staged"]
            )
            return cls(
                log_directory=log_directory,
                inode=_integer(found["inode"]),
                write_id=_text(found["write_id"]),
                phase=CommitPhase(found["phase"]),
                participants=_participants(found["participants"]),
                application=_optional_text(found["application"]),
                version=None if found["version"] is None else _integer(found["version"]),
                index_interval_bytes=_integer(found["index_interval_bytes"]),
                clean_shutdown_mark=_decode(found["clean_shutdown_mark"]),
                staged_paths=staged,
                partitions=tuple(
                    _partition_from_fields(plan, log_directory, staged)
                    for plan in found["partitions"]
                ),
            )


# Reading


def read_commit_state(log_directory: str | os.PathLike[str]) -> CommitState:
    """Read the commit counter and the caps of an open commit of one log directory.

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
    caps = {plan.topic_partition: plan.cap for part in parts for plan in part.partitions}
    return CommitState(counter, journal.write_id, caps)


def read_versions(log_directory: str) -> Versions:
    """Read ``.segmentlog-versions``; an absent file is a directory without a commit."""
    path = os.path.join(log_directory, VERSIONS_FILE_NAME)
    data = _read_if_there(path)
    return Versions() if data is None else Versions.from_bytes(data, source=path)


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
    log_directory : str
        A real path.
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


def journal_path(log_directory: str) -> str:
    """Name the journal file of a log directory."""
    return os.path.join(log_directory, COMMIT_DIRECTORY_NAME, JOURNAL_FILE_NAME)


def has_commit_directory(log_directory: str) -> bool:
    """Tell whether a commit is open, or was ended or begun by half."""
    return os.path.lexists(os.path.join(log_directory, COMMIT_DIRECTORY_NAME))


def new_directory_id() -> str:
    """Make the id by which journals of other directories know a log directory."""
    return uuid.uuid4().hex


def participants_of(
    log_directories: Sequence[str], ids: Mapping[str, str], seen_from: str
) -> tuple[Participant, ...]:
    """Describe the directories of a commit as one of them sees them."""
    return tuple(
        Participant(directory_id=ids.get(path), place=os.path.relpath(path, seen_from))
        for path in log_directories
    )


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
    data = _read_if_there(path)
    if data is None:
        return None
    if data.lstrip()[:1] != b"{":
        return Journal.from_bytes(data, log_directory, source=path)
    return _read_first_format(data, log_directory, path)


def _peers(journal: Journal) -> list[Journal]:
    """Read the other parts of a commit, where each names the other from its own place."""
    found = []
    for participant in journal.participants:
        place = journal.place_of(participant)
        if place == journal.log_directory or not has_commit_directory(place):
            continue
        peer = _read_part(place, journal, participant)
        if peer is not None and peer.names(journal.log_directory):
            found.append(peer)
    return found


def _read_part(place: str, journal: Journal, participant: Participant) -> Journal | None:
    if read_versions(place).directory_id != participant.directory_id:
        return None
    peer = _read_own(place)
    return peer if peer is not None and peer.write_id == journal.write_id else None


def _find_deciding(own: Journal, beside: Iterable[str]) -> Journal | None:
    """Read the journal that decides; None where its directory is there, and no such journal."""
    first = own.participants[0]
    for place in (*beside, own.place_of(first)):
        if not os.path.isdir(place) or read_versions(place).directory_id != first.directory_id:
            continue
        return _read_part(place, own, first)
    folder = os.path.dirname(journal_path(own.log_directory))
    raise RecoveryError(
        f"whether write {own.write_id} is committed in {own.log_directory} is decided in another "
        f"log directory, once at {own.place_of(first)}, which is not there: bring it back, or name "
        f"it beside this one; to go on alone, without that write, remove {folder} (nothing of the "
        "write is in this directory yet)"
    )


# Format 1


def _read_first_format(data: bytes, log_directory: str, source: str) -> Journal | None:
    """Read a directory's part of a journal of format 1, through its pointer if need be."""
    with _parsing(source):
        found = _from_json(data, FIRST_JOURNAL_FORMAT)
        if "deciding_directory" not in found:
            return _first_format_part(found, min(found["clean_shutdown_marks"]), log_directory)
        deciding = _absolute_path(found["deciding_directory"])
        write_id = _text(found["write_id"])
    if not os.path.isdir(deciding):
        raise RecoveryError(
            f"the open commit {write_id} of {log_directory} is decided in {deciding}, which is not "
            "there: bring that log directory back, then run segmentlog recover"
        )
    path = journal_path(deciding)
    data_there = _read_if_there(path)
    if data_there is None or data_there.lstrip()[:1] != b"{":
        return None
    with _parsing(path):
        found = _from_json(data_there, FIRST_JOURNAL_FORMAT)
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
    marks = {_text(path): _decode(mark) for path, mark in found["clean_shutdown_marks"].items()}
    paths = [_text(path) for path in found["staged_paths"]]
    # A step may copy from a file of another directory, which then has to be where it was.
    staged = tuple(
        os.path.join(
            log_directory if os.path.dirname(path) == recorded else _member(path, marks),
            _staged_name(os.path.basename(path)),
        )
        for path in paths
    )
    return Journal(
        log_directory=log_directory,
        inode=0,
        write_id=_text(found["write_id"]),
        phase=CommitPhase.VISIBLE if found["visible"] is True else CommitPhase.DECIDED,
        participants=tuple(
            Participant(
                directory_id=read_versions(path).directory_id if os.path.isdir(path) else None,
                place=log_directory if path == recorded else path,
            )
            for path in sorted(marks)
        ),
        application=_optional_text(found["application"]),
        version=None if found["version"] is None else _integer(found["version"]),
        index_interval_bytes=_integer(found["index_interval_bytes"]),
        clean_shutdown_mark=marks[recorded],
        staged_paths=staged,
        partitions=tuple(
            _partition_from_fields(plan, log_directory, staged)
            for plan in found["partitions"]
            if plan["log_directory"] == recorded
        ),
    )


def _member(path: str, marks: Mapping[str, bytes | None]) -> str:
    folder = os.path.dirname(path)
    if folder not in marks:
        raise ValueError(f"staged file {path!r} lies in none of its log directories")
    return folder


# Fields


def _partition_to_fields(plan: PartitionPlan, slots: Mapping[str, int]) -> dict[str, Any]:
    return {
        "topic": plan.topic_partition.topic,
        "partition": plan.topic_partition.partition,
        "linked_inode": plan.linked_inode,
        "before": None if plan.cap is None else list(plan.cap),
        "after": [plan.start_after, plan.end_after],
        "leader_epoch": plan.leader_epoch,
        "leader_epochs": _epochs_to_fields(plan.leader_epochs),
        "partition_metadata": _encode(plan.partition_metadata),
        "segments": [_segment_to_fields(segment) for segment in plan.segments],
        "steps": [_step_to_fields(step, slots[step.staged_path]) for step in plan.steps],
    }


def _partition_from_fields(
    found: dict[str, Any], log_directory: str, staged_paths: tuple[str, ...]
) -> PartitionPlan:
    before = (None, None) if found["before"] is None else _pair(found["before"])
    after = _pair(found["after"])
    linked_inode = found.get("linked_inode")
    return PartitionPlan(
        topic_partition=_topic_partition(found["topic"], found["partition"]),
        log_directory=log_directory,
        start_before=before[0],
        end_before=before[1],
        start_after=after[0],
        end_after=after[1],
        leader_epoch=_integer(found["leader_epoch"], most=MAX_LEADER_EPOCH),
        leader_epochs=_epochs_from_fields(found),
        partition_metadata=_decode(found["partition_metadata"]),
        segments=tuple(_segment_from_fields(segment) for segment in found["segments"]),
        steps=tuple(
            _step_from_fields(step, staged_paths, log_directory) for step in found["steps"]
        ),
        linked_inode=None if linked_inode is None else _integer(linked_inode),
    )


def _epochs_to_fields(epochs: Sequence[LeaderEpoch] | None) -> list[list[int]] | None:
    return None if epochs is None else [[entry.epoch, entry.start_offset] for entry in epochs]


def _epochs_from_fields(found: dict[str, Any]) -> tuple[LeaderEpoch, ...] | None:
    """Read leader epochs; earlier releases wrote where the only one starts."""
    if "epoch_start_offset" in found:
        start = found["epoch_start_offset"]
        pairs = None if start is None else [(found["leader_epoch"], start)]
    else:
        pairs = found["leader_epochs"]
    if pairs is None:
        return None
    return tuple(
        LeaderEpoch(_integer(epoch, most=MAX_LEADER_EPOCH), _integer(start))
        for epoch, start in pairs
    )


def _segment_to_fields(plan: SegmentPlan) -> dict[str, Any]:
    values = {name: getattr(plan, name) for name in SegmentPlan.__slots__}
    return {**values, "indexed": asdict(plan.indexed)}


def _segment_from_fields(found: dict[str, Any]) -> SegmentPlan:
    indexed = found["indexed"]
    return SegmentPlan(
        base_offset=_integer(found["base_offset"]),
        file_bytes_before=_integer(
            found["file_bytes_before"], least=-1, most=2 * MAX_SEGMENT_BYTES
        ),
        valid_bytes_before=_integer(found["valid_bytes_before"], most=MAX_SEGMENT_BYTES),
        bytes_after=_integer(found["bytes_after"], most=2 * MAX_SEGMENT_BYTES),
        indexed=SegmentTail(
            **{it.name: _integer(indexed[it.name], least=-(2**63)) for it in fields(SegmentTail)}
        ),
    )


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


def _step_from_fields(
    found: list[Any], staged_paths: tuple[str, ...], log_directory: str
) -> AdoptStep | CopyStep:
    path = staged_paths[_integer(found[1])]
    if found[0] == "copy":
        return CopyStep(
            staged_path=path,
            staged_position=_integer(found[2], most=MAX_SEGMENT_BYTES),
            length_bytes=_integer(found[3], most=MAX_SEGMENT_BYTES),
            base_offset=_integer(found[4]),
            position=_integer(found[5], most=MAX_SEGMENT_BYTES),
        )
    if found[0] != "adopt":
        raise ValueError(f"step {found[0]!r}, known are adopt and copy")
    if os.path.dirname(path) != log_directory:
        raise ValueError(f"staged file {path!r} of another directory cannot become a segment")
    return AdoptStep(
        staged_path=path,
        base_offset=_integer(found[2]),
        size_bytes=_integer(found[3], most=MAX_SEGMENT_BYTES),
        inode=_integer(found[4], most=2**64),
        first_header=_decode(found[5]) or b"",
        header_checksum=_integer(found[6]),
    )


def _participants(found: list[Any]) -> tuple[Participant, ...]:
    if not found:
        raise ValueError("no log directory takes part")
    return tuple(
        Participant(directory_id=_optional_text(directory_id), place=_text(place))
        for directory_id, place in found
    )


def _topic_partition(topic: Any, partition: Any) -> TopicPartition:
    """Check that a partition's name is one: what is made of it is a path."""
    found = TopicPartition(_text(topic), _integer(partition))
    if find_topic_partition(str(found)) != found:
        raise ValueError(f"{str(found)!r} is no name of a partition")
    return found


def _staged_name(value: Any) -> str:
    if STAGED_NAME.fullmatch(_text(value)) is None:
        raise ValueError(f"{value!r} is no name of a staged file")
    return _text(value)


def _absolute_path(value: Any) -> str:
    path = _text(value)
    if not os.path.isabs(path):
        raise ValueError(f"{path!r:.100} is no absolute path")
    return os.path.normpath(path)


def _pair(value: Any) -> tuple[int, int]:
    first, second = value
    return _integer(first), _integer(second)


def _integer(value: Any, *, least: int = 0, most: int = MAX_OFFSET) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r:.100} is no number from {least} to {most}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.100} is no text")
    # Surrogates and zero bytes have no place in a path; encoding refuses the former.
    if b"\0" in value.encode():
        raise ValueError(f"{value!r:.100} has a zero byte")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def _decode(text: Any) -> bytes | None:
    return None if text is None else base64.b64decode(_text(text), validate=True)


def _to_json(found: dict[str, Any]) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode("ascii")


def _from_json(data: bytes, known_format: int) -> dict[str, Any]:
    found = json.loads(data)
    if not isinstance(found, dict) or "format" not in found:
        raise ValueError("no format version in it")
    if found["format"] != known_format:
        raise ValueError(f"format {found['format']!r:.100}, this release knows {known_format}")
    return found


@contextmanager
def _parsing(source: str) -> Iterator[None]:
    try:
        yield
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        binascii.Error,
    ) as error:
        if isinstance(error, RecoveryError):
            raise
        raise RecoveryError(
            f"not a commit file of this library: {type(error).__name__}: {error} (file {source})"
        ) from error


def _read_if_there(path: str) -> bytes | None:
    try:
        return files.read_plain_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
