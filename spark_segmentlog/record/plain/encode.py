"""A record of format 2 in plain Python, for batches that are built again one record at a time."""

from __future__ import annotations

from spark_segmentlog.record.layout import (
    NULL_LENGTH,
)
from spark_segmentlog.record.plain.batch import Record


def encode_varint(value: int) -> bytes:
    """Encode a number of up to 64 bits zigzag, base 128."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_record(record: Record, *, offset_delta: int, base_timestamp: int) -> bytes:
    """Encode one record of a batch, its length in front."""
    body = b"\x00"
    body += encode_varint(record.timestamp_ms - base_timestamp) + encode_varint(offset_delta)
    body += _encode_bytes(record.key) + _encode_bytes(record.value)
    body += encode_varint(len(record.headers))
    for header in record.headers:
        body += _encode_bytes(header.key.encode()) + _encode_bytes(header.value)
    return encode_varint(len(body)) + body


def _encode_bytes(data: bytes | None) -> bytes:
    return encode_varint(NULL_LENGTH) if data is None else encode_varint(len(data)) + data
