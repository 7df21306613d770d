"""Names on disk: partition directories, segment files, suffixes of what is dying or half made.

A partition directory is named ``<topic>-<partition>``, split at the last dash, since a topic may
hold dashes and dots. A segment's files are its base offset in 20 digits and a suffix. A broker
renames before it deletes and after it has made: ``.deleted``, ``.cleaned`` and ``.swap`` stand
after a file's whole name, ``.<uuid>-delete``, ``-future`` and ``-stray`` after a directory's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spark_segmentlog.errors import NotALogDirectoryError

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"


@dataclass(frozen=True, slots=True)
class FileKind:
    """One kind of file in a partition's folder, named by an offset and this suffix.

    One with `moves_with_segment` has a segment's base offset in its name, and is renamed and
    deleted with that segment; any other goes by itself.
    """

    suffix: str
    holds: str
    made_by: str
    deleted_by: str
    moves_with_segment: bool = True


_WITH_ITS_SEGMENT: Final = "`retain`, `compact`, and a broker"
_ROLL: Final = "who begins the segment"

FILE_KINDS: Final = (
    FileKind(LOG_SUFFIX, "batches, one after the other", _ROLL, _WITH_ITS_SEGMENT),
    FileKind(
        OFFSET_INDEX_SUFFIX,
        "8 bytes an entry: offset relative to the base, position in the `.log`",
        f"{_ROLL}; again: `recover`, `reindex`",
        _WITH_ITS_SEGMENT,
    ),
    FileKind(
        TIME_INDEX_SUFFIX,
        "12 bytes an entry: a running maximum of timestamps, relative offset of that record",
        f"{_ROLL}; again: `recover`, `reindex`",
        _WITH_ITS_SEGMENT,
    ),
    FileKind(
        TRANSACTION_INDEX_SUFFIX,
        "34 bytes an entry: an aborted transaction, one for each abort marker in the segment",
        "a broker, at an abort; again: `recover`, `reindex`",
        _WITH_ITS_SEGMENT,
    ),
    FileKind(
        SNAPSHOT_SUFFIX,
        "producers and their open transactions, as of the offset in its name",
        "a broker at each roll, `recover`, `compact`",
        "`retain`, `recover`, and a broker",
        moves_with_segment=False,
    ),
)
"""In the order in which the files of a segment are renamed: its log first."""


def file_suffixes() -> tuple[str, ...]:
    """Give the suffixes of all kinds of files."""
    return tuple(kind.suffix for kind in FILE_KINDS)


def segment_suffixes() -> tuple[str, ...]:
    """Give the suffixes of the files that are renamed with their segment, its log first."""
    return tuple(kind.suffix for kind in FILE_KINDS if kind.moves_with_segment)


DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
CHECKPOINT_FILE_SUFFIX: Final = ".checkpoint"

DELETE_DIRECTORY_SUFFIX: Final = "-delete"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
ASIDE_DIRECTORY_SUFFIXES: Final = (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
)
"""Of directories that stand beside the log: what they hold is read only where they are named."""

# What is read, or cleaned, where nobody names topics: none that is named as these are.
INTERNAL_TOPIC_PREFIX: Final = "__"

STAGED_PREFIX: Final = ".segmentlog-"
STAGED_SUFFIX: Final = ".staged"
STAGED_NAME: Final = re.compile(
    r"\.segmentlog-(?P<write_id>[0-9A-Za-z.]+)-(?P<task>\d+)-(?P<attempt>\d+)-(?P<n>\d+)\.staged"
)
BASE_OFFSET_DIGITS: Final = 20
MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITION: Final = 2**31 - 1
MAX_TOPIC_LENGTH: Final = 249
TOPIC_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic; orders by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition from `start_offset` up to, and without, `end_offset`."""

    topic_partition: TopicPartition
    start_offset: int
    end_offset: int


def is_topic_name(name: str) -> bool:
    """Tell whether Kafka takes this as a topic's name."""
    return (
        0 < len(name) <= MAX_TOPIC_LENGTH
        and name not in (".", "..")
        and TOPIC_CHARACTERS.issuperset(name)
    )


def find_topic_partition(directory_name: str) -> TopicPartition | None:
    """Split a directory's name at its last dash; None where it names no live partition."""
    topic, dash, number = directory_name.rpartition("-")
    if not dash or not _is_plain_number(number) or int(number) > MAX_PARTITION:
        return None
    return TopicPartition(topic, int(number)) if is_topic_name(topic) else None


def find_left_topic_partition(directory_name: str) -> TopicPartition | None:
    """Read the name of what a broker deletes or has set aside: one that ends ``-delete`` or
    ``-stray``."""
    if not directory_name.endswith((DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)):
        return None
    return find_aside_topic_partition(directory_name)


def find_aside_topic_partition(directory_name: str) -> TopicPartition | None:
    """Read the name of a directory beside the log: ``<topic>-<partition>.<uuid>-delete``,
    ``-future`` or ``-stray``."""
    for suffix in ASIDE_DIRECTORY_SUFFIXES:
        if directory_name.endswith(suffix):
            live_name, dot, _ = directory_name.removesuffix(suffix).rpartition(".")
            return find_topic_partition(live_name) if dot else None
    return None


def parse_partition_directory_name(directory_name: str) -> TopicPartition:
    """Split a partition directory's name into topic and partition, also one beside the log.

    Raises
    ------
    NotALogDirectoryError
        The name is not a topic, a dash and a number.
    """
    topic_partition = find_topic_partition(directory_name) or find_aside_topic_partition(
        directory_name
    )
    if topic_partition is None:
        raise NotALogDirectoryError(
            f"folder {directory_name!r} is no partition directory: its name must be a topic, a "
            "dash and the number of a partition, as in orders-0"
        )
    return topic_partition


def segment_file_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """Name a segment's file: the base offset in 20 digits, then the suffix."""
    return f"{base_offset:0{BASE_OFFSET_DIGITS}d}{suffix}"


def find_base_offset(file_name: str, suffix: str = LOG_SUFFIX) -> int | None:
    """Read the offset in a file's name; None where it is not 20 digits and this suffix."""
    digits = file_name[: -len(suffix)]
    if len(digits) != BASE_OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    if not file_name.endswith(suffix):
        return None
    offset = int(digits)
    return offset if offset <= MAX_OFFSET else None


def find_base_offsets(file_names: Iterable[str], suffix: str = LOG_SUFFIX) -> list[int]:
    """Read the offsets in the names of the files of a suffix, ascending."""
    found = (find_base_offset(name, suffix) for name in file_names if name.endswith(suffix))
    return sorted(offset for offset in found if offset is not None)


def _is_plain_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
