"""What has to be so before rows are written for a stopped broker that is to serve them.

A broker takes over what lies in its log directories if it is its own: the topic that its cluster
knows, by its id, in folders that it made. Whatever else it sets aside, drops, or does not start
with. `preflight` tells what is wrong with what is there; here the rest of the recipe is compared,
point by point. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_segmentlog.errors import PreflightError, UnsafeTargetError
from spark_segmentlog.log.directory.cluster import Cluster, read_cluster, read_owner
from spark_segmentlog.log.directory.cluster_metadata import ClusterTopic
from spark_segmentlog.log.findings import Finding, FindingKind, Severity
from spark_segmentlog.log.formats.checkpoints import META_PROPERTIES
from spark_segmentlog.log.io.lock import is_locked
from spark_segmentlog.log.io.reading import LOCAL, local_path
from spark_segmentlog.log.names import (
    STRAY_DIRECTORY_SUFFIX,
    TopicPartition,
    find_left_topic_partition,
)
from spark_segmentlog.log.write.owner_check import check_owner
from spark_segmentlog.log.write.preflight import preflight
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

_OF_OWNERS: Final = (FindingKind.META_PROPERTIES, FindingKind.DIRECTORY_ID)


class PointState(StrEnum):
    """How a point stands."""

    MET = "ok"
    MISSING = "missing"
    NOTE = "note"
    """Worth knowing; a write goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPoint:
    """One point of the recipe: how it stands, what was found, and what is to be done."""

    name: str
    state: PointState
    detail: str

    def __str__(self) -> str:
        return f"{self.state}: {self.name}: {self.detail}"


def check_adoption(topic: str, log_directories: Sequence[str]) -> Iterator[AdoptionPoint]:
    """Compare log directories with what a broker needs to serve rows that are written to a topic.

    Yields
    ------
    AdoptionPoint
        In the order in which they are to be met; later ones are left out where nothing can be
        known of them yet.
    """
    paths = [os.path.realpath(local_path(path)) for path in log_directories]
    absent = [path for path in paths if not LOCAL.is_directory(path)]
    yield _point("log directories", absent, "are there", "make, and format, {}")
    if absent:
        return
    formatted = _formatted(paths)
    yield _point(
        "format",
        [path for path in paths if path not in formatted],
        f"each has {META_PROPERTIES}",
        f"no {META_PROPERTIES} that can be read in {{}}: kafka-storage.sh format makes it",
    )
    running = list(filter(is_locked, paths))
    yield _point("stopped", running, "nobody has them", "a broker, or a writer, has {}: stop it")
    findings = [finding for finding in preflight(paths) if _is_of(finding, topic)]
    yield _without_findings("one broker", _of_kinds(findings, _OF_OWNERS), "of one broker")
    cluster = _cluster(paths)
    if cluster is None or cluster.topics is None:
        detail = "__cluster_metadata-0 is neither here nor beside it: name its directory too"
        yield AdoptionPoint(name="metadata", state=PointState.MISSING, detail=detail)
        return
    yield AdoptionPoint(
        name="metadata", state=PointState.MET, detail=f"of cluster {cluster.cluster_id}"
    )
    yield _all_directories(paths, cluster)
    yield from _topic_points(topic, paths, cluster)
    yield _owner(paths)
    rest = [finding for finding in findings if finding.kind not in _OF_OWNERS]
    yield _without_findings("preflight", rest, "nothing that a broker would drop, or stop at")


def _point(name: str, wrong: Sequence[str], met: str, missing: str) -> AdoptionPoint:
    return AdoptionPoint(
        name=name,
        state=PointState.MISSING if wrong else PointState.MET,
        detail=missing.format(", ".join(wrong)) if wrong else met,
    )


def _formatted(paths: Sequence[str]) -> list[str]:
    formatted = []
    for path in paths:
        with suppress(PreflightError):
            if read_owner(path) is not None:
                formatted.append(path)
    return formatted


def _is_of(finding: Finding, topic: str) -> bool:
    """Tell whether a finding stands against a write to a topic."""
    is_near = finding.topic_partition is None or finding.topic_partition.topic == topic
    is_bad = finding.severity in (Severity.LOSS, Severity.STOP) or finding.refuses_writes
    return is_near and is_bad


def _of_kinds(findings: Sequence[Finding], kinds: Sequence[FindingKind]) -> list[Finding]:
    return [finding for finding in findings if finding.kind in kinds]


def _without_findings(name: str, findings: Sequence[Finding], met: str) -> AdoptionPoint:
    return _point(name, list(map(str, findings)), met, "{}")


def _cluster(paths: Sequence[str]) -> Cluster | None:
    """Read what the cluster knows; why it cannot be told is a finding already."""
    try:
        return read_cluster(paths)
    except UnsafeTargetError:
        return None


def _all_directories(paths: Sequence[str], cluster: Cluster) -> AdoptionPoint:
    """Compare directories with those that the broker registered, and with what lies beside them."""
    registered = set(cluster.directory_ids)
    for path in paths:
        owner = read_owner(path)
        if owner is not None and owner.directory_id is not None:
            registered.discard(owner.directory_id)
    unnamed = [*cluster.siblings]
    if registered and not unnamed:
        unnamed = [f"directory.id {name}" for name in sorted(registered)]
    return _point(
        "all log.dirs",
        unnamed,
        f"{len(paths)} named",
        "the broker has {} too: name all of its log directories",
    )


def _topic_points(topic: str, paths: Sequence[str], cluster: Cluster) -> Iterator[AdoptionPoint]:
    stray = _stray_folders(topic, paths)
    if topic in INTERNAL_TOPICS:
        detail = "a broker's own, which it alone writes"
        yield AdoptionPoint(name="topic", state=PointState.MISSING, detail=detail)
        return
    known = (cluster.topics or {}).get(topic)
    if known is None:
        detail = "the cluster does not know it: start the broker, kafka-topics.sh --create, stop it"
        yield AdoptionPoint(name="topic", state=PointState.MISSING, detail=detail)
    else:
        yield AdoptionPoint(
            name="topic",
            state=PointState.MET,
            detail=f"id {known.topic_id}, {len(known.replicas)} partitions",
        )
        yield _replicas(known)
        yield _partitions(topic, known, paths, cluster)
        yield _retention(known)
    if stray:
        detail = (
            f"{', '.join(stray)} are of a topic that the broker did not know: read them by their "
            "own paths and write their rows, or move them away"
        )
        yield AdoptionPoint(name="stray folders", state=PointState.NOTE, detail=detail)


def _replicas(known: ClusterTopic) -> AdoptionPoint:
    several = known.max_replicas > 1
    return AdoptionPoint(
        name="replicas",
        state=PointState.MISSING if several else PointState.MET,
        detail=f"{known.max_replicas}: a replica that becomes leader elsewhere would cut the rows "
        "away; make the topic with --replication-factor 1, and add replicas afterwards"
        if several
        else "one",
    )


def _partitions(
    topic: str, known: ClusterTopic, paths: Sequence[str], cluster: Cluster
) -> AdoptionPoint:
    absent, elsewhere = [], []
    for number, brokers in sorted(known.replicas.items()):
        name = str(TopicPartition(topic, number))
        if cluster.node_id not in brokers:
            elsewhere.append(f"{name} (broker {', '.join(map(str, brokers))})")
        elif not any(LOCAL.is_directory(os.path.join(path, name)) for path in paths):
            absent.append(name)
    wrong = []
    if absent:
        wrong.append(f"no folder {', '.join(absent)}: the broker makes them when it runs")
    if elsewhere:
        wrong.append(f"on another broker's disk: {', '.join(elsewhere)}")
    return _point("partitions", wrong, "each has its folder", "{}")


def _retention(known: ClusterTopic) -> AdoptionPoint:
    limits = {
        name: value for name, value in known.settings.items() if name.startswith("retention.")
    }
    told = ", ".join(f"{name}={value}" for name, value in sorted(limits.items()))
    return AdoptionPoint(
        name="retention",
        state=PointState.MET if "retention.ms" in limits else PointState.NOTE,
        detail=told
        if "retention.ms" in limits
        else "retention.ms is not set for the topic: by the broker's, seven days if it has none, "
        "older records are deleted soon after the start",
    )


def _stray_folders(topic: str, paths: Sequence[str]) -> list[str]:
    found = []
    for path in paths:
        for name in sorted(LOCAL.list_directories(path)[0]):
            left = find_left_topic_partition(name)
            if left is not None and left.topic == topic and name.endswith(STRAY_DIRECTORY_SUFFIX):
                found.append(os.path.join(path, name))
    return found


def _owner(paths: Sequence[str]) -> AdoptionPoint:
    try:
        check_owner(paths)
    except PreflightError as error:
        return _without_findings("owner", error.findings, "")
    return AdoptionPoint(
        name="owner", state=PointState.MET, detail="what is written here the broker can write too"
    )
