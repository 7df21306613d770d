"""Leader epochs of a log that is about to be written, as a broker has them once it has loaded it.

``leader-epoch-checkpoint`` may be lost, or be of another time than the log: brought back from a
backup, or the last one that the power left. A broker drops entries that start after the log's end,
and its recovery adds one for each batch of a higher epoch than all before. So does a writer: a
batch of a lower epoch than those before it is one that a follower would cut.

The epochs of a log never go down, so its last batches tell whether any is missing. Only then are
segments walked, from the last one back to where the checkpoint still knew the epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.record.layout import NO_PARTITION_LEADER_EPOCH
from spark_segmentlog.record.read.header_table import HeaderTable

FIRST_EPOCH = 0


def load_leader_epochs(
    checkpoint: Sequence[LeaderEpoch],
    segments: Sequence[Segment],
    *,
    end_position: int,
    log_end_offset: int,
) -> list[LeaderEpoch]:
    """Give the entries that `leader-epoch-checkpoint` must hold before a log is appended to.

    Parameters
    ----------
    checkpoint : sequence of LeaderEpoch
        What it holds, ascending.
    segments : sequence of Segment
        All of the log.
    end_position : int
        Where the valid bytes of the last segment end.

    Returns
    -------
    list of LeaderEpoch
        At least one; the last is that of new batches, and never below one that was there.
    """
    entries = [entry for entry in checkpoint if entry.start_offset <= log_end_offset]
    known = entries[-1].epoch if entries else NO_PARTITION_LEADER_EPOCH
    if _last_epoch(segments, end_position) > known:
        entries.extend(_epochs_above(known, segments, end_position))
    highest = checkpoint[-1].epoch if checkpoint else FIRST_EPOCH
    if not entries or entries[-1].epoch < highest:
        entries.append(LeaderEpoch(highest, log_end_offset))
    return entries


def _last_epoch(segments: Sequence[Segment], end_position: int) -> int:
    """Find the epoch of the last batches; -1 where there are none, or none of format 2."""
    for segment in reversed(segments):
        position = segment.position_for(MAX_OFFSET)
        tables = _headers(segment, segments, position, end_position)
        epoch = max((int(table.partition_leader_epoch.max()) for table in tables), default=None)
        if epoch is not None:
            return epoch
    return NO_PARTITION_LEADER_EPOCH


def _epochs_above(
    known: int, segments: Sequence[Segment], end_position: int
) -> Iterator[LeaderEpoch]:
    """Find the batches with which an epoch above all before begins."""
    for segment in segments[_first_unknown(known, segments) :]:
        for table in _headers(segment, segments, 0, end_position):
            epochs = table.partition_leader_epoch
            highest = np.maximum.accumulate(np.concatenate(([known], epochs)))
            for row in np.flatnonzero(epochs > highest[:-1]):
                yield LeaderEpoch(int(epochs[row]), int(table.base_offset[row]))
            known = int(highest[-1])


def _first_unknown(known: int, segments: Sequence[Segment]) -> int:
    """Find the last segment whose first batch is of a known epoch; none above lies before it."""
    for number in range(len(segments) - 1, 0, -1):
        for table in segments[number].headers(0, 1, skip_corrupt=True):
            if table.partition_leader_epoch[0] <= known:
                return number
    return 0


def _headers(
    segment: Segment, segments: Sequence[Segment], position: int, end_position: int
) -> Iterator[HeaderTable]:
    end = end_position if segment is segments[-1] else None
    if end is None or position < end:
        tables = segment.headers(position, end, skip_corrupt=True)
        yield from (table for table in tables if len(table))
