"""Compiled loops of compaction: find the records of batches, key them, and copy those that stay.

Flat arrays in, a code out: every read and every loop is bounded, since the bytes come from a file.
The plain twins are `batch.iterate_records` (for what is found and what is refused) and, for the
hash and the table, those in `tests/unit/record/compact/test_batch_rebuild.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_segmentlog.record.jit import copy_bytes, inlined, kernel, load_u64
from spark_segmentlog.record.kernels.records import parse_record
from spark_segmentlog.record.kernels.varints import (
    NOWHERE,
    VARINT_BITS,
    VARLONG_BITS,
    read_varint,
    varint_size,
    write_varint,
)
from spark_segmentlog.record.types import Bools, Bytes, Int64s, Uint64s

ENTRY_WORDS = 3


class RecordColumns(NamedTuple):
    """Where records lie, an element each; `sections` are numbers of what was split."""

    starts: Int64s
    ends: Int64s
    sections: Int64s
    offset_deltas: Int64s
    timestamp_deltas: Int64s
    key_positions: Int64s
    key_lengths: Int64s
    value_lengths: Int64s


@kernel
def split_records(
    buffer: Bytes,
    section_starts: Int64s,
    section_ends: Int64s,
    records_counts: Int64s,
    last_offset_deltas: Int64s,
    columns: RecordColumns,
) -> int:
    """Find every record of the sections; gives how many sections are good from the first on."""
    row = 0
    for section in range(len(section_starts)):
        position = section_starts[section]
        section_end = section_ends[section]
        for _ in range(records_counts[section]):
            parts = parse_record(buffer, position, section_end, last_offset_deltas[section])
            if parts.end == 0:
                return section
            columns.starts[row] = position
            columns.ends[row] = parts.end
            columns.sections[row] = section
            columns.offset_deltas[row] = parts.offset_delta
            columns.timestamp_deltas[row] = parts.timestamp_delta
            columns.key_positions[row] = parts.key_position
            columns.key_lengths[row] = parts.key_length
            columns.value_lengths[row] = parts.value_length
            position = parts.end
            row += 1
        if position != section_end:
            return section
    return len(section_starts)


@kernel
def gather(source: Bytes, starts: Int64s, ends: Int64s, target: Bytes) -> None:
    """Copy source[start:end] of each record, one after the other; the caller made room."""
    position = 0
    for index in range(len(starts)):
        length = ends[index] - starts[index]
        copy_bytes(target, position, source, starts[index], length)
        position += length


@kernel
def copy_records(
    buffer: Bytes,
    starts: Int64s,
    ends: Int64s,
    timestamp_deltas: Int64s,
    out: Bytes,
) -> int:
    """Copy records one after the other with other timestamp deltas; gives the bytes written.

    The records are those that `split_records` found, so their first fields are known to be whole.
    `out` has 20 bytes more a record than the records themselves.
    """
    written = 0
    for row in range(len(starts)):
        end = ends[row]
        _, body = read_varint(buffer, starts[row], end, VARINT_BITS)
        _, rest = read_varint(buffer, body + 1, end, VARLONG_BITS)
        if rest == NOWHERE:
            return -1
        length = 1 + varint_size(timestamp_deltas[row]) + (end - rest)
        written = write_varint(out, written, length)
        out[written] = buffer[body]
        written = write_varint(out, written + 1, timestamp_deltas[row])
        copy_bytes(out, written, buffer, rest, end - rest)
        written += end - rest
    return written


# SipHash-2-4 with a result of 128 bits: https://github.com/veorq/SipHash. Keyed with a secret of
# the run, so that nobody can make two keys that collide, and lose the one for the other.


@inlined
def _rotate(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 += v1
    v2 += v3
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotate(v1, 17) ^ v2
    v3 = _rotate(v3, 21) ^ v0
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@inlined
def _hash_key(
    buffer: Bytes, position: int, length: int, secret: Uint64s
) -> tuple[np.uint64, np.uint64]:
    v0 = secret[0] ^ np.uint64(0x736F6D6570736575)
    v1 = secret[1] ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = secret[0] ^ np.uint64(0x6C7967656E657261)
    v3 = secret[1] ^ np.uint64(0x7465646279746573)
    whole = length >> 3
    for word_index in range(whole):
        word = load_u64(buffer, position + 8 * word_index)
        v3 ^= word
        for _ in range(2):
            v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        v0 ^= word
    last = np.uint64(length & 0xFF) << np.uint64(56)
    for index in range(length - 8 * whole):
        last |= np.uint64(buffer[position + 8 * whole + index]) << np.uint64(8 * index)
    v3 ^= last
    for _ in range(2):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0 ^= last
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel
def hash_keys(
    buffer: Bytes,
    key_positions: Int64s,
    key_lengths: Int64s,
    secret: Uint64s,
    low: Uint64s,
    high: Uint64s,
) -> None:
    """Hash every key of the rows; null ones (length -1) get zeros, which nobody looks at."""
    for row in range(len(key_positions)):
        if key_lengths[row] < 0:
            low[row] = np.uint64(0)
            high[row] = np.uint64(0)
            continue
        first, second = _hash_key(buffer, key_positions[row], key_lengths[row], secret)
        low[row] = first
        high[row] = second


# The table: a power of two of slots of three words, (low, high, offset + 1); offset word 0 is
# empty.


@kernel
def put_offsets(
    table: Uint64s,
    low: Uint64s,
    high: Uint64s,
    offsets: Int64s,
    wanted: Bools,
    keys_count: int,
    max_keys: int,
) -> tuple[int, int]:
    """Put rows in their order; gives (keys in the table, rows done), fewer where it is full."""
    mask = np.uint64(len(table) // ENTRY_WORDS - 1)
    for row in range(len(offsets)):
        if not wanted[row]:
            continue
        slot = low[row] & mask
        at = np.int64(slot) * ENTRY_WORDS
        while table[at + 2] != 0 and (table[at] != low[row] or table[at + 1] != high[row]):
            slot = (slot + np.uint64(1)) & mask
            at = np.int64(slot) * ENTRY_WORDS
        if table[at + 2] == 0:
            if keys_count >= max_keys:
                return keys_count, row
            table[at] = low[row]
            table[at + 1] = high[row]
            keys_count += 1
        entry = np.uint64(offsets[row] + 1)
        if entry > table[at + 2]:
            table[at + 2] = entry
    return keys_count, len(offsets)


@kernel
def find_offsets(table: Uint64s, low: Uint64s, high: Uint64s, found: Int64s) -> None:
    """Look every row up; -1 where its key is not in the table, which has an empty slot."""
    mask = np.uint64(len(table) // ENTRY_WORDS - 1)
    for row in range(len(low)):
        slot = low[row] & mask
        at = np.int64(slot) * ENTRY_WORDS
        while table[at + 2] != 0 and (table[at] != low[row] or table[at + 1] != high[row]):
            slot = (slot + np.uint64(1)) & mask
            at = np.int64(slot) * ENTRY_WORDS
        found[row] = np.int64(table[at + 2]) - 1
