"""Messages of formats 0 and 1: where key and value lie, whether they may be."""

from __future__ import annotations

from spark_segmentlog.record.header_fields import ATTRIBUTES, MAGIC, POSITION, SIZE_BYTES
from spark_segmentlog.record.jit import inlined, int64, kernel, load_be32
from spark_segmentlog.record.kernels.checksum import entry_crc_is_good
from spark_segmentlog.record.kernels.records import RecordParts
from spark_segmentlog.record.kernels.varints import NOWHERE
from spark_segmentlog.record.layout import (
    COMPRESSION_CODEC_MASK,
    LEGACY_KEY_OFFSET_V0,
    LEGACY_KEY_OFFSET_V1,
    MAGIC_OFFSET,
)
from spark_segmentlog.record.types import Bytes, Int64s


@inlined
def _read_field(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Length of a key or value and where it starts; `NOWHERE` when it does not fit."""
    if position > end - 4:
        return 0, NOWHERE
    length = int64(load_be32(buffer, position))
    if length < -1 or length > end - position - 4:
        return 0, NOWHERE
    return length, position + 4


@inlined
def parse_message(buffer: Bytes, start: int, end: int) -> RecordParts:
    """Check the message at buffer[start:end] and find its parts, without copying."""
    key_offset = LEGACY_KEY_OFFSET_V1 if buffer[start + MAGIC_OFFSET] == 1 else LEGACY_KEY_OFFSET_V0
    key_length, key_position = _read_field(buffer, start + key_offset, end)
    value_length, value_position = _read_field(buffer, key_position + max(key_length, 0), end)
    if value_position + max(value_length, 0) != end:
        end = 0
    return RecordParts(
        end, 0, 0, key_position, key_length, value_position, value_length, 0, 0, 0, 0
    )


@kernel
def inner_entries_are_good(buffer: Bytes, table: Int64s, magic: int, check_crcs: bool) -> bool:
    """Whether entries that were found in a wrapper are plain messages of its format."""
    for i in range(len(table)):
        start = table[i, POSITION]
        end = start + table[i, SIZE_BYTES]
        if table[i, MAGIC] != magic or table[i, ATTRIBUTES] & COMPRESSION_CODEC_MASK != 0:
            return False
        if check_crcs and not entry_crc_is_good(buffer, start, end):
            return False
        if parse_message(buffer, start, end).end == 0:
            return False
    return True
