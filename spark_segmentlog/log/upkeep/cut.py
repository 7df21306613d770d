"""Taking bytes off a log that are no good batches: from some position on, or alone.

Whatever is cut goes last: it is why the rest is done, so that whoever takes up a cut that was not
ended finds it, and does all of it again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from spark_segmentlog.log.formats.checkpoints import CLEAN_SHUTDOWN_MARK
from spark_segmentlog.log.formats.producer_snapshot import ProducerState
from spark_segmentlog.log.formats.transaction_index import AbortedTransaction
from spark_segmentlog.log.io import files
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import QUIET
from spark_segmentlog.log.upkeep.cleaned_segment import CleanedSegment
from spark_segmentlog.log.upkeep.partitions import raise_commit_counter
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey
from spark_segmentlog.log.upkeep.swap import (
    mark_segment_deleted,
    mark_snapshots_deleted,
    replace_segments,
    write_snapshot,
)
from spark_segmentlog.log.write.append_state import TAIL_FILE_NAME, batch_extents


def take_mark_away(log: PartitionLog) -> None:
    """Take a clean-shutdown mark away for good: what is cut here was vouched for by it."""
    log_directory = os.path.dirname(log.directory)
    mark = os.path.join(log_directory, CLEAN_SHUTDOWN_MARK)
    if os.path.lexists(mark):
        files.unlink(mark, missing_ok=True)
        files.fsync_directory(log_directory)


def cut_off(survey: SegmentSurvey) -> None:
    """Cut a segment off where its first bad bytes begin."""
    files.cut(survey.segment.log_path, survey.valid_bytes)


def delete_segments(segments: Sequence[Segment]) -> None:
    """Rename segments to ``.deleted``, the last one first, so that no gap is ever left behind."""
    for segment in reversed(segments):
        mark_segment_deleted(segment.directory, segment.base_offset)
        files.fsync_directory(segment.directory)


def end_snapshots(log: PartitionLog, end_offset: int, states: Sequence[ProducerState]) -> None:
    """Leave the producers at a log's new end behind, and none from behind it.

    Before the log is cut: a snapshot too few costs a walk, one too many tells of what is gone.
    """
    later = [
        snapshot_offset
        for snapshot_offset in log.listing.snapshot_offsets.tolist()
        if snapshot_offset > end_offset
    ]
    mark_snapshots_deleted(log.directory, later)
    files.fsync_directory(log.directory)
    write_snapshot(log.directory, end_offset, states)
    files.fsync_directory(log.directory)


def cut_out(
    segment: Segment, aborted: Sequence[AbortedTransaction] | None, *, index_interval_bytes: int
) -> None:
    """Put a segment of the good batches alone in the place of one, as a compaction would.

    Parameters
    ----------
    aborted : sequence of AbortedTransaction, or None
        For its transaction index, which stays as it is where they are not known.
    """
    cleaned = CleanedSegment(segment.directory, segment.base_offset)
    try:
        with segment.walk(QUIET) as walk:
            for piece in walk.pieces():
                table = piece.table
                start = int(table.position[0]) - piece.file_position
                end = int(table.position[-1] + table.size_bytes[-1]) - piece.file_position
                data = piece.buffer.data[start:end]
                cleaned.append(data, batch_extents(table), index_interval_bytes)
        cleaned.aborted += segment.transaction_index() if aborted is None else aborted
        cleaned.finish(os.stat(segment.log_path).st_mtime_ns)
    finally:
        cleaned.close()
    files.unlink(os.path.join(segment.directory, TAIL_FILE_NAME), missing_ok=True)
    files.fsync_directory(segment.directory)
    log_directory = os.path.dirname(segment.directory)
    raise_commit_counter(log_directory)
    base_offsets = [segment.base_offset]
    replace_segments(
        segment.directory, new_base_offsets=base_offsets, old_base_offsets=base_offsets
    )
    raise_commit_counter(log_directory)
