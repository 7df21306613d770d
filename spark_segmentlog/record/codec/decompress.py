"""Compressed blocks of record batches and wrappers: gzip, snappy, lz4 and zstd.

- gzip: one or more members.
- snappy: xerial framing (magic, two versions, then blocks of a length and a raw snappy block), as
  Java writes it, or one raw snappy block, as librdkafka does.
- lz4: LZ4 frames. The header checksum of format 0 is wrong on purpose (Kafka 0.8 and 0.9 hashed the
  magic bytes too, KAFKA-3160), so it is ignored there and checked elsewhere.
- zstd: frames, with or without a content size, skippable ones between them.

Ordinary blocks are decompressed whole, into memory of the caller's or into a `DecompressionBuffer`
of a fixed size; larger ones piece by piece, by `block_stream`. Sizes that a block declares are not
believed.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence
from functools import lru_cache

import cramjam
import numpy as np

from spark_segmentlog.record.codec.codec_kernels import (
    count_full_blocks,
    count_lz4_blocks,
    xerial_bytes,
)
from spark_segmentlog.record.layout import MAGIC_V0, MAGIC_V2, Codec
from spark_segmentlog.record.types import Bytes, bytes_view, flat_bytes

XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_LENGTH = struct.Struct(">i")
_FIRST_XERIAL_BLOCK = _XERIAL_HEADER_BYTES + _XERIAL_BLOCK_LENGTH.size
# What stands at the front of a header, read as a length.
_XERIAL_MAGIC_LENGTH = _XERIAL_BLOCK_LENGTH.unpack_from(XERIAL_MAGIC)[0]

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_WORD = struct.Struct("<I")
_LZ4_STORED_BLOCK = 0x80000000
_LZ4_MIN_HEADER_BYTES = 7
# Version 01, independent blocks, no checksums, no content size, no dictionary: what Java and
# librdkafka write, and what the quick way through takes.
_LZ4_PLAIN_FLAGS = 0x60
_LZ4_CONTENT_SIZE_FLAG = 0x08
_LZ4_DICTIONARY_FLAG = 0x01
_LZ4_BLOCK_MAX_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}

# The size of the last member, at the end.
_GZIP_SIZE_BYTES = 4

SMALL_BLOCK_BYTES = 16 << 10
"""What is smaller is decompressed without a look at how large it says to be."""

_ZSTD_BLOCK_BYTES = 128 << 10
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# A frame of a single segment and a raw last block, its content size in one byte.
_ZSTD_RAW_FRAME = struct.Struct("<4sBB3s")
_MARKER_PREFIX = b"\x80" * 6
_MARKER_SECRET_BYTES = 16

# How cramjam's streaming decoders say that their output is full.
_OUTPUT_FULL = "failed to write whole buffer"


WHOLE_BLOCK_BYTES = 2 << 20
"""A block that does not fit here is read as a stream."""


class OutputFullError(Exception):
    """The output is too small for the block; the caller may come again with a larger one."""


class BlockError(ValueError):
    """A block that its codec refuses; turned into an error with a place above."""


class BlockTooLargeError(ValueError):
    """A block above a limit, or that declares what it cannot hold; gets its place above."""


def decompress_into(codec: int, block: memoryview, output: memoryview, *, magic: int) -> int:
    """Decompress a block into memory of the caller's.

    Parameters
    ----------
    codec : int
        One of `Codec`, not `NONE`.
    block : memoryview
        Compressed bytes.
    output : memoryview
        Writable bytes.
    magic : int
        Format of the batch or message that holds the block.

    Returns
    -------
    int
        Number of bytes written.

    Raises
    ------
    OutputFullError
        When `output` is too small.
    BlockError
        When the bytes are not what the codec says.
    """
    try:
        if codec == Codec.ZSTD:
            return int(cramjam.zstd.decompress_into(block, output))
        if codec == Codec.LZ4:
            return _lz4_into(block, output, magic)
        if codec == Codec.SNAPPY:
            return _snappy_into(block, output)
        return int(cramjam.gzip.decompress_into(block, output))
    except cramjam.DecompressionError as error:
        if _OUTPUT_FULL in str(error):
            raise OutputFullError from error
        raise BlockError(f"{Codec(codec).name.lower()} block: {error}") from error


def is_surely_large(codec: int, block: memoryview) -> bool:
    """Tell a block that says to be no ordinary one, without decompressing it.

    Whether that is true the stream finds out; it spares an attempt that fails. Not worth asking of
    a block below `SMALL_BLOCK_BYTES`.
    """
    if codec == Codec.GZIP:
        return int.from_bytes(block[-_GZIP_SIZE_BYTES:], "little") > WHOLE_BLOCK_BYTES
    data = flat_bytes(np.frombuffer(block, np.uint8))
    if codec == Codec.ZSTD:
        return count_full_blocks(data) * _ZSTD_BLOCK_BYTES >= WHOLE_BLOCK_BYTES
    if codec == Codec.LZ4:
        largest = _LZ4_BLOCK_MAX_BYTES.get(block[5] >> 4, 0)
        is_plain = block[4] == _LZ4_PLAIN_FLAGS
        blocks = count_lz4_blocks(data, _LZ4_MIN_HEADER_BYTES) if is_plain else 0
        return (blocks - 1) * largest >= WHOLE_BLOCK_BYTES
    return is_xerial(block) and xerial_bytes(data, _XERIAL_HEADER_BYTES) > WHOLE_BLOCK_BYTES


def check_block_size(size: int, max_bytes: int) -> None:
    """Refuse a block that is above a limit, as far as it is decompressed."""
    if size > max_bytes:
        raise BlockTooLargeError(
            f"decompressed block larger than the {max_bytes} bytes that are allowed"
        )


def _snappy_into(block: memoryview, output: memoryview) -> int:
    if not is_xerial(block):
        return snappy_block_into(block, output)
    if _is_one_xerial_block(block):
        return snappy_block_into(block[_FIRST_XERIAL_BLOCK:], output)
    position, written = 0, 0
    while (found := next_xerial_block(block, position)) is not None:
        start, position = found
        written += snappy_block_into(block[start:position], output[written:])
    return written


def _is_one_xerial_block(block: memoryview) -> bool:
    if len(block) <= _FIRST_XERIAL_BLOCK:
        return False
    (length,) = _XERIAL_BLOCK_LENGTH.unpack_from(block, _XERIAL_HEADER_BYTES)
    return int(length) == len(block) - _FIRST_XERIAL_BLOCK


def is_xerial(block: memoryview) -> bool:
    """Tell xerial framing from one raw snappy block."""
    return block[: len(XERIAL_MAGIC)] == XERIAL_MAGIC


def next_xerial_block(block: memoryview, position: int) -> tuple[int, int] | None:
    """Find the raw block at or behind a position of xerial framing: its start and end.

    Returns
    -------
    tuple of (int, int) or None
        None at the end of the bytes.

    Raises
    ------
    BlockError
        Where the framing is cut off, or a length does not fit.
    """
    while position < len(block):
        start = position + _XERIAL_BLOCK_LENGTH.size
        if start > len(block):
            raise BlockError(f"snappy block: xerial block length cut off at byte {position}")
        (length,) = _XERIAL_BLOCK_LENGTH.unpack_from(block, position)
        if 0 < length <= len(block) - start:
            return start, start + length
        # A second header inside the stream is legal: Java's writer flushes, then goes on.
        if length != _XERIAL_MAGIC_LENGTH or not is_xerial(block[position:]):
            raise BlockError(
                f"snappy block: xerial block of {length} bytes at byte {position}, "
                f"{len(block) - start} are there"
            )
        position += _XERIAL_HEADER_BYTES
        if position > len(block):
            have = len(block) - position + _XERIAL_HEADER_BYTES
            raise BlockError(f"snappy block: xerial header of {have} bytes, 16 are needed")
    return None


def snappy_block_into(block: memoryview, output: memoryview) -> int:
    """Decompress one raw snappy block; errors are those of cramjam, and `OutputFullError`."""
    if cramjam.snappy.decompress_raw_len(block) > len(output):
        raise OutputFullError
    if len(output) == 0:
        return 0
    return int(cramjam.snappy.decompress_raw_into(block, output))


def _lz4_into(block: memoryview, output: memoryview, magic: int) -> int:
    if magic == MAGIC_V0:
        block = with_right_header_checksum(block)
    if len(block) > _LZ4_MIN_HEADER_BYTES and block[4] == _LZ4_PLAIN_FLAGS:
        return _lz4_plain_frame_into(block, output)
    return int(cramjam.lz4.decompress_into(block, output))


def _lz4_plain_frame_into(block: memoryview, output: memoryview) -> int:
    """Walk one frame block by block: a fresh frame decoder costs more than a small block does."""
    max_bytes = _check_lz4_header(bytes(block[:_LZ4_MIN_HEADER_BYTES]))
    if max_bytes > len(output):
        return _lz4_more_frames_into(block, output, 0, 0)
    position, written = _LZ4_MIN_HEADER_BYTES, 0
    while True:
        if position + _LZ4_WORD.size > len(block):
            raise BlockError(f"lz4 block: frame cut off at byte {position}")
        (word,) = _LZ4_WORD.unpack_from(block, position)
        position += _LZ4_WORD.size
        if word == 0:
            break
        length = word & ~_LZ4_STORED_BLOCK
        if not 0 < length <= min(len(block) - position, max_bytes):
            raise BlockError(f"lz4 block: block of {length} bytes at byte {position}")
        data = block[position : position + length]
        written += _lz4_block_into(data, output[written:], max_bytes, stored=word != length)
        position += length
    if position < len(block):
        return _lz4_more_frames_into(block, output, position, written)
    return written


def _lz4_more_frames_into(
    block: memoryview, output: memoryview, position: int, written: int
) -> int:
    return written + int(cramjam.lz4.decompress_into(block[position:], output[written:]))


def _lz4_block_into(data: memoryview, output: memoryview, max_bytes: int, *, stored: bool) -> int:
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
def _check_lz4_header(header: bytes) -> int:
    """Check the 7 bytes of a plain frame's header; gives the largest size of its blocks."""
    if header[:4] != _LZ4_MAGIC:
        raise BlockError(f"lz4 block: frame magic {header[:4].hex()}, allowed {_LZ4_MAGIC.hex()}")
    max_bytes = _LZ4_BLOCK_MAX_BYTES.get(header[5] >> 4)
    if max_bytes is None or header[5] & 0x8F:
        raise BlockError(f"lz4 block: block descriptor {header[5]:#04x}")
    checksum = _lz4_header_checksum(header[4:6])
    if header[6] != checksum:
        raise BlockError(
            f"lz4 block: header checksum mismatch: stored {header[6]:#04x}, "
            f"computed {checksum:#04x}"
        )
    return max_bytes


def with_right_header_checksum(block: memoryview) -> memoryview:
    """Copy an lz4 block of format 0, where the checksum of the frame header is wrong."""
    if len(block) < _LZ4_MIN_HEADER_BYTES:
        return block
    flags = block[4]
    at = 6
    at += 8 if flags & _LZ4_CONTENT_SIZE_FLAG else 0
    at += 4 if flags & _LZ4_DICTIONARY_FLAG else 0
    if at >= len(block):
        return block
    patched = bytearray(block)
    patched[at] = _lz4_header_checksum(bytes(block[4:at]))
    return memoryview(patched)


def _lz4_header_checksum(descriptor: bytes) -> int:
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
    for (word,) in _LZ4_WORD.iter_unpack(data[:whole]):
        value = (value + word * prime3) & mask
        value = ((value << 17 | value >> 15) & mask) * prime4 & mask
    for byte in data[whole:]:
        value = (value + byte * prime5) & mask
        value = ((value << 11 | value >> 21) & mask) * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


def _make_marker() -> tuple[Bytes, bytes]:
    """Make a secret that no record can start with, plain and as a zstd frame."""
    marker = _MARKER_PREFIX + secrets.token_bytes(_MARKER_SECRET_BYTES)
    block_header = (len(marker) << 3 | 1).to_bytes(3, "little")
    frame = _ZSTD_RAW_FRAME.pack(_ZSTD_MAGIC, 0x20, len(marker), block_header) + marker
    return np.frombuffer(bytearray(marker), np.uint8), frame


class DecompressionBuffer:
    """Memory that ordinary blocks are decompressed into, one behind the other, group by group.

    What it cannot take alone is for `block_stream`.

    Parameters
    ----------
    max_bytes : int
        No block may grow beyond this.
    """

    BYTES = WHOLE_BLOCK_BYTES
    # Decompressed bytes that a group should have: a few batches, still in the CPU's cache.
    GROUP_BYTES = 512 << 10
    _FIRST_JOINED_BYTES = 32 << 10
    _MAX_JOINED_BYTES = 256 << 10

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.joined_bytes = self._FIRST_JOINED_BYTES
        self.marker, self._marker_frame = _make_marker()
        self.data: Bytes = np.empty(0, np.uint8)
        self._view = bytes_view(self.data)
        self.used_bytes = 0

    def clear(self) -> None:
        """Forget the blocks."""
        self.used_bytes = 0
        if not len(self.data):
            self.data = np.empty(self.BYTES, np.uint8)
            self._view = bytes_view(self.data)

    def append(self, codec: int, block: memoryview, *, magic: int) -> bool:
        """Decompress a block behind those that are there.

        Returns
        -------
        bool
            False when it does not fit behind others: use those up, clear, and come again.

        Raises
        ------
        OutputFullError
            When it does not fit alone.
        BlockError, BlockTooLargeError
            Where the block is bad, or above the limit.
        """
        used = self.used_bytes
        try:
            if len(block) >= SMALL_BLOCK_BYTES and is_surely_large(codec, block):
                raise OutputFullError
            size = decompress_into(codec, block, self._view[used:], magic=magic)
        except OutputFullError:
            if not used:
                raise
            return False
        if size > self.max_bytes:
            check_block_size(size, self.max_bytes)
        self.used_bytes = used + size
        return True

    def append_joined(self, blocks: Sequence[memoryview]) -> bool:
        """Decompress zstd blocks by one call, a marker behind each, into an empty buffer.

        A fresh decoder costs more than a small block does. The caller has seen that each block is
        whole frames, so that none takes bytes of what follows. Where a block ends in the output is
        for the caller to find, by what it holds; the marker must be there. It is a secret, so a
        block cannot hold one, and it starts with what no record starts with.

        Returns
        -------
        bool
            False when a block is bad, or all of them are too large for one call: take them one by
            one.
        """
        assert not self.used_bytes
        parts = [part for block in blocks for part in (block, self._marker_frame)]
        joined = memoryview(b"".join(parts))
        try:
            self.used_bytes = decompress_into(Codec.ZSTD, joined, self._view, magic=MAGIC_V2)
        except OutputFullError:
            self.joined_bytes = max(self.joined_bytes // 8, 1)
            return False
        except BlockError:
            return False
        self.learn(len(joined))
        return True

    def learn(self, compressed_bytes: int) -> None:
        """Choose how many bytes to join next time, by what the blocks that are there came from."""
        ratio = max(self.used_bytes, 1) / max(compressed_bytes, 1)
        self.joined_bytes = min(int(self.GROUP_BYTES / ratio) + 1, self._MAX_JOINED_BYTES)
