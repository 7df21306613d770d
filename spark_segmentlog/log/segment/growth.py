"""The growing end of a log, as arithmetic: when a segment is full, and what its indexes gain.

Follows Kafka's ``LogSegment.append`` and ``shouldRoll``. A segment takes no further batch once it
would exceed `segment.bytes`, spans more than `segment.ms`, has a full index, or could not say the
batch's offset in 31 bits relative to its base. A batch gets an entry in the offset index, (its last
offset, its start), when more than `index.interval.bytes` lie between the start of the last indexed
batch and its own; the time index gains (largest timestamp so far, last offset of the batch that has
it) at the same moment, if that timestamp is larger than in its last entry, and once more when the
segment is closed. What is made here is thus what a rebuild from the log makes.

No file is touched here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.formats import offset_index, time_index
from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.record.layout import NO_TIMESTAMP

MAX_SEGMENT_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentConfig:
    """Topic settings that shape segments, by Kafka's names and defaults."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096

    @property
    def max_offset_entries(self) -> int:
        """Entries that an offset index holds when it is full."""
        return self.segment_index_bytes // offset_index.ENTRY.itemsize

    @property
    def max_time_entries(self) -> int:
        """Entries that a time index takes before it is full; one more is kept for the roll."""
        return self.segment_index_bytes // time_index.ENTRY.itemsize - 1


@dataclass(frozen=True, slots=True)
class BatchExtents:
    """Record batches that follow each other in a file, a row each, as int64 arrays."""

    sizes_bytes: npt.NDArray[np.int64]
    last_offsets: npt.NDArray[np.int64]
    max_timestamps: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sizes_bytes)

    @classmethod
    def concatenate(cls, parts: Iterable[BatchExtents]) -> BatchExtents:
        """Join the rows of several."""
        tables = list(parts)
        if len(tables) == 1:
            return tables[0]
        return cls(
            *(
                np.concatenate([np.empty(0, np.int64), *(getattr(table, name) for table in tables)])
                for name in cls.__slots__
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEnd:
    """What must be known of a segment to append to it.

    Attributes
    ----------
    size_bytes : int
        End of the valid batches.
    rolling_timestamp : int
        Largest timestamp of the first batch, from which `segment.ms` counts; -1 where it has none
        or there is no batch, then `created_ms` (wall clock) stands in for it.
    largest_timestamp, offset_of_largest_timestamp : int
        Of the whole segment; the last offset of the batch that holds it.
    offset_entries, time_entries : int
        Entries of the indexes made at `index.interval.bytes`, so without a final time entry.
    last_index_position : int
        Position in the last entry of the offset index; 0 where there is none.
    last_time_entry : int
        Timestamp in the last of `time_entries`; -1 where there is none.
    """

    base_offset: int
    next_offset: int
    size_bytes: int = 0
    rolling_timestamp: int = NO_TIMESTAMP
    created_ms: int = 0
    largest_timestamp: int = NO_TIMESTAMP
    offset_of_largest_timestamp: int = 0
    offset_entries: int = 0
    time_entries: int = 0
    last_index_position: int = 0
    last_time_entry: int = NO_TIMESTAMP

    @classmethod
    def empty(cls, base_offset: int, *, created_ms: int) -> SegmentEnd:
        """Describe a segment without a batch."""
        return cls(
            base_offset=base_offset,
            next_offset=base_offset,
            created_ms=created_ms,
            offset_of_largest_timestamp=base_offset,
        )


@dataclass(frozen=True, slots=True)
class AppendedEntries:
    """Entries that an append adds to the indexes, and the segment after it."""

    offset_entries: npt.NDArray[np.void]
    time_entries: npt.NDArray[np.void]
    segment_end: SegmentEnd


def must_roll(
    segment_end: SegmentEnd,
    config: SegmentConfig,
    *,
    size_bytes: int,
    last_offset: int,
    largest_timestamp: int,
    now_ms: int,
    index_entries: int = 0,
) -> bool:
    """Tell whether bytes that are about to be appended need a new segment.

    Parameters
    ----------
    size_bytes, last_offset, largest_timestamp : int
        Of what is about to be appended.
    now_ms : int
        Wall clock.
    index_entries : int
        Entries that an append of many batches may add; a broker appends first, then looks.
    """
    if segment_end.size_bytes == 0:
        return last_offset - segment_end.base_offset > MAX_RELATIVE_OFFSET
    return (
        segment_end.size_bytes > config.segment_bytes - size_bytes
        or segment_end.size_bytes > MAX_SEGMENT_BYTES - size_bytes
        or _waited_ms(segment_end, largest_timestamp, now_ms) > config.segment_ms
        or segment_end.offset_entries + index_entries >= config.max_offset_entries
        or segment_end.time_entries + index_entries >= config.max_time_entries
        or last_offset - segment_end.base_offset > MAX_RELATIVE_OFFSET
    )


def _waited_ms(segment_end: SegmentEnd, largest_timestamp: int, now_ms: int) -> int:
    if segment_end.rolling_timestamp >= 0:
        return largest_timestamp - segment_end.rolling_timestamp
    return now_ms - segment_end.created_ms


def append_batches(
    segment_end: SegmentEnd, batches: BatchExtents, *, index_interval_bytes: int
) -> AppendedEntries:
    """Work out what batches add to a segment's indexes, and its end after them."""
    if len(batches) == 0:
        return AppendedEntries(_offset_entries(0), _time_entries(0), segment_end)
    ends = segment_end.size_bytes + np.cumsum(batches.sizes_bytes)
    positions = ends - batches.sizes_bytes
    indexed = _indexed_batches(positions, segment_end.last_index_position, index_interval_bytes)
    maxima, offsets_of_maxima = _running_maxima(segment_end, batches)
    offset_entries = _offset_entries(len(indexed))
    offset_entries["relative_offset"] = batches.last_offsets[indexed] - segment_end.base_offset
    offset_entries["position"] = positions[indexed]
    candidates = maxima[indexed]
    before = np.concatenate([[segment_end.last_time_entry], candidates[:-1]])
    larger = indexed[candidates > before[: len(candidates)]]
    time_entries = _time_entries(len(larger))
    time_entries["timestamp"] = maxima[larger]
    time_entries["relative_offset"] = offsets_of_maxima[larger] - segment_end.base_offset
    return AppendedEntries(
        offset_entries,
        time_entries,
        replace(
            segment_end,
            next_offset=int(batches.last_offsets[-1]) + 1,
            size_bytes=int(ends[-1]),
            rolling_timestamp=(
                int(batches.max_timestamps[0])
                if segment_end.size_bytes == 0
                else segment_end.rolling_timestamp
            ),
            largest_timestamp=int(maxima[-1]),
            offset_of_largest_timestamp=int(offsets_of_maxima[-1]),
            offset_entries=segment_end.offset_entries + len(indexed),
            time_entries=segment_end.time_entries + len(larger),
            last_index_position=(
                int(positions[indexed[-1]]) if len(indexed) else segment_end.last_index_position
            ),
            last_time_entry=int(maxima[larger[-1]]) if len(larger) else segment_end.last_time_entry,
        ),
    )


def final_time_entry(segment_end: SegmentEnd) -> npt.NDArray[np.void]:
    """Give the entry that closes the time index: the largest timestamp, if it is not in it yet."""
    if segment_end.largest_timestamp <= segment_end.last_time_entry:
        return _time_entries(0)
    entry = _time_entries(1)
    entry["timestamp"] = segment_end.largest_timestamp
    entry["relative_offset"] = segment_end.offset_of_largest_timestamp - segment_end.base_offset
    return entry


def _indexed_batches(
    positions: npt.NDArray[np.int64], last_position: int, index_interval_bytes: int
) -> npt.NDArray[np.int64]:
    starts = positions.tolist()
    indexed: list[int] = []
    row = 0
    while (row := bisect_right(starts, last_position + index_interval_bytes, row)) < len(starts):
        indexed.append(row)
        last_position = starts[row]
    return np.array(indexed, np.int64)


def _running_maxima(
    segment_end: SegmentEnd, batches: BatchExtents
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    with_earlier = np.concatenate([[segment_end.largest_timestamp], batches.max_timestamps])
    maxima = np.maximum.accumulate(with_earlier)
    rose = maxima[1:] > maxima[:-1]
    last_rise = np.maximum.accumulate(np.where(rose, np.arange(1, len(maxima)), 0))
    offsets = np.concatenate([[segment_end.offset_of_largest_timestamp], batches.last_offsets])
    return maxima[1:], offsets[last_rise]


def _offset_entries(count: int) -> npt.NDArray[np.void]:
    return np.empty(count, offset_index.ENTRY)


def _time_entries(count: int) -> npt.NDArray[np.void]:
    return np.empty(count, time_index.ENTRY)
