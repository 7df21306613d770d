"""A fetch as from a broker: whole record batches as they lie on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.walk import HeaderWalk

if TYPE_CHECKING:
    from spark_segmentlog.log.partition.listed_log import ListedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """Whole record batches as they lie on disk, from a broker-like fetch.

    `record_batches` may start below the offset asked for, with the batch that holds it;
    `next_offset` is where to fetch next.
    """

    topic_partition: TopicPartition
    record_batches: bytes
    next_offset: int
    log_start_offset: int
    log_end_offset: int


def fetch(log: ListedLog, start_offset: int, max_bytes: int) -> FetchedBatches:
    """Find whole batches from an offset of a log on, at least one though it be larger."""
    buffer = ReadBuffer()
    for segment in log.segments_between(start_offset, log.log_end_offset):
        with segment.walk(start_offset=start_offset, buffer=buffer) as walk:
            found = _find_batches(log, walk, start_offset, max_bytes)
        if found is not None:
            return found
    return _fetched(log, b"", max(start_offset, log.log_end_offset))


def _find_batches(
    log: ListedLog, walk: HeaderWalk, start_offset: int, max_bytes: int
) -> FetchedBatches | None:
    first = end = -1
    next_offset = start_offset
    for table in walk:
        wanted = table.last_offset >= start_offset
        wanted &= table.last_offset < log.log_end_offset
        rows = np.flatnonzero(wanted)
        if first < 0 and len(rows):
            first = int(table.position[rows[0]])
            end = first + int(table.size_bytes[rows[0]])
            next_offset = int(table.last_offset[rows[0]]) + 1
        ends = (table.position + table.size_bytes)[rows]
        fitting = rows[ends - first <= max_bytes]
        if len(fitting):
            end = max(end, int(table.position[fitting[-1]] + table.size_bytes[fitting[-1]]))
            next_offset = max(next_offset, int(table.last_offset[fitting[-1]]) + 1)
        if first >= 0 and len(fitting) < len(table):
            break
    if first < 0:
        return None
    return _fetched(log, walk.file.read_at(first, end - first), next_offset)


def _fetched(log: ListedLog, record_batches: bytes, next_offset: int) -> FetchedBatches:
    return FetchedBatches(
        topic_partition=log.topic_partition,
        record_batches=record_batches,
        next_offset=next_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
    )
