"""zstd: frames, with or without a content size, skippable ones between them; one is written."""

from __future__ import annotations

import struct

import cramjam
import numpy as np

from spark_segmentlog.record.codec.arrow_stream import ArrowStream
from spark_segmentlog.record.codec.codec import WHOLE_BLOCK_BYTES, BlockCode, BlockWriter
from spark_segmentlog.record.codec.codec_kernels import count_full_blocks
from spark_segmentlog.record.types import flat_bytes

_BLOCK_BYTES = 128 << 10
_MAGIC = b"\x28\xb5\x2f\xfd"
# A frame of a single segment and a raw last block, its content size in one byte.
_RAW_FRAME = struct.Struct("<4sBB3s")


def raw_frame(data: bytes) -> bytes:
    """Make a frame that holds up to 255 bytes as they are."""
    block_header = (len(data) << 3 | 1).to_bytes(3, "little")
    return _RAW_FRAME.pack(_MAGIC, 0x20, len(data), block_header) + data


def _decompress_into(block: memoryview, output: memoryview, _magic: int) -> int:
    return int(cramjam.zstd.decompress_into(block, output))


def _is_surely_large(block: memoryview) -> bool:
    data = flat_bytes(np.frombuffer(block, np.uint8))
    return count_full_blocks(data) * _BLOCK_BYTES >= WHOLE_BLOCK_BYTES


def _writer(level: int) -> BlockWriter:
    return lambda data, output: int(cramjam.zstd.compress_into(data, output, level=level))


CODE = BlockCode(
    decompress_into=_decompress_into,
    open_stream=lambda block, _magic: ArrowStream("zstd", block),
    is_surely_large=_is_surely_large,
    writer=_writer,
)
