"""Where a write goes: its log directories, the partitions in them, and what may not be written.

Several log directories are one log, as ``log.dirs`` is. Every partition has its directory before
a row is staged, a new one too: the directories that hold fewest partitions come first, in an
order that all tasks of a write agree on, since each of them works it out from the same numbers.

A directory with `meta.properties` belongs to a cluster: a broker sets a partition directory aside
whose topic it does not know, and a replica that becomes follower cuts what its leader does not
have. So topics must exist there, with one replica, as ``__cluster_metadata`` has them. Topics
that a broker keeps for itself are never written.
"""

from __future__ import annotations

import base64
import os
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from spark_segmentlog.errors import (
    LogPermissionError,
    NotALogDirectoryError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.directory.cluster import Cluster, missing_metadata, read_cluster
from spark_segmentlog.log.directory.cluster_metadata import ClusterTopic
from spark_segmentlog.log.formats.checkpoints import (
    PARTITION_METADATA,
    format_topic_id,
    read_topic_id,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import LOCAL, local_path
from spark_segmentlog.log.names import (
    LOG_SUFFIX,
    TopicPartition,
    find_topic_partition,
    is_topic_name,
)
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

MAX_NAMED_PARTITIONS: Final = 100_000
"""Of a new topic: a larger number in a row is a mistake rather than a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLayout:
    """The log directories of a write and their partitions as it was planned. Pickles.

    Attributes
    ----------
    log_directories : tuple of str
        Real paths, sorted.
    partition_counts : tuple of int
        Partition directories in each log directory.
    new_partition_count : int
        Partitions of a topic that does not exist yet.
    cluster : Cluster or None
        That the directories belong to; None where they belong to none.
    allow_unsafe : bool
        Writes what a broker would punish; topics that it keeps for itself are refused still.
    may_grow : bool
        Whether rows may name partitions that a topic of no cluster does not have yet. Those of a
        stream come micro-batch by micro-batch, and none tells what later ones name.
    twins : mapping of path to path
        Partition folders that are others too, by a link or a mount.
    """

    log_directories: tuple[str, ...]
    partitions: Mapping[str, Mapping[int, int]]
    partition_counts: tuple[int, ...]
    new_partition_count: int
    cluster: Cluster | None = field(default=None)
    allow_unsafe: bool = False
    may_grow: bool = False
    twins: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster_topics(self) -> Mapping[str, ClusterTopic] | None:
        """Topics of the cluster; None where there is none, or what it knows cannot be told."""
        return None if self.cluster is None else self.cluster.topics

    def partition_count(self, topic: str) -> int:
        """Tell how many partitions a topic has, or will have.

        Raises
        ------
        UnsafeTargetError
            The topic may not be written.
        """
        self.check_topic(topic)
        known = None if self.cluster_topics is None else self.cluster_topics.get(topic)
        if known is not None:
            return max(known.replicas, default=-1) + 1
        existing = self.partitions.get(topic)
        return max(existing) + 1 if existing else self.new_partition_count

    def named_partition_limit(self, topic: str) -> int:
        """Tell below which number rows may name partitions of a topic.

        A topic that does not exist yet gets as many as rows name.
        """
        is_known = self.cluster_topics is not None and topic in self.cluster_topics
        if is_known or (self.partitions.get(topic) and not self.may_grow):
            return self.partition_count(topic)
        return max(self.new_partition_count, MAX_NAMED_PARTITIONS)

    def exists(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a partition has a directory."""
        return topic_partition.partition in self.partitions.get(topic_partition.topic, {})

    def directory_of(self, topic_partition: TopicPartition) -> str:
        """Tell which log directory holds a partition, or will.

        Raises
        ------
        UnknownTopicOrPartitionError
            The topic has other partitions, not this one.
        """
        existing = self.partitions.get(topic_partition.topic)
        is_there = bool(existing) and (
            not self.may_grow or topic_partition.partition in (existing or {})
        )
        if not is_there and (self.cluster_topics is None or self.allow_unsafe):
            return self.log_directories[self._new_directory_index(topic_partition)]
        directory_index = (existing or {}).get(topic_partition.partition)
        if directory_index is None:
            raise UnknownTopicOrPartitionError(
                f"partition {topic_partition} is in none of {list(self.log_directories)}; the "
                f"topic's partitions there are {sorted(existing or ())}"
            )
        return self.log_directories[directory_index]

    def check_topic(self, topic: str) -> None:
        """Refuse topics that may not be written.

        Raises
        ------
        UnsafeTargetError
        """
        if topic in INTERNAL_TOPICS:
            raise UnsafeTargetError(f"topic {topic} is the broker's own and is never written")
        if not is_topic_name(topic):
            raise UnsafeTargetError(
                f"topic {topic!r}: a name has 1 to 249 ASCII letters, digits, dots, underscores "
                "and dashes, and is not . or .."
            )
        if self.cluster_topics is None or self.allow_unsafe:
            return
        known = self.cluster_topics.get(topic)
        if known is None:
            raise UnsafeTargetError(
                f"topic {topic} does not exist in the cluster that {self.log_directories[0]} "
                "belongs to: its broker would set the partition aside; create the topic first"
            )
        if known.max_replicas > 1:
            raise UnsafeTargetError(
                f"topic {topic} has {known.max_replicas} replicas, 1 is allowed: records appended "
                "to one that becomes follower would be cut"
            )

    def partition_metadata_bytes(self, topic: str) -> bytes:
        """Give the `partition.metadata` of a new partition: the topic's id, or a new one."""
        if self.cluster_topics is not None and topic in self.cluster_topics:
            return format_topic_id(self.cluster_topics[topic].topic_id)
        for partition, directory_index in self.partitions.get(topic, {}).items():
            directory = os.path.join(self.log_directories[directory_index], f"{topic}-{partition}")
            topic_id = read_topic_id(LOCAL, directory)
            if topic_id is not None:
                return format_topic_id(topic_id)
        return format_topic_id(_new_topic_id())

    def lacks_topic_id(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a partition is new, or has lost its `partition.metadata` in a cluster."""
        if not self.exists(topic_partition):
            return True
        directory = os.path.join(self.directory_of(topic_partition), str(topic_partition))
        is_known = topic_partition.topic in (self.cluster_topics or {})
        return is_known and not os.path.exists(os.path.join(directory, PARTITION_METADATA))

    def with_new_partitions(self, topic: str, numbers: Iterable[int]) -> TargetLayout:
        """Give the layout with more partitions, each in the directory that holds fewest then.

        Raises
        ------
        UnsafeTargetError
            Another log directory of the same broker holds one of them.
        """
        counts = list(self.partition_counts)
        partitions = dict(self.partitions.get(topic, {}))
        for number in numbers:
            self._check_not_elsewhere(TopicPartition(topic, number))
            directory_index = counts.index(min(counts))
            counts[directory_index] += 1
            partitions[number] = directory_index
        return replace(
            self,
            partitions={**self.partitions, topic: partitions},
            partition_counts=tuple(counts),
        )

    def _check_not_elsewhere(self, topic_partition: TopicPartition) -> None:
        for sibling in () if self.cluster is None else self.cluster.siblings:
            path = os.path.join(sibling, str(topic_partition))
            if os.path.isdir(path):
                raise UnsafeTargetError(
                    f"partition {topic_partition} lies in {path}, a log directory of the same "
                    "broker, which would not start with a second one: name that directory too"
                )

    def _new_directory_index(self, topic_partition: TopicPartition) -> int:
        """Deal a new topic's partitions out to the directories, those that hold fewest first."""
        # Topics that are new together start at different ones of equally empty directories.
        turn = zlib.crc32(topic_partition.topic.encode()) % len(self.partition_counts)
        number = topic_partition.partition
        # How many are dealt out changes none of them: in powers of two, few numbers are worked out.
        return _deal_out(self.partition_counts, turn, 1 << number.bit_length())[number]


def read_target_layout(
    paths: Sequence[str],
    *,
    new_partition_count: int = 1,
    allow_unsafe: bool = False,
    may_grow: bool = False,
) -> TargetLayout:
    """Look at the log directories of a write.

    Raises
    ------
    NotALogDirectoryError
        A path that is a file or a partition directory.
    UnsafeTargetError
        A directory of a cluster whose metadata cannot be found or read.
    PreflightError
        A directory that does not tell whose it is.
    """
    log_directories = tuple(sorted({os.path.realpath(path) for path in paths}))
    partitions: dict[str, dict[int, int]] = {}
    counts = []
    for directory_index, directory in enumerate(log_directories):
        found = _list_partitions(directory)
        counts.append(len(found))
        for topic_partition in found:
            partitions.setdefault(topic_partition.topic, {})[topic_partition.partition] = (
                directory_index
            )
    cluster = read_cluster(log_directories)
    if cluster is not None and cluster.topics is None and not allow_unsafe:
        raise missing_metadata(cluster, log_directories)
    return TargetLayout(
        log_directories=log_directories,
        partitions=partitions,
        partition_counts=tuple(counts),
        new_partition_count=new_partition_count,
        cluster=cluster,
        allow_unsafe=allow_unsafe,
        may_grow=may_grow,
        twins=_find_twins(log_directories, () if cluster is None else cluster.siblings),
    )


def make_log_directories(paths: Iterable[str]) -> None:
    """Create log directories that are not there; on the driver alone, before a task starts."""
    for path in paths:
        missing = []
        path = os.path.realpath(local_path(path))
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            try:
                files.mkdir(folder, exist_ok=True)
            except PermissionError as error:
                raise LogPermissionError(f"no permission to create {folder}") from error
            except (FileExistsError, NotADirectoryError) as error:
                raise NotALogDirectoryError(f"{folder} is no folder: {error}") from error
            files.fsync_directory(os.path.dirname(folder))


@lru_cache(maxsize=256)
def _deal_out(partition_counts: tuple[int, ...], turn: int, new_count: int) -> tuple[int, ...]:
    """Choose a directory for each of some new partitions."""
    counts = list(partition_counts)
    chosen = []
    for _ in range(new_count):
        directory_index = min(
            range(len(counts)), key=lambda number: (counts[number], (number - turn) % len(counts))
        )
        counts[directory_index] += 1
        chosen.append(directory_index)
    return tuple(chosen)


def _find_twins(log_directories: Sequence[str], siblings: Sequence[str]) -> dict[str, str]:
    """Find partition folders that are one folder, and name another for each."""
    paths = [path for directory in log_directories for path in _partition_folders(directory)]
    for directory in siblings:
        # What may not be read in a directory that is not written is not for us to judge.
        with suppress(LogPermissionError):
            paths += _partition_folders(directory)
    seen: dict[tuple[int, int], str] = {}
    twins = {}
    for path in paths:
        # A folder of a directory that is not locked may go meanwhile.
        with suppress(FileNotFoundError):
            status = os.stat(path)
            twin = seen.setdefault((status.st_dev, status.st_ino), path)
            if twin != path:
                twins[path] = twin
                twins[twin] = path
    return twins


def _partition_folders(directory: str) -> list[str]:
    names = LOCAL.list_directories(directory)[0]
    return [os.path.join(directory, name) for name in names if find_topic_partition(name)]


def _list_partitions(directory: str) -> list[TopicPartition]:
    if not os.path.isdir(directory):
        raise NotALogDirectoryError(f"{directory} is no folder: only a log directory is written")
    folders, others = LOCAL.list_directories(directory)
    if any(name.endswith(LOG_SUFFIX) for name in others):
        raise NotALogDirectoryError(
            f"{directory} holds .log files, so it is a partition directory: name the log "
            "directory above it"
        )
    found = (find_topic_partition(name) for name in folders)
    return [topic_partition for topic_partition in found if topic_partition is not None]


def _new_topic_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
