"""Where records go that a cleaning keeps: ``.cleaned`` segments that take the place of others.

A cleaned segment has the last modification time of the segments it replaces. It is split where an
offset would not fit 31 bits relative to its base, or a position not 31 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    format_transaction_index,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_suffixes,
)
from spark_segmentlog.log.segment.growth import (
    MAX_SEGMENT_BYTES,
    BatchExtents,
    SegmentEnd,
    append_batches,
    final_time_entry,
)
from spark_segmentlog.log.upkeep.swap import segment_path
from spark_segmentlog.record.types import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedChunk:
    """Batches that stay, one after the other.

    `has_changed` tells whether they differ from those that they were made of.
    """

    data: bytes
    base_offsets: Int64s
    extents: BatchExtents
    has_changed: bool

    def __len__(self) -> int:
        return len(self.extents)


class CleanedGroup:
    """The ``.cleaned`` segments that take the place of a group; one, unless something overflows.

    Attributes
    ----------
    has_changed : bool
        Whether anything differs from what it replaces.
    """

    def __init__(
        self,
        directory: str,
        base_offset: int,
        make_segment: Callable[[str, int], CleanedSegment] | None = None,
    ) -> None:
        self._directory = directory
        self._make_segment = make_segment or CleanedSegment
        self.has_changed = False
        self._segments = [self._make_segment(directory, base_offset)]

    @property
    def base_offsets(self) -> list[int]:
        """Of its segments, ascending."""
        return [segment.segment_end.base_offset for segment in self._segments]

    @property
    def size_bytes(self) -> int:
        """Bytes of its logs."""
        return sum(segment.segment_end.size_bytes for segment in self._segments)

    def append(self, chunk: CleanedChunk, index_interval_bytes: int) -> None:
        """Append batches, to a new segment where they do not fit."""
        self.has_changed |= chunk.has_changed
        done = 0
        ends = np.cumsum(chunk.extents.sizes_bytes)
        while done < len(chunk):
            current = self._segments[-1]
            start = int(ends[done - 1]) if done else 0
            count = current.count_fitting(chunk.extents.last_offsets[done:], ends[done:] - start)
            if count == 0:
                base_offset = int(chunk.base_offsets[done])
                self._segments.append(self._make_segment(self._directory, base_offset))
                continue
            rows = slice(done, done + count)
            extents = BatchExtents(
                chunk.extents.sizes_bytes[rows],
                chunk.extents.last_offsets[rows],
                chunk.extents.max_timestamps[rows],
            )
            data = memoryview(chunk.data)[start : int(ends[done + count - 1])]
            current.append(data, extents, index_interval_bytes)
            done += count

    def add_aborted(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add entries to the transaction index of the segments that hold their markers."""
        for transaction in transactions:
            holders = [
                segment
                for segment in self._segments
                if segment.segment_end.base_offset <= transaction.last_offset
            ]
            holders[-1].aborted.append(transaction)

    def finish(self, modified_ns: int) -> None:
        """Complete the indexes, sync all files."""
        for segment in self._segments:
            segment.finish(modified_ns)

    def close(self) -> None:
        """Close what is open; the files are left to the next start, as after a crash."""
        for segment in self._segments:
            segment.close()

    def discard(self) -> None:
        """Remove the files again."""
        for segment in self._segments:
            for kind in reversed(segment_suffixes()):
                path = segment_path(
                    self._directory, segment.segment_end.base_offset, kind, CLEANED_SUFFIX
                )
                files.unlink(path, missing_ok=True)


class CleanedSegment:
    """One segment under its ``.cleaned`` name, while it is written."""

    def __init__(self, directory: str, base_offset: int) -> None:
        self._directory = directory
        self.segment_end = SegmentEnd.empty(base_offset, created_ms=0)
        self.aborted: list[AbortedTransaction] = []
        self._offset_entries: list[bytes] = []
        self._time_entries: list[bytes] = []
        self._descriptor = self._create()

    def _create(self) -> int | None:
        return files.create_exclusive(self._path(LOG_SUFFIX))

    def count_fitting(self, last_offsets: Int64s, ends: Int64s) -> int:
        """Count the batches that fit after what is there; `ends` counts from its end."""
        fits = (last_offsets - self.segment_end.base_offset <= MAX_RELATIVE_OFFSET) & (
            self.segment_end.size_bytes + ends <= MAX_SEGMENT_BYTES
        )
        return len(fits) if fits.all() else int(np.argmin(fits))

    def append(self, data: memoryview, extents: BatchExtents, index_interval_bytes: int) -> None:
        """Write batches after those that are there."""
        assert self._descriptor is not None
        files.write_all(self._descriptor, data, self.segment_end.size_bytes)
        added = append_batches(self.segment_end, extents, index_interval_bytes=index_interval_bytes)
        self._offset_entries.append(added.offset_entries.tobytes())
        self._time_entries.append(added.time_entries.tobytes())
        self.segment_end = added.segment_end

    def finish(self, modified_ns: int) -> None:
        """Complete the indexes, sync all files."""
        assert self._descriptor is not None
        files.fsync(self._descriptor)
        self.close()
        files.set_modified_time(self._path(LOG_SUFFIX), modified_ns)
        self._time_entries.append(final_time_entry(self.segment_end).tobytes())
        self._write(OFFSET_INDEX_SUFFIX, b"".join(self._offset_entries))
        self._write(TIME_INDEX_SUFFIX, b"".join(self._time_entries))
        if self.aborted:
            self._write(TRANSACTION_INDEX_SUFFIX, format_transaction_index(self.aborted))

    def close(self) -> None:
        """Close the log, if it is open."""
        if self._descriptor is not None:
            files.close(self._descriptor)
            self._descriptor = None

    def _write(self, kind: str, data: bytes) -> None:
        with files.closed_after(files.create_exclusive(self._path(kind))) as descriptor:
            files.write_all(descriptor, data, 0)
            files.fsync(descriptor)

    def _path(self, kind: str) -> str:
        return segment_path(self._directory, self.segment_end.base_offset, kind, CLEANED_SUFFIX)


class MeasuredSegment(CleanedSegment):
    """One that is counted, and not written."""

    def _create(self) -> None:
        """Make no file."""

    def append(self, data: memoryview, extents: BatchExtents, index_interval_bytes: int) -> None:
        """Count batches."""
        self.segment_end = append_batches(
            self.segment_end, extents, index_interval_bytes=index_interval_bytes
        ).segment_end
