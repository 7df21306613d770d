"""Headers of the entries of a log, the top-level batches and messages, a row each.

A row is what a walk of a file needs to choose what to decode: where the entry lies, which offsets
it covers, its timestamps, producer and flags. Positions are those of the file. No checksum is
looked at, and no record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.kernels import headers as kernels
from spark_segmentlog.record.kernels import search
from spark_segmentlog.record.layout import (
    COMPRESSION_CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    LOG_PREFIX,
    MAGIC_OFFSET,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    MIN_MESSAGE_SIZE_V0,
    MIN_MESSAGE_SIZE_V1,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from spark_segmentlog.record.plain.batch import BatchPlace, RecordBatchHeader, invalid_header_reason
from spark_segmentlog.record.types import Bools, Bytes, Int64s, bytes_view, flat_bytes

_MAX_ENTRIES = 1 << 17
_MAX_COVERING_ENTRIES = 1024
_MIN_LENGTHS = {
    MAGIC_V0: MIN_MESSAGE_SIZE_V0,
    MAGIC_V1: MIN_MESSAGE_SIZE_V1,
    MAGIC_V2: MIN_BATCH_LENGTH,
}


class StopReason(Enum):
    """Why a scan of headers ended where it did."""

    END = kernels.SCAN_END
    """The bytes end with a whole entry."""
    INCOMPLETE = kernels.SCAN_INCOMPLETE
    """An entry starts and does not end in the bytes."""
    ZERO = kernels.SCAN_ZERO
    """Nothing but zeros follow: a preallocated file, perhaps."""
    INVALID = kernels.SCAN_INVALID
    """What follows is no entry."""
    FULL = kernels.SCAN_FULL
    """The table holds `max_entries`; go on at its end."""


def _column(field: int, text: str) -> property:
    return property(lambda table: table.entries[:, field], doc=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTable:
    """Headers of neighbouring entries.

    Parameters
    ----------
    entries : ndarray of int64, shape (n, fields)
        One row an entry, in the order of the file.
    end_position : int
        File position after the last whole entry.
    stop : StopReason
        What is there.
    needed_bytes : int
        With `INCOMPLETE`, the bytes of the entry at `end_position`; 0 when its header is not whole.
    reason : str
        With `INVALID`, what cannot be.
    unordered_row : int
        The first that does not lie after the one before it, or after `first_offset`; -1 where all
        do, or nobody looked.

    Notes
    -----
    For a wrapper of format 0 or 1 `base_offset` is a lower bound, `last_offset` is exact and
    `records_count` is -1. Format 0 has timestamps of -1.
    """

    entries: Int64s
    end_position: int
    stop: StopReason
    needed_bytes: int = 0
    reason: str = ""
    unordered_row: int = -1

    position = _column(fields.POSITION, "File position of its first byte.")
    size_bytes = _column(fields.SIZE_BYTES, "Bytes of the whole entry.")
    base_offset = _column(fields.BASE_OFFSET, "First offset it covers (a lower bound).")
    last_offset = _column(fields.LAST_OFFSET, "Last offset it covers (inclusive).")
    magic = _column(fields.MAGIC, "Format, 0 to 2.")
    attributes = _column(fields.ATTRIBUTES, "Attributes as they are.")
    base_timestamp = _column(fields.BASE_TIMESTAMP, "Base timestamp, or delete horizon (ms).")
    max_timestamp = _column(fields.MAX_TIMESTAMP, "Largest timestamp (ms).")
    partition_leader_epoch = _column(fields.PARTITION_LEADER_EPOCH, "Leader epoch, or -1.")
    producer_id = _column(fields.PRODUCER_ID, "Producer id, or -1.")
    producer_epoch = _column(fields.PRODUCER_EPOCH, "Producer epoch, or -1.")
    base_sequence = _column(fields.BASE_SEQUENCE, "Sequence number of the first record, or -1.")
    records_count = _column(fields.RECORDS_COUNT, "Number of records, -1 where unknown.")
    crc = _column(fields.CRC, "Stored checksum, unsigned.")

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def codec(self) -> Int64s:
        """Number of the compression codec, 0 for none; also one that is unknown."""
        return self.entries[:, fields.ATTRIBUTES] & COMPRESSION_CODEC_MASK

    @property
    def is_compressed(self) -> Bools:
        """Whether the records are one compressed block."""
        compressed: Bools = self.codec != 0
        return compressed

    @property
    def timestamp_type(self) -> Int64s:
        """-1 none (format 0), 0 CreateTime, 1 LogAppendTime."""
        append = (self.entries[:, fields.ATTRIBUTES] & TIMESTAMP_TYPE_MASK) != 0
        kinds: Int64s = append.astype(np.int64)
        kinds[self.entries[:, fields.MAGIC] == MAGIC_V0] = TimestampType.NO_TIMESTAMP_TYPE
        return kinds

    @property
    def is_transactional(self) -> Bools:
        """Whether it belongs to a transaction."""
        return self._has(TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> Bools:
        """Whether it holds markers, which are never rows."""
        return self._has(CONTROL_MASK)

    @property
    def has_delete_horizon(self) -> Bools:
        """Whether its base timestamp is a delete horizon."""
        return self._has(DELETE_HORIZON_MASK)

    def _has(self, mask: int) -> Bools:
        # These bits mean something in format 2 alone.
        is_batch = self.entries[:, fields.MAGIC] == MAGIC_V2
        has: Bools = is_batch & ((self.entries[:, fields.ATTRIBUTES] & mask) != 0)
        return has

    def select(self, rows: Bools | Int64s) -> HeaderTable:
        """Take some rows, by a mask or by their numbers."""
        return HeaderTable(
            entries=np.ascontiguousarray(self.entries[rows]),
            end_position=self.end_position,
            stop=self.stop,
            needed_bytes=self.needed_bytes,
            reason=self.reason,
        )

    def place(self, row: int, source: str) -> BatchPlace:
        """Tell where an entry of the file `source` lies."""
        return BatchPlace(
            source,
            int(self.position[row]),
            int(self.base_offset[row]),
            int(self.size_bytes[row]),
        )

    def between(self, start: int, end: int) -> HeaderTable:
        """Take the rows [start, end), which share their memory with this table."""
        return replace(self, entries=self.entries[start:end], unordered_row=-1)

    @staticmethod
    def concat(tables: Sequence[HeaderTable]) -> HeaderTable:
        """Join tables (at least one) that follow each other; the last one says where they end."""
        last = tables[-1]
        return HeaderTable(
            entries=np.concatenate([table.entries for table in tables]),
            end_position=last.end_position,
            stop=last.stop,
            needed_bytes=last.needed_bytes,
            reason=last.reason,
        )


def scan_headers(
    buffer: Bytes,
    start: int,
    end: int,
    *,
    file_position: int,
    first_offset: int = 0,
    max_entries: int = _MAX_ENTRIES,
) -> HeaderTable:
    """Walk the headers in ``buffer[start:end]``; nothing is checksummed or decompressed.

    Parameters
    ----------
    start, end : int
        Indexes in `buffer`, `start` being where an entry starts.
    file_position : int
        Position in the file of ``buffer[0]``.
    first_offset : int
        Lower bound for the first offset, that of a wrapper of format 0 or 1 that comes first too.
    max_entries : int
        The scan stops with `StopReason.FULL` above this number.
    """
    buffer = flat_bytes(buffer)
    assert 0 <= start <= end <= len(buffer)
    smallest = LOG_OVERHEAD + MIN_MESSAGE_SIZE_V0
    rows = min(max_entries, (end - start) // smallest)
    entries = np.empty((rows, fields.HEADER_FIELDS), np.int64)
    count, position, stop, needed, unordered = kernels.scan_entries(
        buffer, start, end, file_position, first_offset, entries
    )
    reason = _invalid_reason(buffer, position, end) if stop == kernels.SCAN_INVALID else ""
    return HeaderTable(
        entries=entries[:count],
        end_position=file_position + position,
        stop=StopReason(stop),
        needed_bytes=needed,
        reason=reason,
        unordered_row=unordered,
    )


def check_crcs(buffer: Bytes, table: HeaderTable, *, file_position: int) -> Bools:
    """Compare the checksums of entries; `buffer` holds them, from `file_position` on."""
    good = np.empty(len(table), np.bool_)
    rows = np.arange(len(table))
    check_inside(buffer, table.entries, rows, file_position)
    kernels.check_entry_crcs(flat_bytes(buffer), table.entries, rows, file_position, good)
    return good


def find_next_batch(
    buffer: Bytes,
    start: int,
    end: int,
    *,
    file_position: int,
    min_offset: int,
    end_offset: int = 2**63 - 1,
) -> int:
    """Find where entries go on after bad bytes.

    Returns
    -------
    int
        File position of the first entry that lies whole in ``buffer[start:end]``, has a good
        checksum and a last offset of at least `min_offset` and below `end_offset`; -1 when there is
        none.
    """
    buffer = flat_bytes(buffer)
    assert 0 <= start <= end <= len(buffer)
    budget = 16 * (end - start) + (64 << 20)
    found = search.find_entry(buffer, start, end, min_offset, end_offset, budget)
    return file_position + found if found >= 0 else -1


def find_covering_entries(
    buffer: Bytes, at: int, *, left: int, min_offset: int, end_offset: int
) -> Int64s | None:
    """Find where an entry may stand that covers a byte, that is, starts before and ends after it.

    Parameters
    ----------
    at : int
        Index of the byte.
    left : int
        Bytes of the file from that byte on.
    min_offset, end_offset : int
        Range of the offsets that the entry may start with, the end exclusive.

    Returns
    -------
    ndarray of int64 or None
        Indexes in `buffer`; no checksum was compared. None where there are very many.
    """
    assert at >= 0
    assert at + HEADER_SIZE_UP_TO_MAGIC <= len(buffer)
    buffer = flat_bytes(buffer)
    found = np.empty(_MAX_COVERING_ENTRIES, np.int64)
    count = search.find_covering(buffer, at, left, min_offset, end_offset, found)
    return found[:count] if count <= len(found) else None


def check_inside(buffer: Bytes, entries: Int64s, rows: Int64s, file_position: int) -> None:
    """Make sure that rows of a table lie in a buffer, since no kernel would notice."""
    starts = entries[rows, fields.POSITION] - file_position
    ends = starts + entries[rows, fields.SIZE_BYTES]
    if len(rows) and (starts.min() < 0 or ends.max() > len(buffer)):
        raise IndexError("header table of other bytes than these")


def _invalid_reason(buffer: Bytes, index: int, end: int) -> str:
    """Word what a scan found that is no entry, for errors."""
    base_offset, length = LOG_PREFIX.unpack_from(bytes_view(buffer), index)
    magic = int(np.int8(buffer[index + MAGIC_OFFSET]))
    minimum = _MIN_LENGTHS.get(magic)
    if minimum is None:
        return f"magic {magic}, allowed 0 to 2 (length {length})"
    if length < minimum:
        return f"length {length} of an entry of format {magic}, at least {minimum} is needed"
    if magic == MAGIC_V2 and end - index >= RECORD_BATCH_OVERHEAD:
        return invalid_header_reason(RecordBatchHeader.unpack(buffer, index))
    return f"offset {base_offset} is outside of 0 to {2**63 - 2}"
