"""The encoder in plain Python: the same bytes, one record at a time.

It says what the kernels have to do, in the order of the format's fields; tests hold the two side
by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import crc32c

from spark_segmentlog.errors import RecordTooLargeError
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_HEADER,
    RECORD_BATCH_OVERHEAD,
)
from spark_segmentlog.record.plain.batch import Record
from spark_segmentlog.record.plain.encode import encode_record


def cut_batches(
    records: Sequence[Record], *, batch_limit: int, record_limit: int
) -> list[list[bytes]]:
    """Cut records into batches, as lists of encoded records.

    Raises
    ------
    RecordTooLargeError
        For the first record that alone makes a batch above `record_limit`.
    """
    batches: list[list[bytes]] = []
    base_timestamp, size = 0, 0
    for place, record in enumerate(records):
        if batches:
            data = encode_record(
                record, offset_delta=len(batches[-1]), base_timestamp=base_timestamp
            )
            if size + len(data) <= batch_limit:
                batches[-1].append(data)
                size += len(data)
                continue
        base_timestamp = record.timestamp_ms
        data = encode_record(record, offset_delta=0, base_timestamp=base_timestamp)
        size = RECORD_BATCH_OVERHEAD + len(data)
        if size > record_limit:
            raise RecordTooLargeError(f"row {place}: {size} bytes, allowed are {record_limit}")
        batches.append([data])
    return batches


def encode_batch(
    records: Sequence[Record], encoded: Sequence[bytes], *, base_offset: int, attributes: int
) -> bytes:
    """Put the header in front of the encoded records of one batch; not compressed."""
    payload = b"".join(encoded)
    size = RECORD_BATCH_OVERHEAD + len(payload)
    timestamps = [record.timestamp_ms for record in records]

    def header(crc: int) -> bytes:
        return RECORD_BATCH_HEADER.pack(
            base_offset,
            size - LOG_OVERHEAD,
            0,
            MAGIC_V2,
            crc,
            attributes,
            len(records) - 1,
            timestamps[0],
            max(timestamps),
            NO_PRODUCER_ID,
            NO_PRODUCER_EPOCH,
            NO_SEQUENCE,
            len(records),
        )

    return header(crc32c.crc32c(header(0)[ATTRIBUTES_OFFSET:] + payload)) + payload


def encode_plainly(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    batch_limit: int,
    record_limit: int,
    attributes: int = 0,
) -> bytes:
    """Encode records as `RecordBatchEncoder` does without compression; their offsets are not read.

    Parameters
    ----------
    records : sequence of Record
    base_offset : int
        Offset of the first.
    batch_limit, record_limit : int
        Largest batch of several records, and of one.
    attributes : int
        Of every batch.
    """
    out = b""
    done = 0
    for encoded in cut_batches(records, batch_limit=batch_limit, record_limit=record_limit):
        members = records[done : done + len(encoded)]
        out += encode_batch(members, encoded, base_offset=base_offset + done, attributes=attributes)
        done += len(encoded)
    return out
