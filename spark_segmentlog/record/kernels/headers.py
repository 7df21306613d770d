"""Headers of batches and messages: bytes to a table with a row each, and choices from it."""

from __future__ import annotations

from typing import NamedTuple

from spark_segmentlog.record.header_fields import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CRC,
    LAST_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    PARTITION_LEADER_EPOCH,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS_COUNT,
    SIZE_BYTES,
)
from spark_segmentlog.record.jit import (
    inlined,
    int64,
    kernel,
    load_be32,
    load_be64,
    load_u64,
    uint64,
)
from spark_segmentlog.record.kernels.checksum import entry_crc_is_good
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    BASE_SEQUENCE_OFFSET,
    BASE_TIMESTAMP_OFFSET,
    COMPRESSION_CODEC_MASK,
    CONTROL_MASK,
    CRC_OFFSET,
    HEADER_SIZE_UP_TO_MAGIC,
    INT64_MAX,
    LAST_OFFSET_DELTA_OFFSET,
    LEGACY_ATTRIBUTES_OFFSET,
    LEGACY_CRC_OFFSET,
    LEGACY_KEY_OFFSET_V0,
    LEGACY_KEY_OFFSET_V1,
    LEGACY_TIMESTAMP_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_TIMESTAMP_OFFSET,
    MIN_BATCH_LENGTH,
    MIN_MESSAGE_SIZE_V0,
    MIN_MESSAGE_SIZE_V1,
    PARTITION_LEADER_EPOCH_OFFSET,
    PRODUCER_EPOCH_OFFSET,
    PRODUCER_ID_OFFSET,
    RECORD_BATCH_OVERHEAD,
    RECORDS_COUNT_OFFSET,
    SIZE_OFFSET,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from spark_segmentlog.record.types import Bools, Bytes, Int64s

# Kinds of entries, each decoded in its own way; a compressed kind is one above its plain one.

PLAIN_BATCH, COMPRESSED_BATCH, PLAIN_MESSAGE, WRAPPER, BAD_CODEC = range(5)

# Why a scan of headers ended.

SCAN_END, SCAN_INCOMPLETE, SCAN_ZERO, SCAN_INVALID, SCAN_FULL = range(5)


# The search for what covers a byte looks at so many positions at once, and at eight in a word.

COVERING_BLOCK_BYTES = 512
_LOW_BITS, _HIGH_BITS = 0x0101010101010101, 0x8080808080808080
_ABOVE_MAGIC = 0xFCFCFCFCFCFCFCFC


class Bounds(NamedTuple):
    """Range of offsets, the end exclusive, and of timestamps, both inclusive."""

    start_offset: int
    end_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int


@kernel
def is_zero(buffer: Bytes, start: int, end: int) -> bool:
    """Whether buffer[start:end] holds nothing but zeros."""
    while start + 8 <= end:
        if load_u64(buffer, start) != 0:
            return False
        start += 8
    while start < end:
        if buffer[start] != 0:
            return False
        start += 1
    return True


@inlined
def _min_length(magic: int) -> int:
    """Smallest value of the length field; beyond what 32 bits hold for a magic that is none."""
    if magic == 2:
        return MIN_BATCH_LENGTH
    if magic == 1:
        return MIN_MESSAGE_SIZE_V1
    if magic == 0:
        return MIN_MESSAGE_SIZE_V0
    return 1 << 32


@inlined
def _header_can_be(buffer: Bytes, position: int, magic: int) -> bool:
    """Whether the fields of a header that is there as a whole can be."""
    base_offset = load_be64(buffer, position)
    if base_offset < 0 or base_offset == INT64_MAX:
        return False
    if magic < 2:
        return True
    delta = int64(load_be32(buffer, position + LAST_OFFSET_DELTA_OFFSET))
    count = int64(load_be32(buffer, position + RECORDS_COUNT_OFFSET))
    return delta >= 0 and count >= 0 and base_offset < INT64_MAX - max(delta, count - 1)


@inlined
def _sizes_can_be(buffer: Bytes, position: int, magic: int, size: int) -> bool:
    """Whether the fields of an entry that holds something agree with its size.

    As far as they lie in the buffer.
    """
    if magic == 2:
        if position + RECORD_BATCH_OVERHEAD > len(buffer):
            return True
        count = int64(load_be32(buffer, position + RECORDS_COUNT_OFFSET))
        return count > 0 and _header_can_be(buffer, position, magic)
    # A key and a value, each after its length, fill a message.
    at = position + (LEGACY_KEY_OFFSET_V1 if magic == 1 else LEGACY_KEY_OFFSET_V0)
    for _ in range(2):
        if at + 4 > len(buffer):
            return True
        at += 4 + max(int64(load_be32(buffer, at)), 0)
        if at > position + size:
            return False
    return at == position + size


@inlined
def _put_batch(buffer: Bytes, position: int, row: Int64s) -> None:
    delta = int64(load_be32(buffer, position + LAST_OFFSET_DELTA_OFFSET))
    count = int64(load_be32(buffer, position + RECORDS_COUNT_OFFSET))
    row[BASE_OFFSET] = load_be64(buffer, position)
    # An old producer library left the delta 0: each record still has an offset of its own.
    row[LAST_OFFSET] = row[BASE_OFFSET] + max(delta, count - 1)
    attributes = int64(load_be32(buffer, position + ATTRIBUTES_OFFSET)) >> 16
    row[ATTRIBUTES] = attributes
    row[BASE_TIMESTAMP] = load_be64(buffer, position + BASE_TIMESTAMP_OFFSET)
    row[MAX_TIMESTAMP] = load_be64(buffer, position + MAX_TIMESTAMP_OFFSET)
    row[PARTITION_LEADER_EPOCH] = load_be32(buffer, position + PARTITION_LEADER_EPOCH_OFFSET)
    row[PRODUCER_ID] = load_be64(buffer, position + PRODUCER_ID_OFFSET)
    row[PRODUCER_EPOCH] = int64(load_be32(buffer, position + PRODUCER_EPOCH_OFFSET)) >> 16
    row[BASE_SEQUENCE] = load_be32(buffer, position + BASE_SEQUENCE_OFFSET)
    row[RECORDS_COUNT] = count
    row[CRC] = int64(load_be32(buffer, position + CRC_OFFSET)) & 0xFFFFFFFF


@inlined
def _put_message(buffer: Bytes, position: int, magic: int, next_offset: int, row: Int64s) -> None:
    offset = load_be64(buffer, position)
    attributes = int64(buffer[position + LEGACY_ATTRIBUTES_OFFSET])
    is_wrapper = attributes & 7 != 0
    timestamp = int64(-1)
    if magic == 1:
        timestamp = load_be64(buffer, position + LEGACY_TIMESTAMP_OFFSET)
    # The first offset in a wrapper is known only when it is decompressed: this is a lower bound.
    row[BASE_OFFSET] = min(next_offset, offset) if is_wrapper else offset
    row[LAST_OFFSET] = offset
    row[ATTRIBUTES] = attributes
    row[BASE_TIMESTAMP] = timestamp
    row[MAX_TIMESTAMP] = timestamp
    row[PARTITION_LEADER_EPOCH] = -1
    row[PRODUCER_ID] = -1
    row[PRODUCER_EPOCH] = -1
    row[BASE_SEQUENCE] = -1
    row[RECORDS_COUNT] = -1 if is_wrapper else 1
    row[CRC] = int64(load_be32(buffer, position + LEGACY_CRC_OFFSET)) & 0xFFFFFFFF


@kernel
def scan_entries(
    buffer: Bytes, start: int, end: int, file_position: int, first_offset: int, table: Int64s
) -> tuple[int, int, int, int, int]:
    """Walk headers in buffer[start:end] into a table.

    Returns the number of rows, the index after the last whole entry, why the walk ended (SCAN_*),
    for SCAN_INCOMPLETE the bytes of the entry there (0 where its header is not complete), and the
    first row whose offsets do not follow the one before it (-1 where all do).
    """
    count = 0
    position = start
    next_offset = first_offset
    unordered = -1
    while position < end:
        if end - position < HEADER_SIZE_UP_TO_MAGIC:
            return count, position, SCAN_INCOMPLETE, 0, unordered
        length = int64(load_be32(buffer, position + SIZE_OFFSET))
        magic = int64(buffer[position + MAGIC_OFFSET])
        if length < _min_length(magic):
            if length == 0 and is_zero(buffer, position, end):
                return count, position, SCAN_ZERO, 0, unordered
            return count, position, SCAN_INVALID, 0, unordered
        size = LOG_OVERHEAD + length
        if size > end - position:
            return count, position, SCAN_INCOMPLETE, size, unordered
        if not _header_can_be(buffer, position, magic):
            return count, position, SCAN_INVALID, 0, unordered
        if count == len(table):
            return count, position, SCAN_FULL, 0, unordered
        row = table[count]
        row[POSITION] = position + file_position
        row[SIZE_BYTES] = size
        row[MAGIC] = magic
        if magic == 2:
            _put_batch(buffer, position, row)
        else:
            _put_message(buffer, position, magic, next_offset, row)
        if row[BASE_OFFSET] < next_offset and unordered < 0:
            unordered = count
        next_offset = row[LAST_OFFSET] + 1
        count += 1
        position += size
    return count, position, SCAN_END, 0, unordered


@kernel
def select_entries(
    table: Int64s,
    plain_bounds: tuple[int, ...],
    selected: Bools,
    verified_only: Bools,
) -> bool:
    """Choose by their headers the entries that may hold rows of a range.

    `selected` becomes the mask of them, `verified_only` that of the markers and transactional
    batches in the range of offsets that are left out. Returns whether transactional batches are
    chosen.
    """
    bounds = Bounds(*plain_bounds)
    has_transactions = False
    for i in range(len(table)):
        row = table[i]
        flags = row[ATTRIBUTES] if row[MAGIC] == 2 else 0
        is_transactional = flags & TRANSACTIONAL_MASK != 0
        is_control = flags & CONTROL_MASK != 0
        # Only with LogAppendTime is a batch's largest timestamp that of all its records.
        is_append_time = row[MAGIC] != 0 and row[ATTRIBUTES] & TIMESTAMP_TYPE_MASK != 0
        timestamp = row[MAX_TIMESTAMP]
        is_in_range = (
            row[LAST_OFFSET] >= bounds.start_offset and row[BASE_OFFSET] < bounds.end_offset
        )
        is_selected = (
            is_in_range
            and not is_control
            and timestamp >= bounds.min_timestamp_ms
            and (timestamp <= bounds.max_timestamp_ms or not is_append_time)
        )
        selected[i] = is_selected
        verified_only[i] = is_in_range and not is_selected and (is_transactional or is_control)
        has_transactions = has_transactions or (is_selected and is_transactional)
    return has_transactions


@kernel
def find_entry(
    buffer: Bytes, start: int, end: int, min_offset: int, end_offset: int, budget: int
) -> int:
    """Index of the next whole entry in buffer[start:end] with a good checksum, or -1.

    Its last offset lies in [min_offset, end_offset). `budget` bounds the bytes that are checksummed
    in vain, so that no bytes can make the search quadratic; candidates above what is left of it are
    passed over.
    """
    position = start
    while position + HEADER_SIZE_UP_TO_MAGIC <= end:
        magic = int64(buffer[position + MAGIC_OFFSET])
        size = LOG_OVERHEAD + int64(load_be32(buffer, position + SIZE_OFFSET))
        if (
            size - LOG_OVERHEAD >= _min_length(magic)
            and size <= min(end - position, budget)
            and _header_can_be(buffer, position, magic)
        ):
            last_offset = load_be64(buffer, position)
            if magic == 2:
                last_offset += load_be32(buffer, position + LAST_OFFSET_DELTA_OFFSET)
            if min_offset <= last_offset < end_offset:
                if entry_crc_is_good(buffer, position, position + size):
                    return position
                budget -= size
        position += 1
    return -1


@inlined
def _starts_among(
    buffer: Bytes,
    position: int,
    wanted: tuple[int, int, int, int],
    compared: tuple[int, int, int, int],
) -> int:
    """Not 0 where one of eight positions has a magic and the first bytes of an offset.

    `wanted` has words of one of these bytes each, `compared` all their bits, or none for a byte
    that may be any. Wherever a position has them, not 0 is returned.
    """
    other = load_u64(buffer, position + MAGIC_OFFSET) & uint64(_ABOVE_MAGIC)
    other |= (load_u64(buffer, position) ^ wanted[0]) & compared[0]
    other |= (load_u64(buffer, position + 1) ^ wanted[1]) & compared[1]
    other |= (load_u64(buffer, position + 2) ^ wanted[2]) & compared[2]
    other |= (load_u64(buffer, position + 3) ^ wanted[3]) & compared[3]
    # One of its bytes is 0.
    return (other - uint64(_LOW_BITS)) & ~other & uint64(_HIGH_BITS)


@inlined
def _every_byte(number: int, shift: int) -> int:
    """Repeat one byte of a number in each of a word."""
    return (uint64(number) >> uint64(shift) & uint64(0xFF)) * uint64(_LOW_BITS)


@inlined
def _every_bit(is_set: bool) -> int:
    return uint64(0xFFFFFFFFFFFFFFFF) if is_set else uint64(0)


@inlined
def _can_cover(
    buffer: Bytes, position: int, at: int, left: int, min_offset: int, end_offset: int
) -> bool:
    base_offset = load_be64(buffer, position)
    if base_offset < min_offset or base_offset >= end_offset:
        return False
    magic = int64(buffer[position + MAGIC_OFFSET])
    length = int64(load_be32(buffer, position + SIZE_OFFSET))
    size = LOG_OVERHEAD + length
    if length < _min_length(magic) or size <= at - position or size > at - position + left:
        return False
    return _sizes_can_be(buffer, position, magic, size)


@kernel
def find_covering(
    buffer: Bytes, at: int, left: int, min_offset: int, end_offset: int, found: Int64s
) -> int:
    """List the positions before index `at` where an entry may stand that reaches beyond it.

    It ends after `at`, at most `left` bytes after it, its offset lies in [min_offset, end_offset),
    and it holds something, as far as its fields are there. No checksum is compared. Returns their
    number, which may be larger than `found` has room for. The caller has checked that
    HEADER_SIZE_UP_TO_MAGIC bytes after `at` are there.
    """
    apart = uint64(min_offset) ^ uint64(max(end_offset - 1, min_offset))
    wanted = (
        _every_byte(min_offset, 56),
        _every_byte(min_offset, 48),
        _every_byte(min_offset, 40),
        _every_byte(min_offset, 32),
    )
    compared = (
        _every_bit(apart >> uint64(56) == 0),
        _every_bit(apart >> uint64(48) == 0),
        _every_bit(apart >> uint64(40) == 0),
        _every_bit(apart >> uint64(32) == 0),
    )
    count = 0
    position = 0
    while position < at:
        if position % COVERING_BLOCK_BYTES == 0 and position + COVERING_BLOCK_BYTES <= at:
            hits = uint64(0)
            for place in range(position, position + COVERING_BLOCK_BYTES, 8):
                hits |= _starts_among(buffer, place, wanted, compared)
            if hits == 0:
                position += COVERING_BLOCK_BYTES
                continue
        end = min(position + 8, at)
        if position + 8 > at or _starts_among(buffer, position, wanted, compared) != 0:
            for start in range(position, end):
                if _can_cover(buffer, start, at, left, min_offset, end_offset):
                    if count < len(found):
                        found[count] = start
                    count += 1
        position = end
    return count


@inlined
def row_crc_is_good(buffer: Bytes, file_position: int, row: Int64s) -> bool:
    """Whether the entry in a row of a header table has its checksum; it lies in the buffer."""
    start = row[POSITION] - file_position
    return entry_crc_is_good(buffer, start, start + row[SIZE_BYTES])


@kernel
def check_entry_crcs(
    buffer: Bytes, table: Int64s, rows: Int64s, file_position: int, good: Bools
) -> None:
    """Check the checksums of rows of a header table that lie in the buffer."""
    for i in range(len(rows)):
        good[i] = row_crc_is_good(buffer, file_position, table[rows[i]])


@kernel
def plan_entries(
    table: Int64s,
    rows: Int64s,
    file_position: int,
    size: int,
    first_formats: Int64s,
    planned: Int64s,
    kinds: Int64s,
    spans: Int64s,
) -> int:
    """Tell for rows of a header table what kind they are and where their records lie.

    `first_formats` says in which format each number of a codec begins. Control batches are left
    out. Returns how many rows there are then, -1 when one of them does not lie in a buffer of
    `size` bytes that starts at `file_position`.
    """
    count = 0
    for i in range(len(rows)):
        row = rows[i]
        if row < 0 or row >= len(table):
            return -1
        start = table[row, POSITION] - file_position
        end = start + table[row, SIZE_BYTES]
        if start < 0 or end > size:
            return -1
        attributes = table[row, ATTRIBUTES]
        is_batch = table[row, MAGIC] == 2
        if is_batch and attributes & CONTROL_MASK != 0:
            continue
        codec = attributes & COMPRESSION_CODEC_MASK
        kind = PLAIN_BATCH if is_batch else PLAIN_MESSAGE
        if codec != 0:
            kind += 1
        if first_formats[codec] > table[row, MAGIC]:
            kind = BAD_CODEC
        planned[count] = row
        kinds[count] = kind
        spans[count, 0] = start + RECORD_BATCH_OVERHEAD
        spans[count, 1] = end
        count += 1
    return count
