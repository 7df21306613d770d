"""The part of one partition's log that lies in remote stores: which segments of them count.

By ``__remote_log_metadata`` where a log directory has it: copies that were finished and not
deleted, by the leader epochs of the local log. Else by the stores alone: whole uploads, each up to
the next. What is to be read of those is described by the store first; where that shows segments
that overlap, or twice the same, all are described and their leader epochs decide.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch, parse_leader_epochs
from spark_segmentlog.log.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.tier.lineage import choose_pieces
from spark_segmentlog.log.tier.metadata_records import SegmentState
from spark_segmentlog.log.tier.metadata_topic import PartitionRecords
from spark_segmentlog.log.tier.remote_segment import (
    IndexKind,
    RemotePiece,
    RemoteSegment,
    SegmentPlace,
    StoreListing,
    StoreNote,
    TopicIdPartition,
)
from spark_segmentlog.log.tier.remote_source import RemoteSource
from spark_segmentlog.log.tier.segment_objects import SegmentObjects
from spark_segmentlog.log.tier.stores import RemoteStore
from spark_segmentlog.record.types import Int64s

_NOT_COUNTING: Final = (
    "counts no more: it lies below the log's start, its deletion has begun, or another copy serves"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Chosen:
    """The pieces that count, by ascending offsets, and whether each is described."""

    pieces: tuple[RemotePiece, ...]
    is_settled: bool

    @cached_property
    def starts(self) -> Int64s:
        return np.array([piece.start_offset for piece in self.pieces], np.int64)


class RemoteLog:
    """The remote part of one partition's log. Pickles with the pieces that it was narrowed to.

    Parameters
    ----------
    lineage : sequence of LeaderEpoch
        Of the local log; empty where there is none.
    log_start_offset : int
        As far as the local log tells.
    gone : set of str, optional
        Ids of segments that were not where they should be.

    Attributes
    ----------
    objects : SegmentObjects
        Reads what the pieces consist of.
    """

    def __init__(
        self,
        source: RemoteSource,
        partition: TopicIdPartition,
        lineage: Sequence[LeaderEpoch] = (),
        log_start_offset: int = 0,
        known: RemotePiece | None = None,
        gone: set[str] | None = None,
    ) -> None:
        self.source = source
        self.partition = partition
        self._lineage = tuple(lineage)
        self._log_start_offset = log_start_offset
        self.known = known
        self._chosen: _Chosen | None = None
        # Shared by all that were narrowed from one: whoever finds an object gone tells the others.
        self._gone: set[str] = set() if gone is None else gone
        self.objects = SegmentObjects(source, partition, self._gone)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteLog, (*self._parts, self.known, self._gone)

    @property
    def _parts(self) -> tuple[RemoteSource, TopicIdPartition, Sequence[LeaderEpoch], int]:
        return self.source, self.partition, self._lineage, self._log_start_offset

    def narrowed(self, start_offset: int) -> RemoteLog:
        """Give the same log for a task that reads one piece, or, for -1, none."""
        known = self.find(start_offset) if start_offset >= 0 else None
        return RemoteLog(*self._parts, known, self._gone)

    def list_again(self) -> None:
        """Forget which pieces count: they are looked up when they are asked for next."""
        self._chosen = None
        self.known = None

    def pieces(self) -> tuple[RemotePiece, ...]:
        """Give the pieces that count, ascending.

        Raises
        ------
        RemoteStorageError
        """
        return self._all().pieces

    def find(self, start_offset: int) -> RemotePiece | None:
        """Find the piece that starts at an offset."""
        starts = self._all().starts
        number = int(np.searchsorted(starts, start_offset))
        is_found = number < len(starts) and starts[number] == start_offset
        return self._all().pieces[number] if is_found else None

    def settle(self, start_offset: int, end_offset: int) -> bool:
        """Make sure of the pieces that may hold offsets in [start, end).

        Returns
        -------
        bool
            Whether others count now than before.
        """
        chosen = self._all()
        if chosen.is_settled or not chosen.pieces:
            return False
        starts = chosen.starts
        first = max(int(np.searchsorted(starts, start_offset, "right")) - 1, 0)
        end = int(np.searchsorted(starts, end_offset, "left"))
        described = self.objects.describe_all([piece.segment for piece in chosen.pieces[first:end]])
        if len(described) < end - first:
            self._chosen = None
            self.settle(start_offset, end_offset)
            return True
        pieces = list(chosen.pieces)
        for number, segment in enumerate(described, first):
            pieces[number] = RemotePiece(segment, segment.base_offset, segment.end_offset)
        self._chosen = _Chosen(tuple(pieces), first == 0 and end == len(pieces))
        limits = [*starts[1:].tolist(), None]
        is_chain = all(
            limits[number] is None or pieces[number].end_offset == limits[number]
            for number in range(first, end)
        )
        if is_chain:
            return False
        self._decide([piece.segment for piece in pieces])
        return True

    def notes(self) -> list[StoreNote]:
        """List the stores for what is no part of the log."""
        counting = {piece.segment.segment_id for piece in self.pieces()}
        found: list[StoreNote] = []
        for store in self.source.stores:
            listing = self._list(store)
            others = [segment for segment in listing.whole if segment.segment_id not in counting]
            found.extend(listing.notes)
            found.extend(StoreNote(segment.places[0].path, _NOT_COUNTING) for segment in others)
        return found

    def producers_at_end(self) -> list[ProducerState] | None:
        """Read what producers had written where the last piece ends; None where nothing tells."""
        pieces = self.pieces()
        if not pieces or pieces[-1].end_offset != pieces[-1].segment.end_offset:
            return None
        data = self.objects.read_index(pieces[-1], IndexKind.PRODUCER_SNAPSHOT)
        return None if data is None else parse_producer_snapshot(data)

    def leader_epochs_text(self) -> bytes | None:
        """Read the checkpoint of leader epochs that was kept with the last piece."""
        pieces = self.pieces()
        return self.objects.read_index(pieces[-1], IndexKind.LEADER_EPOCHS) if pieces else None

    # Which pieces count

    def _all(self) -> _Chosen:
        if self._chosen is None:
            records = self.source.metadata.find(self.partition)
            if records is None:
                self._choose_by_stores()
            else:
                self._choose_by_records(records)
        assert self._chosen is not None
        return self._chosen

    def _choose_by_records(self, records: PartitionRecords) -> None:
        segments = [
            RemoteSegment(
                segment_id=segment.segment_id,
                places=tuple(
                    SegmentPlace(
                        number,
                        store.layout.path_of(
                            store.root,
                            self.partition,
                            segment.base_offset,
                            segment.segment_id,
                            segment.custom_metadata,
                        ),
                    )
                    for number, store in enumerate(self.source.stores)
                ),
                base_offset=segment.base_offset,
                end_offset=segment.end_offset,
                leader_epochs=segment.leader_epochs,
                max_timestamp_ms=segment.max_timestamp_ms,
                size_bytes=segment.size_bytes,
                has_transaction_index=segment.has_transaction_index,
            )
            for segment in records.segments.values()
            if segment.state is SegmentState.COPY_FINISHED and segment.segment_id not in self._gone
        ]
        lineage = self._lineage or _newest_epochs(segments)
        self._chosen = self._within_log(choose_pieces(segments, lineage), is_settled=True)

    def _choose_by_stores(self) -> None:
        segments: dict[str, RemoteSegment] = {}
        for number, store in enumerate(self.source.stores):
            for segment in self._list(store).whole:
                if segment.segment_id in self._gone:
                    continue
                before = segments.get(segment.segment_id)
                places = () if before is None else before.places
                places += tuple(replace(place, store=number) for place in segment.places)
                segments[segment.segment_id] = replace(segment, places=places)
        ordered = sorted(segments.values(), key=lambda segment: segment.base_offset)
        if len({segment.base_offset for segment in ordered}) < len(ordered):
            self._decide(ordered)
            return
        pieces = [RemotePiece(segment, segment.base_offset) for segment in ordered]
        self._chosen = self._within_log(pieces, is_settled=False)

    def _list(self, store: RemoteStore) -> StoreListing:
        return store.layout.list_segments(store.storage, store.root, self.partition)

    def _decide(self, segments: Sequence[RemoteSegment]) -> None:
        """Describe all segments, and have their leader epochs decide.

        Raises
        ------
        RemoteStorageError
            What lies in a store is not what it must be, and no other segment stands for it.
        """
        bad: dict[int, RemoteStorageError] = {}
        described = self.objects.describe_all(segments, bad)
        lineage = self._lineage or self._stored_lineage(described)
        pieces = choose_pieces(described, lineage)
        for base_offset, error in bad.items():
            if not any(
                piece.start_offset <= base_offset < (piece.end_offset or 0) for piece in pieces
            ):
                raise error
            _log.warning("left out, since another copy serves: %s", error)
        self._chosen = self._within_log(pieces, is_settled=True)

    def _within_log(self, pieces: Sequence[RemotePiece], *, is_settled: bool) -> _Chosen:
        """Leave out what lies wholly below the log's start, and only waits for its deletion."""
        ends = [*(piece.start_offset for piece in pieces[1:]), MAX_OFFSET][: len(pieces)]
        kept = [
            piece
            for piece, end in zip(pieces, ends, strict=True)
            if min(end, MAX_OFFSET if piece.end_offset is None else piece.end_offset)
            > self._log_start_offset
        ]
        return _Chosen(tuple(kept), is_settled)

    def _stored_lineage(self, segments: Sequence[RemoteSegment]) -> Sequence[LeaderEpoch]:
        """Read the leader epochs that the segment of the newest leader was copied with."""
        newest = max(segments, key=_age, default=None)
        if newest is None:
            return ()
        data = self.objects.read_segment_index(newest, IndexKind.LEADER_EPOCHS) or b""
        return parse_leader_epochs(data.decode("utf-8", "replace")) or _newest_epochs(segments)


def _age(segment: RemoteSegment) -> tuple[int, int]:
    epochs = segment.leader_epochs
    return (epochs[-1].epoch if epochs else -1, segment.end_offset or 0)


def _newest_epochs(segments: Sequence[RemoteSegment]) -> Sequence[LeaderEpoch]:
    """Put a lineage together from the epochs of the segments alone."""
    starts: dict[int, int] = {}
    for segment in sorted(segments, key=_age):
        for entry in segment.leader_epochs:
            starts.setdefault(entry.epoch, entry.start_offset)
    lineage: list[LeaderEpoch] = []
    for epoch, start in sorted(starts.items(), reverse=True):
        if not lineage or start < lineage[-1].start_offset:
            lineage.append(LeaderEpoch(epoch, start))
    return lineage[::-1]
