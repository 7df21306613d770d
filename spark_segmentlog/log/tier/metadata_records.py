"""Records of ``__remote_log_metadata``: what was copied to a store, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeVar

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import (
    MAX_OFFSET,
    MAX_PARTITION,
    TopicPartition,
    is_topic_name,
)
from spark_segmentlog.log.tier.remote_segment import TopicIdPartition
from spark_segmentlog.record.system.message_reader import MessageError
from spark_segmentlog.record.system.records import read_system_record
from spark_segmentlog.record.system.topics import REMOTE_LOG_METADATA

_State = TypeVar("_State", bound=IntEnum)
Fields = Mapping[str, Any]


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
    MessageError
    """
    found = read_system_record(REMOTE_LOG_METADATA, None, value)
    if found.reason is not None:
        raise MessageError(found.reason)
    parse = _PARSERS.get(found.type or "")
    if parse is None or found.value is None:
        raise MessageError(f"a {found.type} is none of {', '.join(_PARSERS)}")
    return parse(found.value)


def _segment(fields: Fields) -> SegmentRecord:
    base_offset, last_offset = fields["startOffset"], fields["endOffset"]
    size_bytes = fields["segmentSizeInBytes"]
    if not 0 <= base_offset <= last_offset < MAX_OFFSET or size_bytes < 0:
        raise MessageError(
            f"offsets {base_offset} to {last_offset} and {size_bytes} bytes are no segment"
        )
    epochs = (
        LeaderEpoch(field["leaderEpoch"], field["offset"])
        for field in fields["segmentLeaderEpochs"]
    )
    return SegmentRecord(
        partition=_partition(fields["remoteLogSegmentId"]["topicIdPartition"]),
        segment_id=fields["remoteLogSegmentId"]["id"],
        base_offset=base_offset,
        end_offset=last_offset + 1,
        max_timestamp_ms=fields["maxTimestampMs"],
        leader_epochs=tuple(sorted(epochs, key=lambda entry: entry.epoch)),
        size_bytes=size_bytes,
        custom_metadata=fields["customMetadata"],
        state=_state(SegmentState, fields["remoteLogSegmentState"]),
        has_transaction_index=not fields.get("txnIndexEmpty", False),
    )


def _segment_update(fields: Fields) -> SegmentUpdate:
    return SegmentUpdate(
        partition=_partition(fields["remoteLogSegmentId"]["topicIdPartition"]),
        segment_id=fields["remoteLogSegmentId"]["id"],
        custom_metadata=fields["customMetadata"],
        state=_state(SegmentState, fields["remoteLogSegmentState"]),
    )


def _partition_delete(fields: Fields) -> PartitionDelete:
    return PartitionDelete(
        partition=_partition(fields["topicIdPartition"]),
        state=_state(PartitionState, fields["remotePartitionDeleteState"]),
    )


_PARSERS: Final[Mapping[str, Callable[[Fields], MetadataRecord]]] = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _segment_update,
    "RemotePartitionDeleteMetadataRecord": _partition_delete,
}


def _partition(fields: Fields) -> TopicIdPartition:
    topic, number = fields["name"], fields["partition"]
    if not is_topic_name(topic) or not 0 <= number <= MAX_PARTITION:
        raise MessageError(f"{number} of topic {topic[:300]!r} is no partition")
    return TopicIdPartition(TopicPartition(topic, number), fields["id"])


def _state(kind: type[_State], number: int) -> _State:
    if number not in kind.__members__.values():
        raise MessageError(f"state {number}, known are {[int(state) for state in kind]}")
    return kind(number)
