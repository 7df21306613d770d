"""Errors of the library: one base class, one subclass for each thing a caller would do differently.

Every error pickles (Spark carries them from a Python worker to the driver), and its text says what
went wrong, what was measured, what is allowed, and where.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from spark_segmentlog.log.findings import Finding

MAX_FINDINGS_SHOWN: Final = 3


def _rebuild(cls: type[SegmentLogError], args: tuple[Any, ...], state: dict[str, Any]) -> object:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


def describe_offsets(start_offset: int, end_offset: int | None) -> str:
    """Say which offsets [start, end) are missing, first and last; None for an unknown end."""
    if end_offset is None:
        return f"offsets from {start_offset} on are missing"
    if end_offset <= start_offset:
        return "no offset is missing"
    if end_offset == start_offset + 1:
        return f"offset {start_offset} is missing"
    return f"offsets {start_offset} to {end_offset - 1} are missing"


class SegmentLogError(Exception):
    """Base of every error that this library raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


# What the user typed.


class UnknownOptionError(SegmentLogError, ValueError):
    """An option that does not exist; the text names the nearest one that does."""


class OptionValueError(SegmentLogError, ValueError):
    """A value that an option does not take; the text names both, and the legal ones."""


class SchemaError(SegmentLogError, ValueError):
    """A column that does not exist, or one asked for or written with another type."""


# What the path holds.


class LogPathNotFoundError(SegmentLogError, FileNotFoundError):
    """A path, or a glob, that names nothing."""


class NotALogDirectoryError(SegmentLogError, NotADirectoryError):
    """A path that is neither a log directory, nor a partition directory, nor a `.log` file."""


class NotAFileError(SegmentLogError, OSError):
    """A folder, a pipe or a device where one of Kafka's files is to be."""


class EmptyLogDirectoryError(SegmentLogError):
    """A log directory without a single partition directory."""


class RemoteStorageError(SegmentLogError):
    """What lies in a remote store is not what it must be; the text names object and chunk."""


class LogPermissionError(SegmentLogError, PermissionError):
    """A file or folder that may not be read or written."""


class UnknownTopicOrPartitionError(SegmentLogError, LookupError):
    """A topic or partition that was asked for by name and is not there."""


class OffsetOutOfRangeError(SegmentLogError, ValueError):
    """An offset outside of [log start offset, log end offset]; the text names that range."""


class DataLossError(SegmentLogError):
    """Rows that were promised are gone; carries the condition of Spark's Kafka source as its name.

    Attributes
    ----------
    condition : str
        For example ``KAFKA_DATA_LOSS.START_OFFSET_RESET``.
    """

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition


# What the bytes hold.


class CorruptRecordError(SegmentLogError):
    """Bytes that are not what Kafka's format says.

    Parameters
    ----------
    reason : str
        What is wrong, with the measured and the allowed values.
    source : str
        File that holds the bytes.
    position : int
        Byte in the file where the record batch (or message) starts.
    base_offset : int
        Base offset in its header; -1 where it could not be read.
    length : int
        Bytes of the batch, header included; 0 where it is not known.
    start_offset, end_offset : int or None
        Offsets [start, end) that are missing for it, by the batches beside it; None where that is
        not known.
    """

    def __init__(
        self,
        reason: str,
        *,
        source: str,
        position: int,
        base_offset: int = -1,
        length: int = 0,
        start_offset: int | None = None,
        end_offset: int | None = None,
    ) -> None:
        place = [f"file {source}", f"position {position}"]
        if base_offset >= 0:
            place.append(f"base offset {base_offset}")
        if start_offset is not None:
            place.append(describe_offsets(start_offset, end_offset))
        super().__init__(f"{reason} ({', '.join(place)})")
        self.reason = reason
        self.source = source
        self.position = position
        self.base_offset = base_offset
        self.length = length
        self.start_offset = start_offset
        self.end_offset = end_offset

    def naming(self, start_offset: int, end_offset: int | None) -> Self:
        """Give the same error, which also names the offsets that are missing."""
        return type(self)(
            self.reason,
            source=self.source,
            position=self.position,
            base_offset=self.base_offset,
            length=self.length,
            start_offset=start_offset,
            end_offset=end_offset,
        )


class CrcMismatchError(CorruptRecordError):
    """The stored checksum is not that of the bytes."""


class InvalidBatchError(CorruptRecordError):
    """A header whose length, magic or count cannot be."""


class InvalidRecordError(CorruptRecordError):
    """A record whose lengths, counts or varints do not fit the bytes of its batch."""


class DecompressionError(CorruptRecordError):
    """A compressed block that its codec refuses."""


class DecompressedSizeError(CorruptRecordError):
    """A compressed block that grows beyond a limit, or says to be larger than it can be."""


class MalformedTimestampError(SegmentLogError):
    """A record timestamp that Spark cannot hold; names topic, partition, offset and value."""


# What a writer meets.


class InvalidRowError(SegmentLogError, ValueError):
    """A row that cannot be written; the text names its column and its place."""


class RecordTooLargeError(InvalidRowError):
    """A record batch above ``max.message.bytes``."""


class LogLockedError(SegmentLogError):
    """Another process holds the directory's ``.lock``: a running broker, or another writer."""


class UnsafeTargetError(SegmentLogError):
    """A write that a broker would punish: to a replicated, an unknown or an internal topic."""


class PreflightError(UnsafeTargetError):
    """A write that a broker, or a reader, would not see, by the state of the directory."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        shown = "; ".join(map(str, self.findings[:MAX_FINDINGS_SHOWN]))
        rest = len(self.findings) - MAX_FINDINGS_SHOWN
        super().__init__(shown + (f"; and {rest} more" if rest > 0 else ""))


class StagingError(SegmentLogError):
    """Staged files are missing or differ from what their task reported; nothing was committed."""


class CommitPendingError(SegmentLogError):
    """Committed but not yet visible: do not retry; ``segmentlog recover``, or a writer, ends it."""


class RecoveryError(SegmentLogError):
    """A directory whose state is none that a crash of ours can leave; nothing was touched."""
