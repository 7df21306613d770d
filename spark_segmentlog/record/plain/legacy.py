"""Messages of formats 0 and 1, plainly, and the wrappers that hold compressed ones.

A wrapper's value is a block of messages of the wrapper's own format, none of them compressed.
Their offsets are absolute in format 0. In format 1 they are relative, and the wrapper's offset is
that of the last one, so the first is not known before all are decompressed; holes of compaction
stay. With LogAppendTime the wrapper's timestamp is that of all its messages, which still carry the
producer's. Format 0 has no timestamps. Key and value are null at length -1, and no other negative
length is legal.

This is the plain twin of the kernels, and the one that words the errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spark_segmentlog.errors import InvalidBatchError, InvalidRecordError
from spark_segmentlog.record.codec.block_window import NO_LIMIT, BlockWindow
from spark_segmentlog.record.codec.codecs import codec_name
from spark_segmentlog.record.layout import (
    COMPRESSION_CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    INT64_MAX,
    LEGACY_FIELD_LENGTH,
    LEGACY_HEADER,
    LEGACY_TIMESTAMP,
    LEGACY_TIMESTAMP_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V0,
    MAGIC_V1,
    MIN_MESSAGE_SIZE_V0,
    MIN_MESSAGE_SIZE_V1,
    NO_TIMESTAMP,
    NULL_LENGTH,
    SIZE_OFFSET,
    TIMESTAMP_TYPE_MASK,
    TimestampType,
)
from spark_segmentlog.record.plain.batch import BatchPlace, Record
from spark_segmentlog.record.plain.crc import crc32
from spark_segmentlog.record.types import ByteSource, bytes_view


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyMessage:
    """A message of format 0 or 1, or a wrapper, whose value is then a compressed block."""

    offset: int
    size_bytes: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec_id(self) -> int:
        """Number of the codec; 0 for a message that is no wrapper."""
        return self.attributes & COMPRESSION_CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamp; format 0 has none."""
        if self.magic == MAGIC_V0:
            return TimestampType.NO_TIMESTAMP_TYPE
        append = self.attributes & TIMESTAMP_TYPE_MASK
        return TimestampType.LOG_APPEND_TIME if append else TimestampType.CREATE_TIME


def parse_message(
    buffer: ByteSource,
    position: int = 0,
    *,
    source: str = "buffer",
    file_position: int = 0,
    check_crcs: bool = True,
) -> LegacyMessage:
    """Parse and check one message; parameters and errors as of `batch.iterate_records`."""
    place = BatchPlace(source, file_position + position, -1, 0)
    return _parse(memoryview(buffer), position, place, check_crcs=check_crcs, whole_place=True)


def iterate_messages(
    buffer: ByteSource,
    position: int = 0,
    *,
    source: str = "buffer",
    file_position: int = 0,
    check_crcs: bool = True,
    max_decompressed_bytes: int = NO_LIMIT,
) -> Iterator[Record]:
    """Yield the record of one message, or the records of one wrapper.

    Parameters and errors are those of `batch.iterate_records`.
    """
    message = parse_message(
        buffer, position, source=source, file_position=file_position, check_crcs=check_crcs
    )
    if not message.codec_id:
        yield _record(message)
        return
    place = BatchPlace(source, file_position + position, message.offset, message.size_bytes)
    place.check_codec(message.codec_id, message.magic)
    if message.value is None:
        raise place.error(InvalidRecordError, "wrapper with a null value")
    block = memoryview(message.value)
    with place.telling_block_errors():
        window = place.open_block(message.codec_id, message.magic, block, max_decompressed_bytes)
        yield from _unwrapped(window, message, place, check_crcs)


def _unwrapped(
    window: BlockWindow, wrapper: LegacyMessage, place: BatchPlace, check_crcs: bool
) -> Iterator[Record]:
    # Twice through the messages, since they may be very many, and offsets count from the last.
    last = deque(_inner_messages(window, wrapper, place, check_crcs), maxlen=1)
    if not last:
        raise place.error(InvalidRecordError, "wrapper that holds no message")
    base = base_offset_in_wrapper(wrapper.magic, wrapper.offset, last[0].offset)
    window.rewind()
    for message in _inner_messages(window, wrapper, place, check_crcs):
        offset = base + message.offset
        if base < 0 or not is_offset_in_wrapper(offset, wrapper.offset):
            reason = f"message of offset {message.offset} in a wrapper of offset {wrapper.offset}"
            raise place.error(InvalidRecordError, reason)
        if wrapper.timestamp_type == TimestampType.LOG_APPEND_TIME:
            message = replace(message, timestamp=wrapper.timestamp)
        record = _record(replace(message, offset=offset))
        yield replace(record, timestamp_type=wrapper.timestamp_type)


def base_offset_in_wrapper(magic: int, wrapper_offset: int, last_inner_offset: int) -> int:
    """What is added to the offsets of messages in a wrapper; negative for one that cannot be.

    Some producers (librdkafka) leave the offset of a format 1 wrapper 0 and count its messages up
    from there; a broker corrects that, but a captured request has it still.
    """
    if magic == MAGIC_V1 and wrapper_offset != 0:
        return wrapper_offset - last_inner_offset
    return 0


def is_offset_in_wrapper(offset: int, wrapper_offset: int) -> bool:
    """Whether a message may have this offset; one above its wrapper's would escape every filter."""
    return 0 <= offset <= wrapper_offset or (wrapper_offset == 0 and 0 <= offset < INT64_MAX)


def _inner_messages(
    window: BlockWindow, wrapper: LegacyMessage, place: BatchPlace, check_crcs: bool
) -> Iterator[LegacyMessage]:
    while window.hold(1):
        if window.hold(HEADER_SIZE_UP_TO_MAGIC):
            size = LEGACY_FIELD_LENGTH.unpack_from(window.data.data, window.start + SIZE_OFFSET)[0]
            window.hold(LOG_OVERHEAD + size)
        data = bytes_view(window.data[: window.end])
        message = _parse(data, window.start, place, check_crcs=check_crcs, whole_place=False)
        if message.magic != wrapper.magic:
            reason = f"message of format {message.magic} in a wrapper of format {wrapper.magic}"
            raise place.error(InvalidRecordError, reason)
        if message.codec_id:
            name = codec_name(message.codec_id)
            raise place.error(InvalidRecordError, f"message in a wrapper is compressed ({name})")
        yield message
        window.start += message.size_bytes


def _parse(
    buffer: memoryview, position: int, place: BatchPlace, *, check_crcs: bool, whole_place: bool
) -> LegacyMessage:
    """Parse a message; `whole_place` says that it is no part of a wrapper, and so has a place."""
    available = len(buffer) - position
    kind = InvalidBatchError if whole_place else InvalidRecordError
    if available < HEADER_SIZE_UP_TO_MAGIC:
        raise place.error(kind, f"message header cut off: {available} bytes")
    if buffer[position + MAGIC_OFFSET] not in (MAGIC_V0, MAGIC_V1):
        reason = f"magic {buffer[position + MAGIC_OFFSET]}, allowed {MAGIC_V0} and {MAGIC_V1}"
        raise place.error(kind, reason)
    minimum = MIN_MESSAGE_SIZE_V1 if buffer[position + MAGIC_OFFSET] else MIN_MESSAGE_SIZE_V0
    length = LEGACY_FIELD_LENGTH.unpack_from(buffer, position + SIZE_OFFSET)[0]
    if not minimum <= length <= available - LOG_OVERHEAD:
        reason = f"message size {length}, allowed {minimum} to {available - LOG_OVERHEAD}"
        raise place.error(kind, reason)
    offset, _, crc, magic, attributes = LEGACY_HEADER.unpack_from(buffer, position)
    end = position + LOG_OVERHEAD + length
    if whole_place:
        place = BatchPlace(place.source, place.position, offset, LOG_OVERHEAD + length)
    if not 0 <= offset < INT64_MAX:
        raise place.error(kind, f"offset {offset} is outside of 0 to {INT64_MAX - 1}")
    if check_crcs:
        place.check_crc("message", crc, crc32(buffer[position + MAGIC_OFFSET : end]))
    body, timestamp = position + LEGACY_TIMESTAMP_OFFSET, NO_TIMESTAMP
    if magic == MAGIC_V1:
        timestamp = LEGACY_TIMESTAMP.unpack_from(buffer, body)[0]
        body += LEGACY_TIMESTAMP.size
    key, body = _field(buffer, body, end, "key", place)
    value, body = _field(buffer, body, end, "value", place)
    if body != end:
        reason = f"{end - body} bytes are left over after the value of a message"
        raise place.error(InvalidRecordError, reason)
    return LegacyMessage(
        offset=offset,
        size_bytes=LOG_OVERHEAD + length,
        crc=crc,
        magic=magic,
        attributes=attributes,
        timestamp=timestamp,
        key=key,
        value=value,
    )


def _field(
    buffer: memoryview, position: int, end: int, what: str, place: BatchPlace
) -> tuple[bytes | None, int]:
    start = position + LEGACY_FIELD_LENGTH.size
    if start > end:
        raise place.error(InvalidRecordError, f"{what} length of a message cut off")
    length = LEGACY_FIELD_LENGTH.unpack_from(buffer, position)[0]
    if length == NULL_LENGTH:
        return None, start
    if not 0 <= length <= end - start:
        reason = f"{what} length {length} of a message, {end - start} bytes are there"
        raise place.error(InvalidRecordError, reason)
    return bytes(buffer[start : start + length]), start + length


def _record(message: LegacyMessage) -> Record:
    return Record(
        offset=message.offset,
        timestamp_ms=message.timestamp,
        timestamp_type=message.timestamp_type,
        key=message.key,
        value=message.value,
    )
