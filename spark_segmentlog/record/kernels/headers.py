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
def min_length(magic: int) -> int:
    """Smallest value of the length field; beyond what 32 bits hold for a magic that is none."""
    if magic == 2:
        return MIN_BATCH_LENGTH
    if magic == 1:
        return MIN_MESSAGE_SIZE_V1
    if magic == 0:
        return MIN_MESSAGE_SIZE_V0
    return 1 << 32


@inlined
def header_can_be(buffer: Bytes, position: int, magic: int) -> bool:
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
        if length < min_length(magic):
            if length == 0 and is_zero(buffer, position, end):
                return count, position, SCAN_ZERO, 0, unordered
            return count, position, SCAN_INVALID, 0, unordered
        size = LOG_OVERHEAD + length
        if size > end - position:
            return count, position, SCAN_INCOMPLETE, size, unordered
        if not header_can_be(buffer, position, magic):
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
