"""Record batches and messages, byte by byte: formats 0, 1 and 2, good and bad ones alike.

Written in plain Python from Kafka's format pages, sharing no code with the encoder and the decoder,
so that a test has an independent opinion. Whatever a header holds can be overridden; checksums are
computed over what results, so that a batch is wrong only where a test wants it to be.

Formats: https://kafka.apache.org/documentation/#recordbatch (2) and #messageset (0 and 1).
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cramjam
import crc32c

__all__ = [
    "ABORT",
    "ATTRIBUTE_CONTROL",
    "ATTRIBUTE_DELETE_HORIZON",
    "ATTRIBUTE_LOG_APPEND_TIME",
    "ATTRIBUTE_TRANSACTIONAL",
    "CODECS",
    "COMMIT",
    "DEFAULT_TIMESTAMP_MS",
    "BatchSummary",
    "RecordSpec",
    "compress",
    "control_batch",
    "legacy_message",
    "legacy_message_set",
    "legacy_wrapper",
    "summarize_batch",
    "unsigned_varint",
    "v2_batch",
    "v2_record",
    "varint",
]

DEFAULT_TIMESTAMP_MS = 1_700_000_000_000

ATTRIBUTE_LOG_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20
ATTRIBUTE_DELETE_HORIZON = 0x40

ABORT = 0
COMMIT = 1

# Names that `codec=` takes, and the number that goes into the attributes.
CODECS = {
    "none": 0,
    "gzip": 1,
    "snappy": 2,
    "snappy-raw": 2,
    "lz4": 3,
    "lz4-legacy-checksum": 3,
    "zstd": 4,
    "zstd-content-size": 4,
    "zstd-frames": 4,
    "zstd-skippable": 4,
}

_V2_AFTER_CRC = struct.Struct(">hiqqqhii")
_V2_BEFORE_CRC = struct.Struct(">qiibI")
_V2_HEADER_BYTES = 61
_LEGACY_PREFIX = struct.Struct(">qi")

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_MAGIC = 0x184D2204
_LZ4_BLOCK_BYTES = 64 * 1024
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50


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
    spec : RecordSpec
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
        last_offset_delta = max(_offset_deltas(records), default=0)
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


def _offset_deltas(records: Sequence[RecordSpec | bytes]) -> Iterable[int]:
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


# Formats 0 and 1


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
    offset : int
    key, value : bytes or None
        The value is not compressed here: see `legacy_wrapper`.
    timestamp_ms : int
    codec : str
        Only sets the attribute bits.
    log_append_time : bool
    attributes, size, crc : int, optional
        Written instead of the true ones.
    """
    if attributes is None:
        attributes = CODECS[codec] | ATTRIBUTE_LOG_APPEND_TIME * log_append_time
    checked = struct.pack(">bb", magic, attributes)
    if magic != 0:
        checked += struct.pack(">q", timestamp_ms)
    checked += _nullable32(key) + _nullable32(value)
    body = struct.pack(">I", zlib.crc32(checked) if crc is None else crc) + checked
    return _LEGACY_PREFIX.pack(offset, len(body) if size is None else size) + body


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
    magic : int
    inner : bytes
        Messages one after another; their offsets are absolute in format 0, relative in format 1.
    offset : int
        That of the last message inside.
    codec : str
        One of `CODECS`. Brokers before 0.10 wrote ``lz4-legacy-checksum`` in format 0.
    timestamp_ms : int
        Of format 1: the largest one inside, or the broker's with `log_append_time`.
    log_append_time : bool
    key : bytes, optional
    crc : int, optional
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
    codec : str
    log_append_time_ms : int, optional
        Stamps the wrapper (or each message) with the broker's time; format 1 only.
    """
    if any(record.headers for record in records):
        raise ValueError("messages of format 0 and 1 hold no headers")
    deltas = list(_offset_deltas(records))
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


def _nullable32(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


# Codecs


def compress(codec: str, data: bytes) -> bytes:
    """Compress as the producers of the field did.

    ``snappy`` is xerial's framing in blocks of 32 KiB, ``snappy-raw`` one bare block; ``lz4`` a
    frame of independent 64 KiB blocks, ``lz4-legacy-checksum`` one whose header checksum covers the
    magic too (KAFKA-3160); ``zstd`` a frame without content size, ``zstd-content-size`` one with
    it, ``zstd-frames`` two frames, ``zstd-skippable`` a frame and a skippable one.
    """
    match codec:
        case "none":
            return data
        case "gzip":
            return gzip.compress(data, mtime=0)
        case "snappy":
            return _xerial(data)
        case "snappy-raw":
            return bytes(cramjam.snappy.compress_raw(data))
        case "lz4":
            return _lz4_frame(data, checksum_from=4)
        case "lz4-legacy-checksum":
            return _lz4_frame(data, checksum_from=0)
        case "zstd":
            return _zstd_stream(data)
        case "zstd-content-size":
            return bytes(cramjam.zstd.compress(data))
        case "zstd-frames":
            middle = len(data) // 2
            return _zstd_stream(data[:middle]) + _zstd_stream(data[middle:])
        case "zstd-skippable":
            skippable = struct.pack("<II", _ZSTD_SKIPPABLE_MAGIC, 5) + b"extra"
            return _zstd_stream(data) + skippable
    raise ValueError(f"codec {codec!r}: one of {', '.join(CODECS)}")


def _xerial(data: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def _lz4_frame(data: bytes, *, checksum_from: int) -> bytes:
    # FLG: version 01, independent blocks. BD: blocks of at most 64 KiB.
    head = struct.pack("<IBB", _LZ4_MAGIC, 0x60, 0x40)
    out = bytearray(head)
    out.append(_xxh32(head[checksum_from:]) >> 8 & 0xFF)
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += struct.pack("<I", len(block)) + block
        else:
            out += struct.pack("<I", len(plain) | 0x80000000) + plain
    return bytes(out) + struct.pack("<I", 0)


def _xxh32(data: bytes) -> int:
    """XXH32 of fewer than 16 bytes with seed 0: a frame descriptor is never longer."""
    mask = 0xFFFFFFFF
    prime1, prime2, prime3, prime4, prime5 = (
        2654435761,
        2246822519,
        3266489917,
        668265263,
        374761393,
    )
    value = (prime5 + len(data)) & mask
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = (value + word * prime3) & mask
        value = (value << 17 | value >> 15) & mask
        value = value * prime4 & mask
    for byte in data[whole:]:
        value = (value + byte * prime5) & mask
        value = (value << 11 | value >> 21) & mask
        value = value * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


def _zstd_stream(data: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())


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
