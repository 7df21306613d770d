"""zstd: frames, with or without a content size, skippable ones between them; one is written."""

from __future__ import annotations

import cramjam
import numpy as np

from spark_segmentlog.record.codec import native
from spark_segmentlog.record.codec.arrow_stream import ArrowStream
from spark_segmentlog.record.codec.codec import WHOLE_BLOCK_BYTES, BlockCode, BlockWriter
from spark_segmentlog.record.codec.codec_kernels import count_full_blocks, decompress_zstd_blocks
from spark_segmentlog.record.types import NO_SPANS, Bytes, Int64s, flat_bytes

_BLOCK_BYTES = 128 << 10


def _decompress_into(block: memoryview, output: memoryview, _magic: int) -> int:
    return int(cramjam.zstd.decompress_into(block, output))


def _decompress_many(buffer: Bytes, spans: Int64s, output: Bytes, limits: Int64s) -> Int64s:
    decoder = native.zstd_decoder()
    if decoder is None:
        return NO_SPANS
    found = np.empty((len(spans), 2), np.int64)
    done = decompress_zstd_blocks(
        decoder.address, decoder.context, buffer, spans, output, limits, found
    )
    return found[:done]


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
    decompress_many=_decompress_many,
)
