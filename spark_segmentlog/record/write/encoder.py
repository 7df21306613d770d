"""Columns to record batches of format 2.

Rows are cut into batches of a target size, measured before compression. Within a batch offsets are
dense from its base offset, the base timestamp is that of the first record (deltas may be negative),
and the max timestamp is the real maximum. Base offsets count from a number that the caller gives
and are made final by `assign_offsets`, since the CRC covers neither them nor the leader epoch.

All sizes are known before a byte is written: one pass measures, one writes. Everything that can be
wrong with a row is found by the first, or by the checks before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_segmentlog.clock import now_ms
from spark_segmentlog.errors import OptionValueError, RecordTooLargeError
from spark_segmentlog.record.codec.codecs import block_writer, codec_number, max_compressed_bytes
from spark_segmentlog.record.kernels import encode as encode_kernels
from spark_segmentlog.record.layout import RECORD_BATCH_OVERHEAD, TIMESTAMP_TYPE_MASK
from spark_segmentlog.record.types import Bytes, Int64s
from spark_segmentlog.record.write.arrow_columns import own_int64s
from spark_segmentlog.record.write.rows import Rows, checked_rows

# Measured with 16-byte keys and 100-byte values: a commit stamps each batch, so that 64 KiB take
# nearly twice as long as 128; larger ones gain no more that shows in a whole write, while the
# reader of one record has to take a whole batch.
DEFAULT_BATCH_SIZE_BYTES = 128 * 1024
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
MAX_INT32 = 0x7FFFFFFF

# Batches are written, then checksummed or compressed, in runs of about this size: caches hold it.
_RUN_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatches:
    """Record batches one after the other, and a row of numbers for each.

    Attributes
    ----------
    buffer : numpy.ndarray of uint8
        The batches' bytes; fresh memory of the result's own.
    positions, sizes_bytes : numpy.ndarray of int64
        Where each starts in `buffer`, and its bytes, header included.
    base_offsets, last_offsets : numpy.ndarray of int64
        Last ones are inclusive.
    max_timestamps : numpy.ndarray of int64
        Largest record timestamp, ms.
    groups : numpy.ndarray of int64
        Group of rows that the batch holds; all 0 where there is one.
    """

    buffer: Bytes
    positions: Int64s
    sizes_bytes: Int64s
    base_offsets: Int64s
    last_offsets: Int64s
    max_timestamps: Int64s
    record_counts: Int64s
    groups: Int64s

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Cut batches: `first_places` has one entry more than there are batches."""

    body_lengths: Int64s
    first_places: Int64s
    groups: Int64s
    sizes: Int64s
    max_timestamps: Int64s


class RecordBatchEncoder:
    """Encodes rows to record batches.

    Parameters
    ----------
    level : int, optional
        Kafka's default for that codec where not given.
    batch_size_bytes : int
        Target size of a batch, header included, before compression. A single record may be larger.
    max_message_bytes : int
        No batch is larger, as it is written; a batch is cut before it would be, a single record
        that would be is refused.
    log_append_time : bool
        Stamp all records with the time of the append, as ``message.timestamp.type=LogAppendTime``.

    Raises
    ------
    OptionValueError
        When there is no such codec, level or size.
    """

    def __init__(
        self,
        *,
        compression: str = "none",
        level: int | None = None,
        batch_size_bytes: int = DEFAULT_BATCH_SIZE_BYTES,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        log_append_time: bool = False,
    ) -> None:
        _check_size("batch.size", batch_size_bytes)
        _check_size("max.message.bytes", max_message_bytes)
        codec = codec_number(compression)
        self._write_block = block_writer(codec, level) if codec else None
        self._log_append_time = log_append_time
        self._attributes = codec | TIMESTAMP_TYPE_MASK * log_append_time
        self._max_message_bytes = max_message_bytes
        # Bytes that do not compress grow; what a batch of several records may grow to stays legal.
        most = max_message_bytes
        if self._write_block is not None:
            most = max_message_bytes * 3 // 4 - max_compressed_bytes(0)
        self._batch_limit = min(batch_size_bytes, most)

    def encode_groups(
        self,
        records: pa.RecordBatch,
        order: Int64s,
        group_ends: Int64s,
        *,
        base_offset: int | Int64s = 0,
        append_time_ms: int | None = None,
        first_row: int = 0,
    ) -> EncodedBatches:
        """Encode rows of many partitions at once, each group of them into batches of its own.

        Parameters
        ----------
        records : pyarrow.RecordBatch
            Columns ``value`` and ``key`` (text or bytes, may be missing: all null), ``timestamp``
            (int64 ms, or an Arrow timestamp, rounded down; where null or missing, the append time),
            ``headers`` (list of structs of key and value; null and empty are the same).
        order : numpy.ndarray of int64
            Row numbers, those of a group one after the other.
        group_ends : numpy.ndarray of int64
            Where each group ends in `order`; a group may be empty.
        base_offset : int or numpy.ndarray of int64
            Offset of the first record of every group, or one for each.
        append_time_ms : int, optional
            Now where not given.
        first_row : int
            Number of the first row in messages.

        Returns
        -------
        EncodedBatches
            In the order of the groups.

        Raises
        ------
        RecordTooLargeError
            When a row alone makes a batch above `max_message_bytes`.
        InvalidRowError
            When a header has no key, or a timestamp is before 1970 and not -1, which is none, or
            after the year 9999.
        SchemaError
            When a column is of a type that cannot be written.
        """
        # No kernel would notice rows of another frame.
        assert len(order) == (group_ends[-1] if len(group_ends) else 0)
        assert len(order) == 0 or (order.min() >= 0 and order.max() < records.num_rows)
        if append_time_ms is None:
            append_time_ms = now_ms()
        rows = checked_rows(
            records,
            order,
            group_ends,
            append_time_ms,
            keeps_timestamps=not self._log_append_time,
            first_row=first_row,
        )
        plan = self._plan(rows, first_row)
        group_starts = np.concatenate([np.zeros(1, np.int64), rows.group_ends])[plan.groups]
        bases = np.broadcast_to(base_offset, len(group_ends))[plan.groups]
        base_offsets = plan.first_places[:-1] - group_starts + bases
        if self._write_block is None:
            buffer, positions, sizes = self._write_plain(rows, plan, base_offsets)
        else:
            buffer, positions, sizes = self._write_compressed(rows, plan, base_offsets, first_row)
        record_counts = np.diff(plan.first_places)
        return EncodedBatches(
            buffer=buffer,
            positions=positions,
            sizes_bytes=sizes,
            base_offsets=base_offsets,
            last_offsets=base_offsets + record_counts - 1,
            max_timestamps=plan.max_timestamps,
            record_counts=record_counts,
            groups=plan.groups,
        )

    def _plan(self, rows: Rows, first_row: int) -> _Plan:
        count = len(rows.order)
        plan = _Plan(*(np.empty(count + (field == 1), np.int64) for field in range(5)))
        # A compressed batch is measured once it is there.
        record_limit = self._max_message_bytes if self._write_block is None else MAX_INT32
        batches, too_large, size = encode_kernels.plan_batches(
            rows.order,
            rows.group_ends,
            rows.keys.lengths,
            rows.values.lengths,
            rows.header_sizes(),
            rows.timestamps,
            self._batch_limit,
            record_limit,
            plan.body_lengths,
            plan.first_places,
            plan.groups,
            plan.sizes,
            plan.max_timestamps,
        )
        if too_large >= 0:
            row = int(rows.order[too_large])
            raise self._too_large(first_row + row, size)
        return _Plan(
            plan.body_lengths,
            plan.first_places[: batches + 1],
            plan.groups[:batches],
            plan.sizes[:batches],
            plan.max_timestamps[:batches],
        )

    def _write_plain(
        self, rows: Rows, plan: _Plan, base_offsets: Int64s
    ) -> tuple[Bytes, Int64s, Int64s]:
        positions = np.cumsum(plan.sizes) - plan.sizes
        buffer = np.empty(int(plan.sizes.sum()), np.uint8)
        for start, end in _runs(plan.sizes):
            run_positions = positions[start:end]
            _write_records(buffer, run_positions + RECORD_BATCH_OVERHEAD, start, rows, plan)
            self._write_headers(
                buffer, run_positions, plan.sizes[start:end], start, rows, plan, base_offsets
            )
        return buffer, positions, plan.sizes

    def _write_compressed(
        self, rows: Rows, plan: _Plan, base_offsets: Int64s, first_row: int
    ) -> tuple[Bytes, Int64s, Int64s]:
        assert self._write_block is not None
        payloads = plan.sizes - RECORD_BATCH_OVERHEAD
        room = payloads + payloads // 5 + max_compressed_bytes(0) + RECORD_BATCH_OVERHEAD
        buffer = np.empty(int(room.sum()), np.uint8)
        output = buffer.data
        positions, sizes = np.empty_like(plan.sizes), np.empty_like(plan.sizes)
        at = 0
        scratch: Bytes = np.empty(0, np.uint8)
        for start, end in _runs(plan.sizes):
            ends = np.cumsum(payloads[start:end])
            if len(scratch) < ends[-1]:
                scratch = np.empty(int(ends[-1]), np.uint8)
            _write_records(scratch, ends - payloads[start:end], start, rows, plan)
            view = scratch.data
            for batch in range(start, end):
                payload_end = int(ends[batch - start])
                payload = view[payload_end - int(payloads[batch]) : payload_end]
                size = self._write_block(payload, output[at + RECORD_BATCH_OVERHEAD :])
                size += RECORD_BATCH_OVERHEAD
                if size > self._max_message_bytes:
                    row = int(rows.order[plan.first_places[batch]])
                    raise self._too_large(first_row + row, size)
                positions[batch], sizes[batch] = at, size
                at += size
            self._write_headers(
                buffer, positions[start:end], sizes[start:end], start, rows, plan, base_offsets
            )
        # What was reserved for bytes that do not compress is given back.
        buffer = buffer[:at] if 2 * at > len(buffer) else buffer[:at].copy()
        return buffer, positions, sizes

    def _write_headers(
        self,
        buffer: Bytes,
        positions: Int64s,
        sizes: Int64s,
        first_batch: int,
        rows: Rows,
        plan: _Plan,
        base_offsets: Int64s,
    ) -> None:
        end = first_batch + len(positions)
        first_places = plan.first_places[first_batch : end + 1]
        encode_kernels.write_batch_headers(
            buffer,
            positions,
            sizes,
            base_offsets[first_batch:end],
            np.diff(first_places),
            rows.timestamps[rows.order[first_places[:-1]]],
            plan.max_timestamps[first_batch:end],
            self._attributes,
        )

    def _too_large(self, row: int, size_bytes: int) -> RecordTooLargeError:
        return RecordTooLargeError(
            f"row {row}: a record batch of {size_bytes} bytes for this record alone, "
            f"max.message.bytes is {self._max_message_bytes}"
        )


def assign_offsets(
    buffer: Bytes, positions: Int64s, *, base_offset: int, leader_epoch: int
) -> None:
    """Make offsets final, in place: 12 bytes a batch, none of them under its CRC.

    Parameters
    ----------
    buffer : numpy.ndarray of uint8
        Writable; holds the first 16 bytes of each batch.
    positions : numpy.ndarray of int64
        Where the batches start in it.
    """
    encode_kernels.patch_offsets(buffer, own_int64s(positions), base_offset, leader_epoch)


def _check_size(name: str, value: int) -> None:
    if not 1 <= value <= MAX_INT32:
        raise OptionValueError(f"{name} is {value}, allowed are 1 to {MAX_INT32}")


def _runs(sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Cut batches into runs of about `_RUN_BYTES`, each of one batch at least."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        written = int(ends[start] - sizes[start])
        end = int(np.searchsorted(ends, written + _RUN_BYTES, side="right"))
        end = max(end, start + 1)
        yield start, end
        start = end


def _write_records(
    buffer: Bytes, positions: Int64s, first_batch: int, rows: Rows, plan: _Plan
) -> None:
    headers = rows.headers
    encode_kernels.write_records(
        buffer,
        positions,
        plan.first_places[first_batch : first_batch + len(positions) + 1],
        plan.body_lengths,
        rows.order,
        rows.timestamps,
        rows.keys.starts,
        rows.keys.lengths,
        rows.keys.data,
        rows.values.starts,
        rows.values.lengths,
        rows.values.data,
        headers.starts,
        headers.lengths,
        headers.keys.starts,
        headers.keys.lengths,
        headers.keys.data,
        headers.values.starts,
        headers.values.lengths,
        headers.values.data,
    )
