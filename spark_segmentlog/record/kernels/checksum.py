"""CRC-32 and CRC-32C of bytes, and of whole batches and messages."""

from __future__ import annotations

import functools
from typing import TypeAlias

import numpy as np

from spark_segmentlog.record.jit import (
    CARRYLESS_MULTIPLY,
    CRC_INSTRUCTIONS,
    inlined,
    int64,
    kernel,
    load_be32,
    load_u16,
    load_u32,
    load_u64,
    uint64,
)
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    LEGACY_CRC_OFFSET,
    MAGIC_OFFSET,
)
from spark_segmentlog.record.types import Bytes, Words

_CRC32_POLYNOMIAL = 0xEDB88320
_CRC32C_POLYNOMIAL = 0x82F63B78


def _slicing_tables(polynomial: int) -> Words:
    """Tables of slicing-by-8: [k, b] is the checksum of byte b with k zero bytes after it."""
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

_Block: TypeAlias = tuple[int, int]
"""16 bytes as two little-endian words."""


def _fold_factor(bits: int) -> int:
    """What moves a word by so many bits, modulo the polynomial of CRC-32, as products take it."""
    rest = 1 << 31
    for _ in range(bits):
        rest = rest >> 1 ^ (_CRC32_POLYNOMIAL if rest & 1 else 0)
    return uint64(rest << 1)


# Three streams of this many bytes each are checksummed at once, as the instruction's latency is
# three times its cycle; tables then move a checksum over the zero bytes that replace the other
# streams.
_LONG_STREAM_BYTES = 2048
_SHORT_STREAM_BYTES = 256
_TINY_STREAM_BYTES = 48


@functools.cache
def _zeros_tables(length: int) -> Words:
    """Tables [k, b] that move a CRC-32C over `length` zero bytes, byte k of it being b.

    `length` is a multiple of 8.
    """
    if length == 8:
        return _CRC32C_TABLES[7:3:-1].copy()
    half = length // 16 * 8
    crc, tables = _zeros_tables(half), _zeros_tables(length - half)
    byte = np.uint64(0xFF)
    moved: Words = tables[0, crc & byte]
    for k in range(1, 4):
        moved ^= tables[k, crc >> np.uint64(8 * k) & byte]
    return moved


_LONG_ZEROS = _zeros_tables(_LONG_STREAM_BYTES)
_SHORT_ZEROS = _zeros_tables(_SHORT_STREAM_BYTES)
_TINY_ZEROS = _zeros_tables(_TINY_STREAM_BYTES)


@inlined
def _step_by_tables(word: int, tables: Words) -> int:
    """Checksum of 8 bytes into which the one of all before them was folded."""
    low = uint64(0xFF)
    crc: int = tables[7, word & low]
    for k in range(1, 8):
        crc ^= tables[7 - k, (word >> uint64(8 * k)) & low]
    return crc


@inlined
def _rest_by_tables(buffer: Bytes, start: int, end: int, crc: int, tables: Words) -> int:
    while start + 8 <= end:
        crc = _step_by_tables(load_u64(buffer, start) ^ crc, tables)
        start += 8
    while start < end:
        crc = tables[0, (crc ^ uint64(buffer[start])) & uint64(0xFF)] ^ (crc >> uint64(8))
        start += 1
    return int64(crc ^ uint64(0xFFFFFFFF))


@kernel
def crc_by_tables(buffer: Bytes, start: int, end: int, tables: Words) -> int:
    """Checksum of buffer[start:end] by slicing-by-8; the caller has checked the range."""
    return _rest_by_tables(buffer, start, end, uint64(0xFFFFFFFF), tables)


if CARRYLESS_MULTIPLY is not None:
    _multiply = CARRYLESS_MULTIPLY
    # What moves a block's halves over one block and over four.
    _OVER_1_LOW, _OVER_1_HIGH = _fold_factor(160), _fold_factor(96)
    _OVER_4_LOW, _OVER_4_HIGH = _fold_factor(544), _fold_factor(480)

    @inlined
    def _block(buffer: Bytes, at: int) -> _Block:
        return load_u64(buffer, at), load_u64(buffer, at + 8)

    @inlined
    def _folded(moved: _Block, low_factor: int, high_factor: int, onto: _Block) -> _Block:
        low = _multiply(moved[0], low_factor)
        high = _multiply(moved[1], high_factor)
        return low[0] ^ high[0] ^ onto[0], low[1] ^ high[1] ^ onto[1]

    @kernel
    def crc32_of(buffer: Bytes, start: int, end: int) -> int:
        """CRC-32 of buffer[start:end]; the caller has checked the range.

        Blocks of 16 bytes, four at once, are folded onto later ones, which leaves the checksum of
        all as it is ("Fast CRC computation for generic polynomials", Intel 2009).
        """
        crc = uint64(0xFFFFFFFF)
        if end - start >= 64:
            a, b = _block(buffer, start), _block(buffer, start + 16)
            c, d = _block(buffer, start + 32), _block(buffer, start + 48)
            a = (a[0] ^ crc, a[1])
            start += 64
            while start + 64 <= end:
                a = _folded(a, _OVER_4_LOW, _OVER_4_HIGH, _block(buffer, start))
                b = _folded(b, _OVER_4_LOW, _OVER_4_HIGH, _block(buffer, start + 16))
                c = _folded(c, _OVER_4_LOW, _OVER_4_HIGH, _block(buffer, start + 32))
                d = _folded(d, _OVER_4_LOW, _OVER_4_HIGH, _block(buffer, start + 48))
                start += 64
            b = _folded(a, _OVER_1_LOW, _OVER_1_HIGH, b)
            c = _folded(b, _OVER_1_LOW, _OVER_1_HIGH, c)
            d = _folded(c, _OVER_1_LOW, _OVER_1_HIGH, d)
            while start + 16 <= end:
                d = _folded(d, _OVER_1_LOW, _OVER_1_HIGH, _block(buffer, start))
                start += 16
            crc = _step_by_tables(d[0], _CRC32_TABLES)
            crc = _step_by_tables(d[1] ^ crc, _CRC32_TABLES)
        return _rest_by_tables(buffer, start, end, crc, _CRC32_TABLES)

else:

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
