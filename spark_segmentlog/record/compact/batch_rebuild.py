"""Batches of which compaction keeps some records: built again from a few of their records.

A batch that loses records keeps all that others rely on: its base offset and last offset delta (so
that the next offset and the producer's last sequence stay known), its producer fields, epoch, codec
and timestamp type, and the offset delta of every record that stays. Its base timestamp becomes that
of its first record, or the delete horizon, where one is set (attributes bit 6, KIP-534): the
timestamp deltas are then relative to the horizon. A batch that loses all of them may stay as a
header alone, with record count 0.

Messages of formats 0 and 1 that stay become a batch of format 2, one for each message or wrapper,
of the codec and timestamp type that it had; without a timestamp (format 0) it is CreateTime and -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_segmentlog.record.codec.codecs import block_writer, max_compressed_bytes
from spark_segmentlog.record.compact.batch_records import BatchRecords
from spark_segmentlog.record.kernels import filter as kernels
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_CODEC_MASK,
    CONTROL_MASK,
    CRC_OFFSET,
    DELETE_HORIZON_MASK,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_HEADER,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from spark_segmentlog.record.plain.batch import Record, RecordBatchHeader
from spark_segmentlog.record.plain.crc import crc32c
from spark_segmentlog.record.plain.encode import encode_record
from spark_segmentlog.record.plain.legacy import LegacyMessage, iterate_messages, parse_message
from spark_segmentlog.record.types import Bytes, ByteSource, Int64s

# The length and the timestamp delta of a record may each become longer.
_REBUILT_RECORD_EXTRA_BYTES = 20


def rebuild_batch(
    header: RecordBatchHeader,
    records: BatchRecords,
    rows: Int64s,
    *,
    delete_horizon_ms: int | None,
) -> bytes:
    """Build a batch of format 2 again from some of its records.

    Parameters
    ----------
    rows : int64 array
        Those that stay, ascending; at least one.
    delete_horizon_ms : int or None
        The horizon that the batch has from now on.
    """
    assert len(rows)
    timestamps = records.timestamp_ms[rows]
    base_timestamp = int(timestamps[0]) if delete_horizon_ms is None else delete_horizon_ms
    starts, ends = records.start[rows], records.end[rows]
    section = np.empty(
        int((ends - starts).sum()) + _REBUILT_RECORD_EXTRA_BYTES * len(rows), np.uint8
    )
    with np.errstate(over="ignore"):
        deltas = timestamps - base_timestamp
    size = kernels.copy_records(records.buffer, starts, ends, deltas, section)
    body = section[:size].data
    if header.codec_id:
        body = _compress(header.codec_id, body)
    append_time = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    return _batch_bytes(
        header,
        body,
        attributes=_attributes(header, with_horizon=delete_horizon_ms is not None),
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if append_time else int(timestamps.max()),
        records_count=len(rows),
    )


def empty_batch(header: RecordBatchHeader) -> bytes:
    """Build the header alone of a batch whose records are all gone; it keeps the last sequence."""
    return _batch_bytes(
        header,
        b"",
        attributes=_attributes(header, with_horizon=False) & ~COMPRESSION_CODEC_MASK,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        records_count=0,
    )


def convert_messages(
    buffer: Bytes, position: int, offsets: Int64s, *, delete_horizon_ms: int | None
) -> bytes:
    """Build a batch of format 2 of a message, or of some messages of a wrapper.

    Parameters
    ----------
    offsets : int64 array
        Of the messages that stay, ascending and no further apart than a batch can say; at least
        one.
    delete_horizon_ms : int or None
        The horizon that the batch gets.
    """
    wanted = frozenset(offsets.tolist())
    kept = [
        record
        for record in iterate_messages(buffer.data, position, check_crcs=False)
        if record.offset in wanted
    ]
    header = _converted_header(parse_message(buffer.data, position, check_crcs=False), kept)
    base_timestamp = header.base_timestamp if delete_horizon_ms is None else delete_horizon_ms
    body: ByteSource = b"".join(
        encode_record(
            record, offset_delta=record.offset - header.base_offset, base_timestamp=base_timestamp
        )
        for record in kept
    )
    if header.codec_id:
        body = _compress(header.codec_id, memoryview(body))
    return _batch_bytes(
        header,
        body,
        attributes=_attributes(header, with_horizon=delete_horizon_ms is not None),
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp,
        records_count=len(kept),
    )


def _converted_header(message: LegacyMessage, kept: Sequence[Record]) -> RecordBatchHeader:
    """Say in format 2 what a message, or a wrapper, of old format says of the records in it."""
    append_time = message.timestamp_type == TimestampType.LOG_APPEND_TIME
    base_offset = kept[0].offset
    return RecordBatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=message.codec_id | (TIMESTAMP_TYPE_MASK if append_time else 0),
        last_offset_delta=kept[-1].offset - base_offset,
        base_timestamp=kept[0].timestamp_ms,
        max_timestamp=max(record.timestamp_ms for record in kept),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=len(kept),
    )


def _compress(codec_id: int, data: memoryview) -> memoryview:
    output = memoryview(bytearray(max_compressed_bytes(len(data))))
    size = block_writer(codec_id)(data, output)
    return output[:size]


def _attributes(header: RecordBatchHeader, *, with_horizon: bool) -> int:
    kept = header.attributes & (
        COMPRESSION_CODEC_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK
    )
    return kept | DELETE_HORIZON_MASK if with_horizon else kept


def _batch_bytes(
    header: RecordBatchHeader,
    body: ByteSource,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    records_count: int,
) -> bytes:
    batch = bytearray(RECORD_BATCH_OVERHEAD + len(body))
    RECORD_BATCH_HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        len(batch) - LOG_OVERHEAD,
        header.partition_leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        header.last_offset - header.base_offset,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        records_count,
    )
    batch[RECORD_BATCH_OVERHEAD:] = body
    crc = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
    batch[CRC_OFFSET : CRC_OFFSET + 4] = crc.to_bytes(4, "big")
    return bytes(batch)
