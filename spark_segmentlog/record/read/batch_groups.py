"""Batches of format 2, decompressed some at a time; zstd frames by one call where that can be."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.codec.codec_kernels import whole_frames
from spark_segmentlog.record.codec.codecs import LZ4, ZSTD
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
        rows = rows[: _first_false(good[:_MAX_GROUP_ROWS])]
        codecs = source.entries[rows, fields.ATTRIBUTES] & COMPRESSION_CODEC_MASK
        zstd_rows = rows[: _first_false(codecs == ZSTD.number)]
        lz4_rows = rows[: _first_false(codecs == LZ4.number)]
        self._buffer.clear()
        together = self._decompress_together(source, zstd_rows, lz4_rows)
        if len(together):
            return together
        self._buffer.clear()
        spans = self._buffer.append_each(
            (codec, source.records(row), MAGIC_V2)
            for row, codec in zip(rows.tolist(), codecs.tolist(), strict=True)
        )
        if len(zstd_rows) > 1 and len(spans):
            alone = source.entries[rows[: len(spans)], fields.SIZE_BYTES]
            self._buffer.learn(int(alone.sum()))
        return spans

    def _decompress_together(
        self, source: DecoderInput, zstd_rows: Int64s, lz4_rows: Int64s
    ) -> Int64s:
        """Decompress batches of one codec by fewer steps; no spans when that cannot be."""
        if len(zstd_rows) > 1:
            spans = self._decompress_joined(source, zstd_rows)
        elif len(lz4_rows) > 1:
            spans = self._buffer.append_frames(source.buffer, _record_spans(source, lz4_rows))
        else:
            return _NO_SPANS
        return spans[: _first_false(spans[:, 1] - spans[:, 0] <= self._buffer.max_bytes)]

    def _decompress_joined(self, source: DecoderInput, rows: Int64s) -> Int64s:
        """Decompress zstd batches by one call."""
        scratch = self._buffer
        spans = _record_spans(source, rows)
        sizes = spans[:, 1] - spans[:, 0]
        rows = rows[: np.searchsorted(np.cumsum(sizes), scratch.joined_bytes) + 1]
        count = whole_frames(source.buffer, spans[: len(rows)])
        rows, spans = rows[:count], spans[:count]
        if count < 2 or not scratch.append_joined([source.records(row) for row in rows.tolist()]):
            return _NO_SPANS
        counts = source.entries[rows, fields.RECORDS_COUNT]
        if not split_joined(scratch.data, scratch.used_bytes, counts, scratch.marker, spans):
            return _NO_SPANS
        return spans


def _record_spans(source: DecoderInput, rows: Int64s) -> Int64s:
    """Give where the records of batches start and end in the buffer."""
    starts = source.entries[rows, fields.POSITION] - source.file_position
    ends = starts + source.entries[rows, fields.SIZE_BYTES]
    return np.column_stack((starts + RECORD_BATCH_OVERHEAD, ends))


def _first_false(mask: Bools) -> int:
    """How many are true from the first on."""
    false = np.flatnonzero(~mask)
    return int(false[0]) if len(false) else len(mask)
