"""Records of whole batches, found by their bytes: what compaction looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from spark_segmentlog.errors import InvalidRecordError
from spark_segmentlog.record.codec.block_window import NO_LIMIT, BlockWindow
from spark_segmentlog.record.codec.codec import BlockError, BlockTooLargeError, OutputFullError
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.header_fields import RECORDS_COUNT
from spark_segmentlog.record.kernels import filter as kernels
from spark_segmentlog.record.layout import (
    MAGIC_V2,
    MIN_RECORD_SIZE_BYTES,
    NULL_LENGTH,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
)
from spark_segmentlog.record.plain.batch import Record, iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.read.streamed_batch import StreamedBatch
from spark_segmentlog.record.types import Bytes, Int64s, flat_bytes

MAX_HELD_BYTES = 128 << 20
"""Decompressed bytes of one entry that are held at most, where nobody says else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecords:
    """Records of neighbouring batches, one row a record, in the order of the log.

    Attributes
    ----------
    buffer : uint8 array
        Holds the keys, and for format 2 the whole records; valid until the next ones are asked for.
    batch : int64 array
        Row of the header table that a record belongs to; ascending.
    start, end : int64 array
        Bytes of the record in `buffer`, its length field included; 0 for formats 0 and 1.
    offset, timestamp_ms : int64 array
        Absolute.
    key_position, key_length, value_length : int64 array
        A length of -1 is null.
    is_part : bool
        Whether they are a part of one large batch, of which more may follow.
    """

    buffer: Bytes
    batch: Int64s
    start: Int64s
    end: Int64s
    offset: Int64s
    timestamp_ms: Int64s
    key_position: Int64s
    key_length: Int64s
    value_length: Int64s
    is_part: bool = False

    def __len__(self) -> int:
        return len(self.batch)

    def copy_of(self, rows: Int64s) -> BatchRecords:
        """Copy some records of format 2, which then stay valid."""
        starts, ends = self.start[rows], self.end[rows]
        moved = np.concatenate(([0], np.cumsum(ends - starts)))
        buffer = np.empty(int(moved[-1]), np.uint8)
        kernels.gather(self.buffer, starts, ends, buffer)
        return BatchRecords(
            buffer=buffer,
            batch=self.batch[rows],
            start=moved[:-1],
            end=moved[1:],
            offset=self.offset[rows],
            timestamp_ms=self.timestamp_ms[rows],
            key_position=self.key_position[rows] - starts + moved[:-1],
            key_length=self.key_length[rows],
            value_length=self.value_length[rows],
        )

    @staticmethod
    def concat(parts: Sequence[BatchRecords]) -> BatchRecords:
        """Join copies of parts of one batch, which follow each other."""
        shifts = np.cumsum([0, *(len(part.buffer) for part in parts[:-1])]).tolist()

        def joined(name: str, *, is_place: bool = False) -> Int64s:
            columns = [
                getattr(part, name) + (shift if is_place else 0)
                for part, shift in zip(parts, shifts, strict=True)
            ]
            return np.concatenate(columns)

        return BatchRecords(
            buffer=np.concatenate([part.buffer for part in parts]),
            batch=joined("batch"),
            start=joined("start", is_place=True),
            end=joined("end", is_place=True),
            offset=joined("offset"),
            timestamp_ms=joined("timestamp_ms"),
            key_position=joined("key_position", is_place=True),
            key_length=joined("key_length"),
            value_length=joined("value_length"),
        )


def split_batches(
    buffer: Bytes,
    table: HeaderTable,
    rows: Int64s,
    *,
    file_position: int,
    source: str,
    max_held_bytes: int = MAX_HELD_BYTES,
) -> Iterator[BatchRecords]:
    """Split batches into their records, control records included.

    A batch that does not fit where ordinary ones are decompressed comes in parts.

    Parameters
    ----------
    buffer : uint8 array
        Holds the batches; its first byte lies at `file_position` in the file.
    rows : int64 array
        Which of them, ascending.
    source : str
        File, for error messages.
    max_held_bytes : int
        Limit on the decompressed size of a wrapper, which is split as a whole.

    Raises
    ------
    CorruptRecordError
        One of its subclasses, with the place of the batch.
    """
    if len(rows) == 0:
        return
    splitter = _Splitter(flat_bytes(buffer), table, file_position, source, max_held_bytes)
    kinds = np.where(table.magic[rows] < MAGIC_V2, 2, (table.codec[rows] != 0).astype(np.int64))
    cuts = np.flatnonzero(np.diff(kinds)) + 1
    for run in np.split(rows, cuts):
        if table.magic[run[0]] < MAGIC_V2:
            yield splitter.split_legacy(run)
        elif table.codec[run[0]]:
            yield from splitter.split_compressed(run)
        else:
            yield splitter.split_plain(run)


class _Splitter:
    """One call of `split_batches`."""

    def __init__(
        self,
        buffer: Bytes,
        table: HeaderTable,
        file_position: int,
        source: str,
        max_held_bytes: int,
    ) -> None:
        self._buffer = buffer
        self._view = buffer.data
        self._table = table
        self._starts = table.position - file_position
        self._ends = self._starts + table.size_bytes
        self._source = source
        self._max_held_bytes = max_held_bytes

    def split_plain(self, rows: Int64s) -> BatchRecords:
        starts = self._starts[rows] + RECORD_BATCH_OVERHEAD
        return self._split_sections(self._buffer, starts, self._ends[rows], rows)

    def split_legacy(self, rows: Int64s) -> BatchRecords:
        """Split messages and wrappers one by one; there are no kernels for what nobody writes."""
        batches: list[int] = []
        records: list[Record] = []
        for row in rows.tolist():
            start = int(self._starts[row])
            found = list(
                iterate_messages(
                    self._view,
                    start,
                    source=self._source,
                    file_position=int(self._table.position[row]) - start,
                    check_crcs=False,
                    max_decompressed_bytes=self._max_held_bytes,
                )
            )
            records.extend(found)
            batches.extend([row] * len(found))
        return _from_records(batches, records)

    def split_compressed(self, rows: Int64s) -> Iterator[BatchRecords]:
        """Split as many at a time as fit into usual memory; a larger one part by part."""
        room = DecompressionBuffer(NO_LIMIT)
        room.clear()
        pending: list[int] = []
        bounds = [0]
        for row in rows.tolist():
            if not self._append(room, row):
                yield self._split_decompressed(room.data, bounds, pending)
                room.clear()
                pending, bounds = [], [0]
                if not self._append(room, row):
                    yield from self._split_streamed(room.data, row)
                    continue
            pending.append(row)
            bounds.append(room.used_bytes)
        yield self._split_decompressed(room.data, bounds, pending)

    def _append(self, room: DecompressionBuffer, row: int) -> bool:
        codec = int(self._table.codec[row])
        place = self._table.place(row, self._source)
        place.check_codec(codec, MAGIC_V2)
        block = self._block(row)
        if not len(block) and not self._table.records_count[row]:
            return True
        try:
            with place.telling_block_errors():
                return room.append(codec, block, magic=MAGIC_V2)
        except OutputFullError:
            return False

    def _split_streamed(self, room: Bytes, row: int) -> Iterator[BatchRecords]:
        window = BlockWindow(
            int(self._table.codec[row]),
            self._block(row),
            magic=MAGIC_V2,
            max_bytes=NO_LIMIT,
            data=room,
        )
        batch = StreamedBatch(window, self._table.entries[row])
        rows = np.array([row], np.int64)
        try:
            for piece in batch.pieces():
                spans, counts = piece.spans, piece.entries[:, RECORDS_COUNT]
                records = self._split_sections(piece.body, spans[:, 0], spans[:, 1], rows, counts)
                yield replace(records, is_part=True)
        except (BlockError, BlockTooLargeError):
            self._raise_invalid(row, batch.reached)

    def _raise_invalid(self, row: int, first: tuple[int, int] = (0, 0)) -> NoReturn:
        """Raise what is wrong with a batch, as its plain twin finds it from a record on."""
        start = int(self._starts[row])
        for _ in iterate_records(
            self._view[start : self._ends[row]],
            source=self._source,
            file_position=int(self._table.position[row]),
            check_crcs=False,
            first=first,
        ):
            pass
        reason = "records that do not fit their batch"
        raise self._table.place(row, self._source).error(InvalidRecordError, reason)

    def _block(self, row: int) -> memoryview:
        return self._view[self._starts[row] + RECORD_BATCH_OVERHEAD : self._ends[row]]

    def _split_decompressed(
        self, data: Bytes, bounds: Sequence[int], rows: Sequence[int]
    ) -> BatchRecords:
        edges = np.array(bounds, np.int64)
        return self._split_sections(data, edges[:-1], edges[1:], np.array(rows, np.int64))

    def _split_sections(
        self,
        buffer: Bytes,
        starts: Int64s,
        ends: Int64s,
        rows: Int64s,
        counts: Int64s | None = None,
    ) -> BatchRecords:
        if counts is None:
            counts = self._table.records_count[rows]
        self._check_counts(counts, ends - starts, rows)
        columns = kernels.RecordColumns(
            *np.empty((len(kernels.RecordColumns._fields), int(counts.sum())), np.int64)
        )
        deltas = self._table.last_offset[rows] - self._table.base_offset[rows]
        good = kernels.split_records(buffer, starts, ends, counts, deltas, columns)
        if good < len(rows):
            self._raise_invalid(int(rows[good]))
        batch = rows[columns.sections]
        return BatchRecords(
            buffer=buffer,
            batch=batch,
            start=columns.starts,
            end=columns.ends,
            offset=self._table.base_offset[batch] + columns.offset_deltas,
            timestamp_ms=self._timestamps(batch, columns.timestamp_deltas),
            key_position=columns.key_positions,
            key_length=columns.key_lengths,
            value_length=columns.value_lengths,
        )

    def _check_counts(self, counts: Int64s, sizes: Int64s, rows: Int64s) -> None:
        """Refuse counts that the bytes cannot hold, before memory is asked for."""
        for index in np.flatnonzero(counts * MIN_RECORD_SIZE_BYTES > sizes)[:1].tolist():
            reason = (
                f"record count {counts[index]}, the {sizes[index]} bytes of the records hold at "
                f"most {sizes[index] // MIN_RECORD_SIZE_BYTES}"
            )
            raise self._table.place(int(rows[index]), self._source).error(
                InvalidRecordError, reason
            )

    def _timestamps(self, batch: Int64s, deltas: Int64s) -> Int64s:
        appended = (self._table.attributes[batch] & TIMESTAMP_TYPE_MASK) != 0
        with np.errstate(over="ignore"):
            created = self._table.base_timestamp[batch] + deltas
        stamped: Int64s = np.where(appended, self._table.max_timestamp[batch], created)
        return stamped


def _from_records(batches: Sequence[int], records: Sequence[Record]) -> BatchRecords:
    key_lengths = np.array([_length(record.key) for record in records], np.int64)
    keys = b"".join(record.key or b"" for record in records)
    ends = np.cumsum(np.maximum(key_lengths, 0))
    nowhere = np.zeros(len(records), np.int64)
    return BatchRecords(
        buffer=flat_bytes(np.frombuffer(keys, np.uint8)),
        batch=np.array(batches, np.int64),
        start=nowhere,
        end=nowhere,
        offset=np.array([record.offset for record in records], np.int64),
        timestamp_ms=np.array([record.timestamp_ms for record in records], np.int64),
        key_position=ends - np.maximum(key_lengths, 0),
        key_length=key_lengths,
        value_length=np.array([_length(record.value) for record in records], np.int64),
    )


def _length(data: bytes | None) -> int:
    return NULL_LENGTH if data is None else len(data)
