"""Ordinary wrappers of formats 0 and 1, decompressed and listed some at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.codec.codec import OutputFullError
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.kernels.decode import MESSAGE_FIELDS
from spark_segmentlog.record.kernels.wrappers import list_wrapped
from spark_segmentlog.record.layout import COMPRESSION_CODEC_MASK
from spark_segmentlog.record.read.decoder_input import DecoderInput
from spark_segmentlog.record.read.wrapper import wrapper_value
from spark_segmentlog.record.types import Bools, Int64s

_MAX_GROUP_MESSAGES = 8192
_MAX_GROUP_WRAPPERS = 1024


class WrapperGroups:
    """Decompresses wrappers some at a time, into memory that is used again.

    Parameters
    ----------
    buffer : DecompressionBuffer
        Holds the messages of one group.
    """

    def __init__(self, buffer: DecompressionBuffer) -> None:
        self._buffer = buffer
        self._wrappers_count = _MAX_GROUP_WRAPPERS
        self._inner: Int64s = np.empty((0, fields.HEADER_FIELDS), np.int64)
        self._messages: Int64s = np.empty((0, MESSAGE_FIELDS), np.int64)

    def open(
        self, source: DecoderInput, rows: Int64s, good: Bools, *, check_crcs: bool
    ) -> tuple[int, Int64s]:
        """Open wrappers from the first on, as many as are ordinary and fit.

        Parameters
        ----------
        good : ndarray of bool
            Which of the rows have a good checksum.
        check_crcs : bool
            Whether those of the messages are compared.

        Returns
        -------
        tuple of (int, ndarray)
            Number of wrappers, and their messages, as the kernel takes them, until the next call.
        """
        self._buffer.clear()
        try:
            spans = self._buffer.append_each(_blocks(source, rows[: self._wrappers_count], good))
        except OutputFullError:
            return 0, self._messages[:0]
        if not len(self._messages):
            self._inner = np.empty((_MAX_GROUP_MESSAGES, fields.HEADER_FIELDS), np.int64)
            self._messages = np.empty((_MAX_GROUP_MESSAGES, MESSAGE_FIELDS), np.int64)
        wrappers_count, messages_count = list_wrapped(
            self._buffer.data,
            spans,
            source.entries,
            rows,
            check_crcs,
            self._inner,
            self._messages,
        )
        self._learn(len(spans), wrappers_count)
        return wrappers_count, self._messages[:messages_count]

    def _learn(self, opened_count: int, ordinary_count: int) -> None:
        """Open fewer next time if some were opened in vain, as in a compacted log."""
        if ordinary_count < opened_count:
            self._wrappers_count = max(ordinary_count, 1)
        else:
            self._wrappers_count = min(2 * self._wrappers_count, _MAX_GROUP_WRAPPERS)


def _blocks(
    source: DecoderInput, rows: Int64s, good: Bools
) -> Iterator[tuple[int, memoryview, int]]:
    """Give codec, block and format of wrappers, up to the first that is bad."""
    for row, is_good in zip(rows.tolist(), good[: len(rows)].tolist(), strict=True):
        start, end = source.span(row)
        magic = int(source.entries[row, fields.MAGIC])
        block = wrapper_value(source.view[start:end], magic)
        if block is None or not is_good:
            return
        codec = int(source.entries[row, fields.ATTRIBUTES]) & COMPRESSION_CODEC_MASK
        yield codec, block, magic
