"""What recovery does, or would do, as one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spark_segmentlog.errors import describe_offsets
from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.names import SWAP_SUFFIX, TopicPartition, segment_file_name
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import CorruptRange
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey


class RecoveryKind(StrEnum):
    """What recovery does."""

    END_COMMIT = "end commit"
    END_COMPACTION = "end compaction"
    CUT = "cut"
    CUT_OUT = "cut out"
    DELETE_SEGMENT = "delete segment"
    REBUILD_INDEXES = "rebuild indexes"
    WRITE_TOPIC_ID = "write topic id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAction:
    """One thing that recovery did, or would do; `is_done` tells which.

    Attributes
    ----------
    is_left : bool
        Whether it is neither done nor would be: it takes good batches away, or needs a cut that
        does.
    """

    kind: RecoveryKind
    path: str
    detail: str
    is_done: bool
    is_left: bool = False
    topic_partition: TopicPartition | None = None

    def __str__(self) -> str:
        left = "not done, " if self.is_left else ""
        return f"{self.kind}: {left}{self.detail} (file {self.path})"


def end_commit_action(path: str, journal: Journal | None, *, is_done: bool) -> RecoveryAction:
    """Say that a commit is ended in a log directory; None for what is left of one without steps."""
    return RecoveryAction(
        kind=RecoveryKind.END_COMMIT,
        path=path,
        detail=(
            "what is left of a commit that never began or is over"
            if journal is None
            else f"write {journal.write_id} of {len(journal.partitions)} partitions"
        ),
        is_done=is_done,
    )


def cut_action(
    survey: SegmentSurvey, *, takes_good: bool, is_done: bool, is_left: bool
) -> RecoveryAction:
    """Say that all from a segment's first bad bytes on is cut off."""
    reason = "zeros" if survey.stop is None else f"{survey.stop.kind}, {survey.stop.detail}"
    along = ", good batches after them included" if takes_good else ""
    return RecoveryAction(
        kind=RecoveryKind.CUT,
        path=_plain_path(survey.segment),
        topic_partition=survey.segment.topic_partition,
        detail=(
            f"{survey.file_bytes - survey.valid_bytes} bytes from position {survey.valid_bytes} "
            f"on ({reason}){along}"
        ),
        is_done=is_done,
        is_left=is_left,
    )


def _plain_path(segment: Segment) -> str:
    """Name a segment's file as it is when its compaction is ended."""
    return segment.log_path.removesuffix(SWAP_SUFFIX)


def end_compaction_action(log: PartitionLog, *, is_done: bool) -> RecoveryAction:
    """Say that a compaction is ended."""
    return RecoveryAction(
        kind=RecoveryKind.END_COMPACTION,
        path=log.directory,
        topic_partition=log.topic_partition,
        detail="segments of a compaction that was cut short take their place, or go",
        is_done=is_done,
    )


def cut_out_action(survey: SegmentSurvey, bad: CorruptRange, *, is_done: bool) -> RecoveryAction:
    """Say that bad bytes are cut out, and which offsets they may have had."""
    missing = describe_offsets(bad.start_offset, bad.end_offset)
    return RecoveryAction(
        kind=RecoveryKind.CUT_OUT,
        path=_plain_path(survey.segment),
        topic_partition=survey.segment.topic_partition,
        detail=f"{bad.length} bytes at position {bad.position} ({bad.reason}), {missing}",
        is_done=is_done,
    )


def delete_action(segments: Sequence[Segment], *, is_done: bool, is_left: bool) -> RecoveryAction:
    """Say that segments after bad bytes go."""
    first, last = segments[0], segments[-1]
    what = "segment after bad bytes"
    if len(segments) > 1:
        name = segment_file_name(last.base_offset)
        what = f"{len(segments)} segments after bad bytes, up to {name}"
    return RecoveryAction(
        kind=RecoveryKind.DELETE_SEGMENT,
        path=_plain_path(first),
        topic_partition=first.topic_partition,
        detail=f"{what}, renamed to .deleted",
        is_done=is_done,
        is_left=is_left,
    )


def rebuild_action(
    survey: SegmentSurvey, *, is_done: bool, is_left: bool, keeps_transactions: bool
) -> RecoveryAction:
    """Say that the indexes of a segment are made again."""
    detail = "offset, time and transaction index from the batches"
    if keeps_transactions:
        detail = (
            "offset and time index from the batches, not the transaction index: bad bytes before "
            "the segment may hide what was open"
        )
    if survey.lost_range is not None:
        detail = f"{detail}; the old ones tell that {describe_offsets(*survey.lost_range)}"
    return RecoveryAction(
        kind=RecoveryKind.REBUILD_INDEXES,
        path=_plain_path(survey.segment),
        topic_partition=survey.segment.topic_partition,
        detail=f"{detail}, bad bytes are among them" if is_left else detail,
        is_done=is_done,
        is_left=is_left,
    )
