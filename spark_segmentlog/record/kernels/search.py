"""Searches for entries whose place is not known: after bad bytes, or over a byte."""

from __future__ import annotations

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
from spark_segmentlog.record.kernels.headers import header_can_be, min_length
from spark_segmentlog.record.layout import (
    HEADER_SIZE_UP_TO_MAGIC,
    LAST_OFFSET_DELTA_OFFSET,
    LEGACY_KEY_OFFSET_V0,
    LEGACY_KEY_OFFSET_V1,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    RECORD_BATCH_OVERHEAD,
    RECORDS_COUNT_OFFSET,
    SIZE_OFFSET,
)
from spark_segmentlog.record.types import Bytes, Int64s

# The search for what covers a byte looks at so many positions at once, and at eight in a word.

COVERING_BLOCK_BYTES = 512
_LOW_BITS, _HIGH_BITS = 0x0101010101010101, 0x8080808080808080
_ABOVE_MAGIC = 0xFCFCFCFCFCFCFCFC


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
            size - LOG_OVERHEAD >= min_length(magic)
            and size <= min(end - position, budget)
            and header_can_be(buffer, position, magic)
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
def _sizes_can_be(buffer: Bytes, position: int, magic: int, size: int) -> bool:
    """Whether the fields of an entry that holds something agree with its size.

    As far as they lie in the buffer.
    """
    if magic == 2:
        if position + RECORD_BATCH_OVERHEAD > len(buffer):
            return True
        count = int64(load_be32(buffer, position + RECORDS_COUNT_OFFSET))
        return count > 0 and header_can_be(buffer, position, magic)
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
def _can_cover(
    buffer: Bytes, position: int, at: int, left: int, min_offset: int, end_offset: int
) -> bool:
    base_offset = load_be64(buffer, position)
    if base_offset < min_offset or base_offset >= end_offset:
        return False
    magic = int64(buffer[position + MAGIC_OFFSET])
    length = int64(load_be32(buffer, position + SIZE_OFFSET))
    size = LOG_OVERHEAD + length
    if length < min_length(magic) or size <= at - position or size > at - position + left:
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
