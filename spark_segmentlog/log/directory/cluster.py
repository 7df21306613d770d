"""Whose a log directory is: the cluster and the broker that `meta.properties` names.

A broker's log directories lie beside each other, so that one of them tells of the rest: of the one
that holds the metadata log, and of partitions that the directories at hand do not hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_segmentlog.errors import (
    LogPermissionError,
    NotAFileError,
    PreflightError,
    UnsafeTargetError,
)
from spark_segmentlog.log.directory.cluster_metadata import (
    ALL_BROKERS,
    METADATA_PARTITION,
    ClusterTopic,
    read_cluster_metadata,
)
from spark_segmentlog.log.findings import GOES_OFFLINE, STAYS_DOWN, Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    meta_properties_version,
    parse_meta_properties,
    read_text,
)
from spark_segmentlog.log.io.reading import LOCAL

BROKER_NAMES: Final = {
    "cleanup.policy": "log.cleanup.policy",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
}
"""What stands for a setting of topics that have none of their own, while a broker runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster that log directories belong to. Pickles.

    Attributes
    ----------
    topics : mapping of topic to ClusterTopic, or None
        None where the metadata log is not to be found.
    broker_settings : mapping of str to str
        What was set for this broker, or for all, while they ran; not what their files say.
    siblings : tuple of str
        Log directories of the same broker beside these.
    directory_ids : tuple of str
        Of all log directories that the broker registered when it ran last; none where not known.
    """

    cluster_id: str
    node_id: int
    topics: Mapping[str, ClusterTopic] | None = field(default=None)
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    siblings: tuple[str, ...] = ()
    directory_ids: tuple[str, ...] = ()

    def topic_settings(self, topic: str) -> dict[str, str] | None:
        """Tell what is set for a topic, by the topic's names; None where the topic is not known."""
        known = (self.topics or {}).get(topic)
        if known is None:
            return None
        of_broker = {
            name: self.broker_settings[broker_name]
            for name, broker_name in BROKER_NAMES.items()
            if broker_name in self.broker_settings
        }
        return {**of_broker, **known.settings}


def read_cluster(log_directories: Sequence[str]) -> Cluster | None:
    """Tell which cluster log directories belong to; None for none.

    Raises
    ------
    PreflightError
        A `meta.properties` that cannot be read.
    UnsafeTargetError
        A metadata log that cannot be read.
    """
    owners = [found for path in log_directories if (found := read_owner(path)) is not None]
    if not owners:
        return None
    owner = owners[0]
    beside = list(_beside(log_directories, owner))
    own = [(path, owner) for path in log_directories]
    holder = next((path for path, _ in (*own, *beside) if _has_metadata_log(path)), None)
    metadata = None if holder is None else read_cluster_metadata(holder)
    of_brokers = {} if metadata is None else metadata.broker_settings
    return Cluster(
        cluster_id=owner.cluster_id,
        node_id=owner.node_id,
        topics=None if metadata is None else metadata.topics,
        broker_settings={
            **of_brokers.get(ALL_BROKERS, {}),
            **of_brokers.get(str(owner.node_id), {}),
        },
        directory_ids=(() if metadata is None else metadata.directory_ids.get(owner.node_id, ())),
        siblings=tuple(path for path, other in beside if other.node_id == owner.node_id),
    )


def read_owner(log_directory: str) -> MetaProperties | None:
    """Read whose a log directory is; None where it belongs to no cluster.

    Raises
    ------
    PreflightError
        The file is there and cannot be read.
    """
    text = read_text(LOCAL, log_directory, META_PROPERTIES)
    if text is None:
        return None
    owner = parse_meta_properties(text)
    if owner is None:
        raise PreflightError([unreadable_owner(log_directory, text)])
    return owner


def unreadable_owner(log_directory: str, text: str) -> Finding:
    """Say that a `meta.properties` does not tell whose the directory is.

    A broker takes one without a version for one of version 0 that lacks what it needs.
    """
    return Finding(
        kind=FindingKind.META_PROPERTIES,
        path=os.path.join(log_directory, META_PROPERTIES),
        detail="names no cluster.id and node.id in a known version: whose this is cannot be told",
        broker=STAYS_DOWN if meta_properties_version(text) == "0" else GOES_OFFLINE,
        refuses_writes=True,
    )


def missing_metadata(cluster: Cluster, log_directories: Sequence[str]) -> UnsafeTargetError:
    """Say that the topics of a cluster cannot be told."""
    return UnsafeTargetError(
        f"{log_directories[0]} belongs to a cluster ({META_PROPERTIES} is there), and its "
        f"{METADATA_PARTITION} is neither in {list(log_directories)} nor beside them: which topics "
        f"cluster {cluster.cluster_id} knows, and with how many replicas, cannot be told"
    )


def _beside(
    log_directories: Sequence[str], owner: MetaProperties
) -> Iterator[tuple[str, MetaProperties]]:
    """Find the log directories of one cluster beside some of them."""
    for parent in sorted({os.path.dirname(path) for path in log_directories}):
        for name in sorted(LOCAL.list_directories(parent)[0]):
            path = os.path.realpath(os.path.join(parent, name))
            other = None if path in log_directories else _owner_if_readable(path)
            if other is not None and other.cluster_id == owner.cluster_id:
                yield path, other


def _owner_if_readable(path: str) -> MetaProperties | None:
    """Read whose a neighbour is; what may not or cannot be read there is not for us to judge."""
    try:
        text = read_text(LOCAL, path, META_PROPERTIES)
    except (LogPermissionError, NotAFileError):
        return None
    return None if text is None else parse_meta_properties(text)


def _has_metadata_log(path: str) -> bool:
    return os.path.isdir(os.path.join(path, str(METADATA_PARTITION)))
