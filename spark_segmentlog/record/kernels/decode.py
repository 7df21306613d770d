"""Compiled loops over record batches and messages: bytes in, Arrow's buffers out."""

from __future__ import annotations

from spark_segmentlog.record.header_fields import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    RECORDS_COUNT,
)
from spark_segmentlog.record.jit import inlined, int64, kernel
from spark_segmentlog.record.kernels.checksum import entry_crc_is_good
from spark_segmentlog.record.kernels.headers import row_crc_is_good
from spark_segmentlog.record.kernels.messages import parse_message
from spark_segmentlog.record.kernels.ordinary import put_ordinary_records
from spark_segmentlog.record.kernels.output import (
    BAD_CRC,
    BAD_RECORD,
    BODY_POSITION,
    DONE,
    RECORD,
    ROW,
    Outputs,
    PlainTuple,
    Settings,
    is_wanted,
    named_outputs,
    put_record,
)
from spark_segmentlog.record.kernels.records import good_records, parse_record
from spark_segmentlog.record.layout import TIMESTAMP_TYPE_MASK
from spark_segmentlog.record.types import Bytes, Int64s

# Columns of a message handed to `decode_messages`.

(
    MESSAGE_ROW,
    MESSAGE_START,
    MESSAGE_END,
    MESSAGE_OFFSET,
    MESSAGE_TIMESTAMP,
    MESSAGE_TIMESTAMP_TYPE,
) = range(6)
MESSAGE_FIELDS = 6


@inlined
def _decode_records(
    body: Bytes,
    end: int,
    table: Int64s,
    row: int,
    settings: Settings,
    state: Int64s,
    outputs: Outputs,
) -> int:
    """Decode the records of the batch in one row of a table from where the state stands."""
    header = table[row]
    last_delta = header[LAST_OFFSET] - header[BASE_OFFSET]
    is_append_time = header[ATTRIBUTES] & TIMESTAMP_TYPE_MASK != 0
    index = state[RECORD]
    position = state[BODY_POSITION]
    code = DONE
    while index < header[RECORDS_COUNT]:
        parts = parse_record(body, position, end, last_delta)
        if parts.end == 0:
            code = BAD_RECORD
            break
        offset = header[BASE_OFFSET] + parts.offset_delta
        timestamp = header[BASE_TIMESTAMP] + parts.timestamp_delta
        if is_append_time:
            timestamp = header[MAX_TIMESTAMP]
        if is_wanted(offset, timestamp, settings):
            code = put_record(
                body,
                offset,
                timestamp,
                int64(is_append_time),
                parts,
                table,
                row,
                settings,
                state,
                outputs,
            )
            if code != DONE:
                break
        position = parts.end
        index += 1
    state[RECORD] = index
    state[BODY_POSITION] = position
    if code == DONE and position != end:
        code = BAD_RECORD
    return code


@kernel
def decode_batches(
    raw: Bytes,
    raw_position: int,
    body: Bytes,
    table: Int64s,
    rows: Int64s,
    spans: Int64s,
    plain_settings: PlainTuple,
    state: Int64s,
    plain_outputs: PlainTuple,
) -> int:
    """Decode a run of batches of format 2 from where the state stands.

    Parameters
    ----------
    raw, raw_position
        Bytes that hold whole batches, for their checksums, and the file position of the first.
    body, spans
        Bytes that hold their records uncompressed, and their start and end for each of `rows`:
        `raw` itself, or memory that they were decompressed into.
    table, rows
        Header table, and the rows of it to decode.

    Returns
    -------
    int
        DONE, or why it stopped at row state[ROW], record state[RECORD].
    """
    settings = Settings(*plain_settings)
    outputs = named_outputs(plain_outputs)
    while True:
        if not settings.validate_first:
            put_ordinary_records(
                raw, raw_position, body, table, rows, spans, settings, state, outputs
            )
        if state[ROW] == len(rows):
            return DONE
        row = rows[state[ROW]]
        header = table[row]
        start, end = spans[state[ROW], 0], spans[state[ROW], 1]
        if state[RECORD] == 0 and state[BODY_POSITION] == 0:
            if settings.check_crcs and not row_crc_is_good(raw, raw_position, header):
                return BAD_CRC
            if settings.validate_first:
                last_delta = header[LAST_OFFSET] - header[BASE_OFFSET]
                count = header[RECORDS_COUNT]
                good, stop = good_records(body, start, end, count, last_delta)
                if good != count or stop != end:
                    state[RECORD] = good
                    state[BODY_POSITION] = stop
                    return BAD_RECORD
                if (
                    header[LAST_OFFSET] < settings.start_offset
                    or header[BASE_OFFSET] >= settings.end_offset
                ):
                    state[ROW] += 1
                    continue
            state[BODY_POSITION] = start
        code = _decode_records(body, end, table, row, settings, state, outputs)
        if code != DONE:
            return code
        state[ROW] += 1
        state[RECORD] = 0
        state[BODY_POSITION] = 0


@kernel
def decode_messages(
    buffer: Bytes,
    table: Int64s,
    messages: Int64s,
    plain_settings: PlainTuple,
    state: Int64s,
    plain_outputs: PlainTuple,
) -> int:
    """Decode a run of uncompressed messages of formats 0 and 1 from where the state stands.

    `messages` has a row a message: the row of the header table that it lies in, where it lies in
    the buffer, and its offset, timestamp and timestamp type as they result from its wrapper.
    """
    settings = Settings(*plain_settings)
    outputs = named_outputs(plain_outputs)
    while state[ROW] < len(messages):
        message = messages[state[ROW]]
        start, end = message[MESSAGE_START], message[MESSAGE_END]
        if settings.check_crcs and not entry_crc_is_good(buffer, start, end):
            return BAD_CRC
        parts = parse_message(buffer, start, end)
        if parts.end == 0:
            return BAD_RECORD
        if is_wanted(message[MESSAGE_OFFSET], message[MESSAGE_TIMESTAMP], settings):
            code = put_record(
                buffer,
                message[MESSAGE_OFFSET],
                message[MESSAGE_TIMESTAMP],
                message[MESSAGE_TIMESTAMP_TYPE],
                parts,
                table,
                message[MESSAGE_ROW],
                settings,
                state,
                outputs,
            )
            if code != DONE:
                return code
        state[ROW] += 1
    return DONE
