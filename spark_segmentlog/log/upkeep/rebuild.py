"""Making the indexes of a segment again, from its batches."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from spark_segmentlog.clock import now_ms
from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    format_transaction_index,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TRANSACTION_INDEX_SUFFIX
from spark_segmentlog.log.segment.growth import BatchExtents, SegmentEnd
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey
from spark_segmentlog.log.upkeep.swap import segment_path
from spark_segmentlog.log.write.append_state import TAIL_FILE_NAME
from spark_segmentlog.log.write.index_completion import complete_indexes


def rebuild_indexes(
    survey: SegmentSurvey,
    aborted: Sequence[AbortedTransaction] | None,
    *,
    index_interval_bytes: int,
) -> None:
    """Make the indexes of a segment again, durably, from the good batches before its first bad one.

    Parameters
    ----------
    aborted : sequence of AbortedTransaction, or None
        Transactions that the segment's markers aborted; None where they are not known.
    """
    segment = survey.segment
    complete_indexes(
        segment.topic_partition,
        segment.directory,
        SegmentEnd.empty(segment.base_offset, created_ms=now_ms()),
        bytes_after=survey.valid_bytes,
        index_interval_bytes=index_interval_bytes,
        durable=True,
        batches=_extents(survey),
    )
    _write_transaction_index(survey, aborted)
    files.unlink(os.path.join(segment.directory, TAIL_FILE_NAME), missing_ok=True)
    files.fsync_directory(segment.directory)


def _extents(survey: SegmentSurvey) -> BatchExtents:
    count = survey.valid_count
    positions = survey.positions[:count]
    ends = np.append(positions[1:], survey.valid_bytes)[:count]
    return BatchExtents(
        ends - positions, survey.last_offsets[:count], survey.max_timestamps[:count]
    )


def _write_transaction_index(
    survey: SegmentSurvey, aborted: Sequence[AbortedTransaction] | None
) -> None:
    """Write the entries; where they are not known, keep those whose markers are there."""
    segment = survey.segment
    if aborted is None:
        entries = segment.transaction_index()
        aborted = [entry for entry in entries if entry.last_offset < survey.valid_next_offset]
    path = segment_path(segment.directory, segment.base_offset, TRANSACTION_INDEX_SUFFIX)
    if aborted:
        files.write_atomically(path, format_transaction_index(aborted))
    else:
        files.unlink(path, missing_ok=True)
