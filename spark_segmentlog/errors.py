"""Errors of the library: one base class, one subclass for each thing a caller would do differently.

Every error pickles (Spark carries them from a Python worker to the driver), and its text says what
went wrong, what was measured, what is allowed, and where.
"""

from __future__ import annotations

from typing import Any


def _rebuild(cls: type[SegmentLogError], args: tuple[Any, ...], state: dict[str, Any]) -> object:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


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


class EmptyLogDirectoryError(SegmentLogError):
    """A log directory without a single partition directory."""


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
    """

    def __init__(
        self, reason: str, *, source: str, position: int, base_offset: int = -1, length: int = 0
    ) -> None:
        super().__init__(
            f"{reason} (file {source}, position {position}, base offset {base_offset})"
        )
        self.reason = reason
        self.source = source
        self.position = position
        self.base_offset = base_offset
        self.length = length


class CrcMismatchError(CorruptRecordError):
    """The stored checksum is not that of the bytes."""


class InvalidBatchError(CorruptRecordError):
    """A header whose length, magic or count cannot be."""


class InvalidRecordError(CorruptRecordError):
    """A record whose lengths, counts or varints do not fit the bytes of its batch."""


class DecompressionError(CorruptRecordError):
    """A compressed block that its codec refuses."""


class DecompressedSizeError(CorruptRecordError):
    """A compressed block that grows beyond the limit: a decompression bomb, or a limit too low."""


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


class StagingError(SegmentLogError):
    """Staged files are missing or differ from what their task reported; nothing was committed."""


class CommitPendingError(SegmentLogError):
    """Committed but not yet visible: do not retry; ``segmentlog recover``, or a writer, ends it."""


class RecoveryError(SegmentLogError):
    """A directory whose state is none that a crash of ours can leave; nothing was touched."""
