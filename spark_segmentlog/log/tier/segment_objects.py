"""Objects of remote segments: their logs and indexes, and what a store tells of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.io.reading import LogFile, not_there
from spark_segmentlog.log.io.threads import FAR_THREADS, in_parallel
from spark_segmentlog.log.segment import index_trust
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.tier.listed_storage import ListedObjects
from spark_segmentlog.log.tier.objects import BytesFile, EndOfFile
from spark_segmentlog.log.tier.remote_segment import (
    IndexKind,
    RemotePiece,
    RemoteSegment,
    TopicIdPartition,
)
from spark_segmentlog.log.tier.remote_source import RemoteSource
from spark_segmentlog.log.tier.stores import RemoteStore

_log = logging.getLogger(__name__)


class SegmentObjects:
    """Reads the objects of segments, from whichever store of a read has them.

    Parameters
    ----------
    gone : set of str
        Gets the ids of segments that are in none of the stores.
    """

    def __init__(self, source: RemoteSource, partition: TopicIdPartition, gone: set[str]) -> None:
        self._source = source
        self._partition = partition
        self._gone = gone
        self._indexes: dict[tuple[str, IndexKind], bytes | None] = {}
        self._read_detail: tuple[RemoteStore, str, Any] | None = None

    def open_log(self, piece: RemotePiece) -> LogFile:
        """Open the plain log of a piece.

        Raises
        ------
        FileNotFoundError
            It is in none of the stores; it counts no more.
        RemoteStorageError
        """
        for store, path in self._places(piece.segment):
            try:
                detail = self._detail(store, path, piece.segment)
                file = store.layout.open_log(store.storage, path, detail, self._source.keys)
            except FileNotFoundError:
                continue
            if not piece.is_cut:
                return file
            return EndOfFile(file, self._position_of(piece, file))
        store, path = self._places(piece.segment)[0]
        _log.warning("%s is not there, or not all of it", store.layout.object_path(path))
        self._gone.add(piece.segment.segment_id)
        raise not_there(store.layout.object_path(path))

    def read_index(self, piece: RemotePiece, kind: IndexKind) -> bytes | None:
        """Read an index of a piece; None where it has none, as one that begins inside a segment."""
        if piece.is_cut and kind in (IndexKind.OFFSET, IndexKind.TIME):
            return None
        return self.read_segment_index(piece.segment, kind)

    def size_bytes(self, piece: RemotePiece) -> int:
        """Measure the plain log of a piece."""
        if piece.segment.size_bytes is not None and not piece.is_cut:
            return piece.segment.size_bytes
        with self.open_log(piece) as file:
            return file.size()

    def object_path(self, piece: RemotePiece) -> str:
        """Name the object that holds the log of a piece."""
        store, path = self._places(piece.segment)[0]
        return store.layout.object_path(path)

    def read_segment_index(self, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        """Read an index of a whole segment; None where it has none. The last one read is kept."""
        key = segment.segment_id, kind
        if key not in self._indexes:
            self._indexes = {key: self._fetch_index(segment, kind)}
        return self._indexes[key]

    def _fetch_index(self, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        if kind is IndexKind.TRANSACTION and segment.has_transaction_index is False:
            return None
        for store, path in self._places(segment):
            try:
                detail = self._detail(store, path, segment)
                return store.layout.read_index(store.storage, path, kind, detail, self._source.keys)
            except FileNotFoundError:
                continue
        return None

    def _detail(self, store: RemoteStore, path: str, segment: RemoteSegment) -> Any:
        """Give what a segment is opened by, read once."""
        if segment.detail is not None:
            return segment.detail
        known = self._read_detail
        if known is None or known[:2] != (store, path):
            known = store, path, store.layout.read_detail(store.storage, path)
            self._read_detail = known
        return known[2]

    def _places(self, segment: RemoteSegment) -> list[tuple[RemoteStore, str]]:
        stores = [(place, self._source.stores[place.store]) for place in segment.places]
        return [
            (replace(store, storage=ListedObjects(store.storage, place)), place.path)
            for place, store in stores
        ]

    def _position_of(self, piece: RemotePiece, file: LogFile) -> int:
        """Find where the batch stands that a piece inside of a segment begins with."""
        segment = Segment(
            topic_partition=self._partition.topic_partition,
            directory=self.object_path(piece),
            base_offset=piece.segment.base_offset,
        )
        data = self.read_segment_index(piece.segment, IndexKind.OFFSET) or b""
        index = OffsetIndex(BytesFile(segment.directory, data), segment.base_offset)
        entry = index.lookup(piece.start_offset, below_position=file.size())
        is_believed = entry is not None and index_trust.is_position(segment, file, entry)
        position = entry.position if entry is not None and is_believed else 0
        for table in HeaderWalk(segment, file, position=position):
            rows = np.flatnonzero(table.last_offset >= piece.start_offset)
            if len(rows):
                return int(table.position[rows[0]])
        return file.size()

    def describe_all(
        self,
        segments: Sequence[RemoteSegment],
        bad: dict[int, RemoteStorageError] | None = None,
    ) -> list[RemoteSegment]:
        """Describe segments, without those that have gone since the listing.

        Parameters
        ----------
        bad : dict of int to RemoteStorageError, optional
            Gets the errors of segments that cannot be described, by base offset; without it the
            first one is raised.
        """

        def describe(segment: RemoteSegment) -> RemoteSegment | None:
            try:
                return segment if segment.end_offset is not None else self._described(segment)
            except RemoteStorageError as error:
                if bad is None:
                    raise
                bad[segment.base_offset] = error
                return None

        found = in_parallel(describe, segments, FAR_THREADS)
        return [segment for segment in found if segment is not None]

    def _described(self, segment: RemoteSegment) -> RemoteSegment | None:
        known = self._source.described.get(segment.segment_id)
        if known is not None and known.places == segment.places:
            return known
        found = self._describe(segment)
        if found is not None:
            self._source.described[segment.segment_id] = found
        return found

    def _describe(self, segment: RemoteSegment) -> RemoteSegment | None:
        for store, path in self._places(segment):
            try:
                detail = self._detail(store, path, segment)
                described = store.layout.describe(store.storage, path, segment, detail)
            except FileNotFoundError:
                continue
            return replace(described, detail=detail)
        self._gone.add(segment.segment_id)
        return None
