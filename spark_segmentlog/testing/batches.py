"""Record batches of format 2, byte by byte, good and bad ones alike.

Written in plain Python from Kafka's format pages, sharing no code with the encoder and the decoder,
so that a test has an independent opinion. Whatever a header holds can be overridden; checksums are
computed over what results, so that a batch is wrong only where a test wants it to be.

Format: https://kafka.apache.org/documentation/#recordbatch. `testing.legacy` has formats 0 and 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import crc32c

from spark_segmentlog.testing.compression import CODECS, compress

DEFAULT_TIMESTAMP_MS = 1_700_000_000_000

ATTRIBUTE_LOG_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20
ATTRIBUTE_DELETE_HORIZON = 0x40

ABORT = 0
COMMIT = 1

_V2_AFTER_CRC = struct.Struct(">hiqqqhii")
_V2_BEFORE_CRC = struct.Struct(">qiibI")
_V2_HEADER_BYTES = 61
_LEGACY_PREFIX = struct.Struct(">qi")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpec:
    """One record to be built.

    Parameters
    ----------
    key, value : bytes or None
        None and empty stay different.
    timestamp_ms : int
        Milliseconds; of a format 0 message it is dropped.
    headers : sequence of (bytes or str or None, bytes or None)
        A None name gives a header key of length -1, which no reader may take.
    offset_delta : int, optional
        Offset in its batch; the record's place in the list where not given, so gaps are possible.
    timestamp_delta : int, optional
        Written as it is; computed from the batch's base timestamp where not given.
    """

    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = DEFAULT_TIMESTAMP_MS
    headers: Sequence[tuple[bytes | str | None, bytes | None]] = ()
    offset_delta: int | None = None
    timestamp_delta: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """What the index files and snapshots of a segment need to know of one batch or message."""

    magic: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


# Varints


def unsigned_varint(value: int, *, width: int = 0) -> bytes:
    """Encode as a base 128 varint; `width` pads it to that many bytes (an overlong form)."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F or len(out) + 1 < width:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int, *, width: int = 0) -> bytes:
    """Encode zigzag, as every number of a format 2 record is; `width` as in `unsigned_varint`."""
    return unsigned_varint((value << 1) ^ (value >> 63), width=width)


# Format 2


def v2_record(
    spec: RecordSpec,
    *,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    length: int | None = None,
    header_count: int | None = None,
) -> bytes:
    """Build one record of a format 2 batch, its length in front.

    Parameters
    ----------
    offset_delta, timestamp_delta : int
        Used where the record itself names none.
    length, header_count : int, optional
        Written instead of the true ones.
    """
    if spec.offset_delta is not None:
        offset_delta = spec.offset_delta
    if spec.timestamp_delta is not None:
        timestamp_delta = spec.timestamp_delta
    body = b"\x00" + varint(timestamp_delta) + varint(offset_delta)
    body += _nullable(spec.key) + _nullable(spec.value)
    body += varint(len(spec.headers) if header_count is None else header_count)
    for name, value in spec.headers:
        body += _nullable(name.encode() if isinstance(name, str) else name) + _nullable(value)
    return varint(len(body) if length is None else length) + body


def v2_batch(
    records: Sequence[RecordSpec | bytes] = (),
    *,
    base_offset: int = 0,
    codec: str = "none",
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    last_offset_delta: int | None = None,
    count: int | None = None,
    log_append_time: bool = False,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
    attributes: int | None = None,
    partition_leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    payload: bytes | None = None,
    magic: int = 2,
    batch_length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """Build a format 2 record batch.

    Parameters
    ----------
    records : sequence of RecordSpec or bytes
        Bytes go in as they are: hostile records.
    base_offset : int
    codec : str
        One of `CODECS`.
    base_timestamp, max_timestamp : int, optional
        Milliseconds; the first and the largest record timestamp where not given, -1 without
        records.
    last_offset_delta, count : int, optional
        Those of the records where not given.
    log_append_time, transactional, control : bool
        Attribute bits.
    delete_horizon_ms : int, optional
        Sets its bit and takes the place of the base timestamp; record times stay as they are.
    attributes : int, optional
        All 16 bits, instead of those that follow from the other arguments.
    partition_leader_epoch, producer_id, producer_epoch, base_sequence : int
    payload : bytes, optional
        What stands after the header, instead of the (compressed) records.
    magic, batch_length, crc : int, optional
        Written instead of the true ones. The length counts from after itself.

    Returns
    -------
    bytes
        Header and records; the CRC is right for what they hold unless `crc` says otherwise.
    """
    specs = [spec for spec in records if isinstance(spec, RecordSpec)]
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    if base_timestamp is None:
        base_timestamp = specs[0].timestamp_ms if specs else -1
    if max_timestamp is None:
        max_timestamp = max((spec.timestamp_ms for spec in specs), default=-1)
    if last_offset_delta is None:
        last_offset_delta = max(offset_deltas(records), default=0)
    if attributes is None:
        attributes = CODECS[codec] | _attribute_bits(
            log_append_time, transactional, control, delete_horizon_ms is not None
        )
    if payload is None:
        payload = compress(codec, _v2_records(records, base_timestamp))
    checked = _V2_AFTER_CRC.pack(
        _as_int16(attributes),
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if count is None else count,
    )
    checked += payload
    head = _V2_BEFORE_CRC.pack(
        base_offset,
        9 + len(checked) if batch_length is None else batch_length,
        partition_leader_epoch,
        magic,
        crc32c.crc32c(checked) if crc is None else crc,
    )
    return head + checked


def control_batch(
    kind: int,
    *,
    base_offset: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    timestamp_ms: int = DEFAULT_TIMESTAMP_MS,
    coordinator_epoch: int = 0,
    partition_leader_epoch: int = 0,
    key_version: int = 0,
    value: bytes | None = None,
    transactional: bool | None = None,
) -> bytes:
    """Build a control batch of one record.

    Parameters
    ----------
    kind : int
        `ABORT`, `COMMIT`, 2 to 6 (KRaft), or one that Kafka does not know.
    base_offset : int
    producer_id, producer_epoch : int
    timestamp_ms : int
    coordinator_epoch, partition_leader_epoch, key_version : int
    value : bytes, optional
        Instead of an end marker's version and coordinator epoch.
    transactional : bool, optional
        True for `ABORT` and `COMMIT`, as a broker has it, where not given.
    """
    record = RecordSpec(
        key=struct.pack(">hh", key_version, kind),
        value=struct.pack(">hi", 0, coordinator_epoch) if value is None else value,
        timestamp_ms=timestamp_ms,
    )
    return v2_batch(
        [record],
        base_offset=base_offset,
        control=True,
        transactional=kind in (ABORT, COMMIT) if transactional is None else transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
    )


def _attribute_bits(
    log_append_time: bool, transactional: bool, control: bool, delete_horizon: bool
) -> int:
    return (
        ATTRIBUTE_LOG_APPEND_TIME * log_append_time
        | ATTRIBUTE_TRANSACTIONAL * transactional
        | ATTRIBUTE_CONTROL * control
        | ATTRIBUTE_DELETE_HORIZON * delete_horizon
    )


def offset_deltas(records: Sequence[RecordSpec | bytes]) -> Iterable[int]:
    """Give each record's offset in its batch: its own, or its place in the list."""
    for place, record in enumerate(records):
        if isinstance(record, RecordSpec) and record.offset_delta is not None:
            yield record.offset_delta
        else:
            yield place


def _v2_records(records: Sequence[RecordSpec | bytes], base_timestamp: int) -> bytes:
    return b"".join(
        record
        if isinstance(record, bytes)
        else v2_record(
            record, offset_delta=place, timestamp_delta=record.timestamp_ms - base_timestamp
        )
        for place, record in enumerate(records)
    )


def _nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _as_int16(value: int) -> int:
    return value - 0x10000 if value & 0x8000 and value > 0 else value


# Headers, read back


def summarize_batch(batch: bytes) -> BatchSummary | None:
    """Read back what index files need of a batch or message; None without a whole header."""
    if len(batch) < 17:
        return None
    base_offset, length = _LEGACY_PREFIX.unpack_from(batch)
    magic = batch[16]
    if magic == 2 and len(batch) >= _V2_HEADER_BYTES:
        attributes, last_delta, _, largest, producer_id, epoch, sequence, _ = (
            _V2_AFTER_CRC.unpack_from(batch, 21)
        )
        return BatchSummary(
            magic=2,
            size_bytes=12 + length,
            base_offset=base_offset,
            last_offset=base_offset + last_delta,
            max_timestamp=largest,
            attributes=attributes,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    if magic not in (0, 1) or len(batch) < 26:
        return None
    return BatchSummary(
        magic=magic,
        size_bytes=12 + length,
        base_offset=base_offset,
        last_offset=base_offset,
        max_timestamp=struct.unpack_from(">q", batch, 18)[0] if magic == 1 else -1,
        attributes=batch[17],
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
