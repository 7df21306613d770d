"""Some segments of a partition in their order, made only when they are asked for."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, overload

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log import names
from spark_segmentlog.log.formats.time_index import TimeEntry, read_last_entry
from spark_segmentlog.log.io.as_listed import waiting_threads
from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.partition.make_segment import make_segment
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.record.types import Int64s

if TYPE_CHECKING:
    from spark_segmentlog.log.partition.listed_log import ListedLog

MAX_WALKED_SEGMENTS: Final = 2000
MAX_CONFIRMED_SEGMENTS: Final = 100


class SegmentList(Sequence[Segment]):
    """Some segments of a partition in their order, each made when it is asked for.

    Planning over many segments uses the arrays, one number a segment, and makes none.

    Attributes
    ----------
    rows : ndarray of int64
        Indexes in the listing that it was made from, ascending.
    base_offsets : ndarray of int64
        Of each segment. They stay when the partition is listed again.
    """

    def __init__(self, partition_log: ListedLog, rows: Int64s) -> None:
        self._log = partition_log
        self.rows = rows
        self.base_offsets = partition_log.base_offsets[rows]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> SegmentList: ...

    def __getitem__(self, index: int | slice) -> Segment | SegmentList:
        if isinstance(index, slice):
            return self._some(index)
        return make_segment(self._log, int(self.base_offsets[index]))

    @property
    def end_offset_bounds(self) -> Int64s:
        """Offset below which each segment's records lie; the largest number for the last one."""
        bounds = np.append(self._log.all_base_offsets, MAX_OFFSET)
        return bounds[np.searchsorted(self._log.all_base_offsets, self.base_offsets, "right")]

    def sizes_bytes(self) -> Int64s:
        """Measure each `.log` file; 0 for one that is gone."""
        storage = self._log.storage
        return np.fromiter(
            (_size_or_zero(storage, path) for path in self.paths(names.LOG_SUFFIX)),
            np.int64,
            len(self),
        )

    def reaching_timestamp(self, timestamp_ms: int) -> SegmentList:
        """Leave out the segments whose records are all known to lie below a time.

        By the last entry of the `.timeindex`, and the headers after it. Where more than
        `MAX_CONFIRMED_SEGMENTS` of a partition lie below, those with a trusted index are left out
        by its last entry alone, so that one that lies hides their records; of the others, more than
        `MAX_WALKED_SEGMENTS` are kept unseen. Of a remote segment the largest timestamp that the
        metadata or its manifest name is believed: to confirm that takes requests for each.
        """
        known = self._log.known_largest_timestamps(self.base_offsets)
        storage = self._log.storage
        threads = waiting_threads(storage)
        indexes = zip(
            known, self.paths(names.TIME_INDEX_SUFFIX), self.base_offsets.tolist(), strict=True
        )
        entries = in_parallel(
            lambda each: read_last_entry(storage, *each[1:]) if each[0] is None else None,
            [*indexes],
            threads,
        )
        largest = [
            time if entry is None else entry.timestamp
            for time, entry in zip(known, entries, strict=True)
        ]
        is_kept = np.array(
            [time is not None and time >= timestamp_ms for time in largest], np.bool_
        )
        looked_into = ~is_kept & np.array([time is None for time in known], np.bool_)
        if looked_into.sum() > MAX_CONFIRMED_SEGMENTS:
            is_unknown = np.array([time is None for time in largest], np.bool_)
            looked_into &= is_unknown | ~self._log.are_indexes_trusted(self)
        if looked_into.sum() > MAX_WALKED_SEGMENTS:
            is_kept |= looked_into
            return self._some(is_kept)
        unsure = np.flatnonzero(looked_into)
        is_kept[unsure] = in_parallel(
            lambda index: _reaches(self[index], timestamp_ms, entries[index]),
            unsure.tolist(),
            threads,
        )
        return self._some(is_kept)

    def _some(self, chosen: slice | npt.NDArray[np.bool_]) -> SegmentList:
        some = copy.copy(self)
        some.rows, some.base_offsets = self.rows[chosen], self.base_offsets[chosen]
        return some

    def paths(self, kind: str) -> Iterator[str]:
        """Give the path of each segment's file of one kind."""
        prefix = f"{self._log.directory}/"
        suffixes = self._log.listing.suffixes
        for base_offset in self.base_offsets.tolist():
            yield f"{prefix}{base_offset:020d}{kind}{suffixes.get(base_offset, '')}"


def _size_or_zero(storage: Storage, path: str) -> int:
    try:
        return storage.size(path)
    except FileNotFoundError:
        return 0


def _reaches(segment: Segment, timestamp_ms: int, last: TimeEntry | None) -> bool:
    """Tell whether a segment may hold a record at or after a time; false only when it is known."""
    try:
        return segment.may_reach_timestamp(timestamp_ms, last)
    except (FileNotFoundError, CorruptRecordError):
        # Whoever reads the segment will see, and has the means to deal with it.
        return True
