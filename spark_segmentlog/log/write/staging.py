"""Staged record batches: what a task leaves in a log directory for the commit to take.

A task writes whole record batches to plain files in the root of the log directory that will hold
them, ``.segmentlog-<write id>-<task>-<attempt>-<n>.staged``, where neither a broker nor a reader
looks at them. A file is a run of *extents*: batches of one partition, one after the other, that
fit one segment. Small partitions share a file; one that comes to a quarter of `segment.bytes`, or
that makes up much of what the task writes, gets files of its own, which the commit can rename to
segments. No file is above `segment.bytes`. Offsets count from 0 through all that the task writes
of a partition; where final ones are others, the commit writes them.

Files and folder are synced before the task reports. The report names files and extents, not
batches; a checksum over the batch headers, without the bytes that the commit changes, tells a file
from others of its name. What no commit takes is swept by age.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import STAGED_PREFIX, STAGED_SUFFIX, TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.staged_file import OpenStagedFile, StagedFile
from spark_segmentlog.record.write.encoder import EncodedBatches, RecordBatchEncoder

DEFAULT_BUFFER_BYTES: Final = 64 * 1024 * 1024

MIN_BUFFER_BYTES: Final = 2 * 1024 * 1024

PARTITION_BUFFER_BYTES: Final = 1024 * 1024

# What the encoder keeps of a row besides its bytes: its place, its lengths, its time.
ROW_OVERHEAD_BYTES: Final = 64

MAX_OPEN_FILES: Final = 128

OWN_FILE_SHARE: Final = 4

_log = logging.getLogger(__name__)


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
    task_id, attempt_id : int
        Unique together within the write.
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
        self._partition_indexes: dict[TopicPartition, int] = {}
        self._directories: list[str] = []
        self._staged_bytes: list[int] = []
        self._staged_rows: list[int] = []
        self._own: dict[int, OpenStagedFile] = {}
        self._shared: dict[str, OpenStagedFile] = {}
        self._written: list[OpenStagedFile] = []
        self._rows: list[pa.RecordBatch] = []
        self._row_partitions: list[npt.NDArray[np.int64]] = []
        self._held_bytes = 0
        self._first_row = 0

    def index_of(self, topic_partition: TopicPartition, log_directory: str) -> int:
        """Give the number by which rows name a partition, and say where it will be."""
        partition_index = self._partition_indexes.setdefault(
            topic_partition, len(self._partition_indexes)
        )
        if partition_index == len(self._directories):
            self._directories.append(log_directory)
            self._staged_bytes.append(0)
            self._staged_rows.append(0)
        return partition_index

    def write(self, rows: pa.RecordBatch, partition_indexes: npt.NDArray[np.int64]) -> None:
        """Take rows, each with the partition_index of its partition.

        Errors of rows may come later, with the call that encodes them; messages name a row by its
        number within the task.
        """
        if rows.num_rows == 0:
            return
        self._rows.append(rows)
        self._row_partitions.append(np.asarray(partition_indexes, np.int64))
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
            topic_partitions=tuple(self._partition_indexes),
            files=tuple(file.describe() for file in self._written),
        )

    def abort(self) -> None:
        """Remove what was staged; what cannot be removed is left to the sweep."""
        for file in self._written:
            file.discard()
        self._written.clear()

    def _flush_bytes(self) -> int:
        """Tell how much to hold: enough for large batches of each partition, no more."""
        wanted = max(MIN_BUFFER_BYTES, len(self._partition_indexes) * PARTITION_BUFFER_BYTES)
        return min(wanted, self._buffer_bytes)

    def _flush(self) -> None:
        if not self._rows:
            return
        rows, partition_indexes = _join(self._rows), np.concatenate(self._row_partitions)
        self._rows.clear()
        self._row_partitions.clear()
        self._held_bytes = 0
        order, used, group_ends = group_rows(partition_indexes)
        encoded = self._encoder.encode_groups(
            rows,
            order,
            group_ends,
            base_offset=np.array([self._staged_rows[index] for index in used], np.int64),
            first_row=self._first_row,
        )
        self._first_row += rows.num_rows
        for partition_index, count in zip(used, np.diff(group_ends, prepend=0), strict=True):
            self._staged_rows[partition_index] += int(count)
        bounds = np.searchsorted(encoded.groups, np.arange(len(used) + 1)).tolist()
        for partition_index, start, end in zip(used.tolist(), bounds, bounds[1:], strict=False):
            self._stage(partition_index, encoded, start, end)

    def _stage(self, partition_index: int, encoded: EncodedBatches, start: int, end: int) -> None:
        """Write one partition's batches after what is staged of it."""
        size_bytes = int(encoded.sizes_bytes[start:end].sum())
        self._staged_bytes[partition_index] += size_bytes
        is_large = (
            partition_index in self._own
            or self._staged_bytes[partition_index] * OWN_FILE_SHARE >= self._config.segment_bytes
            or size_bytes * OWN_FILE_SHARE >= self._flush_bytes()
        )
        while start < end:
            file = (
                self._own_file(partition_index) if is_large else self._shared_file(partition_index)
            )
            taken = file.append(partition_index, encoded, start, end)
            if taken == 0:
                self._close_full(file, partition_index)
            start += taken

    def _own_file(self, partition_index: int) -> OpenStagedFile:
        if partition_index not in self._own:
            self._own[partition_index] = self._open_file(self._directories[partition_index])
        return self._own[partition_index]

    def _shared_file(self, partition_index: int) -> OpenStagedFile:
        directory = self._directories[partition_index]
        if directory not in self._shared:
            self._shared[directory] = self._open_file(directory)
        return self._shared[directory]

    def _open_file(self, directory: str) -> OpenStagedFile:
        open_files = [file for file in self._written if file.is_open]
        if len(open_files) >= MAX_OPEN_FILES:
            open_files[0].seal()
        path = os.path.join(directory, f"{self._name_prefix}{len(self._written)}{STAGED_SUFFIX}")
        file = OpenStagedFile(path, self._config)
        self._written.append(file)
        return file

    def _close_full(self, file: OpenStagedFile, partition_index: int) -> None:
        file.seal()
        if self._own.get(partition_index) is file:
            del self._own[partition_index]
        else:
            del self._shared[file.directory]


def group_rows(
    partition_indexes: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort rows by partition_index, those of a partition_index in their order.

    Returns
    -------
    tuple of ndarray
        Row numbers, the partitions that are used, and where each one's rows end.
    """
    if partition_indexes.min() == partition_indexes.max():
        return (
            np.arange(len(partition_indexes)),
            partition_indexes[:1],
            np.array([len(partition_indexes)]),
        )
    # NumPy sorts numbers of 16 bits by their digits, several times faster.
    narrow = (
        partition_indexes.astype(np.uint16)
        if partition_indexes.max() < 1 << 16
        else partition_indexes
    )
    order = np.argsort(narrow, kind="stable")
    in_order = partition_indexes[order]
    last_rows = np.flatnonzero(np.append(in_order[1:] != in_order[:-1], True))
    return order, in_order[last_rows], last_rows + 1


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
