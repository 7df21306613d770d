"""One cleaning pass over the closed segments of a log: which records stay, and where they go.

Kafka's rules (Cleaner, MemoryRecords.filterTo, KIP-534), batch by batch:

- A record stays if it is the latest of its key up to the offset that the map has reached, or lies
  above it. One without a key goes.
- A tombstone stays as long as its batch has no delete horizon, or one that is not over. A batch
  that keeps a tombstone gets a horizon of now + `delete.retention.ms`, once. Tombstones of formats
  0 and 1, which have no place for it, may go at once, by the age of their segment.
- What stays of formats 0 and 1 becomes format 2.
- Records of aborted transactions go. A marker stays as long as a batch of its transaction is still
  there; then it gets a horizon, and goes when that is over.
- A batch that is written again with a record before 1970 is refused, as Kafka's cleaner does.
- A batch that loses all its records goes, but for two, which stay as headers alone: a producer's
  last one, since it holds its sequence and epoch, and the last one below the round's end, since it
  holds the offset.

The cleaned segment has the last modification time of the segments it replaces. It is split where an
offset would not fit 31 bits relative to its base, or a position not 31 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

import numpy as np

from spark_segmentlog.errors import CrcMismatchError, DecompressedSizeError, InvalidRecordError
from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
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
    MAX_RELATIVE_OFFSET,
    MAX_SEGMENT_BYTES,
    BatchExtents,
    SegmentTail,
    append_batches,
    final_time_entry,
)
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk, Piece, ReadBuffer
from spark_segmentlog.log.transactions.producer_survey import check_whole
from spark_segmentlog.log.transactions.producer_tracker import (
    ABORT,
    COMMIT,
    LastBatch,
    read_markers,
)
from spark_segmentlog.log.upkeep.swap import segment_path
from spark_segmentlog.record.compact.batch_rebuild import (
    convert_messages,
    empty_batch,
    rebuild_batch,
)
from spark_segmentlog.record.compact.batch_records import BatchRecords, split_batches
from spark_segmentlog.record.compact.offset_map import OffsetMap
from spark_segmentlog.record.layout import MAGIC_V2, NO_TIMESTAMP
from spark_segmentlog.record.plain.batch import RecordBatchHeader
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.types import Bools, Bytes, Int64s

_NO_OFFSETS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """What a pass goes by.

    Attributes
    ----------
    now_ms : int
        The time that horizons are compared with.
    delete_retention_ms : int
        From now on, for tombstones and markers that have no horizon yet.
    legacy_horizon_ms : int
        Segments of formats 0 and 1 that were modified later keep their tombstones.
    end_offset : int
        Of the round (exclusive): the last batch below it stays, if as a header alone.
    last_batches : mapping
        By producer id, the batch that keeps its state.
    index_interval_bytes : int
    max_decompressed_bytes : int
        What is held at most of one batch that loses records, or of one wrapper.
    """

    now_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int
    end_offset: int
    last_batches: Mapping[int, LastBatch]
    index_interval_bytes: int
    max_decompressed_bytes: int


@dataclass(slots=True)
class CleaningCounts:
    """What a pass read and kept."""

    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _CleanedChunk:
    """Batches that stay, one behind the other."""

    data: bytes
    base_offsets: Int64s
    extents: BatchExtents

    def __len__(self) -> int:
        return len(self.extents)


class TransactionTracker:
    """Which batches belong to aborted transactions, and which markers have no data left.

    One is used for a whole pass, since a transaction may begin in one segment and end in another.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._aborted = AbortedTransactions(tuple(aborted))
        self._by_marker = {(it.producer_id, it.last_offset): it for it in aborted}
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()
        self.entries: list[AbortedTransaction] = []

    def contain(self, table: HeaderTable) -> Bools:
        """Tell which batches hold data of aborted transactions."""
        inside = self._aborted.contain(table.producer_id, table.base_offset)
        found: Bools = inside & table.is_transactional & ~table.is_control
        return found

    def find_discardable(self, piece: Piece, source: str) -> Bools:
        """Tell which batches may go: aborted data, and markers of which no data was seen."""
        table = piece.table
        is_control = table.is_control
        is_aborted = self.contain(table)
        discardable = is_aborted.copy()
        producer_ids = table.producer_id
        markers = read_markers(piece, np.flatnonzero(is_control), source=source)
        for row in np.flatnonzero(is_control | table.is_transactional).tolist():
            producer_id = int(producer_ids[row])
            if is_control[row]:
                marker = markers.get(row)
                kind = None if marker is None else marker.type_id
                discardable[row] = self._end(producer_id, int(table.base_offset[row]), kind)
            elif is_aborted[row]:
                self._seen_aborted.add(producer_id)
            else:
                self._seen_committed.add(producer_id)
        return discardable

    def _end(self, producer_id: int, offset: int, kind: int | None) -> bool:
        if kind is None:
            return True
        if kind == COMMIT:
            was_seen = producer_id in self._seen_committed
            self._seen_committed.discard(producer_id)
            return not was_seen
        if kind == ABORT:
            was_seen = producer_id in self._seen_aborted
            self._seen_aborted.discard(producer_id)
            if was_seen:
                self.entries.append(self._by_marker[producer_id, offset])
            return not was_seen
        return False


def build_offset_map(
    offset_map: OffsetMap,
    segments: Sequence[Segment],
    tracker: TransactionTracker,
    *,
    start_offset: int,
    end_offset: int,
    max_decompressed_bytes: int,
) -> None:
    """Put the keys of closed segments from an offset on; `latest_offset` says how far it came.

    Raises
    ------
    CorruptRecordError
        Bad bytes; nothing was changed.
    """
    buffer = ReadBuffer()
    for segment in segments:
        with segment.open_log() as file:
            position = segment.position_for(start_offset, file)
            walk = HeaderWalk(segment, file, position, buffer, False, None)
            for table in walk:
                wanted = (table.last_offset >= start_offset) & (table.records_count != 0)
                rows = np.flatnonzero(wanted & ~table.is_control & ~tracker.contain(table))
                _require_good_crcs(walk, table, rows)
                for records in split_batches(
                    walk.buffer,
                    table,
                    rows,
                    file_position=walk.file_position,
                    source=segment.log_path,
                    max_held_bytes=max_decompressed_bytes,
                ):
                    keyed = (records.key_length >= 0) & (records.offset >= start_offset)
                    if not offset_map.put(records, keyed):
                        return
            check_whole(segment, walk, file.size())
    offset_map.latest_offset = end_offset - 1


class GroupCleaner:
    """Cleans segments, one group into one new segment (seldom more), by one map."""

    def __init__(
        self, offset_map: OffsetMap, tracker: TransactionTracker, rules: CleaningRules
    ) -> None:
        self._map = offset_map
        self._tracker = tracker
        self._rules = rules
        self._buffer = ReadBuffer()
        self.counts = CleaningCounts()
        producer_ids = sorted(rules.last_batches)
        last = [rules.last_batches[producer_id] for producer_id in producer_ids]
        self._producer_ids = np.array(producer_ids, np.int64)
        self._last_data_offsets = np.array([it.last_data_offset for it in last], np.int64)
        self._last_epochs = np.array([it.producer_epoch for it in last], np.int64)

    def measure(self, segments: Sequence[Segment], modified_ns: Sequence[int]) -> CleanedGroup:
        """Tell what `clean` would leave of neighbouring segments; writes nothing."""
        first = segments[0]
        group = CleanedGroup(first.directory, first.base_offset, self._rules, _MeasuredSegment)
        for segment, modified in zip(segments, modified_ns, strict=True):
            self._clean_segment(segment, modified // 1_000_000, group)
        return group

    def clean(self, segments: Sequence[Segment], modified_ns: Sequence[int]) -> CleanedGroup:
        """Write what stays of neighbouring segments to ``.cleaned`` files, complete and synced.

        Parameters
        ----------
        segments : sequence of Segment
            Ascending, closed.
        modified_ns : sequence of int
            Of their logs.
        """
        group = CleanedGroup(segments[0].directory, segments[0].base_offset, self._rules)
        try:
            for segment, modified in zip(segments, modified_ns, strict=True):
                self._clean_segment(segment, modified // 1_000_000, group)
            group.finish(modified_ns[-1])
        except Exception:
            # A full disk must not stay full of what nobody will read.
            group.close()
            group.discard()
            raise
        return group

    def _clean_segment(self, segment: Segment, modified_ms: int, group: CleanedGroup) -> None:
        retain_legacy = modified_ms > self._rules.legacy_horizon_ms
        with segment.open_log() as file:
            walk = HeaderWalk(segment, file, 0, self._buffer, False, None)
            for table in walk:
                _require_good_crcs(walk, table, np.arange(len(table)))
                filtered = _TableFilter(
                    self, walk.buffer, table, walk.file_position, segment.log_path, retain_legacy
                )
                chunk = filtered.run()
                self.counts.bytes_read += int(table.size_bytes.sum())
                self.counts.bytes_kept += len(chunk.data)
                group.has_changed |= filtered.has_changed
                group.append(chunk)
                group.add_aborted(self._tracker.entries)
                self._tracker.entries.clear()
            check_whole(segment, walk, file.size())

    def find_producers_last(self, table: HeaderTable) -> Bools:
        """Tell which batches keep the state of their producer."""
        if len(self._producer_ids) == 0:
            return np.zeros(len(table), np.bool_)
        slots = np.searchsorted(self._producer_ids, table.producer_id)
        slots = np.minimum(slots, len(self._producer_ids) - 1)
        is_known = (self._producer_ids[slots] == table.producer_id) & (table.magic == MAGIC_V2)
        last_data = self._last_data_offsets[slots]
        is_last_data = (last_data >= 0) & (table.last_offset == last_data)
        is_last_marker = (
            (last_data < 0) & table.is_control & (table.producer_epoch == self._last_epochs[slots])
        )
        found: Bools = is_known & (is_last_data | is_last_marker)
        return found


@dataclass(slots=True)
class _LargeBatch:
    """What stays of a batch that comes in parts; its records are held up to a limit."""

    row: int
    records_count: int = 0
    kept_count: int = 0
    kept_bytes: int = 0
    has_tombstones: bool = False
    parts: list[BatchRecords] = field(default_factory=list)

    def take(self, records: BatchRecords, kept: Bools, max_held_bytes: int) -> None:
        """Take the next part; beyond the limit nothing is held any more."""
        rows = np.flatnonzero(kept)
        self.records_count += len(records)
        self.kept_count += len(rows)
        self.kept_bytes += int((records.end[rows] - records.start[rows]).sum())
        self.has_tombstones |= bool((records.value_length[rows] < 0).any())
        if self.kept_bytes > max_held_bytes:
            self.parts.clear()
        elif len(rows):
            self.parts.append(records.copy_of(rows))


class _TableFilter:
    """Decides what stays of the batches of one table, and builds it."""

    def __init__(
        self,
        cleaner: GroupCleaner,
        buffer: Bytes,
        table: HeaderTable,
        file_position: int,
        source: str,
        retain_legacy: bool,
    ) -> None:
        self._cleaner = cleaner
        self._rules = cleaner._rules
        self._buffer = buffer
        self._table = table
        self._file_position = file_position
        self._source = source
        self._retain_legacy = retain_legacy
        self._is_control = table.is_control
        self._has_horizon = table.has_delete_horizon
        self._is_over = self._has_horizon & (table.base_timestamp <= self._rules.now_ms)
        self._discardable = cleaner._tracker.find_discardable(
            Piece(table, buffer, file_position), source
        )
        # Rows of batches that stay as they are; others that stay are in `_built`.
        self._copied = np.zeros(len(table), np.bool_)
        self._built: dict[int, bytes] = {}
        self.has_changed = False

    def run(self) -> _CleanedChunk:
        table = self._table
        discarded = self._discardable & (~self._is_control | self._is_over)
        rows = np.flatnonzero(~discarded & (table.records_count != 0))
        large: _LargeBatch | None = None
        for records in split_batches(
            self._buffer,
            table,
            rows,
            file_position=self._file_position,
            source=self._source,
            max_held_bytes=self._rules.max_decompressed_bytes,
        ):
            if large is not None and (not records.is_part or records.batch[0] != large.row):
                self._finish(large)
                large = None
            if not records.is_part:
                self._filter(records)
                continue
            large = large or _LargeBatch(int(records.batch[0]))
            self._filter_part(records, large)
        if large is not None:
            self._finish(large)
        self._keep_headers()
        return self._chunk()

    def _filter(self, records: BatchRecords) -> None:
        if len(records) == 0:
            return
        kept = self._kept_records(records)
        first = int(records.batch[0])
        batches = records.batch - first
        totals = np.bincount(batches)
        kept_counts = np.bincount(batches[kept], minlength=len(totals))
        is_tombstone = kept & (records.value_length < 0)
        tombstones = np.bincount(batches[is_tombstone], minlength=len(totals))
        rows = slice(first, first + len(totals))
        needs_horizon = self._needs_horizon(rows, tombstones > 0)
        is_current = self._table.magic[rows] == MAGIC_V2
        is_whole = (kept_counts == totals) & ~needs_horizon & is_current
        self._copied[rows] |= (totals > 0) & is_whole
        self._count(kept)
        for index in np.flatnonzero((kept_counts > 0) & ~is_whole).tolist():
            start, end = np.searchsorted(batches, [index, index + 1])
            kept_rows = start + np.flatnonzero(kept[start:end])
            self._built[first + index] = self._rebuild(
                first + index, records, kept_rows, with_horizon=bool(needs_horizon[index])
            )

    def _count(self, kept: Bools) -> None:
        counts = self._cleaner.counts
        counts.records_read += len(kept)
        counts.records_kept += int(np.count_nonzero(kept))

    def _filter_part(self, records: BatchRecords, large: _LargeBatch) -> None:
        kept = self._kept_records(records)
        self._count(kept)
        large.take(records, kept, self._rules.max_decompressed_bytes)

    def _finish(self, large: _LargeBatch) -> None:
        """Decide what stays of a batch that came in parts, of which the last is taken."""
        row = large.row
        has_tombstones = np.array([large.has_tombstones])
        with_horizon = bool(self._needs_horizon(slice(row, row + 1), has_tombstones)[0])
        if large.kept_count == large.records_count and not with_horizon:
            self._copied[row] = True
        elif large.kept_count:
            limit = self._rules.max_decompressed_bytes
            if large.kept_bytes > limit:
                reason = (
                    f"{large.kept_count} of {large.records_count} records of a batch stay, "
                    f"{large.kept_bytes} bytes decompressed; to write them again at most {limit} "
                    "are held"
                )
                raise self._table.place(row, self._source).error(DecompressedSizeError, reason)
            records = BatchRecords.concat(large.parts)
            self._built[row] = self._rebuild(
                row, records, np.arange(len(records)), with_horizon=with_horizon
            )

    def _kept_records(self, records: BatchRecords) -> Bools:
        batch = records.batch
        has_key = records.key_length >= 0
        is_latest = records.offset >= self._cleaner._map.find(records)
        keeps_tombstones = np.where(
            self._table.magic[batch] < MAGIC_V2, self._retain_legacy, ~self._is_over[batch]
        )
        is_data_kept = has_key & is_latest & ((records.value_length >= 0) | keeps_tombstones)
        is_beyond = records.offset > self._cleaner._map.latest_offset
        is_control = self._is_control[batch]
        self._cleaner.counts.records_without_key += int(
            np.count_nonzero(~has_key & ~is_beyond & ~is_control)
        )
        kept: Bools = is_control | is_beyond | is_data_kept
        return kept

    def _needs_horizon(self, rows: slice, has_tombstones: Bools) -> Bools:
        is_control = self._is_control[rows]
        is_due = np.where(is_control, self._discardable[rows], has_tombstones)
        needs: Bools = ~self._has_horizon[rows] & is_due
        return needs

    def _rebuild(
        self, row: int, records: BatchRecords, kept_rows: Int64s, *, with_horizon: bool
    ) -> bytes:
        self._check_rebuildable(row, records, kept_rows)
        horizon = self._rules.now_ms + self._rules.delete_retention_ms if with_horizon else None
        if self._table.magic[row] < MAGIC_V2:
            start = int(self._table.position[row]) - self._file_position
            offsets = records.offset[kept_rows]
            return convert_messages(self._buffer, start, offsets, delete_horizon_ms=horizon)
        header = self._header(row)
        if horizon is None:
            horizon = header.delete_horizon_ms
        return rebuild_batch(header, records, kept_rows, delete_horizon_ms=horizon)

    def _check_rebuildable(self, row: int, records: BatchRecords, kept_rows: Int64s) -> None:
        """Refuse records that Kafka's cleaner refuses to write again."""
        reason = ""
        offsets = records.offset[kept_rows]
        early = kept_rows[records.timestamp_ms[kept_rows] < NO_TIMESTAMP]
        if len(early):
            reason = (
                f"record of offset {records.offset[early[0]]} has the timestamp "
                f"{records.timestamp_ms[early[0]]} ms, before 1970: Kafka's log cleaner does not "
                "write it again; allowed are 0 and later, and -1 for no timestamp"
            )
        elif (np.diff(offsets) <= 0).any() or offsets[-1] - offsets[0] > MAX_RELATIVE_OFFSET:
            reason = (
                f"records of offsets {offsets[0]} to {offsets[-1]} are not ascending, or more than "
                f"{MAX_RELATIVE_OFFSET} apart"
            )
        if reason:
            raise self._table.place(row, self._source).error(InvalidRecordError, reason)

    def _keep_headers(self) -> None:
        """Keep as headers alone those batches that others rely on."""
        table = self._table
        is_needed = self._cleaner.find_producers_last(table) | (
            table.last_offset + 1 == self._rules.end_offset
        )
        is_gone = ~self._copied & (table.magic == MAGIC_V2)
        for row in np.flatnonzero(is_needed & is_gone).tolist():
            if row not in self._built:
                self._built[row] = empty_batch(self._header(row))

    def _header(self, row: int) -> RecordBatchHeader:
        start = int(self._table.position[row]) - self._file_position
        return RecordBatchHeader.unpack(self._buffer.data, start)

    def _chunk(self) -> _CleanedChunk:
        table = self._table
        kept = self._copied.copy()
        kept[list(self._built)] = True
        rows = np.flatnonzero(kept)
        sizes = table.size_bytes.copy()
        first, last = table.base_offset.copy(), table.last_offset.copy()
        largest = table.max_timestamp.copy()
        for row, batch in self._built.items():
            header = RecordBatchHeader.unpack(batch)
            sizes[row], largest[row] = len(batch), header.max_timestamp
            first[row], last[row] = header.base_offset, header.last_offset
        self.has_changed = len(rows) < len(table) or any(
            batch != self._original(row) for row, batch in self._built.items()
        )
        return _CleanedChunk(
            data=b"".join(self._parts(rows)),
            base_offsets=first[rows],
            extents=BatchExtents(sizes[rows], last[rows], largest[rows]),
        )

    def _original(self, row: int) -> memoryview:
        start = int(self._table.position[row]) - self._file_position
        return self._buffer.data[start : start + int(self._table.size_bytes[row])]

    def _parts(self, rows: Int64s) -> list[bytes | memoryview]:
        """List the bytes that stay; neighbours that stay as they are make one part."""
        if len(rows) == 0:
            return []
        is_copied = self._copied[rows]
        starts_part = np.ones(len(rows), np.bool_)
        starts_part[1:] = (np.diff(rows) != 1) | ~is_copied[1:] | ~is_copied[:-1]
        firsts = np.flatnonzero(starts_part)
        lasts = np.append(firsts[1:], len(rows)) - 1
        parts: list[bytes | memoryview] = []
        for first, last in zip(rows[firsts].tolist(), rows[lasts].tolist(), strict=True):
            if first in self._built:
                parts.append(self._built[first])
                continue
            start = int(self._table.position[first]) - self._file_position
            end = int(self._table.position[last] + self._table.size_bytes[last])
            parts.append(self._buffer.data[start : end - self._file_position])
        return parts


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
        rules: CleaningRules,
        make_segment: Callable[[str, int], _CleanedSegment] | None = None,
    ) -> None:
        self._directory = directory
        self._rules = rules
        self._make_segment = make_segment or _CleanedSegment
        self.has_changed = False
        self._segments = [self._make_segment(directory, base_offset)]

    @property
    def base_offsets(self) -> list[int]:
        """Of its segments, ascending."""
        return [segment.tail.base_offset for segment in self._segments]

    @property
    def size_bytes(self) -> int:
        """Bytes of its logs."""
        return sum(segment.tail.size_bytes for segment in self._segments)

    def append(self, chunk: _CleanedChunk) -> None:
        """Append batches, to a new segment where they do not fit."""
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
            current.append(data, extents, self._rules.index_interval_bytes)
            done += count

    def add_aborted(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add entries to the transaction index of the segments that hold their markers."""
        for transaction in transactions:
            holders = [
                segment
                for segment in self._segments
                if segment.tail.base_offset <= transaction.last_offset
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
                path = segment_path(self._directory, segment.tail.base_offset, kind, CLEANED_SUFFIX)
                files.unlink(path, missing_ok=True)


class _CleanedSegment:
    """One segment under its ``.cleaned`` name, while it is written."""

    def __init__(self, directory: str, base_offset: int) -> None:
        self._directory = directory
        self.tail = SegmentTail.empty(base_offset, created_ms=0)
        self.aborted: list[AbortedTransaction] = []
        self._offset_entries: list[bytes] = []
        self._time_entries: list[bytes] = []
        self._descriptor = self._create()

    def _create(self) -> int | None:
        return files.create_exclusive(self._path(LOG_SUFFIX))

    def count_fitting(self, last_offsets: Int64s, ends: Int64s) -> int:
        """Count the batches that fit behind what is there; `ends` counts from its end."""
        fits = (last_offsets - self.tail.base_offset <= MAX_RELATIVE_OFFSET) & (
            self.tail.size_bytes + ends <= MAX_SEGMENT_BYTES
        )
        return len(fits) if fits.all() else int(np.argmin(fits))

    def append(self, data: memoryview, extents: BatchExtents, index_interval_bytes: int) -> None:
        assert self._descriptor is not None
        files.write_all(self._descriptor, data, self.tail.size_bytes)
        added = append_batches(self.tail, extents, index_interval_bytes=index_interval_bytes)
        self._offset_entries.append(added.offset_entries.tobytes())
        self._time_entries.append(added.time_entries.tobytes())
        self.tail = added.tail

    def finish(self, modified_ns: int) -> None:
        assert self._descriptor is not None
        files.fsync(self._descriptor)
        self.close()
        files.set_modified_time(self._path(LOG_SUFFIX), modified_ns)
        self._time_entries.append(final_time_entry(self.tail).tobytes())
        self._write(OFFSET_INDEX_SUFFIX, b"".join(self._offset_entries))
        self._write(TIME_INDEX_SUFFIX, b"".join(self._time_entries))
        if self.aborted:
            self._write(TRANSACTION_INDEX_SUFFIX, format_transaction_index(self.aborted))

    def close(self) -> None:
        if self._descriptor is not None:
            files.close(self._descriptor)
            self._descriptor = None

    def _write(self, kind: str, data: bytes) -> None:
        descriptor = files.create_exclusive(self._path(kind))
        try:
            files.write_all(descriptor, data, 0)
            files.fsync(descriptor)
        finally:
            files.close(descriptor)

    def _path(self, kind: str) -> str:
        return segment_path(self._directory, self.tail.base_offset, kind, CLEANED_SUFFIX)


class _MeasuredSegment(_CleanedSegment):
    """One that is counted, and not written."""

    def _create(self) -> None:
        """Make no file."""

    def append(self, data: memoryview, extents: BatchExtents, index_interval_bytes: int) -> None:
        self.tail = append_batches(
            self.tail, extents, index_interval_bytes=index_interval_bytes
        ).tail


def _require_good_crcs(walk: HeaderWalk, table: HeaderTable, rows: Int64s) -> None:
    chosen = table.select(rows)
    good = check_crcs(walk.buffer, chosen, file_position=walk.file_position)
    if not good.all():
        _raise_bad_crc(walk.segment.log_path, chosen, int(np.argmin(good)))


def _raise_bad_crc(path: str, table: HeaderTable, row: int) -> NoReturn:
    raise CrcMismatchError(
        f"crc mismatch in a closed segment: stored {int(table.crc[row]):#010x}; run segmentlog "
        "verify before its log is compacted",
        source=path,
        position=int(table.position[row]),
        base_offset=int(table.base_offset[row]),
        length=int(table.size_bytes[row]),
    )
