"""Which offsets of which remote segments make up a log: arithmetic over offsets and leader epochs.

A leader that was deposed may have copied records which its successor took back, and two leaders
roll their segments at different offsets. So of a segment those offsets count that lie in an epoch
as the log's lineage has it: from where the epoch begins to where the next one does. Where several
segments have an offset, the one with the largest base offset serves, as a broker looks it up
(``RemoteLogMetadataCache``), and of two copies of one segment the later one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.tier.remote_segment import RemotePiece, RemoteSegment

_Interval = tuple[int, int, int]


def choose_pieces(
    segments: Sequence[RemoteSegment], lineage: Sequence[LeaderEpoch]
) -> list[RemotePiece]:
    """Choose the pieces of a log, ascending; holes between them are holes.

    Parameters
    ----------
    segments : sequence of RemoteSegment
        Described, in the order in which their copies began.
    lineage : sequence of LeaderEpoch
        Ascending; empty for one that takes every segment as it is.
    """
    intervals = sorted(
        (start, end, number)
        for number, segment in enumerate(segments)
        for start, end in _valid_offsets(segment, lineage)
    )
    pieces: list[RemotePiece] = []
    for start, end, number in _serving(intervals, segments):
        segment = segments[number]
        last = pieces[-1] if pieces else None
        if last is not None and last.segment is segment and last.end_offset == start:
            pieces[-1] = RemotePiece(segment, last.start_offset, end)
        else:
            pieces.append(RemotePiece(segment, start, end))
    return pieces


def _valid_offsets(
    segment: RemoteSegment, lineage: Sequence[LeaderEpoch]
) -> Iterator[tuple[int, int]]:
    """Give the ranges [start, end) of a segment that lie in its epochs' part of the lineage."""
    assert segment.end_offset is not None
    if not lineage or not segment.leader_epochs:
        yield segment.base_offset, segment.end_offset
        return
    starts = {entry.epoch: entry.start_offset for entry in lineage}
    followers = [entry.start_offset for entry in lineage[1:]] + [MAX_OFFSET]
    ends = {entry.epoch: end for entry, end in zip(lineage, followers, strict=True)}
    epoch_ends = [entry.start_offset for entry in segment.leader_epochs[1:]] + [segment.end_offset]
    first = lineage[0]
    for number, (entry, end) in enumerate(zip(segment.leader_epochs, epoch_ends, strict=True)):
        # What lies below the first record of the first epoch is that epoch's too.
        start = segment.base_offset if number == 0 else entry.start_offset
        if entry.epoch < first.epoch or (entry.epoch == first.epoch and start < first.start_offset):
            # The lineage is cut where the log was: what lies below is not contradicted.
            limit = ends.get(entry.epoch, first.start_offset)
            found = start, min(end, limit)
        elif entry.epoch in starts:
            found = max(start, starts[entry.epoch]), min(end, ends[entry.epoch])
        else:
            continue
        if found[0] < found[1]:
            yield found


def _serving(
    intervals: Sequence[_Interval], segments: Sequence[RemoteSegment]
) -> Iterator[_Interval]:
    """Cut intervals so that each offset is in one, that of the segment which serves it."""
    waiting: list[tuple[int, int, int]] = []
    position, offset = 0, 0
    while position < len(intervals) or waiting:
        if not waiting:
            offset = max(offset, intervals[position][0])
        while position < len(intervals) and intervals[position][0] <= offset:
            _, end, number = intervals[position]
            heapq.heappush(waiting, (-segments[number].base_offset, -number, end))
            position += 1
        while waiting and waiting[0][2] <= offset:
            heapq.heappop(waiting)
        if not waiting:
            continue
        _, negative, end = waiting[0]
        if position < len(intervals):
            end = min(end, intervals[position][0])
        yield offset, end, -negative
        offset = end
