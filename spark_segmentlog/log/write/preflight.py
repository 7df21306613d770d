"""Whose directory this is: one look at what a broker would stop at, drop, rename or cut.

A write that a broker then sets aside, or never loads, is lost, however durable it was. So what
surrounds a log is looked at before anything is written (`check_write`), and told whole to whoever
asks (`preflight`). Every finding says what a broker does; what would lose what is written refuses
writes. Nothing is written here.

What a broker of Kafka 4 does, by its LogManager, LogLoader and MetaPropertiesEnsemble, is held by
the tests against a real one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from spark_segmentlog.errors import LogPathNotFoundError, PreflightError, UnsafeTargetError
from spark_segmentlog.log.directory.cluster import Cluster, read_cluster, read_owner
from spark_segmentlog.log.directory.paths import expand, is_partition_directory
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.io.reading import LOCAL, local_path
from spark_segmentlog.log.names import (
    TopicPartition,
    find_topic_partition,
    parse_partition_directory_name,
)
from spark_segmentlog.log.write.checkpoint_check import (
    unreadable_checkpoints,
    wrong_checkpoints,
    wrong_mark,
)
from spark_segmentlog.log.write.cut_check import torn_segments
from spark_segmentlog.log.write.directory_check import (
    DirectoryContents,
    compare_owners,
    foreign_folders,
)
from spark_segmentlog.log.write.owner_check import wrong_owner
from spark_segmentlog.log.write.partition_check import Surroundings, partition_findings, same_folder
from spark_segmentlog.record.system.topics import CLUSTER_METADATA

STRANGERS: Final = (FindingKind.STRAY_PARTITION, FindingKind.PARTITION_TWICE)

LOOKS: Final = 10


# All that is to be told


def preflight(paths: str | Sequence[str]) -> Iterator[Finding]:
    """Tell what a broker that is started on log directories would stop at, drop, rename or cut.

    Parameters
    ----------
    paths : str or sequence of str
        Log directories of one broker, or partition directories; local ones.

    Yields
    ------
    Finding
        Of the log directories, then of their partitions.

    Raises
    ------
    LogPathNotFoundError, NotALogDirectoryError, LogPermissionError
    """
    directories, partitions = _resolve([paths] if isinstance(paths, str) else paths)
    yield from _preflight(directories, partitions, with_segments=True)


def surroundings(paths: str | Sequence[str]) -> Iterator[Finding]:
    """Tell the same but for torn segments, which whoever walks all segments sees.

    Log directories of several brokers, which may hold replicas, are looked at one broker at a time.
    """
    directories, partitions = _resolve([paths] if isinstance(paths, str) else paths)
    brokers: dict[object, tuple[list[str], list[str]]] = {}
    for path in directories:
        brokers.setdefault(_broker_of(path), ([], []))[0].append(path)
    for path in partitions:
        brokers.setdefault(_broker_of(os.path.dirname(path)), ([], []))[1].append(path)
    for of_one in brokers.values():
        yield from _preflight(*of_one, with_segments=False)


def _broker_of(log_directory: str) -> tuple[str, int] | None:
    with suppress(PreflightError):
        owner = read_owner(log_directory)
        return None if owner is None else (owner.cluster_id, owner.node_id)
    return None


def _preflight(
    directories: list[str], partitions: list[str], *, with_segments: bool
) -> Iterator[Finding]:
    around = {os.path.dirname(path) for path in partitions}
    contents = [DirectoryContents.read(path) for path in directories]
    yield from _directory_findings(contents)
    known = tuple(sorted({*directories, *around}))
    cluster = yield from _read_cluster(known)
    look = Surroundings(log_directories=known, cluster=cluster)
    states = {path: LogDirectoryState.read(path) for path in known}
    for directory in contents:
        partitions += [os.path.join(directory.path, str(known)) for known in directory.partitions]
    seen: dict[tuple[int, int], str] = {}
    strangers: set[TopicPartition] = set()
    for path in sorted(set(partitions)):
        state = states[os.path.dirname(path)]
        for finding in _while_it_changes(
            path, partial(_look_at, look, state, path, seen, with_segments)
        ):
            if finding.kind in STRANGERS and finding.topic_partition is not None:
                strangers.add(finding.topic_partition)
            yield finding
    for directory in contents:
        yield from wrong_checkpoints(directory, strangers)


def _look_at(
    look: Surroundings,
    state: LogDirectoryState,
    path: str,
    seen: dict[tuple[int, int], str],
    with_segments: bool,
) -> Iterator[Finding]:
    yield from same_folder(path, seen)
    yield from partition_findings(look, state, path)
    if with_segments:
        yield from torn_segments(state, path, None)


def _while_it_changes(path: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Look at a partition whose files a running broker may rename and delete meanwhile."""
    for _ in range(LOOKS):
        try:
            return list(look())
        except FileNotFoundError:
            if not os.path.isdir(path):
                return []
    return list(look())


def _resolve(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Sort local paths into log directories and partition directories."""
    directories: list[str] = []
    partitions: list[str] = []
    for path in paths:
        for one in expand(LOCAL, local_path(path)):
            if not LOCAL.exists(one):
                raise LogPathNotFoundError(f"{path} does not exist")
            real = os.path.realpath(one)
            if not os.path.isdir(real):
                partitions.append(os.path.dirname(real))
            elif _is_partition(real):
                partitions.append(real)
            else:
                directories.append(real)
    for path in partitions:
        parse_partition_directory_name(os.path.basename(path))
    # What lies beside the log is no part of it: a broker sets it aside itself, or deletes it.
    live = [path for path in partitions if find_topic_partition(os.path.basename(path))]
    return sorted(set(directories)), live


def _is_partition(path: str) -> bool:
    folders, others = LOCAL.list_directories(path)
    return not any(map(find_topic_partition, folders)) and is_partition_directory(others)


def _read_cluster(
    log_directories: Sequence[str],
) -> Generator[Finding, None, Cluster | None]:
    """Read what a cluster knows; what stands against it is found, and nothing known then."""
    try:
        cluster = read_cluster(log_directories)
    except PreflightError:
        # The owners of log directories are compared, and this told, elsewhere.
        return None
    except UnsafeTargetError as error:
        yield _no_metadata(log_directories[0], str(error))
        return None
    if cluster is not None and cluster.topics is None:
        where = f"{CLUSTER_METADATA} of the cluster is neither here nor beside it"
        yield _no_metadata(log_directories[0], where)
    return cluster


# Log directories


def _directory_findings(directories: Sequence[DirectoryContents]) -> Iterator[Finding]:
    yield from compare_owners([directory.path for directory in directories])
    for directory in directories:
        yield from foreign_folders(directory.path, directory.folders)
        yield from unreadable_checkpoints(directory.path, directory.checkpoints)
        yield from wrong_mark(directory.path)
        yield from wrong_owner(directory.path, directory.files, None)


def _no_metadata(log_directory: str, detail: str) -> Finding:
    return Finding(
        kind=FindingKind.CLUSTER_METADATA,
        path=log_directory,
        detail=detail,
        broker="which partitions a broker would set aside cannot be told",
    )
