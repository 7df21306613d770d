"""What a broker would drop, rename or set aside of a partition, as far as its folder tells."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_segmentlog.log.directory.cluster import Cluster
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.findings import GOES_OFFLINE, STAYS_DOWN, Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    has_leader_epoch_rows,
    malformed_rows,
    parse_leader_epochs,
    parse_topic_id,
    read_text,
)
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    MAX_OFFSET,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TopicPartition,
    file_suffixes,
    find_base_offsets,
    find_topic_partition,
    parse_partition_directory_name,
)
from spark_segmentlog.log.write.cut_check import wrong_log_start
from spark_segmentlog.log.write.directory_check import JAVA_INTEGER, SETS_ASIDE
from spark_segmentlog.log.write.owner_check import wrong_owner
from spark_segmentlog.record.system.topics import CLUSTER_METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of the log directories around a partition."""

    log_directories: tuple[str, ...]
    cluster: Cluster | None

    def holders(self, topic_partition: TopicPartition) -> list[str]:
        """Name the folders of a partition in all log directories of one broker."""
        siblings = () if self.cluster is None else self.cluster.siblings
        paths = (
            os.path.join(directory, str(topic_partition))
            for directory in (*self.log_directories, *siblings)
        )
        return [path for path in paths if os.path.isdir(path)]


def same_folder(path: str, seen: dict[tuple[int, int], str]) -> Iterator[Finding]:
    """Find a link that makes one folder two partitions."""
    status = os.stat(path)
    twin = seen.setdefault((status.st_dev, status.st_ino), path)
    if twin != path:
        yield shared_folder(path, twin)


def shared_folder(path: str, twin: str) -> Finding:
    """Say that one folder is two partitions."""
    return Finding(
        kind=FindingKind.PARTITION_TWICE,
        path=path,
        topic_partition=find_topic_partition(os.path.basename(path)),
        detail=f"is the same folder as {twin}",
        broker="a broker writes two partitions into one folder",
        refuses_writes=True,
    )


def partition_findings(
    look: Surroundings, state: LogDirectoryState, path: str
) -> Iterator[Finding]:
    """Find what a broker would drop, rename or set aside of one partition."""
    topic_partition = parse_partition_directory_name(os.path.basename(path))
    if topic_partition.topic != CLUSTER_METADATA:
        yield from losses(look, topic_partition, path)
    yield from _foreign_files(topic_partition, path)
    yield from wrong_owner(path, LOCAL.list_directories(path)[1], topic_partition)
    yield from _elsewhere(topic_partition, path)
    yield from wrong_log_start(state, topic_partition, path)


def losses(look: Surroundings, topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
    """Find what loses what is written to a partition, as far as it takes no look at segments."""
    yield from stands_twice(look, topic_partition, path)
    if look.cluster is None or look.cluster.topics is None:
        yield from _unreadable_topic_id(topic_partition, path)
    else:
        yield from _wrong_topic(look.cluster, topic_partition, path)
    text = read_text(LOCAL, path, LEADER_EPOCH_CHECKPOINT)
    if text and parse_leader_epochs(text) is None:
        has_rows = has_leader_epoch_rows(text)
        yield Finding(
            kind=FindingKind.CHECKPOINT,
            path=os.path.join(path, LEADER_EPOCH_CHECKPOINT),
            topic_partition=topic_partition,
            detail=f"{malformed_rows(has_rows=has_rows)}: with which leader epoch to go on "
            "cannot be told",
            broker=STAYS_DOWN if has_rows else GOES_OFFLINE,
            refuses_writes=True,
        )


def stands_twice(
    look: Surroundings, topic_partition: TopicPartition, path: str
) -> Iterator[Finding]:
    """Find the other folders of a partition, in all log directories of its broker."""
    holders = look.holders(topic_partition)
    if len(holders) > 1:
        others = ", ".join(other for other in holders if other != path)
        yield Finding(
            kind=FindingKind.PARTITION_TWICE,
            path=path,
            topic_partition=topic_partition,
            detail=f"partition {topic_partition} also lies in {others}",
            broker=STAYS_DOWN,
            refuses_writes=True,
        )


def _wrong_topic(cluster: Cluster, topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
    """Compare a partition with what its cluster knows: a broker adopts no other."""
    assert cluster.topics is not None
    known = cluster.topics.get(topic_partition.topic)
    replicas = {} if known is None else known.replicas
    if known is None or topic_partition.partition not in replicas:
        yield _stray(topic_partition, path, "is none of the cluster's")
        return
    if cluster.node_id not in replicas[topic_partition.partition]:
        yield _stray(
            topic_partition,
            path,
            f"belongs to brokers {list(replicas[topic_partition.partition])}, this is "
            f"{cluster.node_id}",
        )
    text = read_text(LOCAL, path, PARTITION_METADATA)
    topic_id = None if text is None else parse_topic_id(text)
    if topic_id == known.topic_id:
        return
    if text is None:
        detail = f"is missing, the topic's is {known.topic_id}; a write, and recover, writes it"
        yield _topic_id(topic_partition, path, detail, refuses_writes=False)
    elif topic_id is None:
        yield _unreadable_id(topic_partition, path, refuses_writes=True)
    else:
        detail = f"topic id {topic_id}, the topic's is {known.topic_id}"
        yield _topic_id(topic_partition, path, detail, refuses_writes=True)


def _unreadable_topic_id(topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
    text = read_text(LOCAL, path, PARTITION_METADATA)
    if text is not None and parse_topic_id(text) is None:
        yield _unreadable_id(topic_partition, path, refuses_writes=False)


def _unreadable_id(topic_partition: TopicPartition, path: str, *, refuses_writes: bool) -> Finding:
    return Finding(
        kind=FindingKind.TOPIC_ID,
        path=os.path.join(path, PARTITION_METADATA),
        topic_partition=topic_partition,
        detail="names no topic id",
        broker=GOES_OFFLINE,
        refuses_writes=refuses_writes,
    )


def _topic_id(
    topic_partition: TopicPartition, path: str, detail: str, *, refuses_writes: bool
) -> Finding:
    return Finding(
        kind=FindingKind.TOPIC_ID,
        path=os.path.join(path, PARTITION_METADATA),
        topic_partition=topic_partition,
        detail=detail,
        broker=SETS_ASIDE,
        refuses_writes=refuses_writes,
    )


def _stray(topic_partition: TopicPartition, path: str, detail: str) -> Finding:
    return Finding(
        kind=FindingKind.STRAY_PARTITION,
        path=path,
        topic_partition=topic_partition,
        detail=f"partition {topic_partition} {detail}",
        broker="a broker renames the folder to -stray",
        refuses_writes=True,
    )


def _foreign_files(topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
    names = LOCAL.list_directories(path)[1]
    bases = find_base_offsets(names)
    # What a broker reads the offset out of, in the order in which it looks.
    suffixes = (*file_suffixes(), CLEANED_SUFFIX, SWAP_SUFFIX)
    for name in sorted(names):
        suffix = next((suffix for suffix in suffixes if name.endswith(suffix)), None)
        if suffix is None:
            continue
        effect = _foreign_effect(name, suffix, bases)
        if effect:
            yield Finding(
                kind=FindingKind.FOREIGN_FILE,
                path=os.path.join(path, name),
                topic_partition=topic_partition,
                detail=f"ends like a file of Kafka's, and is no offset and {suffix}",
                broker=effect,
            )


def _foreign_effect(name: str, suffix: str, bases: Iterable[int]) -> str:
    """Tell what a broker does with a file in a partition directory; an empty text for nothing.

    It reads the offset up to the first dot, however many digits there are.
    """
    digits = name.partition(".")[0]
    if not JAVA_INTEGER.fullmatch(digits) or int(digits) > MAX_OFFSET:
        return STAYS_DOWN
    if len(digits) == len(f"{0:020d}") or suffix in (CLEANED_SUFFIX, SWAP_SUFFIX, SNAPSHOT_SUFFIX):
        return ""
    if suffix == LOG_SUFFIX:
        return f"a broker opens an empty segment of offset {int(digits)} in its place"
    return "" if int(digits) in bases else "a broker deletes it"


def _elsewhere(topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
    if os.path.islink(path):
        yield _link(topic_partition, path, f"is a link to {os.path.realpath(path)}")
    elif is_on_other_device(path):
        yield _link(topic_partition, path, "is the mount point of another file system")


def is_on_other_device(partition_directory: str) -> bool:
    """Tell whether files cannot be renamed into a folder from the one above it."""
    above = os.path.dirname(partition_directory)
    return os.stat(partition_directory).st_dev != os.stat(above).st_dev


def _link(topic_partition: TopicPartition, path: str, detail: str) -> Finding:
    return Finding(
        kind=FindingKind.LINK,
        path=path,
        topic_partition=topic_partition,
        detail=detail,
        broker="a broker serves it",
    )
