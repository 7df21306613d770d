"""What a KRaft cluster knows of its topics, from the log of ``__cluster_metadata``.

The metadata log lies in one of a broker's log directories: snapshots named ``<end
offset>-<epoch>.checkpoint``, and segments with what came later. Records between the bounds of a
transaction count from its end on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_segmentlog.errors import SegmentLogError, UnsafeTargetError
from spark_segmentlog.log.directory.listing import list_names, list_partition
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.names import BASE_OFFSET_DIGITS, TopicPartition
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import WalkOptions
from spark_segmentlog.record.plain.batch import Record, iterate_records
from spark_segmentlog.record.system.message_reader import (
    ByteCursor,
    MessageError,
    read_message,
)
from spark_segmentlog.record.system.records import read_metadata_frame, record_types
from spark_segmentlog.record.system.schemas import message_schemas
from spark_segmentlog.record.system.topics import CLUSTER_METADATA

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA, 0)
SNAPSHOT_NAME: Final = re.compile(r"\d{20}-\d{10}\.checkpoint")

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
ALL_BROKERS: Final = ""
REMOTE_STORAGE_ENABLE: Final = "remote.storage.enable"
_APPLIED: Final = frozenset(
    (
        "TopicRecord",
        "PartitionRecord",
        "PartitionChangeRecord",
        "ConfigRecord",
        "RemoveTopicRecord",
        "RegisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
    )
)


@dataclass(slots=True)
class ClusterTopic:
    """A topic of a cluster: its id, as `partition.metadata` spells it, and who holds it.

    `replicas` has the ids of the brokers for each partition, `settings` what was set for this topic
    alone.
    """

    topic_id: str
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def is_tiered(self) -> bool:
        """Whether older segments are moved to remote storage."""
        return self.settings.get(REMOTE_STORAGE_ENABLE) == "true"

    @property
    def max_replicas(self) -> int:
        """Replicas of the partition that has most."""
        return max((len(brokers) for brokers in self.replicas.values()), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """What a metadata log ends with: topics, brokers, and what was set for these while they ran.

    `broker_settings` is by the id of a broker; that of all brokers is empty. `directory_ids` has
    the log directories that each broker registered last, as `meta.properties` spells their ids.
    """

    topics: dict[str, ClusterTopic]
    broker_settings: dict[str, dict[str, str]]
    directory_ids: dict[int, tuple[str, ...]] = field(default_factory=dict)


def read_cluster_metadata(log_directory: str) -> ClusterMetadata:
    """Read what the metadata log in a log directory ends with.

    Raises
    ------
    UnsafeTargetError
        A record that cannot be read: nothing is known then.
    """
    directory = os.path.join(log_directory, str(METADATA_PARTITION))
    image = _Image()
    for source, value in _values(directory):
        try:
            image.apply(value)
        except (MessageError, KeyError) as error:
            raise UnsafeTargetError(
                f"cannot read the cluster's metadata: {type(error).__name__}: {error} "
                f"(file {source})"
            ) from error
    return image.metadata()


def is_tiered(topic: str, log_directories: Iterable[str]) -> bool | None:
    """Tell whether a topic is tiered; None where the metadata log is in none of the directories."""
    for directory in log_directories:
        if not LOCAL.is_directory(os.path.join(directory, str(METADATA_PARTITION))):
            continue
        try:
            known = read_cluster_metadata(directory).topics.get(topic)
        except (SegmentLogError, FileNotFoundError):
            # It is written at this moment, or damaged: whoever verifies it is told.
            return None
        return None if known is None else known.is_tiered
    return None


class _Image:
    """Topics and settings as the records so far leave them."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._topics: dict[str, ClusterTopic] = {}
        self._brokers: dict[str, dict[str, str]] = {}
        self._directory_ids: dict[int, tuple[str, ...]] = {}
        self._transaction: list[bytes] | None = None

    def metadata(self) -> ClusterMetadata:
        topics = {name: self._topics[topic_id] for name, topic_id in self._ids.items()}
        return ClusterMetadata(
            topics=topics,
            broker_settings=self._brokers,
            directory_ids=self._directory_ids,
        )

    def apply(self, value: bytes) -> None:
        cursor = ByteCursor(value)
        type_id, version = read_metadata_frame(cursor)
        name = record_types(CLUSTER_METADATA).get(type_id)
        if name == "BeginTransactionRecord":
            self._transaction = []
        elif name in ("EndTransactionRecord", "AbortTransactionRecord"):
            held, self._transaction = self._transaction or [], None
            for record in held if name == "EndTransactionRecord" else ():
                self.apply(record)
        elif self._transaction is not None:
            self._transaction.append(value)
        elif name in _APPLIED:
            # A later version than the last one known has at least the fields of that one.
            version = min(version, message_schemas()[name].versions.last)
            self._apply(name, read_message(name, version, cursor))

    def _apply(self, name: str, fields: Mapping[str, Any]) -> None:
        if name == "TopicRecord":
            self._ids[fields["name"]] = fields["topicId"]
            self._topics[fields["topicId"]] = ClusterTopic(fields["topicId"])
        elif name in ("RegisterBrokerRecord", "BrokerRegistrationChangeRecord"):
            if fields.get("logDirs"):
                self._directory_ids[fields["brokerId"]] = tuple(fields["logDirs"])
        elif name == "ConfigRecord":
            self._configure(fields)
        elif name == "RemoveTopicRecord":
            del self._topics[fields["topicId"]]
            self._ids = {
                topic: topic_id for topic, topic_id in self._ids.items() if topic_id in self._topics
            }
        elif fields.get("replicas") is not None:
            topic = self._topics[fields["topicId"]]
            topic.replicas[fields["partitionId"]] = tuple(fields["replicas"])

    def _configure(self, fields: Mapping[str, Any]) -> None:
        settings = self._settings_of(fields["resourceType"], fields["resourceName"])
        if fields["value"] is None:
            settings.pop(fields["name"], None)
        else:
            settings[fields["name"]] = fields["value"]

    def _settings_of(self, resource_type: int, name: str) -> dict[str, str]:
        if resource_type == BROKER_RESOURCE:
            return self._brokers.setdefault(name, {})
        topic_id = self._ids.get(name) if resource_type == TOPIC_RESOURCE else None
        return {} if topic_id is None else self._topics[topic_id].settings


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot(Segment):
    """A snapshot of a metadata log: batches that count from offset 0, in a file of its own name."""

    name: str

    @property
    def stored_path(self) -> str:
        """Path of the file."""
        return f"{self.directory}/{self.name}"

    @property
    def snapshot_end_offset(self) -> int:
        """Offset of the log below which the snapshot stands for all records."""
        return int(self.name[:BASE_OFFSET_DIGITS])


def metadata_snapshot(path: str, storage: Storage = LOCAL) -> MetadataSnapshot:
    """Name a file as a snapshot."""
    directory, _, name = path.rpartition("/")
    return MetadataSnapshot(
        topic_partition=METADATA_PARTITION,
        directory=directory or ".",
        base_offset=0,
        storage=storage,
        name=name,
    )


def list_snapshots(storage: Storage, directory: str) -> list[MetadataSnapshot]:
    """List the snapshots of a metadata log, by the offsets that they reach."""
    names = sorted(filter(SNAPSHOT_NAME.fullmatch, list_names(storage, directory)))
    return [metadata_snapshot(f"{directory}/{name}", storage) for name in names]


def iterate_metadata(
    segment: Segment, start_offset: int = 0, *, skip_corrupt: bool = False
) -> Iterator[Record]:
    """Give the data records of a snapshot, or of a segment, from an offset on.

    Raises
    ------
    CorruptRecordError
        Bad bytes, unless they are to be stepped over.
    """
    with segment.open_log() as file:
        walk = HeaderWalk(segment, file, WalkOptions(skip_corrupt=skip_corrupt))
        for table in walk:
            wanted = ~table.is_control & (table.last_offset >= start_offset)
            for position in table.position[wanted].tolist():
                data = walk.buffer.data
                for record in iterate_records(
                    data, position - walk.file_position, source=segment.log_path
                ):
                    if record.offset >= start_offset:
                        yield record


def _values(directory: str) -> Iterator[tuple[str, bytes]]:
    """Give the values of data records: the newest snapshot's, then those of the log after it."""
    snapshots = list_snapshots(LOCAL, directory)[-1:]
    for snapshot in snapshots:
        yield from _file_values(snapshot, 0)
    start_offset = max((snapshot.snapshot_end_offset for snapshot in snapshots), default=0)
    for base_offset in list_partition(LOCAL, directory).base_offsets.tolist():
        segment = Segment(
            topic_partition=METADATA_PARTITION,
            directory=directory,
            base_offset=base_offset,
        )
        yield from _file_values(segment, start_offset)


def _file_values(segment: Segment, start_offset: int) -> Iterator[tuple[str, bytes]]:
    for record in iterate_metadata(segment, start_offset):
        if record.value is not None:
            yield segment.log_path, record.value
