"""What a KRaft cluster knows of its topics, from the log of ``__cluster_metadata``.

The metadata log lies in one of a broker's log directories: snapshots named ``<end
offset>-<epoch>.checkpoint``, and segments with what came later. A record's value is a frame
(unsigned varints: frame version 1, record kind, record version), then fields in order, then
tagged fields. Only these kinds are looked into, and only at fields that no version has moved:
topic (2), partition (3), configuration (4), partition change (5), removed topic (9), and the bounds
of a transaction (23 to 25), whose records count from its end on.

Layout of the records:
https://github.com/apache/kafka/tree/trunk/metadata/src/main/resources/common/metadata
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from spark_segmentlog.errors import SegmentLogError, UnsafeTargetError
from spark_segmentlog.log.directory.listing import list_names
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import METADATA_TOPIC, TopicPartition, find_base_offset
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk, ReadBuffer
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.varint import MAX_VARINT_BYTES

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
SNAPSHOT_NAME: Final = re.compile(r"(?P<end_offset>\d{20})-\d{10}\.checkpoint")
FRAME_VERSION: Final = 1

TOPIC_RECORD: Final = 2
PARTITION_RECORD: Final = 3
CONFIG_RECORD: Final = 4
PARTITION_CHANGE_RECORD: Final = 5
REMOVE_TOPIC_RECORD: Final = 9
BEGIN_TRANSACTION_RECORD: Final = 23
END_TRANSACTION_RECORD: Final = 24
ABORT_TRANSACTION_RECORD: Final = 25
REPLICAS_TAG: Final = 2
TOPIC_RESOURCE: Final = 2
REMOTE_STORAGE_ENABLE: Final = "remote.storage.enable"
UUID_LENGTH: Final = 16


@dataclass(slots=True)
class ClusterTopic:
    """A topic of a cluster: its id, as `partition.metadata` spells it, and who holds it.

    `replicas` has the ids of the brokers for each partition; `is_tiered` tells whether older
    segments are moved to remote storage.
    """

    topic_id: str
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    is_tiered: bool = False

    @property
    def max_replicas(self) -> int:
        """Replicas of the partition that has most."""
        return max((len(brokers) for brokers in self.replicas.values()), default=0)


def read_cluster_topics(log_directory: str) -> dict[str, ClusterTopic]:
    """Read the topics that the metadata log in a log directory ends with.

    Raises
    ------
    UnsafeTargetError
        A record that cannot be read: nothing is known then.
    """
    directory = os.path.join(log_directory, str(METADATA_PARTITION))
    image = _Image()
    for source, value in _values(directory):
        try:
            image.take(value)
        except (IndexError, UnicodeDecodeError, KeyError) as error:
            raise UnsafeTargetError(
                f"cannot read the cluster's metadata: {type(error).__name__}: {error} "
                f"(file {source})"
            ) from error
    return image.topics()


def is_tiered(topic: str, log_directories: Iterable[str]) -> bool | None:
    """Tell whether a topic is tiered; None where the metadata log is in none of the directories."""
    for directory in log_directories:
        if not LOCAL.is_directory(os.path.join(directory, str(METADATA_PARTITION))):
            continue
        try:
            known = read_cluster_topics(directory).get(topic)
        except (SegmentLogError, FileNotFoundError):
            # It is written at this moment, or damaged: whoever verifies it is told.
            return None
        return None if known is None else known.is_tiered
    return None


class _Image:
    """Topics as the records so far leave them."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._topics: dict[bytes, ClusterTopic] = {}
        self._transaction: list[bytes] | None = None

    def topics(self) -> dict[str, ClusterTopic]:
        return {name: self._topics[topic_id] for topic_id, name in self._names.items()}

    def take(self, value: bytes) -> None:
        fields = _Fields(value)
        if fields.unsigned_varint() != FRAME_VERSION:
            return
        kind = fields.unsigned_varint()
        fields.unsigned_varint()
        if kind == BEGIN_TRANSACTION_RECORD:
            self._transaction = []
        elif kind in (END_TRANSACTION_RECORD, ABORT_TRANSACTION_RECORD):
            held, self._transaction = self._transaction or [], None
            for record in held if kind == END_TRANSACTION_RECORD else ():
                self.take(record)
        elif self._transaction is not None:
            self._transaction.append(value)
        else:
            self._apply(kind, fields)

    def _apply(self, kind: int, fields: _Fields) -> None:
        if kind == TOPIC_RECORD:
            name, topic_id = fields.compact_text(), fields.take(UUID_LENGTH)
            self._names[topic_id] = name
            self._topics[topic_id] = ClusterTopic(_uuid_text(topic_id))
        elif kind == PARTITION_RECORD:
            partition, topic_id = fields.int32(), fields.take(UUID_LENGTH)
            self._topics[topic_id].replicas[partition] = fields.compact_int32s()
        elif kind == CONFIG_RECORD:
            self._configure(fields)
        elif kind == PARTITION_CHANGE_RECORD:
            partition, topic_id = fields.int32(), fields.take(UUID_LENGTH)
            changed = fields.tagged().get(REPLICAS_TAG)
            if changed is not None:
                self._topics[topic_id].replicas[partition] = _Fields(changed).compact_int32s()
        elif kind == REMOVE_TOPIC_RECORD:
            topic_id = fields.take(UUID_LENGTH)
            del self._names[topic_id], self._topics[topic_id]

    def _configure(self, fields: _Fields) -> None:
        resource, topic, name = fields.take(1)[0], fields.compact_text(), fields.compact_text()
        if resource != TOPIC_RESOURCE or name != REMOTE_STORAGE_ENABLE:
            return
        value = fields.compact_text_or_none()
        for topic_id, known in self._names.items():
            if known == topic:
                self._topics[topic_id].is_tiered = value == "true"


class _Fields:
    """Reads the fields of one record in their order; none beyond its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise IndexError(f"field of {length} bytes at {self._position} of {len(self._data)}")
        data = self._data[self._position : end]
        self._position = end
        return data

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise IndexError(f"varint longer than {MAX_VARINT_BYTES} bytes")

    def compact_text(self) -> str:
        return self.take(self.unsigned_varint() - 1).decode()

    def compact_text_or_none(self) -> str | None:
        length = self.unsigned_varint()
        return None if length == 0 else self.take(length - 1).decode()

    def compact_int32s(self) -> tuple[int, ...]:
        data = self.take(4 * (self.unsigned_varint() - 1))
        return tuple(
            int.from_bytes(data[start : start + 4], "big", signed=True)
            for start in range(0, len(data), 4)
        )

    def tagged(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for _ in range(min(self.unsigned_varint(), len(self._data))):
            tag, length = self.unsigned_varint(), self.unsigned_varint()
            found[tag] = self.take(length)
        return found


def _values(directory: str) -> Iterator[tuple[str, bytes]]:
    """Give the values of data records: the newest snapshot's, then those of the log behind it."""
    names = sorted(list_names(LOCAL, directory))
    snapshots = [match for name in names if (match := SNAPSHOT_NAME.fullmatch(name))]
    start_offset = 0
    if snapshots:
        start_offset = int(snapshots[-1]["end_offset"])
        yield from _file_values(os.path.join(directory, snapshots[-1].group()), directory, 0)
    for name in names:
        if find_base_offset(name) is not None:
            yield from _file_values(os.path.join(directory, name), directory, start_offset)


def _file_values(path: str, directory: str, start_offset: int) -> Iterator[tuple[str, bytes]]:
    segment = Segment(
        topic_partition=METADATA_PARTITION,
        directory=directory,
        base_offset=0,
        end_offset_bound=None,
    )
    with LOCAL.open_input(path) as file:
        walk = HeaderWalk(segment, file, 0, ReadBuffer(), False, None)
        for table in walk:
            wanted = ~table.is_control & (table.last_offset >= start_offset)
            for position in table.position[wanted].tolist():
                for record in iterate_records(
                    walk.buffer.data, position - walk.file_position, source=path
                ):
                    if record.offset >= start_offset and record.value is not None:
                        yield path, record.value


def _uuid_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
