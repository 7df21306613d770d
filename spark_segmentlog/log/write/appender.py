"""Appends to one partition as its broker would, for as long as the log is open for writing.

The files of the last segment stay open. A batch goes to the `.log`, then its entries to the
indexes; whatever fails on the way is cut off again, so that the log ends with whole batches or,
where even that fails, takes no more. The segment is closed and a new one begun when the next
batch does not fit. What was appended lasts once it is flushed: at a close, at a roll, and by
`flush.messages` and `flush.ms` in between. Before, a crash of the process takes nothing, the
power may.

Any number of threads may append to one partition.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

from spark_segmentlog.clock import now_ms
from spark_segmentlog.errors import RecordTooLargeError, SegmentLogError
from spark_segmentlog.log.formats import offset_index, time_index
from spark_segmentlog.log.formats.checkpoints import LEADER_EPOCH_CHECKPOINT, format_leader_epochs
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    OffsetRange,
    find_base_offset,
    segment_file_name,
    segment_suffixes,
)
from spark_segmentlog.log.segment.growth import (
    AppendedEntries,
    BatchExtents,
    SegmentConfig,
    SegmentEnd,
    append_batches,
    final_time_entry,
    must_roll,
)
from spark_segmentlog.log.write.append_state import AppendState, write_tail_file
from spark_segmentlog.log.write.index_completion import complete_indexes
from spark_segmentlog.record.write.encoder import EncodedBatches, assign_offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushConfig:
    """When what was appended is synced before the log is closed; None: not by this."""

    flush_messages: int | None = None
    flush_ms: int | None = None


class PartitionAppender:
    """The writing end of one partition; the caller holds the lock of its log directory."""

    def __init__(
        self, append_state: AppendState, config: SegmentConfig, flush_config: FlushConfig
    ) -> None:
        self.topic_partition = append_state.topic_partition
        self._directory = append_state.directory
        self._config = config
        self._flush_config = flush_config
        self._lock = threading.RLock()
        self._leader_epoch = append_state.leader_epoch
        self._unflushed_records = 0
        self._flushed_at = time.monotonic()
        self._has_new_names = False
        self._failure: Exception | None = None
        self._segment = self._recover(append_state)
        self._files = _SegmentFiles.open(self._directory, self._segment.base_offset)
        self._closed: list[_SegmentFiles] = []
        write_tail_file(self._directory, self._segment, durable=True)

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._segment.next_offset

    @property
    def has_failed(self) -> bool:
        """Whether something went wrong that could not be taken back: no mark may vouch for it."""
        return self._failure is not None

    def append(self, encoded: EncodedBatches) -> OffsetRange:
        """Append record batches, at least one, all or none; their offsets are set in place.

        Raises
        ------
        RecordTooLargeError
            A batch does not fit any segment; nothing was appended.
        OSError
            The disk is full or failed; what was written was cut off again.
        """
        with self._lock:
            self._check_usable(encoded)
            start_offset = self._segment.next_offset
            before = self._segment
            try:
                self._append_batches(encoded)
            except OSError as error:
                self._take_back(before, error)
                raise
            self._close_rolled()
            self._unflushed_records += int(encoded.record_counts.sum())
            if self._is_flush_due():
                self.flush()
            return OffsetRange(self.topic_partition, start_offset, self._segment.next_offset)

    def flush(self) -> None:
        """Make all that was appended last."""
        with self._lock:
            try:
                self._files.sync_log()
                if self._has_new_names:
                    files.fsync_directory(self._directory)
                    self._has_new_names = False
            except OSError as error:
                # Another fsync would tell nothing: the pages count as clean after the first.
                self._failure = error
                raise
            self._unflushed_records = 0
            self._flushed_at = time.monotonic()

    def flush_if_old(self) -> None:
        """Flush where `flush.ms` is over."""
        with self._lock:
            if self._failure is None and self._unflushed_records and self._is_flush_old():
                self.flush()

    def close(self, *, durable_indexes: bool) -> None:
        """Complete the indexes, flush, and close the files."""
        with self._lock:
            try:
                if self._failure is not None:
                    return
                self._files.finish_time_index(self._segment)
                if durable_indexes:
                    self._files.sync_indexes()
                    # Indexes that were made again were renamed to their names.
                    self._has_new_names = True
                self.flush()
                write_tail_file(self._directory, self._segment)
            except OSError as error:
                self._failure = error
                raise
            finally:
                self._files.close()

    def _check_usable(self, encoded: EncodedBatches) -> None:
        if self._failure is not None:
            raise SegmentLogError(
                f"{self.topic_partition} takes no more records: an earlier append or flush failed "
                f"({self._failure}); close the log and open it again (folder {self._directory})"
            ) from self._failure
        largest = int(encoded.sizes_bytes.max(initial=0))
        if largest > self._config.segment_bytes:
            raise RecordTooLargeError(
                f"a record batch of {largest} bytes does not fit a segment: segment.bytes is "
                f"{self._config.segment_bytes}"
            )

    def _recover(self, append_state: AppendState) -> SegmentEnd:
        """Cut off a torn tail and complete the indexes of what is there; make what is missing."""
        if not append_state.epochs_are_kept:
            path = os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT)
            files.write_atomically(path, format_leader_epochs(append_state.leader_epochs))
            self._has_new_names = True
        if append_state.file_bytes < 0:
            self._has_new_names = True
            return SegmentEnd.empty(append_state.log_end_offset, created_ms=now_ms())
        if append_state.file_bytes > append_state.segment.size_bytes:
            _cut(self._directory, append_state.segment)
        if append_state.indexed.size_bytes == append_state.segment.size_bytes > 0:
            return append_state.segment
        return complete_indexes(
            append_state.topic_partition,
            append_state.directory,
            append_state.indexed,
            bytes_after=append_state.segment.size_bytes,
            index_interval_bytes=self._config.index_interval_bytes,
            durable=False,
        )

    def _append_batches(self, encoded: EncodedBatches) -> None:
        """Append the batches one by one, rolling where the next does not fit."""
        shift = self._segment.next_offset - int(encoded.base_offsets[0])
        assign_offsets(
            encoded.buffer, encoded.positions, base_offset=shift, leader_epoch=self._leader_epoch
        )
        view = encoded.buffer.data
        for row in range(len(encoded)):
            position, size_bytes = int(encoded.positions[row]), int(encoded.sizes_bytes[row])
            batch = BatchExtents(
                encoded.sizes_bytes[row : row + 1],
                encoded.last_offsets[row : row + 1] + shift,
                encoded.max_timestamps[row : row + 1],
            )
            if self._is_full_for(batch):
                self._roll()
            interval = self._config.index_interval_bytes
            added = append_batches(self._segment, batch, index_interval_bytes=interval)
            self._files.append(view[position : position + size_bytes], self._segment, added)
            self._segment = added.segment_end

    def _is_full_for(self, batch: BatchExtents) -> bool:
        return must_roll(
            self._segment,
            self._config,
            size_bytes=int(batch.sizes_bytes[0]),
            last_offset=int(batch.last_offsets[0]),
            largest_timestamp=int(batch.max_timestamps[0]),
            now_ms=now_ms(),
        )

    def _roll(self) -> None:
        """Close the segment and begin the next one at the log's end."""
        self._files.finish_time_index(self._segment)
        self._files.sync_log()
        # Nobody looks at a closed segment's indexes again, so they have to last.
        self._files.sync_indexes()
        empty = SegmentEnd.empty(self._segment.next_offset, created_ms=now_ms())
        # Also where it fails half way: names that came and went have to be synced too.
        self._has_new_names = True
        opened = _SegmentFiles.open(self._directory, empty.base_offset)
        self._closed.append(self._files)
        self._files = opened
        self._segment = empty

    def _close_rolled(self) -> None:
        for closed in self._closed:
            closed.close()
        self._closed.clear()

    def _take_back(self, before: SegmentEnd, error: OSError) -> None:
        """Cut off what a failed append has written, or take no more where that fails too."""
        if self._closed:
            self._files.close()
            self._files = self._closed.pop(0)
            self._close_rolled()
        try:
            _remove_segments_after(self._directory, before.base_offset)
            self._files.cut(before)
            self._segment = before
        except OSError:
            self._failure = error

    def _is_flush_due(self) -> bool:
        limit = self._flush_config.flush_messages
        return (limit is not None and self._unflushed_records >= limit) or self._is_flush_old()

    def _is_flush_old(self) -> bool:
        limit = self._flush_config.flush_ms
        return limit is not None and (time.monotonic() - self._flushed_at) * 1000 >= limit


class _SegmentFiles:
    """The `.log` and the indexes of one segment, open for writing."""

    def __init__(self, log: int, index: int, time_index: int) -> None:
        self._log = log
        self._index = index
        self._time_index = time_index
        self._is_open = True

    @classmethod
    def open(cls, directory: str, base_offset: int) -> _SegmentFiles:
        """Open the files, made where they are missing."""
        descriptors: list[int] = []
        try:
            for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                path = os.path.join(directory, segment_file_name(base_offset, suffix))
                descriptors.append(files.open_for_update(path, create=True))
        except BaseException:
            for descriptor in descriptors:
                files.close(descriptor)
            raise
        return cls(*descriptors)

    def append(self, data: memoryview, before: SegmentEnd, added: AppendedEntries) -> None:
        """Write a batch, then its index entries."""
        files.write_all(self._log, data, before.size_bytes)
        if len(added.offset_entries):
            position = before.offset_entries * offset_index.ENTRY.itemsize
            files.write_all(self._index, added.offset_entries.tobytes(), position)
        if len(added.time_entries):
            position = before.time_entries * time_index.ENTRY.itemsize
            files.write_all(self._time_index, added.time_entries.tobytes(), position)

    def finish_time_index(self, segment_end: SegmentEnd) -> None:
        """Write the final entry of the time index."""
        entry = final_time_entry(segment_end)
        position = segment_end.time_entries * time_index.ENTRY.itemsize
        if len(entry):
            files.write_all(self._time_index, entry.tobytes(), position)

    def cut(self, segment_end: SegmentEnd) -> None:
        """Go back to a state; a final time entry that was there before goes too."""
        files.truncate(self._log, segment_end.size_bytes)
        files.truncate(self._index, segment_end.offset_entries * offset_index.ENTRY.itemsize)
        files.truncate(self._time_index, segment_end.time_entries * time_index.ENTRY.itemsize)

    def sync_log(self) -> None:
        files.fsync(self._log)

    def sync_indexes(self) -> None:
        files.fsync(self._index)
        files.fsync(self._time_index)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            for descriptor in (self._log, self._index, self._time_index):
                files.close(descriptor)


def _remove_segments_after(directory: str, base_offset: int) -> None:
    """Remove the files of segments that a failed append has begun."""
    for name in os.listdir(directory):
        for suffix in segment_suffixes():
            found = find_base_offset(name, suffix)
            if found is not None and found > base_offset:
                files.unlink(os.path.join(directory, name))


def _cut(directory: str, segment_end: SegmentEnd) -> None:
    """Cut a torn tail off a `.log`, and make that last."""
    name = segment_file_name(segment_end.base_offset, LOG_SUFFIX)
    files.cut(os.path.join(directory, name), segment_end.size_bytes)
