"""Records of ``__remote_log_metadata``: what a broker has copied to a store, and what became of it.

Null key; the value is an unsigned varint 1 (frame), the number of the message, its version 0, then
the message in Kafka's flexible form (``RemoteLogMetadataSerde``, ``RemoteLog*Record.json``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import MAX_PARTITION, TopicPartition, is_topic_name
from spark_segmentlog.log.tier.remote_segment import TopicIdPartition
from spark_segmentlog.log.tier.wire import MalformedMetadataError, MetadataReader

FRAME_VERSION: Final = 1
_MESSAGE_VERSION: Final = 0
_SEGMENT: Final = 0
_SEGMENT_UPDATE: Final = 1
_PARTITION_DELETE: Final = 2
_TRANSACTION_INDEX_EMPTY_TAG: Final = 0


class SegmentState(IntEnum):
    """What became of a segment's copy (``RemoteLogSegmentState``)."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


class PartitionState(IntEnum):
    """What becomes of a partition in the store (``RemotePartitionDeleteState``)."""

    DELETE_MARKED = 0
    DELETE_STARTED = 1
    DELETE_FINISHED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """A copy of a segment has begun; `end_offset` is exclusive, the size that of the plain log."""

    partition: TopicIdPartition
    segment_id: str
    base_offset: int
    end_offset: int
    max_timestamp_ms: int
    leader_epochs: tuple[LeaderEpoch, ...]
    size_bytes: int
    custom_metadata: bytes | None
    state: SegmentState
    has_transaction_index: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentUpdate:
    """A copy has come to another state."""

    partition: TopicIdPartition
    segment_id: str
    custom_metadata: bytes | None
    state: SegmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDelete:
    """A partition is deleted from the store."""

    partition: TopicIdPartition
    state: PartitionState


MetadataRecord = SegmentRecord | SegmentUpdate | PartitionDelete


def parse_metadata_record(value: bytes) -> MetadataRecord:
    """Read the value of a record.

    Raises
    ------
    MalformedMetadataError
    """
    reader = MetadataReader(value)
    frame, message, version = reader.unsigned(), reader.unsigned(), reader.unsigned()
    if (frame, version) != (FRAME_VERSION, _MESSAGE_VERSION) or message not in _PARSERS:
        raise MalformedMetadataError(
            f"frame {frame}, message {message}, version {version}; known are frame "
            f"{FRAME_VERSION}, messages {', '.join(map(str, _PARSERS))}, version {_MESSAGE_VERSION}"
        )
    record = _PARSERS[message](reader)
    reader.check_end()
    return record


def _segment(reader: MetadataReader) -> SegmentRecord:
    partition, segment_id = _segment_id(reader)
    base_offset, last_offset = reader.int64(), reader.int64()
    reader.int32()  # broker
    max_timestamp_ms = reader.int64()
    reader.int64()  # event time
    epochs = [_epoch(reader) for _ in range(reader.array_length())]
    size_bytes = reader.int32()
    custom_metadata = reader.nullable_bytes()
    state = _state(SegmentState, reader.int8())
    tags = reader.tagged_fields()
    if not 0 <= base_offset <= last_offset < 2**63 - 1 or size_bytes < 0:
        raise MalformedMetadataError(
            f"a segment of offsets {base_offset} to {last_offset} and {size_bytes} bytes"
        )
    return SegmentRecord(
        partition=partition,
        segment_id=segment_id,
        base_offset=base_offset,
        end_offset=last_offset + 1,
        max_timestamp_ms=max_timestamp_ms,
        leader_epochs=tuple(sorted(epochs, key=lambda entry: entry.epoch)),
        size_bytes=size_bytes,
        custom_metadata=custom_metadata,
        state=SegmentState(state),
        has_transaction_index=not any(tags.get(_TRANSACTION_INDEX_EMPTY_TAG, b"")),
    )


def _epoch(reader: MetadataReader) -> LeaderEpoch:
    epoch = LeaderEpoch(reader.int32(), reader.int64())
    reader.tagged_fields()
    return epoch


def _segment_update(reader: MetadataReader) -> SegmentUpdate:
    partition, segment_id = _segment_id(reader)
    reader.int32()  # broker
    reader.int64()  # event time
    custom_metadata = reader.nullable_bytes()
    state = _state(SegmentState, reader.int8())
    reader.tagged_fields()
    return SegmentUpdate(
        partition=partition,
        segment_id=segment_id,
        custom_metadata=custom_metadata,
        state=SegmentState(state),
    )


def _partition_delete(reader: MetadataReader) -> PartitionDelete:
    partition = _topic_id_partition(reader)
    reader.int32()  # broker
    reader.int64()  # event time
    state = _state(PartitionState, reader.int8())
    reader.tagged_fields()
    return PartitionDelete(partition=partition, state=PartitionState(state))


_PARSERS: Final[Mapping[int, Callable[[MetadataReader], MetadataRecord]]] = {
    _SEGMENT: _segment,
    _SEGMENT_UPDATE: _segment_update,
    _PARTITION_DELETE: _partition_delete,
}


def _segment_id(reader: MetadataReader) -> tuple[TopicIdPartition, str]:
    partition = _topic_id_partition(reader)
    segment_id = reader.uuid()
    reader.tagged_fields()
    return partition, segment_id


def _topic_id_partition(reader: MetadataReader) -> TopicIdPartition:
    topic, topic_id, number = reader.text(), reader.uuid(), reader.int32()
    reader.tagged_fields()
    if not is_topic_name(topic) or not 0 <= number <= MAX_PARTITION:
        raise MalformedMetadataError(f"partition {number} of topic {topic[:300]!r}")
    return TopicIdPartition(TopicPartition(topic, number), topic_id)


def _state(kind: type[IntEnum], number: int) -> int:
    if number not in kind.__members__.values():
        raise MalformedMetadataError(f"state {number}, known are {[int(it) for it in kind]}")
    return number
