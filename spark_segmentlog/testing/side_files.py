"""The files beside a `.log`, as a broker writes them from its batches: indexes and snapshots."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import crc32c

from spark_segmentlog.testing.batches import BatchSummary, summarize_batch

INDEX_INTERVAL_BYTES = 4096

_OFFSET_INDEX_ENTRY = struct.Struct(">ii")
_TIME_INDEX_ENTRY = struct.Struct(">qi")
_TRANSACTION_INDEX_ENTRY = struct.Struct(">hqqqq")
_PRODUCER_ENTRY = struct.Struct(">qhiqiqiq")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransactionSpec:
    """One entry of a `.txnindex`: `last_offset` is that of the abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStateSpec:
    """One entry of a `.snapshot` file; -1 as `current_txn_first_offset` says that none is open."""

    producer_id: int
    producer_epoch: int = 0
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp_ms: int = -1
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1


def offset_index_bytes(
    batches: Sequence[bytes], base_offset: int, *, interval_bytes: int = INDEX_INTERVAL_BYTES
) -> bytes:
    """Build an `.index`: (last offset relative to the base, position) of each indexed batch."""
    return b"".join(
        _OFFSET_INDEX_ENTRY.pack(place.summary.last_offset - base_offset, place.position)
        for place in place_batches(batches, interval_bytes)
        if place.indexed
    )


def time_index_bytes(
    batches: Sequence[bytes],
    base_offset: int,
    *,
    interval_bytes: int = INDEX_INTERVAL_BYTES,
    final_entry: bool = True,
) -> bytes:
    """Build a `.timeindex`: (running maximum, relative offset of the batch's last record)."""
    out = b""
    largest, offset, last_written = -1, base_offset, -1
    for place in place_batches(batches, interval_bytes):
        if place.summary.max_timestamp > largest:
            largest, offset = place.summary.max_timestamp, place.summary.last_offset
        if place.indexed and largest > last_written:
            out += _TIME_INDEX_ENTRY.pack(largest, offset - base_offset)
            last_written = largest
    if final_entry and largest > last_written:
        out += _TIME_INDEX_ENTRY.pack(largest, offset - base_offset)
    return out


def transaction_index_bytes(entries: Sequence[AbortedTransactionSpec]) -> bytes:
    """Build a `.txnindex`."""
    return b"".join(
        _TRANSACTION_INDEX_ENTRY.pack(
            0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )
        for entry in entries
    )


def producer_snapshot_bytes(entries: Sequence[ProducerStateSpec]) -> bytes:
    """Build a producer snapshot of version 1, its CRC-32C over what follows it."""
    body = struct.pack(">i", len(entries)) + b"".join(
        _PRODUCER_ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp_ms,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in entries
    )
    return struct.pack(">hI", 1, crc32c.crc32c(body)) + body


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """A batch at its place in a segment, and whether the offset index has an entry of it."""

    position: int
    indexed: bool
    data: bytes
    summary: BatchSummary


def place_batches(batches: Sequence[bytes], interval_bytes: int) -> Iterator[PlacedBatch]:
    """Walk whole batches with their positions; bytes that are none move the position only."""
    position, since_last = 0, 0
    for block in batches:
        for data, summary in _split(block):
            indexed = since_last > interval_bytes
            if indexed:
                since_last = 0
            if summary is not None:
                yield PlacedBatch(position, indexed, data, summary)
            position += len(data)
            since_last += len(data)


def _split(block: bytes) -> Iterator[tuple[bytes, BatchSummary | None]]:
    """Cut bytes that may hold several batches or messages into single ones."""
    start = 0
    while start < len(block):
        summary = summarize_batch(block[start:])
        if summary is None or not 17 <= summary.size_bytes <= len(block) - start:
            yield block[start:], None
            return
        yield block[start : start + summary.size_bytes], summary
        start += summary.size_bytes
