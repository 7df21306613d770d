"""Staged record batches: what a task leaves in a log directory for the commit to take.

A task writes whole record batches to plain files in the root of the log directory that will hold
them, ``.segmentlog-<write id>-<task>-<attempt>-<n>.staged``, where neither a broker nor a reader
looks at them. A file is a run of *extents*: batches of one partition, one behind the other, that
fit one segment. Small partitions share a file; one that comes to a quarter of `segment.bytes`, or
that makes up much of what the task writes, gets files of its own, which the commit can rename to
segments. No file is above `segment.bytes`. Final offsets are the commit's to write.

Files and folder are synced before the task reports. The report names files and extents, not
batches; a checksum over the batch headers, without the bytes that the commit changes, tells a file
from others of its name. What no commit takes is swept by age.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.errors import RecordTooLargeError
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import STAGED_NAME, STAGED_PREFIX, STAGED_SUFFIX, TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.record.layout import CRC_LENGTH, CRC_OFFSET
from spark_segmentlog.record.write.encoder import EncodedBatches, RecordBatchEncoder

STAGED_MAX_AGE_SECONDS: Final = 7 * 24 * 60 * 60
DEFAULT_BUFFER_BYTES: Final = 64 * 1024 * 1024
MIN_BUFFER_BYTES: Final = 2 * 1024 * 1024
PARTITION_BUFFER_BYTES: Final = 1024 * 1024
# What the encoder keeps of a row besides its bytes: its place, its lengths, its time.
ROW_OVERHEAD_BYTES: Final = 64
MAX_OPEN_FILES: Final = 128
OWN_FILE_SHARE: Final = 4
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_EXTENT_FIELDS: Final = (
    "slot",
    "size_bytes",
    "batch_count",
    "offset_count",
    "first_timestamp",
    "largest_timestamp",
)

_log = logging.getLogger(__name__)


def new_write_id(application: str | None = None, version: int | None = None) -> str:
    """Make the id of one write.

    An application and its version are part of it, so that a later version of the same application
    knows the staging of earlier ones as dead.
    """
    unique = uuid.uuid4().hex
    if application is None or version is None:
        return unique
    return f"{_application_digest(application)}.{version}.{unique}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedExtent:
    """Batches of one partition that follow each other in a staged file.

    `first_timestamp` is the largest one of the first batch, from which `segment.ms` counts.
    """

    slot: int
    size_bytes: int
    batch_count: int
    offset_count: int
    first_timestamp: int
    largest_timestamp: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWrite:
    """What a task reports: its files, and the partitions that their extents number. Pickles."""

    task_id: int
    topic_partitions: tuple[TopicPartition, ...] = ()
    files: tuple[StagedFile, ...] = ()


class StagingWriter:
    """Stages the rows of one attempt of one task; its memory does not grow with them.

    Parameters
    ----------
    write_id : str
        From `new_write_id`.
    task_id, attempt_id : int
        Unique together within the write.
    config : SegmentConfig
        Of the topics written.
    encoder : RecordBatchEncoder
    buffer_bytes : int
        Rows are held up to this size, then encoded, so that each partition gets large batches.
    """

    def __init__(
        self,
        *,
        write_id: str,
        task_id: int,
        attempt_id: int,
        config: SegmentConfig,
        encoder: RecordBatchEncoder,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    ) -> None:
        self._name_prefix = f"{STAGED_PREFIX}{write_id}-{task_id}-{attempt_id}-"
        self._task_id = task_id
        self._config = config
        self._encoder = encoder
        self._buffer_bytes = buffer_bytes
        self._slots: dict[TopicPartition, int] = {}
        self._directories: list[str] = []
        self._staged_bytes: list[int] = []
        self._own: dict[int, _OpenStagedFile] = {}
        self._shared: dict[str, _OpenStagedFile] = {}
        self._written: list[_OpenStagedFile] = []
        self._rows: list[pa.RecordBatch] = []
        self._row_slots: list[npt.NDArray[np.int64]] = []
        self._held_bytes = 0
        self._first_row = 0

    def slot_for(self, topic_partition: TopicPartition, log_directory: str) -> int:
        """Give the number by which rows name a partition, and say where it will be."""
        slot = self._slots.setdefault(topic_partition, len(self._slots))
        if slot == len(self._directories):
            self._directories.append(log_directory)
            self._staged_bytes.append(0)
        return slot

    def write(self, rows: pa.RecordBatch, slots: npt.NDArray[np.int64]) -> None:
        """Take rows, each with the slot of its partition.

        Errors of rows may come later, with the call that encodes them; messages name a row by its
        number within the task.
        """
        if rows.num_rows == 0:
            return
        self._rows.append(rows)
        self._row_slots.append(np.asarray(slots, np.int64))
        self._held_bytes += rows.nbytes + ROW_OVERHEAD_BYTES * rows.num_rows
        if self._held_bytes >= self._flush_bytes():
            self._flush()

    def flush(self) -> None:
        """Write what is held, and sync the files; they go on."""
        self._flush()
        for file in self._written:
            if file.is_open:
                file.seal()

    def finish(self) -> StagedWrite:
        """Write what is held, sync files and folders, and give the report."""
        self._flush()
        for file in self._written:
            file.seal()
        for directory in sorted({file.directory for file in self._written}):
            files.fsync_directory(directory)
        return StagedWrite(
            task_id=self._task_id,
            topic_partitions=tuple(self._slots),
            files=tuple(file.describe() for file in self._written),
        )

    def abort(self) -> None:
        """Remove what was staged; what cannot be removed is left to the sweep."""
        for file in self._written:
            file.discard()
        self._written.clear()

    def _flush_bytes(self) -> int:
        """Tell how much to hold: enough for large batches of each partition, no more."""
        wanted = max(MIN_BUFFER_BYTES, len(self._slots) * PARTITION_BUFFER_BYTES)
        return min(wanted, self._buffer_bytes)

    def _flush(self) -> None:
        if not self._rows:
            return
        rows, slots = _join(self._rows), np.concatenate(self._row_slots)
        self._rows.clear()
        self._row_slots.clear()
        self._held_bytes = 0
        order, used, group_ends = group_rows(slots)
        encoded = self._encoder.encode_groups(rows, order, group_ends, first_row=self._first_row)
        self._first_row += rows.num_rows
        bounds = np.searchsorted(encoded.groups, np.arange(len(used) + 1)).tolist()
        for slot, start, end in zip(used.tolist(), bounds, bounds[1:], strict=False):
            self._stage(slot, encoded, start, end)

    def _stage(self, slot: int, encoded: EncodedBatches, start: int, end: int) -> None:
        """Write one partition's batches behind what is staged of it."""
        size_bytes = int(encoded.sizes_bytes[start:end].sum())
        self._staged_bytes[slot] += size_bytes
        is_large = (
            slot in self._own
            or self._staged_bytes[slot] * OWN_FILE_SHARE >= self._config.segment_bytes
            or size_bytes * OWN_FILE_SHARE >= self._flush_bytes()
        )
        while start < end:
            file = self._own_file(slot) if is_large else self._shared_file(slot)
            taken = file.append(slot, encoded, start, end)
            if taken == 0:
                self._close_full(file, slot)
            start += taken

    def _own_file(self, slot: int) -> _OpenStagedFile:
        if slot not in self._own:
            self._own[slot] = self._open_file(self._directories[slot])
        return self._own[slot]

    def _shared_file(self, slot: int) -> _OpenStagedFile:
        directory = self._directories[slot]
        if directory not in self._shared:
            self._shared[directory] = self._open_file(directory)
        return self._shared[directory]

    def _open_file(self, directory: str) -> _OpenStagedFile:
        open_files = [file for file in self._written if file.is_open]
        if len(open_files) >= MAX_OPEN_FILES:
            open_files[0].suspend()
        path = os.path.join(directory, f"{self._name_prefix}{len(self._written)}{STAGED_SUFFIX}")
        file = _OpenStagedFile(path, self._config)
        self._written.append(file)
        return file

    def _close_full(self, file: _OpenStagedFile, slot: int) -> None:
        file.seal()
        if self._own.get(slot) is file:
            del self._own[slot]
        else:
            del self._shared[file.directory]


def group_rows(
    slots: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort rows by slot, those of a slot in their order.

    Returns
    -------
    tuple of ndarray
        Row numbers, the slots that are used, and where each one's rows end.
    """
    if slots.min() == slots.max():
        return np.arange(len(slots)), slots[:1], np.array([len(slots)])
    # NumPy sorts numbers of 16 bits by their digits, several times faster.
    narrow = slots.astype(np.uint16) if slots.max() < 1 << 16 else slots
    order = np.argsort(narrow, kind="stable")
    in_order = slots[order]
    last_rows = np.flatnonzero(np.append(in_order[1:] != in_order[:-1], True))
    return order, in_order[last_rows], last_rows + 1


class _OpenStagedFile:
    """One staged file while it is written."""

    def __init__(self, path: str, config: SegmentConfig) -> None:
        self.path = path
        self.directory = os.path.dirname(path)
        self._config = config
        self._descriptor = files.create_exclusive(path)
        self._extents: list[_GrowingExtent] = []
        self._size_bytes = 0
        self._header_checksum = 0
        self._is_synced = False

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def append(self, slot: int, encoded: EncodedBatches, start: int, end: int) -> int:
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
            self._write(slot, encoded, start, start + count)
        return count

    def seal(self) -> None:
        """Sync and close."""
        if self._is_synced and not self.is_open:
            return
        self._reopen()
        files.fsync(self._descriptor)
        self._is_synced = True
        self._close()

    def suspend(self) -> None:
        """Close for now, as there are many; synced first, so that no write error is forgotten."""
        self.seal()

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

    def _write(self, slot: int, encoded: EncodedBatches, start: int, end: int) -> None:
        self._reopen()
        first = int(encoded.positions[start])
        last = int(encoded.positions[end - 1] + encoded.sizes_bytes[end - 1])
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
        self._extend(slot, encoded, start, end)

    def _extend(self, slot: int, encoded: EncodedBatches, start: int, end: int) -> None:
        """Book batches, in a new extent wherever a segment would have to roll."""
        while start < end:
            extent = self._extents[-1] if self._extents else None
            if extent is None or extent.slot != slot:
                extent = _GrowingExtent(slot, int(encoded.max_timestamps[start]))
                self._extents.append(extent)
            taken = extent.take(encoded, start, end, self._config)
            if taken == 0:
                self._extents.append(_GrowingExtent(slot, int(encoded.max_timestamps[start])))
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
    slot: int
    first_timestamp: int
    size_bytes: int = 0
    batch_count: int = 0
    offset_count: int = 0
    largest_timestamp: int = field(default=-1)

    def take(self, encoded: EncodedBatches, start: int, end: int, config: SegmentConfig) -> int:
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


# The sweep


def list_staged(log_directory: str) -> Iterator[tuple[str, str]]:
    """List the paths of staged files in a log directory, each with its write id."""
    for name in sorted(os.listdir(log_directory)):
        match = STAGED_NAME.fullmatch(name)
        if match is not None:
            yield os.path.join(log_directory, name), match["write_id"]


def discard_staged(log_directories: Iterable[str], write_ids: Sequence[str]) -> None:
    """Remove all that these writes staged."""
    for directory in log_directories:
        for path, write_id in list_staged(directory):
            if write_id in write_ids:
                files.unlink(path, missing_ok=True)


def sweep_staged(
    log_directories: Iterable[str],
    *,
    application: str | None = None,
    version: int | None = None,
    now_seconds: float | None = None,
) -> None:
    """Remove the staging of dead writes: old files, and those of an application up to a version."""
    now_seconds = time.time() if now_seconds is None else now_seconds
    for directory in log_directories:
        for path, write_id in list_staged(directory):
            if _is_superseded(write_id, application, version) or _is_old(path, now_seconds):
                files.unlink(path, missing_ok=True)


def _is_superseded(write_id: str, application: str | None, version: int | None) -> bool:
    digest, _, rest = write_id.partition(".")
    staged_version, _, _ = rest.partition(".")
    return (
        application is not None
        and version is not None
        and digest == _application_digest(application)
        and staged_version.isdigit()
        and int(staged_version) <= version
    )


def _is_old(path: str, now_seconds: float) -> bool:
    try:
        return os.stat(path).st_mtime < now_seconds - STAGED_MAX_AGE_SECONDS
    except FileNotFoundError:
        return False


def _application_digest(application: str) -> str:
    return sha256(application.encode()).hexdigest()[:16]


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
