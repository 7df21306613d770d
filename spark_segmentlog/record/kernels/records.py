"""The records of a batch of format 2: where one ends, what is in it, whether it may be."""

from __future__ import annotations

from typing import NamedTuple

from spark_segmentlog.record.jit import inlined, kernel
from spark_segmentlog.record.kernels.varints import (
    NOWHERE,
    VARINT_BITS,
    VARLONG_BITS,
    read_varint,
)
from spark_segmentlog.record.types import Bytes

_INT32_MAX = 2**31 - 1


class RecordParts(NamedTuple):
    """A record's numbers, and where its key, value and headers lie; `end` is 0 for a bad one."""

    end: int
    timestamp_delta: int
    offset_delta: int
    key_position: int
    key_length: int
    value_position: int
    value_length: int
    headers_position: int
    headers_count: int
    header_key_bytes: int
    header_value_bytes: int


@kernel
def _walk_headers(body: Bytes, position: int, end: int, count: int) -> tuple[int, int, int]:
    """Check a record's headers: position after them or `NOWHERE`, bytes of keys, of values."""
    key_bytes = 0
    value_bytes = 0
    if count < 0:
        return NOWHERE, 0, 0
    while count > 0 and position < end:
        length, position = read_varint(body, position, end, VARINT_BITS)
        if length < 0:
            return NOWHERE, 0, 0
        key_bytes += length
        length, position = read_varint(body, position + length, end, VARINT_BITS)
        if length < -1:
            return NOWHERE, 0, 0
        if length > 0:
            value_bytes += length
            position += length
        count -= 1
    if count > 0:
        return NOWHERE, 0, 0
    return position, key_bytes, value_bytes


@inlined
def parse_record(body: Bytes, position: int, limit: int, last_delta: int) -> RecordParts:
    """Check a record and find its parts, without copying."""
    length, position = read_varint(body, position, limit, VARINT_BITS)
    end = position + length
    if length < 0 or end > limit:
        return RecordParts(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    # Lengths above 32 bits need no check of their own: they point beyond the record.
    timestamp_delta, position = read_varint(body, position + 1, end, VARLONG_BITS)
    offset_delta, position = read_varint(body, position, end, VARINT_BITS)
    key_length, key_position = read_varint(body, position, end, VARINT_BITS)
    value_length, value_position = read_varint(
        body, key_position + max(key_length, 0), end, VARINT_BITS
    )
    headers_count, headers_position = read_varint(
        body, value_position + max(value_length, 0), end, VARINT_BITS
    )
    position = headers_position
    header_key_bytes = 0
    header_value_bytes = 0
    if headers_count != 0:
        position, header_key_bytes, header_value_bytes = _walk_headers(
            body, position, end, headers_count
        )
    if (
        position != end
        or key_length < -1
        or value_length < -1
        or offset_delta < 0
        or offset_delta > last_delta
    ):
        end = 0
    return RecordParts(
        end,
        timestamp_delta,
        offset_delta,
        key_position,
        key_length,
        value_position,
        value_length,
        headers_position,
        headers_count,
        header_key_bytes,
        header_value_bytes,
    )


@kernel
def whole_records(body: Bytes, start: int, end: int, count: int) -> tuple[int, int, int]:
    """How many of `count` records are whole in body[start:end], and where the last of them ends.

    The third number is what the next one needs from there on: its bytes, or a byte more than there
    are where its length is cut off, -1 for a length that cannot be, 0 where no record follows.
    """
    position = start
    for index in range(count):
        length, body_position = read_varint(body, position, end, VARINT_BITS)
        if body_position == NOWHERE and end - position < VARINT_BITS // 7:
            return index, position, end - position + 1
        if body_position == NOWHERE or length < 0 or length > _INT32_MAX:
            return index, position, -1
        if length > end - body_position:
            return index, position, body_position - position + length
        position = body_position + length
    return count, position, 0


@kernel
def good_records(body: Bytes, start: int, end: int, count: int, last_delta: int) -> tuple[int, int]:
    """How many of the `count` records of body[start:end] are good from the first on.

    The second number is where the first bad one starts, or where the last one ends, which is `end`
    unless bytes are left over.
    """
    position = start
    for index in range(count):
        next_position = parse_record(body, position, end, last_delta).end
        if next_position == 0:
            return index, position
        position = next_position
    return count, position
