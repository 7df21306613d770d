"""Several replicas of a partition looked at as one log: what each has, and which of it counts.

The replica with the newest leader epoch, and among those the one that reaches farthest, is the
leader that a broker would choose; its leader epochs are the log's lineage. Another replica counts
up to where it and the lineage part, found as a follower does that cuts its log by what its leader
answers to OffsetsForLeaderEpoch. Below that both had the same records, so that one may fill the
holes of the other. Offsets that compaction or markers left out are no holes.

Arithmetic over offsets, but for `look_at_replica`, which reads all batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import MAX_OFFSET, segment_file_name
from spark_segmentlog.log.partition.leader_epoch_check import EpochRun, epochs_of_batches
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey, survey_segment

# Offsets [start, end).
Offsets = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets [start, end) that were there once and are not; `MAX_OFFSET` for an unknown end."""

    start_offset: int
    end_offset: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What one replica has of a partition.

    Attributes
    ----------
    number : int
        Its place among the replicas that were given.
    start_offset, end_offset : int
        Offsets [start, end) that its good batches reach over, holes included.
    kept_from : int
        Everything below was deleted for good, as its checkpoint has it; 0 where it has none.
    known_end : int
        Offset after the last one that it is known to have had.
    """

    number: int = 0
    start_offset: int
    end_offset: int
    kept_from: int = 0
    known_end: int
    epochs: tuple[LeaderEpoch, ...] = ()
    holes: tuple[Hole, ...] = ()

    @property
    def rank(self) -> tuple[int, int]:
        """What a leader is chosen by: the newest leader epoch, then how far the log reaches."""
        return (self.epochs[-1].epoch if self.epochs else -1), self.end_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Offsets [start, end) that a replica serves."""

    number: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """Offsets [start, end) that no replica has; the end is None where nothing tells it."""

    start_offset: int
    end_offset: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedLog:
    """Replicas as one log.

    Attributes
    ----------
    leader : int
        Number of the replica whose lineage counts.
    shares : tuple of Share
        Ascending, none over another.
    """

    leader: int
    start_offset: int
    epochs: tuple[LeaderEpoch, ...]
    shares: tuple[Share, ...]
    lost: tuple[LostOffsets, ...]


def join_replicas(replicas: Sequence[Replica]) -> JoinedLog:
    """Choose what of each replica makes up the log.

    Parameters
    ----------
    replicas : sequence of Replica
        At least one; of those of one rank the first one leads.
    """
    ranked = sorted(replicas, key=lambda replica: replica.rank, reverse=True)
    lineage = ranked[0].epochs
    limits = [end_in_lineage(replica.epochs, lineage) for replica in ranked]
    counted = [_up_to(replica, limit) for replica, limit in zip(ranked, limits, strict=True)]
    start = max(
        min(replica.start_offset for replica in counted),
        max(replica.kept_from for replica in counted),
    )
    wanted: list[Offsets] = [(start, MAX_OFFSET)]
    shares = []
    for replica in counted:
        has = _without([(replica.start_offset, replica.end_offset)], _offsets_of(replica.holes))
        got = _common(wanted, has)
        shares += [
            Share(number=replica.number, start_offset=begin, end_offset=end) for begin, end in got
        ]
        wanted = _without(wanted, got)
    return JoinedLog(
        leader=ranked[0].number,
        start_offset=start,
        epochs=tuple(_with_earlier(lineage, [replica.epochs for replica in counted])),
        shares=tuple(sorted(shares, key=lambda share: share.start_offset)),
        lost=tuple(_lost(wanted, counted)),
    )


def end_in_lineage(epochs: Sequence[LeaderEpoch], lineage: Sequence[LeaderEpoch]) -> int:
    """Tell up to which offset (exclusive) a replica has what the lineage's leader has.

    What lies below the lineage's first epoch is not contradicted by it.
    """
    if not lineage:
        return MAX_OFFSET
    rest = list(epochs)
    end = MAX_OFFSET
    while rest:
        answer, leader_end = _end_of_epoch(lineage, rest[-1].epoch)
        if answer is None:
            break
        own, own_end = _end_of_epoch(epochs, answer)
        end = min(end, leader_end, own_end)
        if own == answer:
            return end
        rest = [entry for entry in rest if entry.epoch < answer]
    return min(end, lineage[0].start_offset)


def _end_of_epoch(epochs: Sequence[LeaderEpoch], epoch: int) -> tuple[int | None, int]:
    """Answer as a leader does: the newest epoch up to this one, and where the next one begins."""
    earlier = [entry for entry in epochs if entry.epoch <= epoch]
    later = [entry for entry in epochs if entry.epoch > epoch]
    end = later[0].start_offset if later else MAX_OFFSET
    return (earlier[-1].epoch if earlier else None), end


def _up_to(replica: Replica, limit: int) -> Replica:
    """Cut a replica where it and the lineage part."""
    return replace(
        replica,
        end_offset=max(min(replica.end_offset, limit), replica.start_offset),
        known_end=min(replica.known_end, limit),
        epochs=tuple(entry for entry in replica.epochs if entry.start_offset < limit),
        holes=tuple(
            replace(
                hole,
                end_offset=hole.end_offset if limit == MAX_OFFSET else min(hole.end_offset, limit),
            )
            for hole in replica.holes
            if hole.start_offset < limit
        ),
    )


def _with_earlier(
    lineage: Sequence[LeaderEpoch], others: Iterable[Sequence[LeaderEpoch]]
) -> list[LeaderEpoch]:
    """Put what replicas know of earlier leader epochs in front of a lineage."""
    joined = list(lineage)
    for epochs in others:
        known = joined[0] if joined else LeaderEpoch(MAX_OFFSET, MAX_OFFSET)
        earlier = [
            entry
            for entry in epochs
            if entry.epoch <= known.epoch and entry.start_offset < known.start_offset
        ]
        is_same = bool(earlier) and earlier[-1].epoch == known.epoch
        joined = [*earlier, *(joined[1:] if is_same else joined)]
    return joined


def _lost(missing: Sequence[Offsets], replicas: Sequence[Replica]) -> Iterator[LostOffsets]:
    """Tell of the offsets that are missing and were there once."""
    known_end = max(replica.known_end for replica in replicas)
    open_starts = [
        hole.start_offset
        for replica in replicas
        for hole in replica.holes
        if hole.end_offset == MAX_OFFSET
    ]
    for start, end in missing:
        if end == MAX_OFFSET and known_end <= start:
            if any(open_start >= start for open_start in open_starts):
                yield LostOffsets(
                    start_offset=start, end_offset=None, detail=_why(start, end, replicas)
                )
        elif start < known_end:
            end = min(end, known_end)
            yield LostOffsets(start_offset=start, end_offset=end, detail=_why(start, end, replicas))


def _why(start: int, end: int, replicas: Sequence[Replica]) -> str:
    details = [
        hole.detail
        for replica in replicas
        for hole in replica.holes
        if hole.start_offset < end and start < hole.end_offset
    ]
    return "; ".join(dict.fromkeys(details)) or "no source reaches them"


def _offsets_of(holes: Iterable[Hole]) -> list[Offsets]:
    return [(hole.start_offset, hole.end_offset) for hole in holes]


def _without(offsets: Sequence[Offsets], gone: Iterable[Offsets]) -> list[Offsets]:
    """Take ranges away from others, which ascend, none over another, and stay so."""
    left: list[Offsets] = []
    holes = sorted(gone)
    number = 0
    for begin, end in offsets:
        while number < len(holes) and holes[number][0] < end:
            if begin < holes[number][0]:
                left.append((begin, holes[number][0]))
            begin = max(begin, holes[number][1])
            if begin >= end:
                break
            number += 1
        if begin < end:
            left.append((begin, end))
    return left


def _common(offsets: Sequence[Offsets], others: Sequence[Offsets]) -> list[Offsets]:
    """Give the ranges that lie in both."""
    return _without(offsets, _without([(0, MAX_OFFSET)], others))


# What one replica has


def look_at_replica(log: PartitionLog, number: int = 0) -> Replica:
    """Read all batches of a replica, and compare their checksums.

    Raises
    ------
    RemoteStorageError
        Of a remote store nothing can be read: a key is missing, say.
    """
    start, kept_from = _start_of(log)
    holes = [
        Hole(
            start_offset=lost_segment.start_offset,
            end_offset=lost_segment.end_offset,
            detail=f"{segment_file_name(lost_segment.start_offset)} is gone from {log.directory}",
        )
        for lost_segment in log.lost_segments
    ]
    runs: list[EpochRun] = []
    end, is_torn, is_read = start, False, False
    unread: RemoteStorageError | None = None
    for segment in log.segments_between(start, MAX_OFFSET):
        try:
            survey = survey_segment(segment)
        except (FileNotFoundError, RemoteStorageError) as error:
            unread = error if isinstance(error, RemoteStorageError) else unread
            holes.append(_hole_of(segment, str(error)))
            continue
        is_read = True
        holes += _holes(survey)
        runs += survey.epochs
        is_torn = survey.torn is not None
        end = max(end, min(survey.next_offset, segment.offset_limit))
    if unread is not None and not is_read:
        raise unread
    visible = log.state.visible_range(log.topic_partition)
    end = end if visible is None else min(end, visible[1])
    return Replica(
        number=number,
        start_offset=start,
        end_offset=end,
        kept_from=kept_from,
        known_end=max([end, _promised_end(log, is_torn), *_known_ends(holes)]),
        epochs=tuple(log.leader_epochs or epochs_of_batches(runs)),
        holes=tuple(hole for hole in holes if hole.start_offset < hole.end_offset),
    )


def _start_of(log: PartitionLog) -> tuple[int, int]:
    """Tell where a log starts, and below what all was deleted for good.

    A checkpointed start after the end is not believed: a broker would delete the whole log.
    """
    kept_from = log.state.log_start_offset(log.topic_partition)
    has_segments = len(log.base_offsets) > 0
    if kept_from > 0 and has_segments and log.resolved(log.find_next_offset) < kept_from:
        return int(log.base_offsets[0]), 0
    return log.log_start_offset, kept_from


def _known_ends(holes: Iterable[Hole]) -> list[int]:
    return [hole.end_offset for hole in holes if hole.end_offset < MAX_OFFSET]


def _hole_of(segment: Segment, detail: str) -> Hole:
    """Give all offsets of a segment."""
    end = segment.offset_limit if segment.promised_end is None else segment.promised_end
    return Hole(start_offset=segment.base_offset, end_offset=end, detail=detail)


def _holes(survey: SegmentSurvey) -> Iterator[Hole]:
    """Give the offsets that bad bytes had, and those that a segment is known to have had."""
    path = survey.segment.log_path
    for bad_range in survey.corrupt:
        yield Hole(
            start_offset=bad_range.start_offset,
            end_offset=MAX_OFFSET if bad_range.end_offset is None else bad_range.end_offset,
            detail=f"{bad_range.reason} (file {path}, position {bad_range.position})",
        )
    if survey.lost_range is not None:
        start, end = survey.lost_range
        detail = f"the file {path} ends before them, and {survey.evidence}"
        yield Hole(start_offset=start, end_offset=end, detail=detail)
    if survey.segment.promised_end is not None:
        # What was copied to a remote tier has all of its offsets.
        begins = survey.base_offsets[1:]
        ends = survey.last_offsets[:-1] + 1
        for row in np.flatnonzero(ends < begins).tolist():
            detail = f"the file {path} lacks them"
            yield Hole(start_offset=int(ends[row]), end_offset=int(begins[row]), detail=detail)


def _promised_end(log: PartitionLog, is_torn: bool) -> int:
    """Tell how far the checkpoints of a log say that it reached.

    A high watermark is written before the records below it are flushed, so that a crash which left
    half a batch may have taken them.
    """
    recovered = log.state.flushed_offset(log.topic_partition)
    mark = log.state.reached_offset(log.topic_partition)
    return max(recovered, 0 if is_torn else mark)
