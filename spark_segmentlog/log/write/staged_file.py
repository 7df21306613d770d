"""One staged file while it is written, and what is told of it to the driver."""

from __future__ import annotations

import logging
import os
import zlib
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import RecordTooLargeError
from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.io import files
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.record.layout import CRC_LENGTH, CRC_OFFSET
from spark_segmentlog.record.write.encoder import EncodedBatches

MAX_LAID_OUT_BYTES: Final = 32 * 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedExtent:
    """Batches of one partition that follow each other in a staged file.

    `first_timestamp` is the largest one of the first batch, from which `segment.ms` counts.
    """

    partition_index: int
    size_bytes: int
    batch_count: int
    offset_count: int
    first_timestamp: int
    largest_timestamp: int


_EXTENT_FIELDS: Final = tuple(field.name for field in fields(StagedExtent))


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One staged file as its task wrote it; `extents` are packed, see `unpack_extents`."""

    path: str
    size_bytes: int
    batch_count: int
    header_checksum: int
    packed_extents: bytes

    def unpack_extents(self) -> list[StagedExtent]:
        """Give the extents in the order of the file."""
        rows = np.frombuffer(zlib.decompress(self.packed_extents), np.int64)
        return [
            StagedExtent(**dict(zip(_EXTENT_FIELDS, row, strict=True)))
            for row in rows.reshape(-1, len(_EXTENT_FIELDS)).tolist()
        ]


class OpenStagedFile:
    """One staged file while it is written."""

    def __init__(self, path: str, config: SegmentConfig) -> None:
        self.path = path
        self.directory = os.path.dirname(path)
        self._config = config
        self._descriptor = files.create_exclusive(path)
        self._extents: list[_GrowingExtent] = []
        self._size_bytes = 0
        self._laid_out_bytes = 0
        self._header_checksum = 0
        self._is_synced = False

    @property
    def is_open(self) -> bool:
        """Whether its descriptor is open."""
        return self._descriptor >= 0

    def append(self, partition_index: int, encoded: EncodedBatches, start: int, end: int) -> int:
        """Append batches of one partition, as many as fit the file; return their number."""
        sizes = encoded.sizes_bytes[start:end]
        room = self._config.segment_bytes - self._size_bytes
        count = int(np.searchsorted(np.cumsum(sizes), room, side="right"))
        if count == 0 and self._size_bytes == 0:
            raise RecordTooLargeError(
                f"a record batch of {int(sizes[0])} bytes does not fit a segment: segment.bytes "
                f"is {self._config.segment_bytes}"
            )
        if count:
            self._write(partition_index, encoded, start, start + count)
        return count

    def seal(self) -> None:
        """Sync, so that no write error is forgotten, and close; it may be appended to again."""
        if self._is_synced and not self.is_open:
            return
        self._reopen()
        if self._laid_out_bytes > self._size_bytes:
            files.truncate(self._descriptor, self._size_bytes)
        self._laid_out_bytes = self._size_bytes
        files.fsync(self._descriptor)
        self._is_synced = True
        self._close()

    def discard(self) -> None:
        """Close and remove."""
        self._close()
        try:
            files.unlink(self.path, missing_ok=True)
        except OSError as error:
            _log.warning("staged file %s stays until it is swept: %s", self.path, error)

    def describe(self) -> StagedFile:
        """Give the file's part of the report."""
        rows = np.array([extent.row() for extent in self._extents], np.int64)
        return StagedFile(
            path=self.path,
            size_bytes=self._size_bytes,
            batch_count=int(rows[:, _EXTENT_FIELDS.index("batch_count")].sum()),
            header_checksum=self._header_checksum,
            packed_extents=zlib.compress(rows.tobytes(), 1),
        )

    def _write(self, partition_index: int, encoded: EncodedBatches, start: int, end: int) -> None:
        self._reopen()
        first = int(encoded.positions[start])
        last = int(encoded.positions[end - 1] + encoded.sizes_bytes[end - 1])
        self._lay_out(last - first)
        files.write_all(self._descriptor, encoded.buffer[first:last].data, self._size_bytes)
        files.start_writeback(self._descriptor, self._size_bytes, last - first)
        self._is_synced = False
        batches = slice(start, end)
        self._size_bytes += last - first
        self._header_checksum = header_checksum(
            encoded.sizes_bytes[batches],
            encoded.last_offsets[batches] - encoded.base_offsets[batches],
            encoded.max_timestamps[batches],
            stored_crcs(encoded.buffer, encoded.positions[batches]),
            self._header_checksum,
        )
        self._extend(partition_index, encoded, start, end)

    def _lay_out(self, length_bytes: int) -> None:
        """Before a file grows, have as much again laid out; one that is written at once needs none.

        To find blocks piece by piece is a third of the work of writing them.
        """
        start = max(self._laid_out_bytes, self._size_bytes)
        missing_bytes = self._size_bytes + length_bytes - start
        if self._size_bytes == 0 or missing_bytes <= 0:
            return
        length_bytes = max(missing_bytes, min(self._size_bytes, MAX_LAID_OUT_BYTES))
        files.lay_out(self._descriptor, start, length_bytes)
        self._laid_out_bytes = start + length_bytes

    def _extend(self, partition_index: int, encoded: EncodedBatches, start: int, end: int) -> None:
        """Book batches, in a new extent wherever a segment would have to roll."""
        while start < end:
            extent = self._extents[-1] if self._extents else None
            if extent is None or extent.partition_index != partition_index:
                extent = _GrowingExtent(partition_index, int(encoded.max_timestamps[start]))
                self._extents.append(extent)
            taken = extent.add(encoded, start, end, self._config)
            if taken == 0:
                self._extents.append(
                    _GrowingExtent(partition_index, int(encoded.max_timestamps[start]))
                )
            start += taken

    def _reopen(self) -> None:
        if not self.is_open:
            self._descriptor = files.open_for_update(self.path)

    def _close(self) -> None:
        if self.is_open:
            files.close(self._descriptor)
            self._descriptor = -1


@dataclass(slots=True)
class _GrowingExtent:
    partition_index: int
    first_timestamp: int
    size_bytes: int = 0
    batch_count: int = 0
    offset_count: int = 0
    largest_timestamp: int = field(default=-1)

    def add(self, encoded: EncodedBatches, start: int, end: int, config: SegmentConfig) -> int:
        """Grow by the batches that the same segment can hold; return their number."""
        sizes = self.size_bytes + np.cumsum(encoded.sizes_bytes[start:end])
        counts = self.offset_count + np.cumsum(encoded.record_counts[start:end])
        stops = (sizes > max_extent_bytes(config)) | (counts > MAX_RELATIVE_OFFSET)
        if self.first_timestamp >= 0:
            waited = encoded.max_timestamps[start:end] - self.first_timestamp
            stops |= waited > config.segment_ms
        taken = int(np.argmax(stops)) if stops.any() else end - start
        if self.batch_count == 0:
            taken = max(taken, 1)
        if taken:
            self.size_bytes = int(sizes[taken - 1])
            self.offset_count = int(counts[taken - 1])
            self.batch_count += taken
            largest = int(encoded.max_timestamps[start : start + taken].max())
            self.largest_timestamp = max(self.largest_timestamp, largest)
        return taken

    def row(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in _EXTENT_FIELDS)


def max_extent_bytes(config: SegmentConfig) -> int:
    """Tell how large an extent may be so that a segment of it alone has no full index."""
    entries = min(config.max_offset_entries, config.max_time_entries)
    return min(config.segment_bytes, max(entries - 1, 1) * config.index_interval_bytes)


def header_checksum(
    sizes_bytes: npt.NDArray[np.int64],
    last_offset_deltas: npt.NDArray[np.int64],
    max_timestamps: npt.NDArray[np.int64],
    crcs: npt.NDArray[np.int64],
    start: int = 0,
) -> int:
    """Sum up batch headers but for base offset and leader epoch, which the commit changes.

    The stored CRC of each batch, which covers all its records, is part of it.
    """
    rows = np.stack([sizes_bytes, last_offset_deltas, max_timestamps, crcs], axis=1)
    return zlib.crc32(rows.astype("<i8").tobytes(), start)


def stored_crcs(
    buffer: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Read the CRC fields of batches in memory."""
    places = (positions + CRC_OFFSET)[:, None] + np.arange(CRC_LENGTH)
    fields = np.ascontiguousarray(buffer[places]).view(">u4")
    return fields.reshape(-1).astype(np.int64)
