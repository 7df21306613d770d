"""Messages of formats 0 and 1 as the kernels take them: plain ones, and those in a wrapper.

A wrapper may hold very many messages, so they are listed piece by piece, and twice: once to check
them and to find the last offset, from which all offsets of format 1 count, and once to be decoded.
The rules are told in `legacy`, which is the plain twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.codec.block_window import BlockWindow
from spark_segmentlog.record.codec.codec import BlockError
from spark_segmentlog.record.kernels import decode as kernels
from spark_segmentlog.record.kernels.messages import inner_entries_are_good
from spark_segmentlog.record.layout import (
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_FIELD_LENGTH,
    LEGACY_KEY_OFFSET_V0,
    LEGACY_KEY_OFFSET_V1,
    MAGIC_V1,
    TIMESTAMP_TYPE_MASK,
    TimestampType,
)
from spark_segmentlog.record.plain.legacy import base_offset_in_wrapper, is_offset_in_wrapper
from spark_segmentlog.record.read.header_table import HeaderTable, StopReason, scan_headers
from spark_segmentlog.record.types import Bytes, Int64s

MAX_PIECE_ENTRIES = 1 << 15


def plain_messages(table: Int64s, rows: Int64s, file_position: int) -> Int64s:
    """List uncompressed messages; `file_position` is that of the buffer that holds them."""
    entries = table[rows]
    messages = _messages(entries, file_position)
    messages[:, kernels.MESSAGE_ROW] = rows
    append = (entries[:, fields.ATTRIBUTES] & TIMESTAMP_TYPE_MASK) != 0
    messages[:, kernels.MESSAGE_TIMESTAMP_TYPE] = np.where(
        entries[:, fields.MAGIC] == MAGIC_V1, append, TimestampType.NO_TIMESTAMP_TYPE
    )
    return messages


def wrapper_value(message: memoryview, magic: int) -> memoryview | None:
    """Compressed block of a wrapper; None when it is null, or lengths do not fit."""
    position = LEGACY_KEY_OFFSET_V1 if magic == MAGIC_V1 else LEGACY_KEY_OFFSET_V0
    width = LEGACY_FIELD_LENGTH.size
    key_length = LEGACY_FIELD_LENGTH.unpack_from(message, position)[0]
    position += width + max(key_length, 0)
    if key_length < -1 or position + width > len(message):
        return None
    value_length = LEGACY_FIELD_LENGTH.unpack_from(message, position)[0]
    if value_length != len(message) - position - width:
        return None
    return message[position + width :]


@dataclass(slots=True)
class OpenWrapper:
    """A wrapper whose messages are decompressed, all at once or piece by piece.

    Parameters
    ----------
    header : ndarray of int64
        The wrapper's row of its header table.

    Attributes
    ----------
    first_offset, last_offset : int
        Of its messages, known once they were checked.
    """

    header: Int64s
    window: BlockWindow
    first_offset: int = -1
    last_offset: int = -1
    _only: HeaderTable | None = None
    _base_offset: int = 0

    @property
    def data(self) -> Bytes:
        """Memory that holds the messages which were listed last."""
        return self.window.data

    def check(self, *, check_crcs: bool) -> None:
        """Check all messages; `messages` may be asked for only then.

        Raises
        ------
        BlockError, BlockTooLargeError
            Where the block or a message is bad.
        """
        magic = int(self.header[fields.MAGIC])
        first, largest, last = -1, -1, -1
        for piece in self._pieces():
            if not inner_entries_are_good(self.data, piece.entries, magic, check_crcs):
                raise BlockError("a message in it has a wrong checksum, or lengths beyond its end")
            first = int(piece.last_offset[0]) if first < 0 else first
            last = int(piece.last_offset[-1])
            largest = max(largest, int(piece.last_offset.max()))
        wrapper_offset = int(self.header[fields.LAST_OFFSET])
        self._base_offset = base_offset_in_wrapper(magic, wrapper_offset, last)
        if last < 0 or self._base_offset < 0:
            raise BlockError("it holds no messages, or more than its offset allows")
        if not is_offset_in_wrapper(self._base_offset + largest, wrapper_offset):
            raise BlockError("a message in it has a larger offset than the wrapper")
        self.first_offset = self._base_offset + first
        self.last_offset = self._base_offset + last

    @property
    def is_as_expected(self) -> bool:
        """Whether its messages have the offsets that its header makes one expect."""
        expected = (self.header[fields.BASE_OFFSET], self.header[fields.LAST_OFFSET])
        return (self.first_offset, self.last_offset) == expected

    def messages(self, row: int) -> Iterator[Int64s]:
        """List the messages, piece by piece, with offsets and times as the wrapper makes them.

        `row` is the wrapper's in its header table. Those below the wrapper's first offset, as that
        table has it, were met before it.
        """
        for piece in self._pieces():
            messages = _messages(piece.entries, 0)
            messages[:, kernels.MESSAGE_ROW] = row
            messages[:, kernels.MESSAGE_OFFSET] += self._base_offset
            kind = self._timestamp_type()
            messages[:, kernels.MESSAGE_TIMESTAMP_TYPE] = kind
            if kind is TimestampType.LOG_APPEND_TIME:
                messages[:, kernels.MESSAGE_TIMESTAMP] = self.header[fields.MAX_TIMESTAMP]
            yield messages[messages[:, kernels.MESSAGE_OFFSET] >= self.header[fields.BASE_OFFSET]]

    def _timestamp_type(self) -> TimestampType:
        if self.header[fields.MAGIC] != MAGIC_V1:
            return TimestampType.NO_TIMESTAMP_TYPE
        append = self.header[fields.ATTRIBUTES] & TIMESTAMP_TYPE_MASK
        return TimestampType.LOG_APPEND_TIME if append else TimestampType.CREATE_TIME

    def _pieces(self) -> Iterator[HeaderTable]:
        """Walk the messages from the first on; positions are those in `data`."""
        if self._only is not None:
            yield self._only
            return
        window = self.window
        window.rewind()
        window.fill()
        if window.is_whole and (piece := self._scan()).stop is StopReason.END and len(piece):
            self._only = piece
            yield piece
            return
        while window.hold(1):
            piece = self._scan()
            if len(piece):
                yield piece
                window.start = piece.end_position
            if piece.stop is StopReason.INCOMPLETE:
                window.fill()
                if not window.hold(piece.needed_bytes or HEADER_SIZE_UP_TO_MAGIC):
                    raise BlockError("its last message is cut off")
            elif piece.stop not in (StopReason.END, StopReason.FULL):
                raise BlockError("its bytes are no message")

    def _scan(self) -> HeaderTable:
        window = self.window
        return scan_headers(
            window.data, window.start, window.end, file_position=0, max_entries=MAX_PIECE_ENTRIES
        )


def _messages(entries: Int64s, file_position: int) -> Int64s:
    messages = np.empty((len(entries), kernels.MESSAGE_FIELDS), np.int64)
    starts = entries[:, fields.POSITION] - file_position
    messages[:, kernels.MESSAGE_START] = starts
    messages[:, kernels.MESSAGE_END] = starts + entries[:, fields.SIZE_BYTES]
    messages[:, kernels.MESSAGE_OFFSET] = entries[:, fields.LAST_OFFSET]
    messages[:, kernels.MESSAGE_TIMESTAMP] = entries[:, fields.MAX_TIMESTAMP]
    return messages
