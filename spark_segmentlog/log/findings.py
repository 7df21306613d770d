"""What was found about a log, and what a broker that is started on it does about that.

`verification` compares bytes with each other, `preflight` looks at what surrounds them. Both give
these, so that one list tells all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from spark_segmentlog.errors import PreflightError, describe_offsets
from spark_segmentlog.log.names import TopicPartition

STAYS_DOWN: Final = "a broker does not start"
GOES_OFFLINE: Final = (
    "a broker takes the whole log directory offline, and stops if it has no other or the metadata "
    "log is there"
)


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


class FindingKind(StrEnum):
    """What is wrong, or worth knowing. The texts are stable: programs may compare them.

    Attributes
    ----------
    mend : str
        What takes it away.
    severity : Severity or None
        What it costs; None where that depends on what was found.
    """

    mend: str
    severity: Severity | None

    def __new__(cls, text: str, mend: str = "", severity: Severity | None = None) -> Self:
        """Make a kind that equals its text."""
        kind = str.__new__(cls, text)
        kind._value_ = text
        kind.mend = mend
        kind.severity = severity
        return kind

    # Of the bytes of a partition.
    CORRUPT_BATCH = "corrupt batch", f"`segmentlog salvage`, or {_CUT_OUT}"
    TORN_TAIL = "torn tail", _RECOVER
    LOST_OFFSETS = "lost offsets", f"another replica; {_RECOVER} mends the indexes"
    OFFSET_ORDER = "offset order", _NOTHING
    BATCH_HEADER = "batch header", _NOTHING
    OFFSET_INDEX = "offset index", _RECOVER
    TIME_INDEX = "time index", _RECOVER
    TRANSACTION_INDEX = "transaction index", _RECOVER
    MISSING_INDEX = "missing index", _RECOVER, Severity.HARMLESS
    PRODUCER_SNAPSHOT = "producer snapshot", "a broker's next start", Severity.HARMLESS
    LEADER_EPOCH = "leader epoch", "another replica's `leader-epoch-checkpoint`"
    REMOTE_SEGMENT = "remote segment", _NOTHING, Severity.HARMLESS
    # Of a log directory.
    OPEN_COMMIT = "open commit", _RECOVER, Severity.STOP
    STAGED_FILE = "staged file", "the next write, after seven days", Severity.HARMLESS
    META_PROPERTIES = (
        "meta properties",
        "by hand: that of another directory, with an id of its own",
        Severity.STOP,
    )
    DIRECTORY_ID = "directory id", "by hand: an id of its own in `meta.properties`", Severity.STOP
    CLUSTER_METADATA = (
        "cluster metadata",
        "name the directory with `__cluster_metadata-0` too",
        Severity.HARMLESS,
    )
    FOREIGN_FOLDER = "foreign folder", _BY_HAND, Severity.STOP
    PARTITION_TWICE = (
        "partition twice",
        "by hand: move the shorter copy out of the log directory",
        Severity.STOP,
    )
    CHECKPOINT = "checkpoint", _CHECKPOINT, Severity.STOP
    OFFSET_CHECKPOINT = "offset checkpoint", _CHECKPOINT, Severity.HARMLESS
    CLEAN_MARK = (
        "clean shutdown mark",
        "by hand: remove it, a broker then recovers",
        Severity.HARMLESS,
    )
    # Of a partition directory.
    FOREIGN_FILE = "foreign file", _BY_HAND, Severity.STOP
    TOPIC_ID = "topic id", f"{_RECOVER} where it is missing; else {_CLUSTER}", Severity.LOSS
    STRAY_PARTITION = "stray partition", _CLUSTER, Severity.LOSS
    TORN_SEGMENT = (
        "torn segment",
        "`segmentlog recover --apply --delete-later-segments`",
        Severity.LOSS,
    )
    LOG_START = "log start", "by hand: lower it in `log-start-offset-checkpoint`", Severity.LOSS
    OWNER = "owner", "by hand: `chown` to the owner of the log directory", Severity.STOP
    LINK = "link", _NOTHING, Severity.HARMLESS


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
        return self.kind.severity or of_bytes

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
