"""The producers of a log followed from segment to segment, to compare or make transaction indexes.

As in a broker's recovery: an entry of a `.txnindex` says where its transaction began, which may be
segments before the marker. What was open where the log begins is told by the snapshot there alone.
After bytes that are no good batches nothing is known until the next snapshot, since a marker may
have been among them. Everywhere else the batches tell, and no snapshot is asked.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from dataclasses import replace

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.formats.producer_snapshot import ProducerState
from spark_segmentlog.log.formats.transaction_index import AbortedTransaction
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.pieces import Piece, ReadBuffer
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import QUIET, STRICT
from spark_segmentlog.log.transactions.producer_tracker import ProducerTracker

_log = logging.getLogger(__name__)


class ProducerReplay:
    """What a broker would know of a log's producers, segment by segment.

    Parameters
    ----------
    skip_corrupt : bool
        Whether bad bytes are stepped over, as if they had been cut out; else they are an error.
    """

    def __init__(self, log: PartitionLog, *, skip_corrupt: bool = False) -> None:
        self._log = log
        self._options = QUIET if skip_corrupt else STRICT
        self._buffer = ReadBuffer()
        self._known: ProducerTracker | None = None
        # Snapshots from above it say something new: nothing, or bad bytes, lie up to there.
        self._lost_to = -1
        self._ends: dict[int, int] = {}
        # As it was in front of the last segment, for one that is looked at again.
        self._before: ProducerTracker | None = None
        self._last_base_offset = -1

    @property
    def states(self) -> list[ProducerState] | None:
        """The producers after the last segment; None where they are not known."""
        return None if self._known is None else self._known.states

    def follow(self, segment: Segment, end_position: int) -> list[AbortedTransaction] | None:
        """Follow the next segment, or the last one again; its good batches end at a position.

        Returns
        -------
        list of AbortedTransaction, or None
            Transactions that its markers aborted, in the order of the markers; None where it is
            not known what was open before.
        """
        self._ends[segment.base_offset] = end_position
        if segment.base_offset == self._last_base_offset:
            self._known = copy.deepcopy(self._before)
        elif segment.base_offset < self._last_base_offset:
            # Segments were merged meanwhile.
            self._known = None
        else:
            self._before = copy.deepcopy(self._known)
        self._last_base_offset = segment.base_offset
        if any(lost.end_offset == segment.base_offset for lost in self._log.lost_segments):
            # So is whatever markers the segment before it held.
            self._known, self._lost_to = None, segment.base_offset - 1
        try:
            if self._known is None:
                self._known = self._begin(segment)
            return None if self._known is None else self._follow(segment, self._known)
        except CorruptRecordError as error:
            _log.warning("%s: its producers cannot be followed: %s", segment.log_path, error)
            self.lose_track(segment)
            return None

    def lose_track(self, segment: Segment) -> None:
        """Take note that bytes of a segment, or what stood there, cannot be known."""
        bound = segment.end_offset_bound
        self._known = None
        self._lost_to = (MAX_OFFSET if bound is None else bound) - 1

    def _begin(self, segment: Segment) -> ProducerTracker | None:
        """Get to know the producers at the start of a segment, if anything tells of them."""
        is_first = len(self._ends) == 1 and self._lost_to < 0
        snapshot = self._newest_snapshot(segment.base_offset)
        if snapshot is not None and snapshot[0] > self._lost_to:
            offset, states = snapshot
            # One that began where the log still is, is told by its batches.
            limit = segment.base_offset if is_first else offset
            tracker = ProducerTracker.from_states(
                [state for state in states if state.current_txn_first_offset < limit], offset
            )
            for before in self._log.segments_between(offset, segment.base_offset):
                if before.base_offset in self._ends:
                    self._follow(before, tracker, offset)
            return tracker
        return ProducerTracker() if is_first else None

    def _newest_snapshot(self, end_offset: int) -> tuple[int, list[ProducerState]] | None:
        """Read the newest good snapshot at or below an offset: its offset, and the producers."""
        for offset in reversed(self._log.listing.snapshot_offsets.tolist()):
            if offset <= end_offset:
                states = self._log.snapshot_at(offset)
                if states is not None:
                    return offset, states
        return None

    def _follow(
        self, segment: Segment, tracker: ProducerTracker, start_offset: int = 0
    ) -> list[AbortedTransaction]:
        found = []
        for piece in self._pieces(segment, self._ends[segment.base_offset]):
            ended = tracker.apply(piece, segment.log_path, from_offset=start_offset)
            found += [transaction.as_aborted() for transaction in ended if transaction.is_aborted]
        return found

    def _pieces(self, segment: Segment, end_position: int) -> Iterator[Piece]:
        """Give the pieces of a segment, cut where its good batches end."""
        if end_position == 0:
            return
        with segment.walk(self._options, buffer=self._buffer) as walk:
            for piece in walk.pieces():
                is_good = piece.table.position < end_position
                if is_good.any():
                    table = piece.table.select(is_good)
                    yield replace(piece, table=table)
                if walk.position >= end_position:
                    return
