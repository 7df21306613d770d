"""lz4: LZ4 frames.

The header checksum of format 0 is wrong on purpose (Kafka 0.8 and 0.9 hashed the magic bytes too,
KAFKA-3160), so it is ignored there and checked elsewhere. Written is one frame of independent
blocks of 64 KiB, no content size, no checksum but the header's; the default level is the fast
compressor, every other one the high compression one (KIP-390).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache, lru_cache

import cramjam
import numpy as np

from spark_segmentlog.record.codec import native
from spark_segmentlog.record.codec.arrow_stream import ArrowStream
from spark_segmentlog.record.codec.codec import (
    WHOLE_BLOCK_BYTES,
    BlockCode,
    BlockError,
    BlockWriter,
    OutputFullError,
)
from spark_segmentlog.record.codec.codec_kernels import (
    MAX_LZ4_BLOCKS,
    count_lz4_blocks,
    decompress_lz4_frames,
    list_lz4_blocks,
)
from spark_segmentlog.record.layout import MAGIC_V0
from spark_segmentlog.record.types import NO_SPANS, Bytes, Int64s, flat_bytes

_MAGIC = b"\x04\x22\x4d\x18"
_WORD = struct.Struct("<I")
_STORED_BLOCK = 0x80000000
_MIN_HEADER_BYTES = 7
# Version 01, independent blocks, no checksums, no content size, no dictionary: what Java and
# librdkafka write, and what the quick way through takes.
_PLAIN_FLAGS = 0x60
_CONTENT_SIZE_FLAG = 0x08
_DICTIONARY_FLAG = 0x01
_BLOCK_MAX_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
# Those flags, blocks of up to 64 KiB, and the checksum of both.
_WRITTEN_HEADER = _MAGIC + bytes.fromhex("604082")
_WRITTEN_BLOCK_BYTES = 64 * 1024
_DEFAULT_LEVEL = 9


def _decompress_into(block: memoryview, output: memoryview, magic: int) -> int:
    if magic == MAGIC_V0:
        block = _with_right_header_checksum(block)
    if len(block) > _MIN_HEADER_BYTES and block[4] == _PLAIN_FLAGS:
        return _plain_frame_into(block, output)
    return int(cramjam.lz4.decompress_into(block, output))


def _decompress_many(buffer: Bytes, spans: Int64s, output: Bytes, limits: Int64s) -> Int64s:
    """Decompress plain frames; others are for `_decompress_into`."""
    decoder = native.lz4_decoder()
    if decoder is None:
        return NO_SPANS
    blocks = np.empty((2 * len(spans) + MAX_LZ4_BLOCKS, 4), np.int64)
    firsts = np.empty(len(spans) + 1, np.int64)
    count = list_lz4_blocks(buffer, spans, _plain_headers(), blocks, firsts)
    found, firsts = np.empty((count, 2), np.int64), firsts[: count + 1]
    return found[: decompress_lz4_frames(decoder, buffer, blocks, firsts, output, limits, found)]


@cache
def _plain_headers() -> Int64s:
    """Give the headers of plain frames as numbers, each with the largest size of its blocks."""
    rows = []
    for number, max_bytes in _BLOCK_MAX_BYTES.items():
        descriptor = bytes([_PLAIN_FLAGS, number << 4])
        header = _MAGIC + descriptor + bytes([_header_checksum(descriptor)])
        rows.append((int.from_bytes(header, "little"), max_bytes))
    return np.array(rows, np.int64)


def _plain_frame_into(block: memoryview, output: memoryview) -> int:
    """Walk one frame block by block: a fresh frame decoder costs more than a small block does."""
    max_bytes = _check_header(bytes(block[:_MIN_HEADER_BYTES]))
    if max_bytes > len(output):
        return _more_frames_into(block, output, 0, 0)
    position, written = _MIN_HEADER_BYTES, 0
    while True:
        if position + _WORD.size > len(block):
            raise BlockError(f"lz4 block: frame cut off at byte {position}")
        (word,) = _WORD.unpack_from(block, position)
        position += _WORD.size
        if word == 0:
            break
        length = word & ~_STORED_BLOCK
        if not 0 < length <= min(len(block) - position, max_bytes):
            raise BlockError(
                f"lz4 block: block of {length} bytes at byte {position}, allowed are 1 to "
                f"{max_bytes} and {len(block) - position} are there"
            )
        data = block[position : position + length]
        written += _block_into(data, output[written:], max_bytes, stored=word != length)
        position += length
    if position < len(block):
        return _more_frames_into(block, output, position, written)
    return written


def _more_frames_into(block: memoryview, output: memoryview, position: int, written: int) -> int:
    return written + int(cramjam.lz4.decompress_into(block[position:], output[written:]))


def _block_into(data: memoryview, output: memoryview, max_bytes: int, *, stored: bool) -> int:
    if stored:
        if len(data) > len(output):
            raise OutputFullError
        output[: len(data)] = data
        return len(data)
    # A decoder that runs out of room cannot be told from one that met bad bytes, so there must be
    # room for the largest block.
    if len(output) < max_bytes:
        raise OutputFullError
    return int(cramjam.lz4.decompress_block_into(data, output, output_len=max_bytes))


@lru_cache(maxsize=64)
def _check_header(header: bytes) -> int:
    """Check the 7 bytes of a plain frame's header; gives the largest size of its blocks."""
    if header[:4] != _MAGIC:
        raise BlockError(f"lz4 block: frame magic {header[:4].hex()}, allowed {_MAGIC.hex()}")
    max_bytes = _BLOCK_MAX_BYTES.get(header[5] >> 4)
    if max_bytes is None or header[5] & 0x8F:
        allowed = ", ".join(f"{number << 4:#04x}" for number in _BLOCK_MAX_BYTES)
        raise BlockError(f"lz4 block: block descriptor {header[5]:#04x}, allowed are {allowed}")
    checksum = _header_checksum(header[4:6])
    if header[6] != checksum:
        raise BlockError(
            f"lz4 block: header checksum mismatch: stored {header[6]:#04x}, "
            f"computed {checksum:#04x}"
        )
    return max_bytes


def _with_right_header_checksum(block: memoryview) -> memoryview:
    """Copy an lz4 block of format 0, where the checksum of the frame header is wrong."""
    if len(block) < _MIN_HEADER_BYTES:
        return block
    flags = block[4]
    at = 6
    at += 8 if flags & _CONTENT_SIZE_FLAG else 0
    at += 4 if flags & _DICTIONARY_FLAG else 0
    if at >= len(block):
        return block
    patched = bytearray(block)
    patched[at] = _header_checksum(bytes(block[4:at]))
    return memoryview(patched)


def _header_checksum(descriptor: bytes) -> int:
    return (_xxh32(descriptor) >> 8) & 0xFF


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which a frame descriptor always has.

    Algorithm: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
    """
    assert len(data) < 16
    prime1, prime2, prime3, prime4, prime5 = (
        0x9E3779B1,
        0x85EBCA77,
        0xC2B2AE3D,
        0x27D4EB2F,
        0x165667B1,
    )
    mask = 0xFFFFFFFF
    value = (prime5 + len(data)) & mask
    whole = len(data) // 4 * 4
    for (word,) in _WORD.iter_unpack(data[:whole]):
        value = (value + word * prime3) & mask
        value = ((value << 17 | value >> 15) & mask) * prime4 & mask
    for byte in data[whole:]:
        value = (value + byte * prime5) & mask
        value = ((value << 11 | value >> 21) & mask) * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


def _open_stream(block: memoryview, magic: int) -> ArrowStream:
    return ArrowStream("lz4", _with_right_header_checksum(block) if magic == MAGIC_V0 else block)


def _is_surely_large(block: memoryview) -> bool:
    if block[4] != _PLAIN_FLAGS:
        return False
    largest = _BLOCK_MAX_BYTES.get(block[5] >> 4, 0)
    data = flat_bytes(np.frombuffer(block, np.uint8))
    return (count_lz4_blocks(data, _MIN_HEADER_BYTES) - 1) * largest >= WHOLE_BLOCK_BYTES


def _writer(level: int) -> BlockWriter:
    compress = _compressor(level)

    def write(data: memoryview, output: memoryview) -> int:
        output[: len(_WRITTEN_HEADER)] = _WRITTEN_HEADER
        position = len(_WRITTEN_HEADER)
        for start in range(0, len(data), _WRITTEN_BLOCK_BYTES):
            plain = data[start : start + _WRITTEN_BLOCK_BYTES]
            block = compress(plain)
            is_stored = len(block) >= len(plain)
            length = len(plain) | _STORED_BLOCK if is_stored else len(block)
            _WORD.pack_into(output, position, length)
            end = position + 4 + min(len(block), len(plain))
            output[position + 4 : end] = plain if is_stored else block
            position = end
        _WORD.pack_into(output, position, 0)
        return position + 4

    return write


def _compressor(level: int) -> Callable[[memoryview], memoryview]:
    if level == _DEFAULT_LEVEL:
        return lambda block: memoryview(cramjam.lz4.compress_block(block, store_size=False))
    # Here: the table of codecs is loaded by a daemon that forks workers, Arrow is not.
    import pyarrow as pa

    codec = pa.Codec("lz4_raw", level)
    # As bytes: a memoryview of the buffer that pyarrow gives has its capacity, not its size.
    return lambda block: memoryview(codec.compress(block, asbytes=True))


CODE = BlockCode(
    decompress_into=_decompress_into,
    open_stream=_open_stream,
    is_surely_large=_is_surely_large,
    writer=_writer,
    decompress_many=_decompress_many,
)
