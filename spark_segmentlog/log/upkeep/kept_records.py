"""Which records stay when a log is cleaned, and what is written of their batches.

Kafka's rules (Cleaner, MemoryRecords.filterTo, KIP-534), batch by batch:

- Which records of data go is told in `record_rules`.
- A batch that keeps a tombstone gets a delete horizon of now + `delete.retention.ms`, once.
- What stays of formats 0 and 1 becomes format 2.
- Records of aborted transactions go. A marker stays as long as a batch of its transaction is still
  there; then it gets a horizon, and goes when that is over.
- A batch that is written again with a record before 1970 is refused, as Kafka's cleaner does.
- A batch that loses all its records goes, but for two, which stay as headers alone: a producer's
  last one, since it holds its sequence and epoch, and the last one below the round's end, since it
  holds the offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from spark_segmentlog.errors import DecompressedSizeError, InvalidRecordError
from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.segment.growth import BatchExtents
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.transactions.producer_tracker import LastBatch
from spark_segmentlog.log.upkeep.cleaned_segment import CleanedChunk
from spark_segmentlog.log.upkeep.kept_transactions import TransactionTracker
from spark_segmentlog.log.upkeep.record_rules import WITHOUT_KEY, JudgedRecords, find_taken_away
from spark_segmentlog.record.compact.batch_rebuild import (
    convert_messages,
    empty_batch,
    rebuild_batch,
)
from spark_segmentlog.record.compact.batch_records import BatchRecords, split_batches
from spark_segmentlog.record.compact.offset_map import OffsetMap
from spark_segmentlog.record.layout import MAGIC_V2, NO_TIMESTAMP
from spark_segmentlog.record.plain.batch import RecordBatchHeader
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.types import Bools, Int64s


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
    """What all passes over a partition read and kept."""

    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


@dataclass(slots=True)
class _LargeBatch:
    """What stays of a batch that comes in parts; its records are held up to a limit."""

    row: int
    records_count: int = 0
    kept_count: int = 0
    kept_bytes: int = 0
    has_tombstones: bool = False
    parts: list[BatchRecords] = field(default_factory=list)

    def add(self, records: BatchRecords, kept: Bools, max_held_bytes: int) -> None:
        """Add the next part; beyond the limit nothing is held any more."""
        rows = np.flatnonzero(kept)
        self.records_count += len(records)
        self.kept_count += len(rows)
        self.kept_bytes += int((records.end[rows] - records.start[rows]).sum())
        self.has_tombstones |= bool((records.value_length[rows] < 0).any())
        if self.kept_bytes > max_held_bytes:
            self.parts.clear()
        elif len(rows):
            self.parts.append(records.copy_of(rows))


class KeptRecords:
    """Decides what stays of one batch after the other, in the order of their log."""

    def __init__(
        self,
        offset_map: OffsetMap,
        tracker: TransactionTracker,
        rules: CleaningRules,
        counts: CleaningCounts,
    ) -> None:
        self.counts = counts
        self.offset_map = offset_map
        self.tracker = tracker
        self.rules = rules
        producer_ids = sorted(rules.last_batches)
        last = [rules.last_batches[producer_id] for producer_id in producer_ids]
        self._producer_ids = np.array(producer_ids, np.int64)
        self._last_data_offsets = np.array([batch.last_data_offset for batch in last], np.int64)
        self._last_epochs = np.array([batch.producer_epoch for batch in last], np.int64)

    def of_piece(self, piece: Piece, source: str, retain_legacy: bool) -> CleanedChunk:
        """Give what stays of the batches of a piece."""
        return _PieceFilter(self, piece, source, retain_legacy).run()

    def find_last_batches(self, table: HeaderTable) -> Bools:
        """Tell which batches keep the state of their producer."""
        if len(self._producer_ids) == 0:
            return np.zeros(len(table), np.bool_)
        rows = np.searchsorted(self._producer_ids, table.producer_id)
        rows = np.minimum(rows, len(self._producer_ids) - 1)
        is_known = (self._producer_ids[rows] == table.producer_id) & (table.magic == MAGIC_V2)
        last_data = self._last_data_offsets[rows]
        is_last_data = (last_data >= 0) & (table.last_offset == last_data)
        is_last_marker = (
            (last_data < 0) & table.is_control & (table.producer_epoch == self._last_epochs[rows])
        )
        found: Bools = is_known & (is_last_data | is_last_marker)
        return found


class _PieceFilter:
    """Decides what stays of the batches of one piece, and builds it."""

    def __init__(self, kept: KeptRecords, piece: Piece, source: str, retain_legacy: bool) -> None:
        table = piece.table
        self._kept = kept
        self._rules = kept.rules
        self._buffer = piece.buffer
        self._table = table
        self._file_position = piece.file_position
        self._source = source
        self._retain_legacy = retain_legacy
        self._is_control = table.is_control
        self._has_horizon = table.has_delete_horizon
        self._is_over = self._has_horizon & (table.base_timestamp <= self._rules.now_ms)
        self._discardable = kept.tracker.mark_discardable(piece, source)
        # Rows of batches that stay as they are; others that stay are in `_built`.
        self._copied = np.zeros(len(table), np.bool_)
        self._built: dict[int, bytes] = {}

    def run(self) -> CleanedChunk:
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
        counts = self._kept.counts
        counts.records_read += len(kept)
        counts.records_kept += int(np.count_nonzero(kept))

    def _filter_part(self, records: BatchRecords, large: _LargeBatch) -> None:
        kept = self._kept_records(records)
        self._count(kept)
        large.add(records, kept, self._rules.max_decompressed_bytes)

    def _finish(self, large: _LargeBatch) -> None:
        """Decide what stays of a batch that came in parts, all of which were added."""
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
        is_old_format = self._table.magic[batch] < MAGIC_V2
        judged = JudgedRecords(
            records,
            latest=self._kept.offset_map.find(records),
            keeps_tombstones=np.where(is_old_format, self._retain_legacy, ~self._is_over[batch]),
        )
        is_beyond = records.offset > self._kept.offset_map.latest_offset
        stays = self._is_control[batch] | is_beyond
        without_key = np.count_nonzero(WITHOUT_KEY.applies(judged) & ~stays)
        self._kept.counts.records_without_key += int(without_key)
        kept: Bools = stays | ~find_taken_away(judged)
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
        is_needed = self._kept.find_last_batches(table) | (
            table.last_offset + 1 == self._rules.end_offset
        )
        is_gone = ~self._copied & (table.magic == MAGIC_V2)
        for row in np.flatnonzero(is_needed & is_gone).tolist():
            if row not in self._built:
                self._built[row] = empty_batch(self._header(row))

    def _header(self, row: int) -> RecordBatchHeader:
        start = int(self._table.position[row]) - self._file_position
        return RecordBatchHeader.unpack(self._buffer.data, start)

    def _chunk(self) -> CleanedChunk:
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
        has_changed = len(rows) < len(table) or any(
            batch != self._original(row) for row, batch in self._built.items()
        )
        return CleanedChunk(
            data=b"".join(self._parts(rows)),
            base_offsets=first[rows],
            extents=BatchExtents(sizes[rows], last[rows], largest[rows]),
            has_changed=has_changed,
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
