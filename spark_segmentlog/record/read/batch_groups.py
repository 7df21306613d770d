"""Batches of format 2, decompressed some at a time, by one call where that can be."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.record.read.decoder_input import DecoderInput
from spark_segmentlog.record.types import NO_SPANS, Bools, Int64s

# Batches that are decompressed before they are decoded, at most.
_MAX_GROUP_ROWS = 1024


class BatchGroups:
    """Decompresses batches of format 2 some at a time, into memory that is used again."""

    def __init__(self, buffer: DecompressionBuffer) -> None:
        self._buffer = buffer

    def decompress(
        self, source: DecoderInput, rows: Int64s, spans: Int64s, codecs: Int64s, good: Bools
    ) -> Int64s:
        """Decompress batches from the first on, as many as fit; none when the first is bad.

        `OutputFullError` says that the first is no ordinary one.

        Parameters
        ----------
        spans : ndarray of int64, shape (n, 2)
            Where the records of each batch start and end in the buffer.
        codecs, good : ndarray
            The number of its codec, and whether its checksum is right.
        """
        codec = int(codecs[0])
        count = _first_false((codecs[:_MAX_GROUP_ROWS] == codec) & good[:_MAX_GROUP_ROWS])
        self._buffer.clear()
        if not count:
            return NO_SPANS
        found = self._buffer.append_many(codec, source.buffer, spans[:count])
        if len(found):
            return found
        return self._buffer.append_each(
            (codec, source.records(row), MAGIC_V2) for row in rows[:count].tolist()
        )


def _first_false(mask: Bools) -> int:
    """How many are true from the first on."""
    false = np.flatnonzero(~mask)
    return int(false[0]) if len(false) else len(mask)
