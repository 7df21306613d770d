"""Batches of format 2, decompressed some at a time; zstd frames by one call where that can be."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.codec.codec_kernels import whole_frames
from spark_segmentlog.record.codec.codecs import ZSTD
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.kernels.records import split_joined
from spark_segmentlog.record.layout import COMPRESSION_CODEC_MASK, MAGIC_V2, RECORD_BATCH_OVERHEAD
from spark_segmentlog.record.read.decoder_input import DecoderInput
from spark_segmentlog.record.types import Bools, Int64s

# Batches that are decompressed before they are decoded, at most.
_MAX_GROUP_ROWS = 1024
_NO_SPANS: Int64s = np.empty((0, 2), np.int64)


class BatchGroups:
    """Decompresses batches of format 2 some at a time, into memory that is used again."""

    def __init__(self, buffer: DecompressionBuffer) -> None:
        self._buffer = buffer

    def decompress(self, source: DecoderInput, rows: Int64s, good: Bools) -> Int64s:
        """Decompress batches from the first on, as many as fit; none when the first is bad.

        `OutputFullError` says that the first is no ordinary one.
        """
        self._buffer.clear()
        rows = rows[: _first_false(good[:_MAX_GROUP_ROWS])]
        codecs = source.entries[rows, fields.ATTRIBUTES] & COMPRESSION_CODEC_MASK
        zstd_rows = rows[: _first_false(codecs == ZSTD.number)]
        if len(zstd_rows) > 1:
            joined = self._decompress_joined(source, zstd_rows)
            if len(joined):
                return joined
            self._buffer.clear()
        spans = self._buffer.append_each(
            (codec, source.records(row), MAGIC_V2)
            for row, codec in zip(rows.tolist(), codecs.tolist(), strict=True)
        )
        if len(zstd_rows) > 1 and len(spans):
            alone = source.entries[rows[: len(spans)], fields.SIZE_BYTES]
            self._buffer.learn(int(alone.sum()))
        return spans

    def _decompress_joined(self, source: DecoderInput, rows: Int64s) -> Int64s:
        """Decompress zstd batches by one call; their spans, or none when that cannot be."""
        scratch = self._buffer
        sizes = source.entries[rows, fields.SIZE_BYTES] - RECORD_BATCH_OVERHEAD
        rows = rows[: np.searchsorted(np.cumsum(sizes), scratch.joined_bytes) + 1]
        if len(rows) < 2:
            return _NO_SPANS
        ends = source.entries[rows, fields.POSITION] - source.file_position
        ends += source.entries[rows, fields.SIZE_BYTES]
        spans = np.column_stack((ends - sizes[: len(rows)], ends))
        count = whole_frames(source.buffer, spans)
        rows, spans = rows[:count], spans[:count]
        if count < 2 or not scratch.append_joined([source.records(row) for row in rows.tolist()]):
            return _NO_SPANS
        counts = source.entries[rows, fields.RECORDS_COUNT]
        if not split_joined(scratch.data, scratch.used_bytes, counts, scratch.marker, spans):
            return _NO_SPANS
        return spans[: _first_false(spans[:, 1] - spans[:, 0] <= scratch.max_bytes)]


def _first_false(mask: Bools) -> int:
    """How many are true from the first on."""
    false = np.flatnonzero(~mask)
    return int(false[0]) if len(false) else len(mask)
