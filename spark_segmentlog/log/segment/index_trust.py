"""When an entry of an index may be believed: the one place that decides it.

An index is a hint. What its entries say is compared with the batches that they name, so that no
content of an index file changes what is read:

- an offset entry is believed where a whole batch with a right checksum stands at its position,
  whose offsets lie in the segment, where batches from there on end with the entry's offset, and
  where no whole batch before the position covers it. A value may hold the bytes of a whole batch,
  so that the batch at a position alone says nothing; the batch that the value is part of tells it.
  That one is looked for in the `COVERING_WINDOW_BYTES` before the position, more than Kafka's
  default limit of a batch; in a file whose reads are requests in `FAR_WINDOW_BYTES`, by the one
  request that also gives the rows of a short range, and only of such a size.
- a time entry is believed where the batch that holds the offset has the timestamp as its largest
  one. That all batches before it lie below is what an index is for: one that lies there is found by
  verification, not by reads. What lies after the last entry is not known from an index, which may
  have been cut: headers are walked.
- that a closed segment has lost offsets is believed where its index, right as far as it can be
  compared, names offsets between the last batch and the next segment. Nobody can tell an index that
  lies so from a segment that was cut, and to say so costs no row: it is an error that
  ``failOnDataLoss`` turns into a warning.

Where an entry is not believed, headers are walked from the segment's start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET, OffsetEntry
from spark_segmentlog.log.formats.time_index import TimeEntry
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.io.remote_file import is_far
from spark_segmentlog.log.segment.entry_check import (
    EntrySpan,
    fills_its_size,
    has_good_checksum,
    read_entry_span,
)
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import TOLERANT
from spark_segmentlog.record.layout import HEADER_SIZE_UP_TO_MAGIC
from spark_segmentlog.record.read.header_table import find_covering_entries

if TYPE_CHECKING:
    from spark_segmentlog.log.segment.segment import Segment

COVERING_WINDOW_BYTES: Final = 1024 * 1024 + 4096
FAR_WINDOW_BYTES: Final = 768 * 1024
FAR_ROWS_BYTES: Final = 64 * 1024
COVERING_CHECKSUM_BYTES: Final = 64 * 1024 * 1024
LOOKUP_READ_BYTES: Final = 16 * 1024
LOOKUP_BUFFER_BYTES: Final = 1024 * 1024
MAX_APPENDED_BATCHES: Final = 100_000


def is_position(segment: Segment, file: LogFile, entry: OffsetEntry) -> bool:
    """Tell whether batches stand at an entry's position that end with its offset."""
    if is_far(file):
        # What is looked at from here on is kept of it.
        start = max(entry.position - FAR_WINDOW_BYTES, 0)
        file.read_at(start, entry.position + FAR_ROWS_BYTES - start)
    span = _read_good(segment, file, entry)
    if span is None or _is_covered(segment, file, entry.position):
        return False
    position = entry.position
    for _ in range(MAX_APPENDED_BATCHES):
        if span is None or span.last_offset >= entry.offset:
            break
        position += span.size_bytes
        span = read_entry_span(file, position)
    return span is not None and span.last_offset == entry.offset


def batch_of_largest(segment: Segment, file: LogFile, entry: TimeEntry) -> tuple[int, int] | None:
    """Find where the batch lies that holds an entry's offset and has its timestamp as the largest.

    Its start and its end; None where no batch does.
    """
    if not segment.base_offset <= entry.offset < segment.offset_limit:
        return None
    position = segment.position_for(entry.offset, file)
    options = replace(TOLERANT, first_read_bytes=LOOKUP_READ_BYTES)
    buffer = ReadBuffer(LOOKUP_BUFFER_BYTES)
    for table in HeaderWalk(segment, file, options, position=position, buffer=buffer):
        rows = np.flatnonzero(table.last_offset >= entry.offset)
        if len(rows):
            row = rows[0]
            holds = int(table.base_offset[row]) <= entry.offset
            is_largest = holds and int(table.max_timestamp[row]) == entry.timestamp
            start, size_bytes = int(table.position[row]), int(table.size_bytes[row])
            return (start, start + size_bytes) if is_largest else None
    return None


def offset_beyond_end(
    segment: Segment, file: LogFile, end_position: int, next_offset: int
) -> int | None:
    """Find an offset that the indexes of a closed segment name and its batches lack.

    Parameters
    ----------
    end_position, next_offset : int
        Where the segment's batches end, and the offset after the last one.

    Returns
    -------
    int or None
        The largest one, below the next segment's base offset. None where the entries that can be
        compared with batches are not right: then the index is wrong, not the log.

    Raises
    ------
    FileNotFoundError
        The indexes are of another file, which the segment has by now.
    """
    bound = segment.offset_limit
    with segment.offset_index() as index, segment.time_index() as times:
        last, last_time = index.last_entry(), times.last_entry()
        inside = index.lookup(next_offset - 1, below_position=end_position)
        inside_time = times.last_entry_below(next_offset)
    by_offset = last.offset if last is not None and last.position >= end_position else -1
    by_time = -1 if last_time is None else last_time.offset
    if not any(next_offset <= offset < bound for offset in (by_offset, by_time)):
        return None
    if inside is not None and not is_position(segment, file, inside):
        return None
    if inside_time is not None and batch_of_largest(segment, file, inside_time) is None:
        by_time = -1
    offsets = [offset for offset in (by_offset, by_time) if next_offset <= offset < bound]
    if not offsets:
        return None
    segment.check_current(file)
    return max(offsets)


def _read_good(segment: Segment, file: LogFile, entry: OffsetEntry) -> EntrySpan | None:
    """Read the header of a batch of the segment, its checksum being right."""
    if entry.position < 0:
        return None
    span = read_entry_span(file, entry.position)
    if span is None or not segment.base_offset <= span.base_offset <= span.last_offset:
        return None
    if span.last_offset > entry.offset or span.last_offset >= segment.offset_limit:
        return None
    return span if has_good_checksum(file, entry.position, span.size_bytes) else None


def _is_covered(segment: Segment, file: LogFile, position: int) -> bool:
    """Tell whether a good batch starts before a position and ends after it, as far as is known."""
    window = min(position, COVERING_WINDOW_BYTES)
    most_bytes = file.size()
    if is_far(file):
        window, most_bytes = min(window, FAR_WINDOW_BYTES), COVERING_WINDOW_BYTES
    data = np.empty(window + HEADER_SIZE_UP_TO_MAGIC, np.uint8)
    count = file.pread_into(data, position - window, len(data))
    if count < len(data):
        return True
    found = find_covering_entries(
        data,
        window,
        left=file.size() - position,
        min_offset=segment.base_offset,
        end_offset=min(segment.offset_limit, segment.base_offset + MAX_RELATIVE_OFFSET + 1),
    )
    if found is None:
        return True
    budget = COVERING_CHECKSUM_BYTES
    for index in found.tolist():
        start = position - window + index
        span = read_entry_span(file, start)
        if span is None or span.size_bytes > most_bytes or not fills_its_size(file, start):
            continue
        budget -= span.size_bytes
        if budget < 0 or has_good_checksum(file, start, span.size_bytes):
            return True
    return False
