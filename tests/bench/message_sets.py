"""Records in message format 1, as brokers of Kafka 0.10 kept them, made without the library.

An uncompressed record is a message, and a batch, of its own. A compressed message holds the
messages of its batch, whose offsets count from 0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence

KeyAndValue = tuple[bytes, bytes]
Compress = Callable[[bytes], bytes]

MAGIC = 1
# offset, size, crc
_LOG_HEADER = struct.Struct(">qiI")
# magic, attributes, timestamp, which the crc covers with all that follows
_MESSAGE_HEADER = struct.Struct(">bbq")
_LENGTH = struct.Struct(">i")
_NULL_KEY = _LENGTH.pack(-1)
_CRC_BYTES = 4


def message(offset: int, timestamp_ms: int, record: KeyAndValue) -> bytes:
    """Write one uncompressed message."""
    key, value = record
    content = _LENGTH.pack(len(key)) + key + _LENGTH.pack(len(value)) + value
    return _framed(offset, 0, timestamp_ms, content)


def wrapper(
    base_offset: int,
    timestamp_ms: int,
    records: Sequence[KeyAndValue],
    codec_id: int,
    compress: Compress,
) -> bytes:
    """Write one compressed message around records a millisecond apart."""
    inner = b"".join(
        message(number, timestamp_ms + number, record) for number, record in enumerate(records)
    )
    value = compress(inner)
    content = _NULL_KEY + _LENGTH.pack(len(value)) + value
    last = len(records) - 1
    return _framed(base_offset + last, codec_id, timestamp_ms + last, content)


def _framed(offset: int, attributes: int, timestamp_ms: int, content: bytes) -> bytes:
    covered = _MESSAGE_HEADER.pack(MAGIC, attributes, timestamp_ms) + content
    return _LOG_HEADER.pack(offset, len(covered) + _CRC_BYTES, zlib.crc32(covered)) + covered
