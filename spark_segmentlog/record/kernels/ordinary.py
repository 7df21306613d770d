"""Ordinary records of format 2, as nearly all are, written by the fewest steps.

A record without headers, with numbers of at most three bytes, and with some bytes after it and
after its room, is written here. All else, bad bytes among it, is left to the general loop, which
goes on where this one stopped; both give the same for every record.

What makes it quick (numba 0.68): whatever changes from record to record is a local variable, the
bytes of a number are told apart by branches that the CPU foresees, and what is small is copied by a
fixed number of bytes, some of those after it included.
"""

from __future__ import annotations

from spark_segmentlog.record.header_fields import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    RECORDS_COUNT,
)
from spark_segmentlog.record.jit import (
    copy_16_bytes,
    copy_64_bytes,
    copy_bytes,
    inlined,
    int64,
    load_u32,
    uint64,
)
from spark_segmentlog.record.kernels.headers import row_crc_is_good
from spark_segmentlog.record.kernels.output import (
    BODY_POSITION,
    COUNT,
    HEADERS,
    HEADERS_NULLS,
    KEY_BYTES,
    KEY_NULLS,
    RECORD,
    ROW,
    SPARK_MAX_TIMESTAMP_MS,
    SPARK_MIN_TIMESTAMP_MS,
    VALUE_BYTES,
    VALUE_NULLS,
    Outputs,
    Settings,
    headers_bytes,
    is_wanted,
)
from spark_segmentlog.record.layout import TIMESTAMP_TYPE_MASK
from spark_segmentlog.record.types import Bytes, Int64s

# Bytes that are there after all that is read or written: what is copied at once, and the numbers.
_COPIED_BYTES = 128
_SLACK_BYTES = _COPIED_BYTES + 32


@inlined
def _read_number(body: Bytes, position: int) -> tuple[int, int]:
    """A varint of up to three bytes, zigzag as it is, and the position after it; or else -1."""
    word = int64(load_u32(body, position))
    if word & 0x80 == 0:
        return word & 0x7F, position + 1
    if word & 0x8000 == 0:
        return word & 0x7F | word >> 1 & 0x3F80, position + 2
    if word & 0x800000 == 0:
        return word & 0x7F | word >> 1 & 0x3F80 | word >> 2 & 0x1FC000, position + 3
    return -1, position


@inlined
def _copy(target: Bytes, at: int, body: Bytes, position: int, length: int) -> None:
    if length <= 16:
        copy_16_bytes(target, at, body, position)
    elif length <= 64:
        copy_64_bytes(target, at, body, position)
    elif length <= 128:
        copy_64_bytes(target, at, body, position)
        copy_64_bytes(target, at + 64, body, position + 64)
    else:
        copy_bytes(target, at, body, position, length)


@inlined
def put_ordinary_records(
    raw: Bytes,
    raw_position: int,
    body: Bytes,
    table: Int64s,
    rows: Int64s,
    spans: Int64s,
    settings: Settings,
    state: Int64s,
    outputs: Outputs,
) -> None:
    """Write records from where the state stands, over all batches, as long as they are ordinary.

    The parameters are those of `decode_batches`. A batch whose checksum is wrong is left to it too.
    """
    has_key, has_value = len(outputs.key.valid) > 0, len(outputs.value.valid) > 0
    has_offset, has_timestamp = len(outputs.offset) > 0, len(outputs.timestamp) > 0
    has_type, has_headers = len(outputs.timestamp_type) > 0, len(outputs.list_valid) > 0
    key_room = len(outputs.key.data) - _COPIED_BYTES
    value_room = len(outputs.value.data) - _COPIED_BYTES
    headers_count = state[HEADERS]
    max_bytes = settings.max_bytes - headers_bytes(state)
    batch, record, position = state[ROW], state[RECORD], state[BODY_POSITION]
    first_count = count = state[COUNT]
    key_bytes, value_bytes = state[KEY_BYTES], state[VALUE_BYTES]
    key_nulls, value_nulls = state[KEY_NULLS], state[VALUE_NULLS]
    while batch < len(rows):
        header = table[rows[batch]]
        end = spans[batch, 1]
        if record == 0 and position == 0:
            if settings.check_crcs and not row_crc_is_good(raw, raw_position, header):
                break
            position = spans[batch, 0]
        base_offset, base_timestamp = header[BASE_OFFSET], header[BASE_TIMESTAMP]
        last_delta = header[LAST_OFFSET] - base_offset
        records_count, max_timestamp = header[RECORDS_COUNT], header[MAX_TIMESTAMP]
        is_append_time = header[ATTRIBUTES] & TIMESTAMP_TYPE_MASK != 0
        limit = min(end, len(body) - _SLACK_BYTES)
        while record < records_count and position < limit:
            size, at = _read_number(body, position)
            record_end = at + (size >> 1)
            timestamp_delta, at = _read_number(body, at + 1)
            offset_delta, at = _read_number(body, at)
            key_size, key_at = _read_number(body, at)
            # A size of 1 is the zigzag of -1, the length of a null.
            key_length = key_size >> 1
            value_number_at = key_at + key_length
            if value_number_at > limit:
                break
            value_size, value_at = _read_number(body, value_number_at)
            value_length = value_size >> 1
            value_end = value_at + value_length
            if (
                (size | timestamp_delta | offset_delta | key_size | value_size) < 0
                or (size | offset_delta) & 1 != 0
                or (key_size & 1 != 0 and key_size != 1)
                or (value_size & 1 != 0 and value_size != 1)
                or offset_delta >> 1 > last_delta
                or record_end > limit
                or value_end + 1 != record_end
                or body[uint64(value_end)] != 0
            ):
                break
            offset = base_offset + (offset_delta >> 1)
            timestamp = base_timestamp + ((timestamp_delta >> 1) ^ -(timestamp_delta & 1))
            if is_append_time:
                timestamp = max_timestamp
            if is_wanted(offset, timestamp, settings):
                next_key_bytes = key_bytes + (key_length if has_key else 0)
                next_value_bytes = value_bytes + (value_length if has_value else 0)
                if (
                    count == settings.max_rows
                    or next_key_bytes + next_value_bytes > max_bytes
                    or (has_key and next_key_bytes > key_room)
                    or (has_value and next_value_bytes > value_room)
                ):
                    break
                index, next_index = uint64(count), uint64(count) + uint64(1)
                if has_timestamp:
                    if timestamp < SPARK_MIN_TIMESTAMP_MS or timestamp > SPARK_MAX_TIMESTAMP_MS:
                        break
                    outputs.timestamp[index] = timestamp * 1000
                if has_offset:
                    outputs.offset[index] = offset
                if has_type:
                    outputs.timestamp_type[index] = is_append_time
                if has_key:
                    _copy(outputs.key.data, key_bytes, body, key_at, key_length)
                    outputs.key.valid[index] = key_size != 1
                    outputs.key.offsets[next_index] = next_key_bytes
                    key_nulls += key_size & 1
                if has_value:
                    _copy(outputs.value.data, value_bytes, body, value_at, value_length)
                    outputs.value.valid[index] = value_size != 1
                    outputs.value.offsets[next_index] = next_value_bytes
                    value_nulls += value_size & 1
                if has_headers:
                    outputs.list_valid[index] = 0
                    outputs.list_starts[next_index] = headers_count
                for i in range(len(outputs.entry_field_numbers)):
                    outputs.entry_fields[i, index] = header[outputs.entry_field_numbers[i]]
                key_bytes, value_bytes = next_key_bytes, next_value_bytes
                count += 1
            position = record_end
            record += 1
        if record < records_count or position != end:
            break
        batch += 1
        record = position = 0
    state[ROW] = batch
    state[RECORD], state[BODY_POSITION], state[COUNT] = record, position, count
    state[KEY_BYTES], state[VALUE_BYTES] = key_bytes, value_bytes
    state[KEY_NULLS], state[VALUE_NULLS] = key_nulls, value_nulls
    if has_headers:
        state[HEADERS_NULLS] += count - first_count
