"""The producers of a log followed from segment to segment, to make transaction indexes anew.

As in a broker's recovery: an entry of a `.txnindex` says where its transaction began, which may be
segments before the marker. What was open at a segment's start is told by what lies before it, or
by the newest snapshot from there on. Behind bytes that are no good batches nothing is known until
the next snapshot, since a marker may have been among them.
"""

from __future__ import annotations

import logging
from typing import Final

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.file_names import MAX_OFFSET
from spark_segmentlog.log.header_walk import ReadBuffer
from spark_segmentlog.log.partition_log import PartitionLog
from spark_segmentlog.log.producer_snapshot import ProducerState
from spark_segmentlog.log.producer_survey import ProducerSurvey
from spark_segmentlog.log.segment import Segment
from spark_segmentlog.log.transaction_index import AbortedTransaction

_BELOW_ALL_OFFSETS: Final = -1

_log = logging.getLogger(__name__)


class ProducerReplay:
    """What a broker would know of a log's producers, segment by segment.

    Each segment is added, in their order. Its batches are read only once somebody asks what it, or
    one behind it, aborted.

    Parameters
    ----------
    log : PartitionLog
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._buffer = ReadBuffer()
        self._ends: dict[int, int] = {}
        self._known: ProducerSurvey | None = ProducerSurvey()
        # All below it is known, or lost: only a snapshot from above it says anything new.
        self._offset = _BELOW_ALL_OFFSETS

    @property
    def states(self) -> list[ProducerState] | None:
        """The producers behind the last segment asked for; None where they are not known."""
        return None if self._known is None else self._known.states

    def add(self, segment: Segment, end_position: int) -> None:
        """Add the next segment; its good batches end at a position."""
        self._ends[segment.base_offset] = end_position

    def lose_track(self, segment: Segment) -> None:
        """Take note that bytes of a segment, or what stood there, cannot be known."""
        bound = segment.end_offset_bound
        self._known = None
        self._offset = (MAX_OFFSET if bound is None else bound) - 1

    def aborted_in(self, segment: Segment) -> list[AbortedTransaction] | None:
        """Find the transactions that the markers of an added segment aborted.

        Returns
        -------
        list of AbortedTransaction, or None
            In the order of their markers; None where it is not known what was open before.
        """
        try:
            self._reach(segment.base_offset)
            return None if self._known is None else self._follow(segment, self._known)
        except CorruptRecordError as error:
            _log.warning("%s: its producers cannot be followed: %s", segment.log_path, error)
            self.lose_track(segment)
            return None

    def _reach(self, offset: int) -> None:
        """Get to know the producers at the start of a segment, if anything tells of them."""
        snapshot = self._log.newest_snapshot(offset)
        if snapshot is not None and snapshot[0] > self._offset:
            self._offset, states = snapshot
            self._known = ProducerSurvey.of(states, self._offset)
        if self._known is not None:
            for segment in self._log.segments_between(self._offset, offset):
                self._follow(segment, self._known)
            self._offset = offset

    def _follow(self, segment: Segment, known: ProducerSurvey) -> list[AbortedTransaction]:
        before = len(known.aborted)
        known.follow(
            segment,
            self._buffer,
            start_offset=self._offset,
            end_position=self._ends[segment.base_offset],
        )
        self._offset = known.next_offset
        return known.aborted[before:]
