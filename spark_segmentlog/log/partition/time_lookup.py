"""From a time to an offset: the first record that is at least that late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import WalkOptions
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import HeaderTable

if TYPE_CHECKING:
    from spark_segmentlog.log.partition.listed_log import ListedLog


def find_timestamp(log: ListedLog, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    """Find the first (offset, timestamp) at or above a time, from an offset on."""
    buffer = ReadBuffer()
    start_offset = max(start_offset, log.log_start_offset)
    segments = log.segments_between(start_offset, log.log_end_offset)
    for segment in segments.reaching_timestamp(timestamp_ms):
        found = _first_at_or_after(log, segment, timestamp_ms, start_offset, buffer)
        if found is not None:
            return found
    return None


def _first_at_or_after(
    log: ListedLog, segment: Segment, timestamp_ms: int, start_offset: int, buffer: ReadBuffer
) -> tuple[int, int] | None:
    """Find the first (offset, timestamp) of one segment at or above a time, from an offset on."""
    end_offset = log.log_end_offset
    if segment.end_offset_bound is not None:
        end_offset = min(end_offset, segment.end_offset_bound)
    options = WalkOptions(skip_corrupt=log.skip_corrupt, check_crcs=log.check_crcs)
    with segment.walk(
        options, start_offset=start_offset, min_timestamp_ms=timestamp_ms, buffer=buffer
    ) as walk:
        for table in walk:
            first_offset = max(start_offset, walk.floor)
            late = (table.max_timestamp >= timestamp_ms) & (table.last_offset >= first_offset)
            late &= (table.base_offset < end_offset) & (table.records_count != 0)
            for row in np.flatnonzero(late).tolist():
                found = _first_record(log, walk, table, row, timestamp_ms, first_offset)
                if found is not None:
                    return found if found[0] < end_offset else None
            if int(table.base_offset[-1]) >= end_offset:
                return None
    return None


def _first_record(
    log: ListedLog,
    walk: HeaderWalk,
    table: HeaderTable,
    row: int,
    timestamp_ms: int,
    start_offset: int,
) -> tuple[int, int] | None:
    """Find the first record of one batch that is late enough, with its timestamp."""
    start = int(table.position[row]) - walk.file_position
    batch = walk.buffer[start : start + int(table.size_bytes[row])].tobytes()
    iterate = iterate_records if table.magic[row] == MAGIC_V2 else iterate_messages
    records = iterate(
        batch,
        source=walk.segment.log_path,
        file_position=int(table.position[row]),
        check_crcs=log.check_crcs,
    )
    try:
        for record in records:
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return record.offset, record.timestamp_ms
    except CorruptRecordError:
        if not log.skip_corrupt:
            raise
    return None
