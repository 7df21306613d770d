"""Compiled loops over record batches and messages: bytes in, Arrow's buffers out.

What must hold in every one of them: compiled code has no bounds checks of its own, so every read
is behind a comparison with the end of its record, batch or buffer, every loop ends for any bytes,
and every write is behind a comparison with the room that is left. A kernel raises nothing; it
answers with a code, and the caller asks the plain twin (`batch`, `legacy`) to word the error.
Several kernels may run at once: they share no state but their arguments, and hold no GIL.

Shapes that were measured (numba 0.68): the varint reader is one bounded `while` loop, inlined, and
copies go through `memcpy`; a fast path for one byte, a `for` loop or a copy by slices made a record
three to six times slower.
"""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.jit import (
    CRC_INSTRUCTIONS,
    copy_bytes,
    inlined,
    int64,
    kernel,
    load_be32,
    load_be64,
    load_u16,
    load_u32,
    load_u64,
    uint64,
)
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    BASE_SEQUENCE_OFFSET,
    BASE_TIMESTAMP_OFFSET,
    COMPRESSION_CODEC_MASK,
    CONTROL_MASK,
    CRC_OFFSET,
    HEADER_SIZE_UP_TO_MAGIC,
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
from spark_segmentlog.record.types import Bools, Bytes, Int32s, Int64s, Words

# Fields of a header table's row, one int64 each.

(
    POSITION,
    SIZE_BYTES,
    BASE_OFFSET,
    LAST_OFFSET,
    MAGIC,
    ATTRIBUTES,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PARTITION_LEADER_EPOCH,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    RECORDS_COUNT,
    CRC,
) = range(14)
HEADER_FIELDS = 14

# Kinds of entries, each decoded in its own way; a compressed kind is one above its plain one.

PLAIN_BATCH, COMPRESSED_BATCH, PLAIN_MESSAGE, WRAPPER, BAD_CODEC = range(5)

# Why a scan of headers ended.

SCAN_END, SCAN_INCOMPLETE, SCAN_ZERO, SCAN_INVALID, SCAN_FULL = range(5)

# Why a decoding kernel came back, in state[CODE].

DONE, OUTPUT_FULL, OUTPUT_SMALL, BAD_CRC, BAD_RECORD, BAD_TIMESTAMP = range(6)

# The state of a decoder, kept between calls: where it is in the input, what it has written.

(
    ROW,
    RECORD,
    BODY_POSITION,
    COUNT,
    KEY_BYTES,
    VALUE_BYTES,
    HEADERS,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    KEY_NULLS,
    VALUE_NULLS,
    HEADERS_NULLS,
    HEADER_VALUE_NULLS,
    HEADER_KEYS_NOT_ASCII,
    NEEDED_KEY_BYTES,
    NEEDED_VALUE_BYTES,
    NEEDED_HEADERS,
    NEEDED_HEADER_KEY_BYTES,
    NEEDED_HEADER_VALUE_BYTES,
    BAD_OFFSET,
    BAD_TIMESTAMP_MS,
) = range(21)
STATE_FIELDS = 21

# Settings of a decoder. The wanted columns come one flag each.

(
    WANT_KEY,
    WANT_VALUE,
    WANT_OFFSET,
    WANT_TIMESTAMP,
    WANT_TIMESTAMP_TYPE,
    WANT_HEADERS,
    START_OFFSET,
    END_OFFSET,
    MIN_TIMESTAMP_MS,
    MAX_TIMESTAMP_MS,
    MAX_ROWS,
    MAX_BYTES,
    CHECK_CRCS,
    VALIDATE_FIRST,
) = range(14)
SETTINGS_FIELDS = 14

# Columns of a message handed to `decode_messages`.

MESSAGE_START, MESSAGE_END, MESSAGE_OFFSET, MESSAGE_TIMESTAMP, MESSAGE_TIMESTAMP_TYPE = range(5)
MESSAGE_FIELDS = 5

# 0001-01-01 to 9999-12-31, what Spark and Python can hold.
SPARK_MIN_TIMESTAMP_MS = -62_135_596_800_000
SPARK_MAX_TIMESTAMP_MS = 253_402_300_799_999

# What counts against the limit of bytes for the entries of one header, beside its bytes.
HEADER_ENTRY_BYTES = 9

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
# A position that no read is allowed from: where a varint reader ends that found none.
_NOWHERE = 1 << 62
_VARINT_BITS = 35
_VARLONG_BITS = 70


# Checksums

_CRC32_POLYNOMIAL = 0xEDB88320
_CRC32C_POLYNOMIAL = 0x82F63B78


def _slicing_tables(polynomial: int) -> Words:
    """Tables of slicing-by-8: [k, b] is the checksum of byte b with k zero bytes behind it."""
    tables = np.zeros((8, 256), np.uint64)
    tables[0] = np.arange(256)
    for _ in range(8):
        odd = tables[0] & np.uint64(1)
        tables[0] = (tables[0] >> np.uint64(1)) ^ odd * np.uint64(polynomial)
    for k in range(1, 8):
        previous = tables[k - 1]
        tables[k] = (previous >> np.uint64(8)) ^ tables[0][previous & np.uint64(0xFF)]
    return tables


_CRC32_TABLES = _slicing_tables(_CRC32_POLYNOMIAL)
_CRC32C_TABLES = _slicing_tables(_CRC32C_POLYNOMIAL)

# Three streams of this many bytes each are checksummed at once, as the instruction's latency is
# three times its cycle; tables then move a checksum over the zero bytes that replace the other
# streams.
_LONG_STREAM_BYTES = 2048
_SHORT_STREAM_BYTES = 256
_TINY_STREAM_BYTES = 48


def _zeros_tables(length: int) -> Words:
    """Tables [k, b] that move a CRC-32C over `length` zero bytes, byte k of it being b."""
    crc = np.uint64(1) << np.arange(32, dtype=np.uint64)
    for _ in range(length):
        crc = (crc >> np.uint64(8)) ^ _CRC32C_TABLES[0][crc & np.uint64(0xFF)]
    tables = np.zeros((4, 256), np.uint64)
    value = np.arange(256, dtype=np.uint64)
    for k in range(4):
        for bit in range(8):
            tables[k] ^= ((value >> np.uint64(bit)) & np.uint64(1)) * crc[8 * k + bit]
    return tables


_LONG_ZEROS = _zeros_tables(_LONG_STREAM_BYTES)
_SHORT_ZEROS = _zeros_tables(_SHORT_STREAM_BYTES)
_TINY_ZEROS = _zeros_tables(_TINY_STREAM_BYTES)


@kernel
def crc_by_tables(buffer: Bytes, start: int, end: int, tables: Words) -> int:
    """Checksum of buffer[start:end] by slicing-by-8; the caller has checked the range."""
    crc = uint64(0xFFFFFFFF)
    low = uint64(0xFF)
    while start + 8 <= end:
        word = load_u64(buffer, start) ^ crc
        crc = tables[7, word & low]
        for k in range(1, 8):
            crc ^= tables[7 - k, (word >> uint64(8 * k)) & low]
        start += 8
    while start < end:
        crc = tables[0, (crc ^ uint64(buffer[start])) & low] ^ (crc >> uint64(8))
        start += 1
    return int64(crc ^ uint64(0xFFFFFFFF))


@kernel
def crc32_of(buffer: Bytes, start: int, end: int) -> int:
    """CRC-32 of buffer[start:end]; the caller has checked the range."""
    return crc_by_tables(buffer, start, end, _CRC32_TABLES)


if CRC_INSTRUCTIONS is not None:
    _crc_step_8, _crc_step_4, _crc_step_2, _crc_step_1 = CRC_INSTRUCTIONS

    @inlined
    def _over_zeros(crc: int, tables: Words) -> int:
        low = uint64(0xFF)
        moved: int = tables[0, crc & low]
        moved ^= tables[1, (crc >> uint64(8)) & low]
        moved ^= tables[2, (crc >> uint64(16)) & low]
        moved ^= tables[3, (crc >> uint64(24)) & low]
        return moved

    @inlined
    def _three_streams(buffer: Bytes, start: int, length: int, crc: int, tables: Words) -> int:
        second = uint64(0)
        third = uint64(0)
        end = start + length
        while start < end:
            crc = _crc_step_8(crc, load_u64(buffer, start))
            second = _crc_step_8(second, load_u64(buffer, start + length))
            third = _crc_step_8(third, load_u64(buffer, start + 2 * length))
            start += 8
        crc = _over_zeros(crc, tables) ^ second
        return _over_zeros(crc, tables) ^ third

    @kernel
    def crc32c_of(buffer: Bytes, start: int, end: int) -> int:
        """CRC-32C of buffer[start:end]; the caller has checked the range."""
        crc = uint64(0xFFFFFFFF)
        while end - start >= 3 * _LONG_STREAM_BYTES:
            crc = _three_streams(buffer, start, _LONG_STREAM_BYTES, crc, _LONG_ZEROS)
            start += 3 * _LONG_STREAM_BYTES
        while end - start >= 3 * _SHORT_STREAM_BYTES:
            crc = _three_streams(buffer, start, _SHORT_STREAM_BYTES, crc, _SHORT_ZEROS)
            start += 3 * _SHORT_STREAM_BYTES
        while end - start >= 3 * _TINY_STREAM_BYTES:
            crc = _three_streams(buffer, start, _TINY_STREAM_BYTES, crc, _TINY_ZEROS)
            start += 3 * _TINY_STREAM_BYTES
        while start + 8 <= end:
            crc = _crc_step_8(crc, load_u64(buffer, start))
            start += 8
        if start + 4 <= end:
            crc = _crc_step_4(crc, uint64(load_u32(buffer, start)))
            start += 4
        if start + 2 <= end:
            crc = _crc_step_2(crc, uint64(load_u16(buffer, start)))
            start += 2
        if start < end:
            crc = _crc_step_1(crc, uint64(buffer[start]))
        return int64(crc ^ uint64(0xFFFFFFFF))

else:

    @kernel
    def crc32c_of(buffer: Bytes, start: int, end: int) -> int:
        """CRC-32C of buffer[start:end]; the caller has checked the range."""
        return crc_by_tables(buffer, start, end, _CRC32C_TABLES)


@kernel
def entry_crc_is_good(buffer: Bytes, start: int, end: int) -> bool:
    """Whether the batch or message at buffer[start:end] has its checksum; header checked before."""
    if buffer[start + MAGIC_OFFSET] == 2:
        stored = int64(load_be32(buffer, start + CRC_OFFSET)) & 0xFFFFFFFF
        return stored == crc32c_of(buffer, start + ATTRIBUTES_OFFSET, end)
    stored = int64(load_be32(buffer, start + LEGACY_CRC_OFFSET)) & 0xFFFFFFFF
    return stored == crc32_of(buffer, start + MAGIC_OFFSET, end)


@kernel
def check_entry_crcs(
    buffer: Bytes, table: Int64s, rows: Int64s, file_position: int, good: Bools
) -> None:
    """Check the checksums of rows of a header table that lie in the buffer."""
    for i in range(len(rows)):
        start = table[rows[i], POSITION] - file_position
        good[i] = entry_crc_is_good(buffer, start, start + table[rows[i], SIZE_BYTES])


# Headers of batches and messages


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
    if base_offset < 0 or base_offset == _INT64_MAX:
        return False
    if magic < 2:
        return True
    delta = int64(load_be32(buffer, position + LAST_OFFSET_DELTA_OFFSET))
    count = int64(load_be32(buffer, position + RECORDS_COUNT_OFFSET))
    return delta >= 0 and count >= 0 and base_offset < _INT64_MAX - max(delta, count - 1)


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
    # The first offset in a wrapper is known only when it is decompressed: take a lower bound.
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

    Returns the number of rows, the index behind the last whole entry, why the walk ended (SCAN_*),
    for SCAN_INCOMPLETE the bytes of the entry there (0 where its header is not complete), and the
    first row that does not lie behind the one before it (-1 where all do).
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
    start_offset: int,
    end_offset: int,
    min_timestamp_ms: int,
    max_timestamp_ms: int,
    end_position: int,
    selected: Bools,
    unread: Bools,
) -> bool:
    """Choose by their headers the entries that may hold rows of a range.

    `selected` becomes the mask of them, `unread` that of the markers and transactional batches in
    the range of offsets that are left out. Returns whether transactional batches are chosen.
    """
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
            row[LAST_OFFSET] >= start_offset
            and row[BASE_OFFSET] < end_offset
            and row[POSITION] < end_position
        )
        is_selected = (
            is_in_range
            and not is_control
            and timestamp >= min_timestamp_ms
            and (timestamp <= max_timestamp_ms or not is_append_time)
        )
        selected[i] = is_selected
        unread[i] = is_in_range and not is_selected and (is_transactional or is_control)
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


@kernel
def find_covering(
    buffer: Bytes,
    positions: Int64s,
    at: int,
    left: int,
    min_offset: int,
    end_offset: int,
    found: Int64s,
) -> int:
    """List the positions before index `at` where an entry may stand that reaches beyond it.

    It ends behind `at`, at most `left` bytes behind it, and its offset lies in [min_offset,
    end_offset). No checksum is compared. Returns their number, which may be larger than `found` has
    room for. The caller has checked that HEADER_SIZE_UP_TO_MAGIC bytes behind `at` are there.
    """
    count = 0
    for i in range(len(positions)):
        position = positions[i]
        base_offset = load_be64(buffer, position)
        if base_offset < min_offset or base_offset >= end_offset:
            continue
        magic = int64(buffer[position + MAGIC_OFFSET])
        length = int64(load_be32(buffer, position + SIZE_OFFSET))
        size = LOG_OVERHEAD + length
        if length < _min_length(magic) or size <= at - position or size > at - position + left:
            continue
        if count < len(found):
            found[count] = position
        count += 1
    return count


# Records


@inlined
def _varint(body: Bytes, position: int, limit: int, max_bits: int) -> tuple[int, int]:
    """Read a zigzag number; the position behind it is `_NOWHERE` when it is cut off or too long."""
    raw = uint64(0)
    shift = uint64(0)
    behind = _NOWHERE
    while position < limit and shift < uint64(max_bits):
        byte = body[position]
        position += 1
        raw |= uint64(byte & 0x7F) << shift
        shift += uint64(7)
        if byte < 0x80:
            behind = position
            break
    return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), behind


@kernel
def _walk_headers(body: Bytes, position: int, end: int, count: int) -> tuple[int, int, int]:
    """Check a record's headers: position behind them or `_NOWHERE`, bytes of keys, of values."""
    key_bytes = 0
    value_bytes = 0
    if count < 0:
        return _NOWHERE, 0, 0
    while count > 0 and position < end:
        length, position = _varint(body, position, end, _VARINT_BITS)
        if length < 0:
            return _NOWHERE, 0, 0
        key_bytes += length
        length, position = _varint(body, position + length, end, _VARINT_BITS)
        if length < -1:
            return _NOWHERE, 0, 0
        if length > 0:
            value_bytes += length
            position += length
        count -= 1
    if count > 0:
        return _NOWHERE, 0, 0
    return position, key_bytes, value_bytes


@inlined
def _parse_record(
    body: Bytes, position: int, end: int, last_delta: int
) -> tuple[int, int, int, int, int, int, int, int, int, int, int]:
    """Check a record and find its parts, without copying.

    Returns its end (0 when it is bad), timestamp delta, offset delta, key position and length,
    value position and length, headers position and count, bytes of header keys and of header
    values.
    """
    length, position = _varint(body, position, end, _VARINT_BITS)
    stop = position + length
    if length < 0 or stop > end:
        return 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    # Lengths above 32 bits need no check of their own: they point beyond the record.
    timestamp_delta, position = _varint(body, position + 1, stop, _VARLONG_BITS)
    offset_delta, position = _varint(body, position, stop, _VARINT_BITS)
    key_length, key_at = _varint(body, position, stop, _VARINT_BITS)
    value_length, value_at = _varint(body, key_at + max(key_length, 0), stop, _VARINT_BITS)
    header_count, headers_at = _varint(body, value_at + max(value_length, 0), stop, _VARINT_BITS)
    position = headers_at
    header_key_bytes = 0
    header_value_bytes = 0
    if header_count != 0:
        position, header_key_bytes, header_value_bytes = _walk_headers(
            body, position, stop, header_count
        )
    if (
        position != stop
        or key_length < -1
        or value_length < -1
        or offset_delta < 0
        or offset_delta > last_delta
    ):
        stop = 0
    return (
        stop,
        timestamp_delta,
        offset_delta,
        key_at,
        key_length,
        value_at,
        value_length,
        headers_at,
        header_count,
        header_key_bytes,
        header_value_bytes,
    )


@kernel
def whole_records(body: Bytes, start: int, end: int, count: int) -> tuple[int, int, int]:
    """How many of `count` records are whole in body[start:end], and where the last of them ends.

    The third number is what the next one needs from there on: its bytes, or a byte more than there
    are where its length is cut off, -1 for a length that cannot be, 0 where no record follows.
    """
    position = start
    for index in range(count):
        length, at = _varint(body, position, end, _VARINT_BITS)
        if at == _NOWHERE and end - position < _VARINT_BITS // 7:
            return index, position, end - position + 1
        if at == _NOWHERE or length < 0 or length > _INT32_MAX:
            return index, position, -1
        if length > end - at:
            return index, position, at - position + length
        position = at + length
    return count, position, 0


@kernel
def records_are_good(body: Bytes, end: int, header: Int64s, state: Int64s) -> bool:
    """Whether all records of a batch are what they should be, down to the last byte.

    They start where the state stands, which then tells of the first that is bad.
    """
    last_delta = header[LAST_OFFSET] - header[BASE_OFFSET]
    for index in range(header[RECORDS_COUNT]):
        state[RECORD] = index
        stop = _parse_record(body, state[BODY_POSITION], end, last_delta)[0]
        if stop == 0:
            return False
        state[BODY_POSITION] = stop
    state[RECORD] = header[RECORDS_COUNT]
    return bool(state[BODY_POSITION] == end)


@kernel
def split_joined(body: Bytes, used: int, counts: Int64s, marker: Bytes, spans: Int64s) -> bool:
    """Find where batches end that were decompressed one behind another, a marker behind each.

    False unless each holds as many records as `counts` says and then a marker, down to the last
    byte: there are as many markers as batches, so a batch whose records reach over its marker
    leaves too few for the others.
    """
    position = 0
    for index in range(len(counts)):
        start = position
        for _ in range(counts[index]):
            length, position = _varint(body, position, used, _VARINT_BITS)
            if length < 0 or length > used - position:
                return False
            position += length
        if len(marker) > used - position:
            return False
        for offset in range(len(marker)):
            if body[position + offset] != marker[offset]:
                return False
        spans[index, 0] = start
        spans[index, 1] = position
        position += len(marker)
    return bool(position == used)


# Output

BinaryColumn = tuple[Int32s, Bytes, Bytes]
"""Offsets, data, and one byte a value that says whether it is there."""

Outputs = tuple[
    Int64s, Int64s, Int32s, BinaryColumn, BinaryColumn, Int32s, Bytes, BinaryColumn, BinaryColumn
]
"""Offsets, timestamps (us), timestamp types; key, value; where header lists start, whether there is
one; header keys, header values."""


@inlined
def _put_bytes(
    column: BinaryColumn, index: int, used: int, body: Bytes, position: int, length: int
) -> int:
    """Write one value of a binary column, room being checked; gives the bytes used behind it."""
    offsets, data, valid = column
    offsets[index] = used
    valid[index] = length >= 0
    if length > 0:
        copy_bytes(data, used, body, position, length)
        used += length
    offsets[index + 1] = used
    return used


@kernel
def _put_headers(
    body: Bytes, position: int, end: int, count: int, state: Int64s, outputs: Outputs
) -> None:
    """Write the headers of one record, which have been walked and for which there is room."""
    keys, values = outputs[7], outputs[8]
    index = state[HEADERS]
    for _ in range(count):
        length, position = _varint(body, position, end, _VARINT_BITS)
        for i in range(position, position + length):
            if body[i] >= 0x80:
                state[HEADER_KEYS_NOT_ASCII] = 1
        state[HEADER_KEY_BYTES] = _put_bytes(
            keys, index, state[HEADER_KEY_BYTES], body, position, length
        )
        length, position = _varint(body, position + length, end, _VARINT_BITS)
        state[HEADER_VALUE_BYTES] = _put_bytes(
            values, index, state[HEADER_VALUE_BYTES], body, position, length
        )
        if length < 0:
            state[HEADER_VALUE_NULLS] += 1
        position += max(length, 0)
        index += 1
    state[HEADERS] = index


@kernel
def _ask_for_room(
    state: Int64s,
    outputs: Outputs,
    key_bytes: int,
    value_bytes: int,
    header_count: int,
    header_key_bytes: int,
    header_value_bytes: int,
) -> bool:
    """Whether a record does not fit into the buffers; what it needs is then in the state."""
    state[NEEDED_KEY_BYTES] = state[KEY_BYTES] + key_bytes
    state[NEEDED_VALUE_BYTES] = state[VALUE_BYTES] + value_bytes
    state[NEEDED_HEADERS] = state[HEADERS] + header_count
    state[NEEDED_HEADER_KEY_BYTES] = state[HEADER_KEY_BYTES] + header_key_bytes
    state[NEEDED_HEADER_VALUE_BYTES] = state[HEADER_VALUE_BYTES] + header_value_bytes
    return bool(
        state[NEEDED_KEY_BYTES] > len(outputs[3][1])
        or state[NEEDED_VALUE_BYTES] > len(outputs[4][1])
        or state[NEEDED_HEADERS] > len(outputs[8][2])
        or state[NEEDED_HEADER_KEY_BYTES] > len(outputs[7][1])
        or state[NEEDED_HEADER_VALUE_BYTES] > len(outputs[8][1])
    )


@inlined
def _put_record(
    body: Bytes,
    offset: int,
    timestamp: int,
    timestamp_type: int,
    key_at: int,
    key_length: int,
    value_at: int,
    value_length: int,
    headers_at: int,
    headers_end: int,
    header_count: int,
    header_key_bytes: int,
    header_value_bytes: int,
    settings: Int64s,
    state: Int64s,
    outputs: Outputs,
) -> int:
    """Write one record that passed the filter, or say why not."""
    if not settings[WANT_KEY]:
        key_length = 0
    if not settings[WANT_VALUE]:
        value_length = 0
    if not settings[WANT_HEADERS]:
        header_count = header_key_bytes = header_value_bytes = 0
    key_bytes = max(key_length, 0)
    value_bytes = max(value_length, 0)
    count = state[COUNT]
    used = (
        state[KEY_BYTES]
        + state[VALUE_BYTES]
        + state[HEADER_KEY_BYTES]
        + state[HEADER_VALUE_BYTES]
        + HEADER_ENTRY_BYTES * (state[HEADERS] + header_count)
    )
    needed = used + key_bytes + value_bytes + header_key_bytes + header_value_bytes
    if count == settings[MAX_ROWS] or (count > 0 and needed > settings[MAX_BYTES]):
        return OUTPUT_FULL
    if _ask_for_room(
        state,
        outputs,
        key_bytes,
        value_bytes,
        header_count,
        header_key_bytes,
        header_value_bytes,
    ):
        return OUTPUT_SMALL
    if settings[WANT_TIMESTAMP]:
        if timestamp < SPARK_MIN_TIMESTAMP_MS or timestamp > SPARK_MAX_TIMESTAMP_MS:
            state[BAD_OFFSET] = offset
            state[BAD_TIMESTAMP_MS] = timestamp
            return BAD_TIMESTAMP
        outputs[1][count] = timestamp * 1000
    if settings[WANT_OFFSET]:
        outputs[0][count] = offset
    if settings[WANT_TIMESTAMP_TYPE]:
        outputs[2][count] = timestamp_type
    if settings[WANT_KEY]:
        state[KEY_BYTES] = _put_bytes(outputs[3], count, state[KEY_BYTES], body, key_at, key_length)
        state[KEY_NULLS] += key_length < 0
    if settings[WANT_VALUE]:
        state[VALUE_BYTES] = _put_bytes(
            outputs[4], count, state[VALUE_BYTES], body, value_at, value_length
        )
        state[VALUE_NULLS] += value_length < 0
    if settings[WANT_HEADERS]:
        outputs[5][count] = state[HEADERS]
        outputs[6][count] = header_count > 0
        if header_count > 0:
            _put_headers(body, headers_at, headers_end, header_count, state, outputs)
        else:
            state[HEADERS_NULLS] += 1
        outputs[5][count + 1] = state[HEADERS]
    state[COUNT] = count + 1
    return DONE


@inlined
def _is_wanted(offset: int, timestamp: int, settings: Int64s) -> bool:
    return bool(
        offset >= settings[START_OFFSET]
        and offset < settings[END_OFFSET]
        and timestamp >= settings[MIN_TIMESTAMP_MS]
        and timestamp <= settings[MAX_TIMESTAMP_MS]
    )


@inlined
def _decode_records(
    body: Bytes, end: int, header: Int64s, settings: Int64s, state: Int64s, outputs: Outputs
) -> int:
    """Decode the records of one batch from where the state stands."""
    last_delta = header[LAST_OFFSET] - header[BASE_OFFSET]
    is_append_time = header[ATTRIBUTES] & 8 != 0
    index = state[RECORD]
    position = state[BODY_POSITION]
    code = DONE
    while index < header[RECORDS_COUNT]:
        (
            stop,
            timestamp_delta,
            offset_delta,
            key_at,
            key_length,
            value_at,
            value_length,
            headers_at,
            header_count,
            header_key_bytes,
            header_value_bytes,
        ) = _parse_record(body, position, end, last_delta)
        if stop == 0:
            code = BAD_RECORD
            break
        offset = header[BASE_OFFSET] + offset_delta
        timestamp = header[BASE_TIMESTAMP] + timestamp_delta
        if is_append_time:
            timestamp = header[MAX_TIMESTAMP]
        if _is_wanted(offset, timestamp, settings):
            code = _put_record(
                body,
                offset,
                timestamp,
                int64(is_append_time),
                key_at,
                key_length,
                value_at,
                value_length,
                headers_at,
                stop,
                header_count,
                header_key_bytes,
                header_value_bytes,
                settings,
                state,
                outputs,
            )
            if code != DONE:
                break
        position = stop
        index += 1
    state[RECORD] = index
    state[BODY_POSITION] = position
    if code == DONE and position != end:
        code = BAD_RECORD
    return code


@kernel
def plan_entries(
    table: Int64s,
    rows: Int64s,
    file_position: int,
    size: int,
    planned: Int64s,
    kinds: Int64s,
    spans: Int64s,
) -> int:
    """Tell for rows of a header table what kind they are and where their records lie.

    Control batches are left out. Returns how many rows there are then, -1 when one of them does not
    lie in a buffer of `size` bytes that starts at `file_position`.
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
        if codec > (4 if is_batch else 3):
            kind = BAD_CODEC
        planned[count] = row
        kinds[count] = kind
        spans[count, 0] = start + RECORD_BATCH_OVERHEAD
        spans[count, 1] = end
        count += 1
    return count


@kernel
def decode_batches(
    raw: Bytes,
    raw_position: int,
    body: Bytes,
    table: Int64s,
    rows: Int64s,
    spans: Int64s,
    settings: Int64s,
    state: Int64s,
    outputs: Outputs,
) -> int:
    """Decode a run of batches of format 2 from where the state stands.

    Parameters
    ----------
    raw, raw_position
        Bytes that hold whole batches, for their checksums, and the file position of the first.
    body, spans
        Bytes that hold their records uncompressed, and their start and end for each of `rows`:
        `raw` itself, or memory that they were decompressed into.
    table, rows
        Header table, and the rows of it to decode.

    Returns
    -------
    int
        DONE, or why it stopped at row state[ROW], record state[RECORD].
    """
    while state[ROW] < len(rows):
        header = table[rows[state[ROW]]]
        start, end = spans[state[ROW], 0], spans[state[ROW], 1]
        if state[RECORD] == 0 and state[BODY_POSITION] == 0:
            first = header[POSITION] - raw_position
            if settings[CHECK_CRCS] and not entry_crc_is_good(
                raw, first, first + header[SIZE_BYTES]
            ):
                return BAD_CRC
            state[BODY_POSITION] = start
            if settings[VALIDATE_FIRST]:
                if not records_are_good(body, end, header, state):
                    return BAD_RECORD
                state[RECORD] = 0
                state[BODY_POSITION] = start
        code = _decode_records(body, end, header, settings, state, outputs)
        if code != DONE:
            return code
        state[ROW] += 1
        state[RECORD] = 0
        state[BODY_POSITION] = 0
    return DONE


@inlined
def _legacy_field(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Length of a key or value and where it starts; `_NOWHERE` when it does not fit."""
    if position > end - 4:
        return 0, _NOWHERE
    length = int64(load_be32(buffer, position))
    if length < -1 or length > end - position - 4:
        return 0, _NOWHERE
    return length, position + 4


@inlined
def _parse_message(buffer: Bytes, start: int, end: int) -> tuple[int, int, int, int]:
    """Key position and length, value position and length; key position 0 when it is bad."""
    key_offset = LEGACY_KEY_OFFSET_V1 if buffer[start + MAGIC_OFFSET] == 1 else LEGACY_KEY_OFFSET_V0
    key_length, key_at = _legacy_field(buffer, start + key_offset, end)
    value_length, value_at = _legacy_field(buffer, key_at + max(key_length, 0), end)
    if value_at + max(value_length, 0) != end:
        return 0, 0, 0, 0
    return key_at, key_length, value_at, value_length


@kernel
def decode_messages(
    buffer: Bytes, messages: Int64s, settings: Int64s, state: Int64s, outputs: Outputs
) -> int:
    """Decode a run of uncompressed messages of formats 0 and 1 from where the state stands.

    `messages` has a row a message: where it lies in the buffer, and its offset, timestamp and
    timestamp type as they result from its wrapper.
    """
    while state[ROW] < len(messages):
        message = messages[state[ROW]]
        start, end = message[MESSAGE_START], message[MESSAGE_END]
        if settings[CHECK_CRCS] and not entry_crc_is_good(buffer, start, end):
            return BAD_CRC
        key_at, key_length, value_at, value_length = _parse_message(buffer, start, end)
        if key_at == 0:
            return BAD_RECORD
        if _is_wanted(message[MESSAGE_OFFSET], message[MESSAGE_TIMESTAMP], settings):
            code = _put_record(
                buffer,
                message[MESSAGE_OFFSET],
                message[MESSAGE_TIMESTAMP],
                message[MESSAGE_TIMESTAMP_TYPE],
                key_at,
                key_length,
                value_at,
                value_length,
                0,
                0,
                0,
                0,
                0,
                settings,
                state,
                outputs,
            )
            if code != DONE:
                return code
        state[ROW] += 1
    return DONE


@kernel
def inner_entries_are_good(buffer: Bytes, table: Int64s, magic: int, check_crcs: bool) -> bool:
    """Whether entries that were found in a wrapper are plain messages of its format."""
    for i in range(len(table)):
        start = table[i, POSITION]
        end = start + table[i, SIZE_BYTES]
        if table[i, MAGIC] != magic or table[i, ATTRIBUTES] & 7 != 0:
            return False
        if check_crcs and not entry_crc_is_good(buffer, start, end):
            return False
        if _parse_message(buffer, start, end)[0] == 0:
            return False
    return True
