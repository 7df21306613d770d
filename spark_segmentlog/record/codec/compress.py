"""Compressed blocks as Kafka's Java producer writes them; the other half of `compression`.

- gzip: one member.
- snappy: xerial framing in blocks of 32 KiB.
- lz4: one frame of independent blocks of 64 KiB, no content size, no checksum but the header's. The
  default level is the fast compressor, every other one the high compression one (KIP-390).
- zstd: one frame.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import cramjam
import pyarrow as pa

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.record.codec.decompress import XERIAL_MAGIC
from spark_segmentlog.record.layout import Codec

# Writes a block into the start of the output, which has room for it; gives its size.
BlockWriter = Callable[[memoryview, memoryview], int]

_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_BLOCK_LENGTH = struct.Struct(">i")

# Magic; FLG: version 01, independent blocks; BD: blocks of up to 64 KiB; checksum of FLG and BD.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_BLOCK_LENGTH = struct.Struct("<I")
_LZ4_STORED = 0x80000000
_LZ4_DEFAULT_LEVEL = 9


@dataclass(frozen=True, slots=True)
class _Levels:
    lowest: int
    highest: int
    default: int


# Kafka's CompressionType: the same bounds and defaults.
_LEVELS = {
    Codec.GZIP: _Levels(1, 9, -1),
    Codec.LZ4: _Levels(1, 17, _LZ4_DEFAULT_LEVEL),
    Codec.ZSTD: _Levels(-131072, 22, 3),
}


def codec_of(name: str) -> Codec:
    """Find a codec by the name that ``compression.type`` has for it.

    Raises
    ------
    OptionValueError
        When there is none of that name.
    """
    try:
        return Codec[name.upper()]
    except KeyError:
        allowed = ", ".join(codec.name.lower() for codec in Codec)
        raise OptionValueError(f"compression.type is {name!r}, allowed are {allowed}") from None


def block_writer(codec: Codec, level: int | None = None) -> BlockWriter:
    """Make the function that compresses the records of one batch.

    Parameters
    ----------
    codec : Codec
        Not `NONE`.
    level : int, optional
        Kafka's default of that codec where not given.

    Raises
    ------
    OptionValueError
        When the codec has no such level.
    """
    level = _checked_level(codec, level)
    if codec == Codec.GZIP:
        return lambda data, output: _put(output, 0, zlib.compress(data, level, wbits=31))
    if codec == Codec.ZSTD:
        return lambda data, output: int(cramjam.zstd.compress_into(data, output, level=level))
    if codec == Codec.SNAPPY:
        return _write_xerial
    compress = _lz4_compressor(level)
    return lambda data, output: _write_lz4_frame(compress, data, output)


def max_compressed_bytes(size: int) -> int:
    """Give the room that a block writer needs for `size` bytes, whatever the codec and the bytes.

    Snappy's own bound is the widest, ``32 + n + n / 6`` a block.
    """
    return size + size // 5 + 1024


def _checked_level(codec: Codec, level: int | None) -> int:
    name = f"compression.{codec.name.lower()}.level"
    levels = _LEVELS.get(codec)
    if levels is None:
        if level is not None:
            raise OptionValueError(f"{name} is {level}, but {codec.name.lower()} has no levels")
        return 0
    if level is None or level == levels.default:
        return levels.default
    if not levels.lowest <= level <= levels.highest:
        raise OptionValueError(
            f"{name} is {level}, allowed are {levels.lowest} to {levels.highest}"
        )
    return level


def _put(output: memoryview, at: int, data: bytes | memoryview) -> int:
    end = at + len(data)
    output[at:end] = data
    return end


def _write_xerial(data: memoryview, output: memoryview) -> int:
    output[: len(_XERIAL_HEADER)] = _XERIAL_HEADER
    at = len(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = data[start : start + _XERIAL_BLOCK_BYTES]
        length = int(cramjam.snappy.compress_raw_into(block, output[at + 4 :]))
        _XERIAL_BLOCK_LENGTH.pack_into(output, at, length)
        at += 4 + length
    return at


def _lz4_compressor(level: int) -> Callable[[memoryview], memoryview]:
    if level == _LZ4_DEFAULT_LEVEL:
        return lambda block: memoryview(cramjam.lz4.compress_block(block, store_size=False))
    codec = pa.Codec("lz4_raw", level)
    # As bytes: a memoryview of the buffer that pyarrow gives has its capacity, not its size.
    return lambda block: memoryview(codec.compress(block, asbytes=True))


def _write_lz4_frame(
    compress: Callable[[memoryview], memoryview], data: memoryview, output: memoryview
) -> int:
    output[: len(_LZ4_HEADER)] = _LZ4_HEADER
    at = len(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = compress(plain)
        stored = len(block) >= len(plain)
        length = len(plain) | _LZ4_STORED if stored else len(block)
        _LZ4_BLOCK_LENGTH.pack_into(output, at, length)
        at = _put(output, at + 4, plain if stored else block)
    _LZ4_BLOCK_LENGTH.pack_into(output, at, 0)
    return at + 4
