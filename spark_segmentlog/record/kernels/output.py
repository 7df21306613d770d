"""Arrow's buffers as the kernels write them: one record at a time, room being compared first."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from spark_segmentlog.record.jit import copy_bytes, inlined, kernel
from spark_segmentlog.record.kernels.records import RecordParts
from spark_segmentlog.record.kernels.varints import VARINT_BITS, read_varint
from spark_segmentlog.record.types import Bytes, Int32s, Int64s

# Why a decoding kernel came back.

DONE, OUTPUT_FULL, OUTPUT_SMALL, BAD_CRC, BAD_RECORD, BAD_TIMESTAMP = range(6)

# The state of a decoder, kept between calls: where it is in the input, what it has written, what a
# record needs that has no room, and what it has met that Spark cannot hold.

INPUT_FIELDS = slice(0, 3)
ROW, RECORD, BODY_POSITION = range(3)

WRITTEN_FIELDS = slice(3, 14)
(
    COUNT,
    KEY_BYTES,
    VALUE_BYTES,
    HEADERS,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    KEY_NULLS,
    VALUE_NULLS,
    HEADERS_NULLS,
    HEADER_VALUE_NULLS,
    HEADER_KEYS_NOT_ASCII,
) = range(3, 14)

(
    NEEDED_KEY_BYTES,
    NEEDED_VALUE_BYTES,
    NEEDED_HEADERS,
    NEEDED_HEADER_KEY_BYTES,
    NEEDED_HEADER_VALUE_BYTES,
    BAD_OFFSET,
    BAD_TIMESTAMP_MS,
) = range(14, 21)
STATE_FIELDS = 21

# 0001-01-01 to 9999-12-31, what Spark and Python can hold.
SPARK_MIN_TIMESTAMP_MS = -62_135_596_800_000
SPARK_MAX_TIMESTAMP_MS = 253_402_300_799_999

# What counts against the limit of bytes for the entries of one header, beside its bytes.
HEADER_ENTRY_BYTES = 9


class Settings(NamedTuple):
    """Which records are written, where an Arrow batch is cut, and what is checked.

    The first four are those of `headers.Bounds`.
    """

    start_offset: int
    end_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    max_rows: int
    max_bytes: int
    check_crcs: bool
    validate_first: bool


class BinaryBuffers(NamedTuple):
    """A binary column: offsets, data, and one byte a value that says whether it is there."""

    offsets: Int32s
    data: Bytes
    valid: Bytes


class Outputs(NamedTuple):
    """The buffers of one Arrow batch; those of a column that is not wanted have no rows.

    A kernel is handed `plain` tuples, and names them itself: numba needs half a microsecond to
    unpack each named one.

    Timestamps are microseconds. `list_starts` and `list_valid` say where the headers of a record
    start in `header_keys` and `header_values`, and whether there are any. Row `i` of
    `entry_fields` is the field `entry_field_numbers[i]` of the header table's row that the record
    lies in.
    """

    offset: Int64s
    timestamp: Int64s
    timestamp_type: Int32s
    key: BinaryBuffers
    value: BinaryBuffers
    list_starts: Int32s
    list_valid: Bytes
    header_keys: BinaryBuffers
    header_values: BinaryBuffers
    entry_fields: Int64s
    entry_field_numbers: Int64s


PlainTuple: TypeAlias = tuple[Any, ...]
"""Of `Settings` or `Outputs`."""


def plain(outputs: Outputs) -> PlainTuple:
    """Give buffers as kernels are handed them."""
    return tuple(tuple(field) if isinstance(field, tuple) else field for field in outputs)


@inlined
def named_outputs(fields: PlainTuple) -> Outputs:
    """Give `plain` buffers their names again."""
    outputs = Outputs(*fields)
    return Outputs(
        outputs.offset,
        outputs.timestamp,
        outputs.timestamp_type,
        BinaryBuffers(*outputs.key),
        BinaryBuffers(*outputs.value),
        outputs.list_starts,
        outputs.list_valid,
        BinaryBuffers(*outputs.header_keys),
        BinaryBuffers(*outputs.header_values),
        outputs.entry_fields,
        outputs.entry_field_numbers,
    )


@inlined
def is_wanted(offset: int, timestamp: int, settings: Settings) -> bool:
    """Whether a record passes the filter."""
    return bool(
        offset >= settings.start_offset
        and offset < settings.end_offset
        and timestamp >= settings.min_timestamp_ms
        and timestamp <= settings.max_timestamp_ms
    )


@inlined
def headers_bytes(state: Int64s) -> int:
    """What the headers that are written count against the limit of bytes."""
    used: int = state[HEADER_KEY_BYTES] + state[HEADER_VALUE_BYTES]
    used += HEADER_ENTRY_BYTES * state[HEADERS]
    return used


@inlined
def _put_bytes(
    column: BinaryBuffers, index: int, used: int, body: Bytes, position: int, length: int
) -> int:
    """Write one value of a binary column, room being checked; gives the bytes used after it."""
    column.offsets[index] = used
    column.valid[index] = length >= 0
    if length > 0:
        copy_bytes(column.data, used, body, position, length)
        used += length
    column.offsets[index + 1] = used
    return used


@kernel
def _put_headers(
    body: Bytes,
    position: int,
    end: int,
    count: int,
    state: Int64s,
    keys: BinaryBuffers,
    values: BinaryBuffers,
) -> None:
    """Write the headers of one record, which have been walked and for which there is room."""
    index = state[HEADERS]
    for _ in range(count):
        length, position = read_varint(body, position, end, VARINT_BITS)
        for i in range(position, position + length):
            if body[i] >= 0x80:
                state[HEADER_KEYS_NOT_ASCII] = 1
        state[HEADER_KEY_BYTES] = _put_bytes(
            keys, index, state[HEADER_KEY_BYTES], body, position, length
        )
        length, position = read_varint(body, position + length, end, VARINT_BITS)
        state[HEADER_VALUE_BYTES] = _put_bytes(
            values, index, state[HEADER_VALUE_BYTES], body, position, length
        )
        if length < 0:
            state[HEADER_VALUE_NULLS] += 1
        position += max(length, 0)
        index += 1
    state[HEADERS] = index


@inlined
def _ask_for_room(
    state: Int64s,
    outputs: Outputs,
    key_bytes: int,
    value_bytes: int,
    header_count: int,
    header_key_bytes: int,
    header_value_bytes: int,
) -> bool:
    """Whether a record does not fit into the buffers; what it needs is then in the state."""
    state[NEEDED_KEY_BYTES] = state[KEY_BYTES] + key_bytes
    state[NEEDED_VALUE_BYTES] = state[VALUE_BYTES] + value_bytes
    state[NEEDED_HEADERS] = state[HEADERS] + header_count
    state[NEEDED_HEADER_KEY_BYTES] = state[HEADER_KEY_BYTES] + header_key_bytes
    state[NEEDED_HEADER_VALUE_BYTES] = state[HEADER_VALUE_BYTES] + header_value_bytes
    return bool(
        state[NEEDED_KEY_BYTES] > len(outputs.key.data)
        or state[NEEDED_VALUE_BYTES] > len(outputs.value.data)
        or state[NEEDED_HEADERS] > len(outputs.header_values.valid)
        or state[NEEDED_HEADER_KEY_BYTES] > len(outputs.header_keys.data)
        or state[NEEDED_HEADER_VALUE_BYTES] > len(outputs.header_values.data)
    )


@inlined
def put_record(
    body: Bytes,
    offset: int,
    timestamp: int,
    timestamp_type: int,
    parts: RecordParts,
    table: Int64s,
    row: int,
    settings: Settings,
    state: Int64s,
    outputs: Outputs,
) -> int:
    """Write one record that passed the filter, or say why not.

    `row` is the one of the header table that the record lies in.
    """
    key_length = parts.key_length if len(outputs.key.valid) > 0 else 0
    value_length = parts.value_length if len(outputs.value.valid) > 0 else 0
    header_count = header_key_bytes = header_value_bytes = 0
    if len(outputs.list_valid) > 0:
        header_count = parts.headers_count
        header_key_bytes = parts.header_key_bytes
        header_value_bytes = parts.header_value_bytes
    key_bytes = max(key_length, 0)
    value_bytes = max(value_length, 0)
    count = state[COUNT]
    used = state[KEY_BYTES] + state[VALUE_BYTES] + headers_bytes(state)
    needed = used + key_bytes + value_bytes + header_key_bytes + header_value_bytes
    needed += HEADER_ENTRY_BYTES * header_count
    if count == settings.max_rows or (count > 0 and needed > settings.max_bytes):
        return OUTPUT_FULL
    if _ask_for_room(
        state,
        outputs,
        key_bytes,
        value_bytes,
        header_count,
        header_key_bytes,
        header_value_bytes,
    ):
        return OUTPUT_SMALL
    if len(outputs.timestamp) > 0:
        if timestamp < SPARK_MIN_TIMESTAMP_MS or timestamp > SPARK_MAX_TIMESTAMP_MS:
            state[BAD_OFFSET] = offset
            state[BAD_TIMESTAMP_MS] = timestamp
            return BAD_TIMESTAMP
        outputs.timestamp[count] = timestamp * 1000
    if len(outputs.offset) > 0:
        outputs.offset[count] = offset
    if len(outputs.timestamp_type) > 0:
        outputs.timestamp_type[count] = timestamp_type
    if len(outputs.key.valid) > 0:
        state[KEY_BYTES] = _put_bytes(
            outputs.key, count, state[KEY_BYTES], body, parts.key_position, key_length
        )
        state[KEY_NULLS] += key_length < 0
    if len(outputs.value.valid) > 0:
        state[VALUE_BYTES] = _put_bytes(
            outputs.value, count, state[VALUE_BYTES], body, parts.value_position, value_length
        )
        state[VALUE_NULLS] += value_length < 0
    if len(outputs.list_valid) > 0:
        outputs.list_starts[count] = state[HEADERS]
        outputs.list_valid[count] = header_count > 0
        if header_count > 0:
            _put_headers(
                body,
                parts.headers_position,
                parts.end,
                header_count,
                state,
                outputs.header_keys,
                outputs.header_values,
            )
        else:
            state[HEADERS_NULLS] += 1
        outputs.list_starts[count + 1] = state[HEADERS]
    for i in range(len(outputs.entry_field_numbers)):
        outputs.entry_fields[i, count] = table[row, outputs.entry_field_numbers[i]]
    state[COUNT] = count + 1
    return DONE
