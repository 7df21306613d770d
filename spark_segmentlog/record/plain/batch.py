"""Record batches of format 2, plainly: a header of 61 bytes, then records.

The header is the truth for offsets: a record's offset is the base offset plus its own delta, never
an index, and the next batch starts after base + last offset delta, however many records
compaction left. A record's timestamp is the base timestamp plus its delta, or, with LogAppendTime,
the batch's maximum; with the delete-horizon bit the base timestamp is that horizon and the deltas
still add up to it (KIP-534). Null is length -1, in key, value and header value; no other negative
length is legal, and a header key is never null.

This is the plain twin of the kernels: slower by far, and the one that words the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from spark_segmentlog.errors import (
    CorruptRecordError,
    CrcMismatchError,
    DecompressedSizeError,
    DecompressionError,
    InvalidBatchError,
    InvalidRecordError,
)
from spark_segmentlog.record.codec.block_window import NO_LIMIT, BlockWindow, open_window
from spark_segmentlog.record.codec.codec import BlockError, BlockTooLargeError
from spark_segmentlog.record.codec.codecs import unknown_codec_reason
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    NULL_LENGTH,
    RECORD_BATCH_HEADER,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from spark_segmentlog.record.plain.crc import crc32c
from spark_segmentlog.record.plain.varint import (
    MAX_VARINT_BYTES,
    VarintError,
    read_varint,
    read_varlong,
)
from spark_segmentlog.record.types import Bytes, ByteSource, bytes_view

_Error = TypeVar("_Error", bound=CorruptRecordError)


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """One header of a record; a value may be null, a key may not."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of any format. `headers` is empty for one without headers."""

    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatchHeader:
    """The first 61 bytes of a batch, field by field."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @classmethod
    def unpack(cls, buffer: ByteSource | Bytes, position: int = 0) -> RecordBatchHeader:
        """Read the fields as they are, unchecked."""
        names = cls.__dataclass_fields__
        values = RECORD_BATCH_HEADER.unpack_from(bytes_view(buffer), position)
        return cls(**dict(zip(names, values, strict=True)))

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch, offset and length fields included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Last offset of the batch as it was first written (inclusive).

        A producer library left the delta 0 whatever the number of records, each of which still has
        an offset of its own.
        """
        return self.base_offset + max(self.last_offset_delta, self.records_count - 1)

    @property
    def next_offset(self) -> int:
        """First offset after the batch."""
        return self.last_offset + 1

    @property
    def codec_id(self) -> int:
        """Number of the codec, also one that is unknown."""
        return self.attributes & COMPRESSION_CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps of its records."""
        append = self.attributes & TIMESTAMP_TYPE_MASK
        return TimestampType.LOG_APPEND_TIME if append else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether its records are markers, which are never rows."""
        return bool(self.attributes & CONTROL_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones in it may go, if compaction has set that."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None


def parse_record_batch_header(
    buffer: ByteSource, position: int = 0, *, source: str = "buffer", file_position: int = 0
) -> RecordBatchHeader:
    """Parse and check the header of a batch of format 2.

    Parameters
    ----------
    buffer : bytes-like
        Holds at least the header.
    position : int
        Index of the batch in `buffer`.
    file_position : int
        Position in the file of the first byte of `buffer`.

    Raises
    ------
    InvalidBatchError
        When the bytes are too few, or a field has a value that cannot be.
    """
    place = file_position + position
    if len(buffer) - position < RECORD_BATCH_OVERHEAD:
        available = len(buffer) - position
        reason = f"record batch header of {available} bytes, {RECORD_BATCH_OVERHEAD} are needed"
        raise InvalidBatchError(reason, source=source, position=place)
    header = RecordBatchHeader.unpack(buffer, position)
    reason = invalid_header_reason(header)
    if reason:
        raise InvalidBatchError(
            reason, source=source, position=place, base_offset=header.base_offset
        )
    return header


def invalid_header_reason(header: RecordBatchHeader) -> str:
    """Say what cannot be in a header; empty when all can."""
    if header.magic != MAGIC_V2:
        return f"magic {header.magic}, allowed {MAGIC_V2}"
    if header.batch_length < MIN_BATCH_LENGTH:
        return f"batch length {header.batch_length}, at least {MIN_BATCH_LENGTH} is needed"
    if header.base_offset < 0:
        return f"base offset {header.base_offset} is negative"
    if header.last_offset_delta < 0:
        return f"last offset delta {header.last_offset_delta} is negative"
    if header.last_offset >= INT64_MAX:
        return f"last offset {header.last_offset} is beyond 64 bits"
    if header.records_count < 0:
        return f"record count {header.records_count} is negative"
    return ""


def iterate_records(
    buffer: ByteSource,
    position: int = 0,
    *,
    source: str = "buffer",
    file_position: int = 0,
    check_crcs: bool = True,
    max_decompressed_bytes: int = NO_LIMIT,
    first: tuple[int, int] = (0, 0),
) -> Iterator[Record]:
    """Yield the records of one batch, control records included.

    Parameters
    ----------
    buffer, position, source, file_position
        As of `parse_record_batch_header`; `buffer` holds the whole batch.
    check_crcs : bool
        Whether the checksum is compared.
    max_decompressed_bytes : int
        Limit on the size of the decompressed records; they are read piece by piece.
    first : tuple of (int, int)
        Number of the record to start with, and where it starts in the uncompressed records: for
        those who know that all before it are good.

    Raises
    ------
    CorruptRecordError
        One of its subclasses, before or between records.
    """
    header = parse_record_batch_header(buffer, position, source=source, file_position=file_position)
    place = BatchPlace(source, file_position + position, header.base_offset, header.size_bytes)
    end = position + header.size_bytes
    if end > len(buffer):
        reason = f"record batch of {header.size_bytes} bytes, {len(buffer) - position} are there"
        raise place.error(InvalidBatchError, reason)
    view = memoryview(buffer)
    if check_crcs:
        place.check_crc(
            "record batch", header.crc, crc32c(view[position + ATTRIBUTES_OFFSET : end])
        )
    body = view[position + RECORD_BATCH_OVERHEAD : end]
    if not header.codec_id:
        yield from _iterate_body(body, header, place, *first)
        return
    with place.telling_block_errors():
        window = place.open_block(header.codec_id, MAGIC_V2, body, max_decompressed_bytes)
        yield from _iterate_window(window, header, place, *first)


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where a batch or message lies, for errors."""

    source: str
    position: int
    base_offset: int
    length: int

    def error(self, kind: type[_Error], reason: str) -> _Error:
        """Make an error that names this place."""
        return kind(
            reason,
            source=self.source,
            position=self.position,
            base_offset=self.base_offset,
            length=self.length,
        )

    def check_crc(self, what: str, stored: int, computed: int) -> None:
        """Compare two checksums."""
        if stored != computed:
            reason = f"{what} crc mismatch: stored {stored:#010x}, computed {computed:#010x}"
            raise self.error(CrcMismatchError, reason)

    def open_block(
        self, codec_id: int, magic: int, block: memoryview, max_bytes: int
    ) -> BlockWindow:
        """Start to decompress the records of a batch or wrapper."""
        self.check_codec(codec_id, magic)
        return open_window(codec_id, block, magic=magic, max_bytes=max_bytes)

    @contextmanager
    def telling_block_errors(self) -> Iterator[None]:
        """Turn what is wrong with a block into errors that name this place."""
        try:
            yield
        except BlockError as error:
            raise self.error(DecompressionError, str(error)) from error
        except BlockTooLargeError as error:
            raise self.error(DecompressedSizeError, str(error)) from error

    def check_codec(self, codec_id: int, magic: int) -> None:
        """Refuse a codec that this format does not have."""
        reason = unknown_codec_reason(codec_id, magic)
        if reason:
            raise self.error(InvalidBatchError, reason)


def _iterate_body(
    body: memoryview, header: RecordBatchHeader, place: BatchPlace, first: int, position: int
) -> Iterator[Record]:
    for index in range(first, header.records_count):
        try:
            record, position = _read_record(body, position, header)
        except VarintError as error:
            raise place.error(InvalidRecordError, f"record {index}: {error}") from error
        yield record
    if position != len(body):
        raise place.error(InvalidRecordError, _left_over(header, len(body) - position))


def _left_over(header: RecordBatchHeader, count: int | None = None) -> str:
    bytes_text = "bytes" if count is None else f"{count} bytes"
    return f"{bytes_text} are left over after the {header.records_count} records that are declared"


def _iterate_window(
    window: BlockWindow, header: RecordBatchHeader, place: BatchPlace, first: int, position: int
) -> Iterator[Record]:
    window.skip(position)
    for index in range(first, header.records_count):
        try:
            _hold_record(window)
            body = bytes_view(window.data[: window.end])
            record, window.start = _read_record(body, window.start, header)
        except VarintError as error:
            raise place.error(InvalidRecordError, f"record {index}: {error}") from error
        yield record
    if window.hold(1):
        raise place.error(InvalidRecordError, _left_over(header))


def _hold_record(window: BlockWindow) -> None:
    window.hold(MAX_VARINT_BYTES)
    body = bytes_view(window.data[: window.end])
    length, position = read_varint(body, window.start, len(body))
    if length < 0:
        raise VarintError(f"length {length} is negative")
    if not window.hold(position - window.start + length):
        rest_bytes = window.rest_bytes - (position - window.start)
        raise VarintError(f"length {length}, {rest_bytes} bytes are there")


def _read_record(body: memoryview, position: int, header: RecordBatchHeader) -> tuple[Record, int]:
    length, position = read_varint(body, position, len(body))
    if not 0 <= length <= len(body) - position:
        raise VarintError(f"length {length}, {len(body) - position} bytes are there")
    end = position + length
    # The attributes of a record mean nothing yet, and a reader ignores them.
    timestamp_delta, position = read_varlong(body, position + 1, end)
    offset_delta, position = read_varint(body, position, end)
    key, position = _read_bytes(body, position, end, "key")
    value, position = _read_bytes(body, position, end, "value")
    headers, position = _read_headers(body, position, end)
    if position != end:
        raise VarintError(f"{end - position} bytes are left over after its headers")
    last_delta = header.last_offset - header.base_offset
    if not 0 <= offset_delta <= last_delta:
        raise VarintError(f"offset delta {offset_delta}, allowed 0 to {last_delta}")
    record = Record(
        offset=header.base_offset + offset_delta,
        timestamp_ms=_record_timestamp(header, timestamp_delta),
        timestamp_type=header.timestamp_type,
        key=key,
        value=value,
        headers=headers,
    )
    return record, end


def _record_timestamp(header: RecordBatchHeader, delta: int) -> int:
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    # As a 64-bit number wraps around in Kafka.
    return (header.base_timestamp + delta + 2**63) % 2**64 - 2**63


def _read_headers(
    body: memoryview, position: int, end: int
) -> tuple[tuple[RecordHeader, ...], int]:
    count, position = read_varint(body, position, end)
    if count < 0:
        raise VarintError(f"header count {count} is negative")
    if count > end - position:
        raise VarintError(f"header count {count}, {end - position} bytes are there")
    headers = []
    for index in range(count):
        key, position = _read_bytes(body, position, end, f"header {index} key")
        if key is None:
            raise VarintError(f"header {index} key is null")
        value, position = _read_bytes(body, position, end, f"header {index} value")
        headers.append(RecordHeader(key.decode("utf-8", "replace"), value))
    return tuple(headers), position


def _read_bytes(body: memoryview, position: int, end: int, what: str) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position, end)
    if length == NULL_LENGTH:
        return None, position
    if not 0 <= length <= end - position:
        raise VarintError(f"{what} length {length}, {end - position} bytes are there")
    return bytes(body[position : position + length]), position + length
