"""What was found about a log, and what a broker that is started on it does about that.

`verification` compares bytes with each other, `preflight` looks at what surrounds them. Both give
these, so that one list tells all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_segmentlog.errors import PreflightError, describe_offsets
from spark_segmentlog.log.names import TopicPartition

STAYS_DOWN: Final = "a broker does not start"
GOES_OFFLINE: Final = (
    "a broker takes the whole log directory offline, and stops if it has no other or the metadata "
    "log is there"
)


class FindingKind(StrEnum):
    """What is wrong, or worth knowing. The texts are stable: programs may compare them."""

    # Of the bytes of a partition.
    CORRUPT_BATCH = "corrupt batch"
    TORN_TAIL = "torn tail"
    LOST_OFFSETS = "lost offsets"
    OFFSET_ORDER = "offset order"
    BATCH_HEADER = "batch header"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    MISSING_INDEX = "missing index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    LEADER_EPOCH = "leader epoch"
    REMOTE_SEGMENT = "remote segment"
    # Of a log directory.
    OPEN_COMMIT = "open commit"
    STAGED_FILE = "staged file"
    META_PROPERTIES = "meta properties"
    DIRECTORY_ID = "directory id"
    CLUSTER_METADATA = "cluster metadata"
    FOREIGN_FOLDER = "foreign folder"
    PARTITION_TWICE = "partition twice"
    CHECKPOINT = "checkpoint"
    OFFSET_CHECKPOINT = "offset checkpoint"
    CLEAN_MARK = "clean shutdown mark"
    # Of a partition directory.
    FOREIGN_FILE = "foreign file"
    TOPIC_ID = "topic id"
    STRAY_PARTITION = "stray partition"
    TORN_SEGMENT = "torn segment"
    LOG_START = "log start"
    OWNER = "owner"
    LINK = "link"


class Severity(StrEnum):
    """What a finding costs, the worst first."""

    LOSS = "loss"
    """A broker that is started drops, cuts off or sets aside records."""
    STOP = "stop"
    """A broker does not start, or takes the log directory offline; nothing is lost."""
    FAULT = "fault"
    """Reads or lookups fail, or are wrong or slow."""
    HARMLESS = "harmless"
    """Nothing needs to be done."""


class Level(StrEnum):
    """How a finding is to be taken."""

    ERROR = "error"
    """Records are gone, or a broker would lose some or not start."""
    WARNING = "warning"
    """Reads or lookups are slow or wrong until it is mended."""
    NOTE = "note"
    """Nothing needs to be done."""


_RECOVER: Final = "`segmentlog recover --apply`"
_CUT_OUT: Final = "`segmentlog recover --apply --cut-bad-batches`"
_BY_HAND: Final = "by hand: move it out of the log directory"
_CHECKPOINT: Final = "by hand: remove the file, a broker writes it again"
_CLUSTER: Final = "by hand: compare with the cluster's metadata"
_NOTHING: Final = "nothing is to be done"

MENDS: Final[Mapping[FindingKind, str]] = {
    FindingKind.CORRUPT_BATCH: "`segmentlog salvage`, or " + _CUT_OUT,
    FindingKind.TORN_TAIL: _RECOVER,
    FindingKind.LOST_OFFSETS: "another replica; " + _RECOVER + " mends the indexes",
    FindingKind.OFFSET_ORDER: _NOTHING,
    FindingKind.BATCH_HEADER: _NOTHING,
    FindingKind.OFFSET_INDEX: _RECOVER,
    FindingKind.TIME_INDEX: _RECOVER,
    FindingKind.TRANSACTION_INDEX: _RECOVER,
    FindingKind.MISSING_INDEX: _RECOVER,
    FindingKind.REMOTE_SEGMENT: _NOTHING,
    FindingKind.PRODUCER_SNAPSHOT: "a broker's next start",
    FindingKind.LEADER_EPOCH: "another replica's `leader-epoch-checkpoint`",
    FindingKind.OPEN_COMMIT: _RECOVER,
    FindingKind.STAGED_FILE: "the next write, after seven days",
    FindingKind.META_PROPERTIES: "by hand: that of another directory, with an id of its own",
    FindingKind.DIRECTORY_ID: "by hand: an id of its own in `meta.properties`",
    FindingKind.CLUSTER_METADATA: "name the directory with `__cluster_metadata-0` too",
    FindingKind.FOREIGN_FOLDER: _BY_HAND,
    FindingKind.PARTITION_TWICE: "by hand: move the shorter copy out of the log directory",
    FindingKind.CHECKPOINT: _CHECKPOINT,
    FindingKind.OFFSET_CHECKPOINT: _CHECKPOINT,
    FindingKind.CLEAN_MARK: "by hand: remove it, a broker then recovers",
    FindingKind.FOREIGN_FILE: _BY_HAND,
    FindingKind.TOPIC_ID: _RECOVER + " where it is missing; else " + _CLUSTER,
    FindingKind.STRAY_PARTITION: _CLUSTER,
    FindingKind.TORN_SEGMENT: "`segmentlog recover --apply --delete-later-segments`",
    FindingKind.LOG_START: "by hand: lower it in `log-start-offset-checkpoint`",
    FindingKind.OWNER: "by hand: `chown` to the owner of the log directory",
    FindingKind.LINK: _NOTHING,
}
"""What takes a finding away."""

SEVERITIES: Final[Mapping[FindingKind, Severity]] = {
    FindingKind.MISSING_INDEX: Severity.HARMLESS,
    FindingKind.PRODUCER_SNAPSHOT: Severity.HARMLESS,
    FindingKind.REMOTE_SEGMENT: Severity.HARMLESS,
    FindingKind.OFFSET_CHECKPOINT: Severity.HARMLESS,
    FindingKind.CLEAN_MARK: Severity.HARMLESS,
    FindingKind.STAGED_FILE: Severity.HARMLESS,
    FindingKind.OPEN_COMMIT: Severity.STOP,
    FindingKind.META_PROPERTIES: Severity.STOP,
    FindingKind.DIRECTORY_ID: Severity.STOP,
    FindingKind.CLUSTER_METADATA: Severity.HARMLESS,
    FindingKind.FOREIGN_FOLDER: Severity.STOP,
    FindingKind.PARTITION_TWICE: Severity.STOP,
    FindingKind.CHECKPOINT: Severity.STOP,
    FindingKind.FOREIGN_FILE: Severity.STOP,
    FindingKind.TOPIC_ID: Severity.LOSS,
    FindingKind.STRAY_PARTITION: Severity.LOSS,
    FindingKind.TORN_SEGMENT: Severity.LOSS,
    FindingKind.LOG_START: Severity.LOSS,
    FindingKind.OWNER: Severity.STOP,
    FindingKind.LINK: Severity.HARMLESS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found.

    Attributes
    ----------
    position : int
        Byte in the file; -1 where it is about the whole of it.
    start_offset, end_offset : int or None
        Offsets [start, end) that are missing, where that is known.
    broker : str
        What a broker does that is started on this; empty where it does nothing of note.
    refuses_writes : bool
        Whether nothing is written there, since a broker or a reader would not see it.
    """

    kind: FindingKind
    path: str
    detail: str
    topic_partition: TopicPartition | None = None
    position: int = -1
    start_offset: int | None = None
    end_offset: int | None = None
    broker: str = ""
    refuses_writes: bool = False

    @property
    def severity(self) -> Severity:
        """What it costs."""
        # Bad bytes that refuse writes are some at which a broker would cut the log.
        of_bytes = Severity.LOSS if self.refuses_writes else Severity.FAULT
        return SEVERITIES.get(self.kind, of_bytes)

    @property
    def level(self) -> Level:
        """How it is to be taken."""
        if self.is_harmless:
            return Level.NOTE
        is_gone = self.kind in (FindingKind.CORRUPT_BATCH, FindingKind.LOST_OFFSETS)
        return Level.WARNING if self.severity is Severity.FAULT and not is_gone else Level.ERROR

    @property
    def code(self) -> str:
        """Its kind as one word, which stays what it is."""
        return str(self.kind).replace(" ", "-")

    @property
    def is_harmless(self) -> bool:
        """Whether nothing needs to be done about it."""
        return self.severity is Severity.HARMLESS

    def __str__(self) -> str:
        place = [f"file {self.path}"]
        if self.position >= 0:
            place.append(f"position {self.position}")
        if self.start_offset is not None:
            place.append(describe_offsets(self.start_offset, self.end_offset))
        effect = f"; {self.broker}" if self.broker else ""
        return f"{self.kind}: {self.detail} ({', '.join(place)}){effect}"


def refuse(findings: Iterable[Finding]) -> None:
    """Raise what refuses writes.

    Raises
    ------
    PreflightError
        At least one of the findings does.
    """
    refusing = [finding for finding in findings if finding.refuses_writes]
    if refusing:
        raise PreflightError(refusing)
