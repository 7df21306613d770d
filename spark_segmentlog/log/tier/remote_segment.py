"""The nouns of a remote tier: a partition's folder in a store, its segments, and what is read.

A store keeps whole closed segments, each under an id of its own, with its indexes beside it. A
segment that is copied again gets another id; so a store may hold the same offsets twice, and those
that a leader's change took back. What a log is made of are pieces: offsets of a segment that count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.io.reading import LogFile, Storage
from spark_segmentlog.log.names import TopicPartition

KeyFiles = tuple[tuple[str, str], ...]
"""Ids of key pairs of encrypted segments, and the files of their private keys."""

UUID_PATTERN: Final = r"[A-Za-z0-9_-]{22}"
_UUID: Final = re.compile(UUID_PATTERN)


def is_uuid(text: str) -> bool:
    """Tell whether a text is one of Kafka's ids."""
    return _UUID.fullmatch(text) is not None


class IndexKind(StrEnum):
    """The files that a store keeps beside a segment's log."""

    OFFSET = "offset"
    TIME = "timestamp"
    PRODUCER_SNAPSHOT = "producerSnapshot"
    LEADER_EPOCHS = "leaderEpoch"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True, order=True)
class TopicIdPartition:
    """One partition of a topic that is told from others of its name by its id."""

    topic_partition: TopicPartition
    topic_id: str


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Where a segment may lie.

    Attributes
    ----------
    store : int
        Number of a store.
    path : str
        In that store, up to the suffixes.
    sizes : mapping of str to int or None
        Bytes of its objects by suffix, as far as a listing told.
    """

    store: int
    path: str
    sizes: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """One copied segment; what is not known yet is None.

    Attributes
    ----------
    places : tuple of SegmentPlace
        Where it may lie.
    base_offset, end_offset : int
        The end is exclusive.
    leader_epochs : tuple of LeaderEpoch
        Those of its records, each from its first offset in the segment on.
    max_timestamp_ms : int or None
        Of its records.
    size_bytes : int or None
        Of the plain log.
    detail : object
        What its layout opens it by, where that was read.
    """

    segment_id: str
    places: tuple[SegmentPlace, ...]
    base_offset: int
    end_offset: int | None = None
    leader_epochs: tuple[LeaderEpoch, ...] = ()
    max_timestamp_ms: int | None = None
    size_bytes: int | None = None
    has_transaction_index: bool | None = None
    detail: Any = None


@dataclass(frozen=True, slots=True)
class RemotePiece:
    """Offsets of a remote segment that count, from `start_offset` up to `end_offset`.

    The end is None where it is not known, but for the next piece.
    """

    segment: RemoteSegment
    start_offset: int
    end_offset: int | None = None

    @property
    def is_cut(self) -> bool:
        """Whether batches of the segment lie before the piece."""
        return self.start_offset > self.segment.base_offset


@dataclass(frozen=True, slots=True)
class StoreNote:
    """What a store holds that is no part of a log: the path of its objects, and why."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreListing:
    """The segments of a partition that a listing of a store shows.

    Attributes
    ----------
    whole : tuple of RemoteSegment
        Those whose upload has come to its end, by the objects that are there.
    notes : tuple of StoreNote
        What is there besides: uploads that were cut, deletes that were not finished.
    """

    whole: tuple[RemoteSegment, ...]
    notes: tuple[StoreNote, ...] = ()


class Layout(Protocol):
    """How a store names and forms its objects. One module a layout; see `layouts`."""

    name: str

    def recognises(self, storage: Storage, root: str) -> bool:
        """Tell whether a store is of this layout, by listing what is at its root."""

    def list_partitions(self, storage: Storage, root: str) -> list[TopicIdPartition]:
        """List the partitions in a store."""

    def list_segments(
        self, storage: Storage, root: str, partition: TopicIdPartition
    ) -> StoreListing:
        """List the segments of a partition; none where the store does not know it.

        All `RemoteSegment.places` are of store 0.
        """

    def path_of(
        self,
        root: str,
        partition: TopicIdPartition,
        base_offset: int,
        segment_id: str,
        custom_metadata: bytes | None,
    ) -> str:
        """Name the path of a segment's objects, up to the suffixes."""

    def read_detail(self, storage: Storage, path: str) -> Any:
        """Read what a segment is opened by, as a manifest; None where nothing is needed.

        Raises
        ------
        FileNotFoundError
        RemoteStorageError
        """

    def describe(
        self, storage: Storage, path: str, segment: RemoteSegment, detail: Any
    ) -> RemoteSegment:
        """Give a segment with what a store itself knows of it: where it ends, epochs and sizes.

        Raises
        ------
        FileNotFoundError
        RemoteStorageError
            It tells what cannot be.
        """

    def open_log(self, storage: Storage, path: str, detail: Any, keys: KeyFiles) -> LogFile:
        """Open a segment's plain log, for ranges.

        Raises
        ------
        FileNotFoundError
        RemoteStorageError
        """

    def read_index(
        self, storage: Storage, path: str, kind: IndexKind, detail: Any, keys: KeyFiles
    ) -> bytes | None:
        """Read one of a segment's indexes; None where it has none.

        Raises
        ------
        FileNotFoundError
        RemoteStorageError
        """

    def object_path(self, path: str) -> str:
        """Name the object that holds a segment's log."""
