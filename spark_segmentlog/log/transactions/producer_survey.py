"""One walk over all of a log before it is cleaned: its producers, and what its segments hold.

The walk also measures what compaction decides by: the largest timestamp of each segment, and the
offsets of batches that hold something whose delete horizon is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_segmentlog.log.formats.transaction_index import AbortedTransaction
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import WalkOptions
from spark_segmentlog.log.transactions.producer_tracker import ProducerTracker
from spark_segmentlog.record.layout import NO_TIMESTAMP
from spark_segmentlog.record.read.header_table import HeaderTable


@dataclass(slots=True)
class SegmentMeasures:
    """What the walk measures of one segment.

    Attributes
    ----------
    largest_timestamp : int
        In ms; -1 where no record has one.
    records_count : int
        An estimate from above, where wrappers of formats 0 and 1 are among its batches.
    earliest_horizon_ms : int
        -1 where no batch has a delete horizon.
    """

    base_offset: int
    largest_timestamp: int = NO_TIMESTAMP
    records_count: int = 0
    earliest_horizon_ms: int = NO_TIMESTAMP

    def add(self, table: HeaderTable) -> None:
        """Measure the next batches."""
        self.largest_timestamp = max(self.largest_timestamp, int(table.max_timestamp.max()))
        # A wrapper does not say how many messages it holds: seldom more than it has bytes.
        counts = np.where(table.records_count < 0, table.size_bytes, table.records_count)
        self.records_count += int(counts.sum())
        horizons = table.base_timestamp[table.has_delete_horizon]
        if len(horizons):
            earliest = int(horizons.min())
            known = self.earliest_horizon_ms
            self.earliest_horizon_ms = earliest if known < 0 else min(known, earliest)


@dataclass(slots=True)
class ProducerSurvey:
    """What the headers of a log tell.

    Attributes
    ----------
    aborted : list of AbortedTransaction
        In the order of their markers; those of which data is still there.
    """

    producers: ProducerTracker = field(default_factory=ProducerTracker)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    segments: list[SegmentMeasures] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        """Offset after the last whole batch."""
        return self.producers.next_offset

    def follow(self, segment: Segment, buffer: ReadBuffer) -> None:
        """Take the batches of the next segment; only the last one may end torn.

        Raises
        ------
        CorruptRecordError
        """
        self.producers.next_offset = max(self.next_offset, segment.base_offset)
        measures = SegmentMeasures(segment.base_offset)
        with segment.walk(WalkOptions(compares_last=True), buffer=buffer) as walk:
            for piece in walk.pieces():
                measures.add(piece.table)
                ended = self.producers.apply(piece, segment.log_path)
                self.aborted += [
                    transaction.as_aborted() for transaction in ended if transaction.is_aborted
                ]
            if segment.end_offset_bound is not None:
                walk.check_whole()
        self.segments.append(measures)


def survey_producers(segments: Sequence[Segment]) -> ProducerSurvey:
    """Walk the headers of a whole log.

    Parameters
    ----------
    segments : sequence of Segment
        Ascending; the last one may end torn.

    Raises
    ------
    InvalidBatchError
        A segment before the last one that is not whole batches up to its end.
    """
    survey = ProducerSurvey()
    buffer = ReadBuffer()
    for segment in segments:
        survey.follow(segment, buffer)
    return survey
