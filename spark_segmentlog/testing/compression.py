"""Compressed blocks as the producers of the field wrote them, odd ones too.

Shares no code with the codecs under test.
"""

from __future__ import annotations

import gzip
import struct

import cramjam

# Names that `codec=` takes, and the number that goes into the attributes.
CODECS = {
    "none": 0,
    "gzip": 1,
    "snappy": 2,
    "snappy-raw": 2,
    "lz4": 3,
    "lz4-legacy-checksum": 3,
    "zstd": 4,
    "zstd-content-size": 4,
    "zstd-frames": 4,
    "zstd-skippable": 4,
}

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_MAGIC = 0x184D2204
_LZ4_BLOCK_BYTES = 64 * 1024
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50


def compress(codec: str, data: bytes) -> bytes:
    """Compress as the producers of the field did.

    ``snappy`` is xerial's framing in blocks of 32 KiB, ``snappy-raw`` one bare block; ``lz4`` a
    frame of independent 64 KiB blocks, ``lz4-legacy-checksum`` one whose header checksum covers the
    magic too (KAFKA-3160); ``zstd`` a frame without content size, ``zstd-content-size`` one with
    it, ``zstd-frames`` two frames, ``zstd-skippable`` a frame and a skippable one.
    """
    match codec:
        case "none":
            return data
        case "gzip":
            return gzip.compress(data, mtime=0)
        case "snappy":
            return _xerial(data)
        case "snappy-raw":
            return bytes(cramjam.snappy.compress_raw(data))
        case "lz4":
            return _lz4_frame(data, checksum_from=4)
        case "lz4-legacy-checksum":
            return _lz4_frame(data, checksum_from=0)
        case "zstd":
            return _zstd_stream(data)
        case "zstd-content-size":
            return bytes(cramjam.zstd.compress(data))
        case "zstd-frames":
            middle = len(data) // 2
            return _zstd_stream(data[:middle]) + _zstd_stream(data[middle:])
        case "zstd-skippable":
            skippable = struct.pack("<II", _ZSTD_SKIPPABLE_MAGIC, 5) + b"extra"
            return _zstd_stream(data) + skippable
    raise ValueError(f"codec {codec!r}: one of {', '.join(CODECS)}")


def _xerial(data: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def _lz4_frame(data: bytes, *, checksum_from: int) -> bytes:
    # FLG: version 01, independent blocks. BD: blocks of at most 64 KiB.
    head = struct.pack("<IBB", _LZ4_MAGIC, 0x60, 0x40)
    out = bytearray(head)
    out.append(_xxh32(head[checksum_from:]) >> 8 & 0xFF)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += struct.pack("<I", len(block)) + block
        else:
            out += struct.pack("<I", len(plain) | 0x80000000) + plain
    return bytes(out) + struct.pack("<I", 0)


def _xxh32(data: bytes) -> int:
    """XXH32 of fewer than 16 bytes with seed 0: a frame descriptor is never longer."""
    mask = 0xFFFFFFFF
    prime1, prime2, prime3, prime4, prime5 = (
        2654435761,
        2246822519,
        3266489917,
        668265263,
        374761393,
    )
    value = (prime5 + len(data)) & mask
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = (value + word * prime3) & mask
        value = (value << 17 | value >> 15) & mask
        value = value * prime4 & mask
    for byte in data[whole:]:
        value = (value + byte * prime5) & mask
        value = (value << 11 | value >> 21) & mask
        value = value * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


def _zstd_stream(data: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())
