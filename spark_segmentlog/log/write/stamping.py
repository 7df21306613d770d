"""Staged files as the driver takes them up: compared with their report, then given final offsets.

Only headers are read, one pread each where batches are large, whole pieces where they are small;
and only they are written: 16 bytes a batch (base offset, length as it was, leader epoch), none of
them under the batch's CRC. A file is left as it is where its task, which synced it, gave it the
final ones: of a partition that the commit makes, and no other task writes. Else what is written
does not depend on what stood there, so it can be repeated after a sync that failed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import StagingError
from spark_segmentlog.log.io import files
from spark_segmentlog.log.segment.growth import BatchExtents
from spark_segmentlog.log.write.staged_file import StagedExtent, StagedFile, header_checksum
from spark_segmentlog.record.layout import LOG_OVERHEAD, MAGIC_V2, RECORD_BATCH_HEADER
from spark_segmentlog.record.read.header_table import StopReason, scan_headers

CHUNK_BYTES: Final = 4 * 1024 * 1024
LARGE_BATCH_BYTES: Final = 8 * 1024
# The disk begins with the first stamps while others are made.
WRITEBACK_BYTES: Final = 8 * 1024 * 1024
STAMP: Final = np.dtype([("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4")])


@dataclass(frozen=True, slots=True)
class StagedHeaders:
    """The batch headers of a staged file, a row each, as int64 arrays."""

    positions: npt.NDArray[np.int64]
    sizes_bytes: npt.NDArray[np.int64]
    last_offset_deltas: npt.NDArray[np.int64]
    max_timestamps: npt.NDArray[np.int64]
    crcs: npt.NDArray[np.int64]
    base_offsets: npt.NDArray[np.int64]
    leader_epochs: npt.NDArray[np.int64]

    def hold(self, stamps: npt.NDArray[np.void]) -> bool:
        """Tell whether these base offsets and leader epochs are there already."""
        return np.array_equal(self.base_offsets, stamps["base_offset"]) and np.array_equal(
            self.leader_epochs, stamps["leader_epoch"]
        )

    def checksum(self) -> int:
        """Sum them up as their task did."""
        return header_checksum(
            self.sizes_bytes, self.last_offset_deltas, self.max_timestamps, self.crcs
        )


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """A staged file that is there with the size that was reported."""

    file: StagedFile
    extents: tuple[StagedExtent, ...]
    inode: int
    first_header: bytes


def inspect_staged(file: StagedFile) -> InspectedFile:
    """Look at a staged file's name and size.

    Raises
    ------
    StagingError
        It is missing, or has another size.
    """
    try:
        descriptor = files.open_plain_file(file.path)
    except FileNotFoundError as error:
        raise StagingError(
            f"staged file is missing, of {file.size_bytes} bytes (file {file.path})"
        ) from error
    with files.closed_after(descriptor):
        status = os.fstat(descriptor)
        first_header = files.read_exactly(descriptor, 0, RECORD_BATCH_HEADER.size)
    if status.st_size != file.size_bytes:
        raise StagingError(
            f"staged file has {status.st_size} bytes, its task reported {file.size_bytes} "
            f"(file {file.path})"
        )
    return InspectedFile(file, tuple(file.unpack_extents()), status.st_ino, first_header)


def stamp_offsets(
    inspected: InspectedFile,
    base_offsets: Sequence[int],
    leader_epochs: Sequence[int],
    *,
    are_as_staged: bool,
) -> list[BatchExtents]:
    """Write final base offsets and leader epochs into a staged file, and sync it.

    Parameters
    ----------
    base_offsets, leader_epochs : sequence of int
        Of each extent.
    are_as_staged : bool
        Whether its task wrote these: they are not written again if they still stand there.

    Returns
    -------
    list of BatchExtents
        The batches of each extent, so that nobody needs to walk them again; none where they are
        small and so many that they are better walked.

    Raises
    ------
    StagingError
        The headers are not those that the task reported; nothing was written.
    """
    with files.closed_after(files.open_for_update(inspected.file.path)) as descriptor:
        headers = _read_headers(descriptor, inspected.file)
        _check(headers, inspected)
        stamps = _stamps(headers, inspected, base_offsets, leader_epochs)
        if not (are_as_staged and headers.hold(stamps)):
            _write_stamps(descriptor, headers, stamps)
        files.fsync(descriptor)
    return _extents(headers, inspected, stamps) if _has_large_batches(inspected.file) else []


def _extents(
    headers: StagedHeaders, inspected: InspectedFile, stamps: npt.NDArray[np.void]
) -> list[BatchExtents]:
    last_offsets = stamps["base_offset"].astype(np.int64) + headers.last_offset_deltas
    ends = np.cumsum([extent.batch_count for extent in inspected.extents]).tolist()
    return [
        BatchExtents(
            headers.sizes_bytes[start:end],
            last_offsets[start:end],
            headers.max_timestamps[start:end],
        )
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


def _has_large_batches(file: StagedFile) -> bool:
    return file.size_bytes >= file.batch_count * LARGE_BATCH_BYTES


def header_checksum_of(path: str, size_bytes: int) -> int:
    """Sum up the batch headers in the first bytes of a file.

    Raises
    ------
    StagingError
        They are no record batches.
    """
    with files.closed_after(files.open_plain_file(path)) as descriptor:
        return _scan_pieces(descriptor, path, size_bytes).checksum()


def _read_headers(descriptor: int, file: StagedFile) -> StagedHeaders:
    """List a staged file's batch headers.

    No walk over a segment: the offsets in it are not final, and any byte that is not as its task
    reported it refuses the commit.
    """
    if _has_large_batches(file):
        return _read_single_headers(descriptor, file)
    return _scan_pieces(descriptor, file.path, file.size_bytes)


def _read_single_headers(descriptor: int, file: StagedFile) -> StagedHeaders:
    rows: list[tuple[int, ...]] = []
    position = 0
    while position < file.size_bytes:
        data = files.read_exactly(descriptor, position, RECORD_BATCH_HEADER.size)
        if len(data) < RECORD_BATCH_HEADER.size:
            raise _differs(file.path, position)
        fields = RECORD_BATCH_HEADER.unpack(data)
        base_offset, length, leader_epoch, magic, crc, _, delta, _, max_timestamp = fields[:9]
        size_bytes = length + LOG_OVERHEAD
        if magic != MAGIC_V2 or size_bytes < RECORD_BATCH_HEADER.size:
            raise _differs(file.path, position)
        row = (position, size_bytes, delta, max_timestamp, crc, base_offset, leader_epoch)
        rows.append(row)
        position += size_bytes
    return StagedHeaders(*np.array(rows, np.int64).reshape(-1, 7).T)


def _scan_pieces(descriptor: int, path: str, size_bytes: int) -> StagedHeaders:
    buffer = np.empty(CHUNK_BYTES, np.uint8)
    tables = []
    position = 0
    while position < size_bytes:
        piece = buffer[: min(len(buffer), size_bytes - position)]
        count = files.read_into(descriptor, piece, position)
        table = scan_headers(buffer, 0, count, file_position=position)
        if len(table):
            tables.append(table)
            position = table.end_position
        elif table.stop is StopReason.INCOMPLETE and count == len(buffer):
            buffer = np.empty(len(buffer) * 4, np.uint8)
        else:
            raise _differs(path, position)
    columns = (
        [table.position for table in tables],
        [table.size_bytes for table in tables],
        [table.last_offset - table.base_offset for table in tables],
        [table.max_timestamp for table in tables],
        [table.crc for table in tables],
        [table.base_offset for table in tables],
        [table.partition_leader_epoch for table in tables],
    )
    return StagedHeaders(*(np.concatenate([np.empty(0, np.int64), *parts]) for parts in columns))


def _check(headers: StagedHeaders, inspected: InspectedFile) -> None:
    checksum = headers.checksum()
    if checksum != inspected.file.header_checksum:
        raise StagingError(
            f"checksum over the batch headers is {checksum:#010x}, its task reported "
            f"{inspected.file.header_checksum:#010x} (file {inspected.file.path})"
        )


def _stamps(
    headers: StagedHeaders,
    inspected: InspectedFile,
    base_offsets: Sequence[int],
    leader_epochs: Sequence[int],
) -> npt.NDArray[np.void]:
    counts = headers.last_offset_deltas + 1
    firsts = np.cumsum(counts) - counts
    batch_counts = [extent.batch_count for extent in inspected.extents]
    extent_starts = np.cumsum([0, *batch_counts[:-1]])
    shifts = np.array(base_offsets, np.int64) - firsts[extent_starts]
    stamps = np.empty(len(counts), STAMP)
    stamps["base_offset"] = firsts + np.repeat(shifts, batch_counts)
    stamps["length"] = headers.sizes_bytes - LOG_OVERHEAD
    stamps["leader_epoch"] = np.repeat(leader_epochs, batch_counts)
    return stamps


def _write_stamps(descriptor: int, headers: StagedHeaders, stamps: npt.NDArray[np.void]) -> None:
    """Write the stamps where they belong; for small batches whole pieces with them inside."""
    size_bytes = int(headers.positions[-1] + headers.sizes_bytes[-1])
    if size_bytes >= len(stamps) * LARGE_BATCH_BYTES:
        data = stamps.tobytes()
        begun = 0
        for row, position in enumerate(headers.positions.tolist()):
            start = row * STAMP.itemsize
            files.write_all(descriptor, data[start : start + STAMP.itemsize], position)
            if position - begun >= WRITEBACK_BYTES:
                files.start_writeback(descriptor, begun, position - begun)
                begun = position
        return
    ends = headers.positions + STAMP.itemsize
    first = 0
    while first < len(stamps):
        start = int(headers.positions[first])
        last = max(int(np.searchsorted(ends, start + CHUNK_BYTES, side="right")), first + 1)
        piece = np.frombuffer(
            bytearray(files.read_exactly(descriptor, start, int(ends[last - 1]) - start)), np.uint8
        )
        indexes = (headers.positions[first:last] - start)[:, None] + np.arange(STAMP.itemsize)
        piece[indexes] = stamps[first:last].view(np.uint8).reshape(-1, STAMP.itemsize)
        files.write_all(descriptor, piece.data, start)
        first = last


def _differs(path: str, position: int) -> StagingError:
    return StagingError(f"no record batch at position {position} (file {path})")
