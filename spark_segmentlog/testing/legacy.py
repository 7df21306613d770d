"""Messages of formats 0 and 1, byte by byte, good and bad ones alike: single, compressed, in sets.

Format: https://kafka.apache.org/documentation/#messageset. `testing.batches` has format 2.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from spark_segmentlog.testing.batches import (
    ATTRIBUTE_LOG_APPEND_TIME,
    DEFAULT_TIMESTAMP_MS,
    RecordSpec,
    offset_deltas,
)
from spark_segmentlog.testing.compression import CODECS, compress


def legacy_message(
    magic: int,
    *,
    offset: int,
    key: bytes | None = None,
    value: bytes | None = None,
    timestamp_ms: int = DEFAULT_TIMESTAMP_MS,
    codec: str = "none",
    log_append_time: bool = False,
    attributes: int | None = None,
    size: int | None = None,
    crc: int | None = None,
) -> bytes:
    """Build one message of format 0 or 1 (format 0 has no timestamp).

    Parameters
    ----------
    magic : int
        0 or 1; another value is written with the layout of format 1.
    key, value : bytes or None
        The value is not compressed here: see `legacy_wrapper`.
    codec : str
        Only sets the attribute bits.
    attributes, size, crc : int, optional
        Written instead of the true ones.
    """
    if attributes is None:
        attributes = CODECS[codec] | ATTRIBUTE_LOG_APPEND_TIME * log_append_time
    checked = struct.pack(">bb", magic, attributes)
    if magic != 0:
        checked += struct.pack(">q", timestamp_ms)
    checked += _nullable(key) + _nullable(value)
    body = struct.pack(">I", zlib.crc32(checked) if crc is None else crc) + checked
    return struct.pack(">qi", offset, len(body) if size is None else size) + body


def legacy_wrapper(
    magic: int,
    inner: bytes,
    *,
    offset: int,
    codec: str,
    timestamp_ms: int = DEFAULT_TIMESTAMP_MS,
    log_append_time: bool = False,
    key: bytes | None = None,
    crc: int | None = None,
) -> bytes:
    """Build a compressed message set: a message whose value holds the compressed bytes of `inner`.

    Parameters
    ----------
    inner : bytes
        Messages one after another; their offsets are absolute in format 0, relative in format 1.
    offset : int
        That of the last message inside.
    codec : str
        One of `CODECS`. Brokers before 0.10 wrote ``lz4-legacy-checksum`` in format 0.
    timestamp_ms : int
        Of format 1: the largest one inside, or the broker's with `log_append_time`.
    """
    return legacy_message(
        magic,
        offset=offset,
        key=key,
        value=compress(codec, inner),
        timestamp_ms=timestamp_ms,
        codec=codec,
        log_append_time=log_append_time,
        crc=crc,
    )


def legacy_message_set(
    magic: int,
    records: Sequence[RecordSpec],
    *,
    base_offset: int = 0,
    codec: str = "none",
    log_append_time_ms: int | None = None,
) -> bytes:
    """Build records as a broker of that time stored them: plain messages, or one wrapper.

    Parameters
    ----------
    magic : int
        0 or 1.
    records : sequence of RecordSpec
        Headers cannot be held and are refused.
    base_offset : int
        Offset of the first record; `offset_delta` of each counts from here.
    log_append_time_ms : int, optional
        Stamps the wrapper (or each message) with the broker's time; format 1 only.
    """
    if any(record.headers for record in records):
        raise ValueError("messages of format 0 and 1 hold no headers")
    deltas = list(offset_deltas(records))
    relative = codec != "none" and magic == 1
    shift = 0 if relative else base_offset
    append_time = log_append_time_ms is not None and codec == "none"
    inner = b"".join(
        legacy_message(
            magic,
            offset=shift + delta,
            key=record.key,
            value=record.value,
            timestamp_ms=log_append_time_ms
            if log_append_time_ms is not None and codec == "none"
            else record.timestamp_ms,
            log_append_time=append_time,
        )
        for record, delta in zip(records, deltas, strict=True)
    )
    if codec == "none":
        return inner
    largest = max(record.timestamp_ms for record in records)
    return legacy_wrapper(
        magic,
        inner,
        offset=base_offset + deltas[-1],
        codec=codec,
        timestamp_ms=largest if log_append_time_ms is None else log_append_time_ms,
        log_append_time=log_append_time_ms is not None,
    )


def _nullable(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
