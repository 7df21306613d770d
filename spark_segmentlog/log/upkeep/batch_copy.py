"""Copying good batches of segments into new segments, byte for byte.

A new segment begins where one of the source does, and where a file, or the offsets in it, would
grow too large for a broker's index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_file_name
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.growth import MAX_SEGMENT_BYTES
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import QUIET
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.types import Int64s


@dataclass(slots=True)
class NewSegments:
    """The segments of a new partition directory, written one after the other.

    Attributes
    ----------
    next_offset : int
        Offset after all that was written.
    """

    folder: str
    next_offset: int = 0
    size_bytes: int = 0
    base_offsets: list[int] = field(default_factory=list)
    _descriptor: int = -1
    _position: int = 0

    def begin(self, base_offset: int) -> None:
        """Begin the next segment; its indexes are left empty."""
        self.finish()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = f"{self.folder}/{segment_file_name(base_offset, suffix)}"
            files.write_atomically(path, b"", durable=False)
        path = f"{self.folder}/{segment_file_name(base_offset)}"
        self._descriptor = files.create_exclusive(path)
        self._position = 0
        self.base_offsets.append(base_offset)

    def write(self, data: memoryview, next_offset: int) -> None:
        """Append batches to the segment that was begun last."""
        files.write_all(self._descriptor, data, self._position)
        self._position += len(data)
        self.size_bytes += len(data)
        self.next_offset = max(self.next_offset, next_offset)

    def goes_on_with(self, source_base_offset: int) -> bool:
        """Tell whether batches of a segment go on in the one that was begun last."""
        if not self.base_offsets:
            return False
        is_within = source_base_offset <= self.base_offsets[-1]
        return is_within or source_base_offset < self.next_offset

    def room_for(self, table: HeaderTable) -> int:
        """Tell how many of neighbouring batches fit."""
        ends = table.position + table.size_bytes - table.position[0]
        fits = (table.last_offset - self.base_offsets[-1] <= MAX_RELATIVE_OFFSET) & (
            ends <= MAX_SEGMENT_BYTES - self._position
        )
        return len(table) if fits.all() else int(fits.argmin())

    def finish(self) -> None:
        """Sync and close the segment that was begun last."""
        if self._descriptor >= 0:
            try:
                files.fsync(self._descriptor)
            finally:
                self.close()

    def close(self) -> None:
        """Close the segment that was begun last, as it is."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            files.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedOffsets:
    """Offsets [start, end) of a log that are to be copied.

    Attributes
    ----------
    is_first : bool
        Whether the log starts there: then a batch counts that begins before it.
    """

    start_offset: int
    end_offset: int
    is_first: bool = False

    def whole(self, table: HeaderTable) -> npt.NDArray[np.bool_]:
        """Tell which batches lie within; where a wrapper begins, its messages alone tell."""
        begins_within = (table.base_offset >= self.start_offset) | (table.records_count < 0)
        ends_within = (table.last_offset >= self.start_offset) & (
            table.last_offset < self.end_offset
        )
        is_whole: npt.NDArray[np.bool_] = ends_within & (begins_within | self.is_first)
        return is_whole

    def touched(self, table: HeaderTable) -> npt.NDArray[np.bool_]:
        """Tell which batches lie within, or reach over an end."""
        touched: npt.NDArray[np.bool_] = (table.last_offset >= self.start_offset) & (
            table.base_offset < self.end_offset
        )
        return touched


def copy_batches(
    log: PartitionLog, wanted: WantedOffsets, target: NewSegments
) -> list[tuple[int, int]]:
    """Append the good batches of a log that lie within some offsets.

    Returns
    -------
    list of tuple of (int, int)
        Offsets [start, end) of batches that reach over an end, and are left out for it.
    """
    left_out = []
    for segment in log.segments_between(wanted.start_offset, wanted.end_offset):
        with segment.walk(QUIET, start_offset=wanted.start_offset) as walk:
            for piece in walk.pieces():
                table = piece.table
                is_new = table.last_offset >= target.next_offset
                is_whole = wanted.whole(table)
                for neighbours, data in _neighbours(piece, np.flatnonzero(is_new & is_whole)):
                    _append(segment, neighbours, data, target)
                left_out += [
                    (
                        max(int(table.base_offset[row]), wanted.start_offset),
                        min(int(table.last_offset[row]) + 1, wanted.end_offset),
                    )
                    for row in np.flatnonzero(is_new & wanted.touched(table) & ~is_whole).tolist()
                ]
    return left_out


def _neighbours(piece: Piece, rows: Int64s) -> Iterator[tuple[HeaderTable, memoryview]]:
    for part in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else ():
        table = piece.table.select(part)
        start = int(table.position[0]) - piece.file_position
        end = int(table.position[-1] + table.size_bytes[-1]) - piece.file_position
        yield table, piece.buffer.data[start:end]


def _append(segment: Segment, table: HeaderTable, data: memoryview, target: NewSegments) -> None:
    if not target.goes_on_with(segment.base_offset):
        target.begin(max(segment.base_offset, target.next_offset))
    while len(table):
        count = target.room_for(table)
        if count == 0:
            target.begin(max(int(table.base_offset[0]), target.next_offset))
            count = max(target.room_for(table), 1)
        end = int(table.position[count - 1] + table.size_bytes[count - 1] - table.position[0])
        target.write(data[:end], int(table.last_offset[count - 1]) + 1)
        table, data = table.select(np.arange(count, len(table))), data[end:]
