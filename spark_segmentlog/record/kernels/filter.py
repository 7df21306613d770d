"""Compiled loops of compaction: find the records of batches, key them, and copy those that stay.

Flat arrays in, a code out: every read and every loop is bounded, since the bytes come from a file.
The plain twins are `batch.iterate_records` (for what is found and what is refused) and, for the
hash and the table, those in `tests/unit/record/compact/test_batch_rebuild.py`.
"""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.jit import copy_bytes, inlined, kernel, load_u64
from spark_segmentlog.record.plain.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES
from spark_segmentlog.record.types import Bools, Bytes, Int64s, Uint64s

OK = 0
BAD_LENGTH = 1
BAD_TIMESTAMP_DELTA = 2
BAD_OFFSET_DELTA = 3
BAD_KEY = 4
BAD_VALUE = 5
BAD_HEADERS = 6
LEFT_OVER_BYTES = 7

SLOT_WORDS = 3


@inlined
def _read_varint(buffer: Bytes, position: int, limit: int, max_bytes: int) -> tuple[int, int]:
    """Read a zigzag number; the position is -1 where it is cut off, too long, or above 32 bits."""
    raw = np.uint64(0)
    at = position
    end = -1
    last = min(limit, position + max_bytes)
    while at < last:
        byte = np.uint64(buffer[at])
        raw |= (byte & np.uint64(0x7F)) << np.uint64(7 * (at - position))
        at += 1
        if byte < np.uint64(0x80):
            end = at
            break
    if max_bytes == MAX_VARINT_BYTES and raw > np.uint64(0xFFFFFFFF):
        end = -1
    return int(np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1))), end


@inlined
def _skip_headers(buffer: Bytes, position: int, end: int) -> int:
    """Step over the headers of a record; -1 where they do not end where the record does."""
    count, at = _read_varint(buffer, position, end, MAX_VARINT_BYTES)
    if at < 0 or count < 0 or count > end - at:
        return -1
    for _ in range(count):
        key_length, at = _read_varint(buffer, at, end, MAX_VARINT_BYTES)
        if at < 0 or key_length < 0 or key_length > end - at:
            return -1
        value_length, at = _read_varint(buffer, at + key_length, end, MAX_VARINT_BYTES)
        if at < 0 or value_length < -1 or value_length > end - at:
            return -1
        at += max(value_length, 0)
    return at if at == end else -1


@kernel
def split_records(
    buffer: Bytes,
    section_starts: Int64s,
    section_ends: Int64s,
    records_counts: Int64s,
    last_offset_deltas: Int64s,
    starts: Int64s,
    ends: Int64s,
    batches: Int64s,
    offset_deltas: Int64s,
    timestamp_deltas: Int64s,
    key_positions: Int64s,
    key_lengths: Int64s,
    value_lengths: Int64s,
) -> tuple[int, int, int]:
    """Find every record of the sections; gives (code, section, record in it)."""
    row = 0
    for section in range(len(section_starts)):
        at = section_starts[section]
        section_end = section_ends[section]
        for index in range(records_counts[section]):
            start = at
            length, at = _read_varint(buffer, at, section_end, MAX_VARINT_BYTES)
            if at < 0 or length < 0 or length > section_end - at:
                return BAD_LENGTH, section, index
            end = at + length
            timestamp_delta, at = _read_varint(buffer, at + 1, end, MAX_VARLONG_BYTES)
            if at < 0:
                return BAD_TIMESTAMP_DELTA, section, index
            offset_delta, at = _read_varint(buffer, at, end, MAX_VARINT_BYTES)
            if at < 0 or offset_delta < 0 or offset_delta > last_offset_deltas[section]:
                return BAD_OFFSET_DELTA, section, index
            key_length, at = _read_varint(buffer, at, end, MAX_VARINT_BYTES)
            if at < 0 or key_length < -1 or key_length > end - at:
                return BAD_KEY, section, index
            key_position = at
            value_length, at = _read_varint(buffer, at + max(key_length, 0), end, MAX_VARINT_BYTES)
            if at < 0 or value_length < -1 or value_length > end - at:
                return BAD_VALUE, section, index
            at = _skip_headers(buffer, at + max(value_length, 0), end)
            if at < 0:
                return BAD_HEADERS, section, index
            starts[row] = start
            ends[row] = end
            batches[row] = section
            offset_deltas[row] = offset_delta
            timestamp_deltas[row] = timestamp_delta
            key_positions[row] = key_position
            key_lengths[row] = key_length
            value_lengths[row] = value_length
            row += 1
        if at != section_end:
            return LEFT_OVER_BYTES, section, records_counts[section]
    return OK, 0, 0


@inlined
def _write_unsigned(out: Bytes, position: int, value: np.uint64) -> int:
    rest = value
    at = position
    while rest >= np.uint64(0x80):
        out[at] = np.uint8((rest & np.uint64(0x7F)) | np.uint64(0x80))
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@inlined
def _zigzag(value: int) -> np.uint64:
    number = np.int64(value)
    return np.uint64((number << np.int64(1)) ^ (number >> np.int64(63)))


@inlined
def _unsigned_size(value: np.uint64) -> int:
    rest = value
    size = 1
    while rest >= np.uint64(0x80):
        rest >>= np.uint64(7)
        size += 1
    return size


@kernel
def gather(source: Bytes, starts: Int64s, ends: Int64s, target: Bytes) -> None:
    """Copy source[start:end] of each record, one behind the other; the caller made room."""
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
    """Copy records one behind the other with other timestamp deltas; gives the bytes written.

    The records are those that `split_records` found, so their first fields are known to be whole.
    `out` has 20 bytes more a record than the records themselves.
    """
    written = 0
    for row in range(len(starts)):
        end = ends[row]
        _, body = _read_varint(buffer, starts[row], end, MAX_VARINT_BYTES)
        _, rest = _read_varint(buffer, body + 1, end, MAX_VARLONG_BYTES)
        if body < 0 or rest < 0:
            return -1
        delta = _zigzag(timestamp_deltas[row])
        length = 1 + _unsigned_size(delta) + (end - rest)
        written = _write_unsigned(out, written, _zigzag(length))
        out[written] = buffer[body]
        written = _write_unsigned(out, written + 1, delta)
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
    mask = np.uint64(len(table) // SLOT_WORDS - 1)
    for row in range(len(offsets)):
        if not wanted[row]:
            continue
        slot = low[row] & mask
        at = np.int64(slot) * SLOT_WORDS
        while table[at + 2] != 0 and (table[at] != low[row] or table[at + 1] != high[row]):
            slot = (slot + np.uint64(1)) & mask
            at = np.int64(slot) * SLOT_WORDS
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
    mask = np.uint64(len(table) // SLOT_WORDS - 1)
    for row in range(len(low)):
        slot = low[row] & mask
        at = np.int64(slot) * SLOT_WORDS
        while table[at + 2] != 0 and (table[at] != low[row] or table[at + 1] != high[row]):
            slot = (slot + np.uint64(1)) & mask
            at = np.int64(slot) * SLOT_WORDS
        found[row] = np.int64(table[at + 2]) - 1
