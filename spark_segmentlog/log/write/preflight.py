"""Whose directory this is: one look at what a broker would stop at, drop, rename or cut.

A write that a broker then sets aside, or never loads, is lost, however durable it was. So what
surrounds a log is looked at before anything is written (`check_write`), and told whole to whoever
asks (`preflight`). Every finding says what a broker does; what would lose what is written refuses
writes. Nothing is written here.

What a broker of Kafka 4 does, by its LogManager, LogLoader and MetaPropertiesEnsemble, is held by
the tests against a real one.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

from spark_segmentlog.errors import (
    CorruptRecordError,
    LogPathNotFoundError,
    PreflightError,
    UnsafeTargetError,
)
from spark_segmentlog.log.directory.cluster import (
    Cluster,
    read_cluster,
    read_owner,
    unreadable_owner,
)
from spark_segmentlog.log.directory.journal import COMMIT_DIRECTORY_NAME
from spark_segmentlog.log.directory.paths import expand, is_partition_directory
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.findings import GOES_OFFLINE, STAYS_DOWN, Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    CLEAN_SHUTDOWN_MARK,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    has_leader_epoch_rows,
    has_offset_rows,
    parse_leader_epochs,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
    read_text,
)
from spark_segmentlog.log.io.reading import LOCAL, local_path
from spark_segmentlog.log.names import (
    ASIDE_DIRECTORY_SUFFIXES,
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    MAX_OFFSET,
    MAX_PARTITION,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TopicPartition,
    file_suffixes,
    find_base_offset,
    find_topic_partition,
    parse_partition_directory_name,
)
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk, ReadBuffer
from spark_segmentlog.log.write.append_state import PartitionTail, last_written_base_offset
from spark_segmentlog.log.write.targets import TargetLayout
from spark_segmentlog.record.read.header_table import check_crcs
from spark_segmentlog.record.system.records import CLUSTER_METADATA

# A broker keeps indexes of tiered segments there, and takes it for no partition.
REMOTE_INDEX_DIRECTORY: Final = "remote-log-index-cache"
# What a broker reads the offset out of, in the order in which it looks.
OFFSET_CHECKPOINTS: Final = (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
OF_NO_NUMBERS: Final = {
    LOG_START_OFFSET_CHECKPOINT: "a broker takes it for empty: what was deleted comes back",
    RECOVERY_POINT_CHECKPOINT: "a broker takes it for empty",
    CLEANER_OFFSET_CHECKPOINT: "a thread of a broker's log cleaner dies",
    HIGH_WATERMARK_CHECKPOINT: "a broker starts, and serves no partition of the log directory",
}
STRANGERS: Final = (FindingKind.STRAY_PARTITION, FindingKind.PARTITION_TWICE)
LOOKS: Final = 10
SETS_ASIDE: Final = "a broker renames the folder to -stray, and starts with an empty one"
CUTS_THE_LOG: Final = "a broker cuts it there, and deletes every segment behind it"

_JAVA_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DYING_NAME: Final = re.compile(r"\S+-[0-9]+\.\S+-(delete|future|stray)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Surroundings:
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
    yield from _directory_findings(directories)
    known = tuple(sorted({*directories, *around}))
    cluster = yield from _read_cluster(known)
    look = _Surroundings(log_directories=known, cluster=cluster)
    states = {path: LogDirectoryState.read(path) for path in known}
    for directory in directories:
        partitions += _partition_paths(directory)
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
    for directory in directories:
        yield from _wrong_checkpoints(directory, strangers)


def _look_at(
    look: _Surroundings,
    state: LogDirectoryState,
    path: str,
    seen: dict[tuple[int, int], str],
    with_segments: bool,
) -> Iterator[Finding]:
    yield from _same_folder(path, seen)
    yield from _partition_findings(look, state, path)
    if with_segments:
        yield from _torn_segments(state, path, None)


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


def _partition_paths(log_directory: str) -> list[str]:
    names = LOCAL.list_directories(log_directory)[0]
    return [os.path.join(log_directory, name) for name in names if find_topic_partition(name)]


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


def _directory_findings(directories: Sequence[str]) -> Iterator[Finding]:
    yield from _owners(directories)
    for directory in directories:
        folders, others = LOCAL.list_directories(directory)
        yield from _foreign_folders(directory, folders)
        yield from unreadable_checkpoints(directory)
        yield from _wrong_mark(directory)
        yield from _wrong_owner(directory, others, None)


def _owners(directories: Sequence[str]) -> Iterator[Finding]:
    """Compare the `meta.properties` of log directories with each other."""
    texts = {path: read_text(LOCAL, path, META_PROPERTIES) for path in directories}
    present = {path: text for path, text in texts.items() if text is not None}
    first = None
    ids: dict[str, str] = {}
    for path, text in present.items():
        owner = parse_meta_properties(text)
        if owner is None:
            yield unreadable_owner(path, text)
            continue
        first = first or owner
        mine, other = (owner.cluster_id, owner.node_id), (first.cluster_id, first.node_id)
        if mine != other:
            yield _owner_finding(
                path, f"cluster and node are {mine}, those of another log directory {other}"
            )
        if owner.has_reserved_directory_id:
            yield Finding(
                kind=FindingKind.DIRECTORY_ID,
                path=os.path.join(path, META_PROPERTIES),
                detail=f"directory.id {owner.directory_id} is one that Kafka keeps for itself",
                broker=STAYS_DOWN,
            )
        twin = ids.setdefault(owner.directory_id, path) if owner.directory_id else path
        if twin != path:
            yield Finding(
                kind=FindingKind.DIRECTORY_ID,
                path=os.path.join(path, META_PROPERTIES),
                detail=f"directory.id {owner.directory_id} is that of {twin} too",
                broker=STAYS_DOWN,
            )
    for path in set(texts) - set(present) if present else ():
        yield _owner_finding(path, "is missing, and another log directory belongs to a cluster")


def _owner_finding(path: str, detail: str) -> Finding:
    return Finding(
        kind=FindingKind.META_PROPERTIES,
        path=os.path.join(path, META_PROPERTIES),
        detail=detail,
        broker=f"{STAYS_DOWN} with both in log.dirs",
    )


def _foreign_folders(directory: str, names: Iterable[str]) -> Iterator[Finding]:
    for name in sorted(names):
        if find_topic_partition(name) or name in (REMOTE_INDEX_DIRECTORY, COMMIT_DIRECTORY_NAME):
            continue
        if name.endswith(ASIDE_DIRECTORY_SUFFIXES) and _DYING_NAME.fullmatch(name):
            continue
        yield Finding(
            kind=FindingKind.FOREIGN_FOLDER,
            path=os.path.join(directory, name),
            detail="a folder that is no topic, dash and partition",
            broker=SETS_ASIDE if _is_taken_for_a_partition(name) else STAYS_DOWN,
        )


def _is_taken_for_a_partition(name: str) -> bool:
    topic, _, number = name.rpartition("-")
    return bool(
        topic and _JAVA_INTEGER.fullmatch(number) and int(number) <= MAX_PARTITION
    ) and not name.endswith(ASIDE_DIRECTORY_SUFFIXES)


def unreadable_checkpoints(log_directory: str) -> Iterator[Finding]:
    """Find offset checkpoints of a log directory that do not hold together."""
    for name in OFFSET_CHECKPOINTS:
        text = read_text(LOCAL, log_directory, name)
        if text and parse_offset_checkpoint(text) is None:
            yield Finding(
                kind=FindingKind.CHECKPOINT,
                path=os.path.join(log_directory, name),
                detail="does not hold together",
                broker=_effect_of_checkpoint(name, text),
                # Written anew, it would forget where the other partitions start.
                refuses_writes=name == LOG_START_OFFSET_CHECKPOINT,
            )


def _effect_of_checkpoint(name: str, text: str) -> str:
    """Tell what a broker does with a checkpoint: it forgives what is no number in some of them."""
    return OF_NO_NUMBERS.get(name, GOES_OFFLINE) if has_offset_rows(text) else GOES_OFFLINE


def _wrong_checkpoints(directory: str, strangers: Set[TopicPartition]) -> Iterator[Finding]:
    """Find offset checkpoints of a broker's directory that do not speak of what lies in it.

    Strangers are partitions of which it was told already that they do not belong there.

    A broker makes all four when it starts, and writes three of them every minute. One that is
    stopped has written where its logs end and what was flushed, of all but the metadata log.
    """
    texts = {name: read_text(LOCAL, directory, name) for name in OFFSET_CHECKPOINTS}
    owner = read_text(LOCAL, directory, META_PROPERTIES)
    if owner is None:
        if all(texts.values()):
            yield _owner_finding(directory, "is missing beside a broker's checkpoints")
        return
    missing = [name for name, text in texts.items() if text is None]
    written = [texts[name] for name in OFFSET_CHECKPOINTS if name != CLEANER_OFFSET_CHECKPOINT]
    empty = [name for name, text in texts.items() if text == ""]
    if len(missing) == 1:
        yield _wrong_checkpoint(directory, missing[0], "is missing beside the other three")
    if sum(map(bool, written)) == len(written) - 1:
        for name in set(empty) - {CLEANER_OFFSET_CHECKPOINT}:
            yield _wrong_checkpoint(directory, name, "is empty, and the others are written")
    is_stopped = LOCAL.exists(os.path.join(directory, CLEAN_SHUTDOWN_MARK))
    folders, _ = LOCAL.list_directories(directory)
    there = {it for name in folders if (it := find_topic_partition(name)) is not None}
    own = {it for it in there - strangers if it.topic != CLUSTER_METADATA}
    expected = own if is_stopped else set()
    for name, text in texts.items():
        offsets = parse_offset_checkpoint(text) if text else None
        if offsets is None:
            continue
        is_of_all = name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
        for what, found in (
            ("a negative offset of", {it for it, offset in offsets.items() if offset < 0}),
            ("no offset of", expected - set(offsets) if is_of_all else set()),
            (
                "an offset of a partition that is not here,",
                set(offsets) - there if is_stopped else set(),
            ),
        ):
            if found:
                more = f" and {len(found) - 1} more" if len(found) > 1 else ""
                yield _wrong_checkpoint(directory, name, f"has {what} {min(found)}{more}")
                break


def _wrong_checkpoint(directory: str, name: str, detail: str) -> Finding:
    path = os.path.join(directory, name)
    return Finding(kind=FindingKind.OFFSET_CHECKPOINT, path=path, detail=detail)


def _wrong_mark(directory: str) -> Iterator[Finding]:
    """Find a mark of a clean stop that no broker wrote; older ones left it empty."""
    path = os.path.join(directory, CLEAN_SHUTDOWN_MARK)
    text = read_text(LOCAL, directory, CLEAN_SHUTDOWN_MARK)
    if not text:
        return
    try:
        is_right = isinstance(json.loads(text), dict)
    except ValueError:
        is_right = False
    if not is_right:
        yield Finding(
            kind=FindingKind.CLEAN_MARK,
            path=path,
            detail="does not hold together",
            broker="a broker takes it for one all the same",
        )


def _no_metadata(log_directory: str, detail: str) -> Finding:
    return Finding(
        kind=FindingKind.CLUSTER_METADATA,
        path=log_directory,
        detail=detail,
        broker="which partitions a broker would set aside cannot be told",
    )


# Partitions


def _same_folder(path: str, seen: dict[tuple[int, int], str]) -> Iterator[Finding]:
    """Find a link that makes one folder two partitions."""
    status = os.stat(path)
    twin = seen.setdefault((status.st_dev, status.st_ino), path)
    if twin != path:
        yield _shared_folder(path, twin)


def _shared_folder(path: str, twin: str) -> Finding:
    return Finding(
        kind=FindingKind.PARTITION_TWICE,
        path=path,
        topic_partition=find_topic_partition(os.path.basename(path)),
        detail=f"is the same folder as {twin}",
        broker="a broker writes two partitions into one folder",
        refuses_writes=True,
    )


def _partition_findings(
    look: _Surroundings, state: LogDirectoryState, path: str
) -> Iterator[Finding]:
    topic_partition = parse_partition_directory_name(os.path.basename(path))
    if topic_partition.topic != CLUSTER_METADATA:
        yield from _losses(look, topic_partition, path)
    yield from _foreign_files(topic_partition, path)
    yield from _wrong_owner(path, LOCAL.list_directories(path)[1], topic_partition)
    yield from _elsewhere(topic_partition, path)
    yield from _log_start(state, topic_partition, path)


def _losses(look: _Surroundings, topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
    """Find what loses what is written to a partition, as far as it takes no look at segments."""
    yield from _twice(look, topic_partition, path)
    if look.cluster is None or look.cluster.topics is None:
        yield from _unreadable_topic_id(topic_partition, path)
    else:
        yield from _wrong_topic(look.cluster, topic_partition, path)
    text = read_text(LOCAL, path, LEADER_EPOCH_CHECKPOINT)
    if text and parse_leader_epochs(text) is None:
        yield Finding(
            kind=FindingKind.CHECKPOINT,
            path=os.path.join(path, LEADER_EPOCH_CHECKPOINT),
            topic_partition=topic_partition,
            detail="does not hold together: with which leader epoch to go on cannot be told",
            broker=STAYS_DOWN if has_leader_epoch_rows(text) else GOES_OFFLINE,
            refuses_writes=True,
        )


def _twice(look: _Surroundings, topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
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
    metadata = None if text is None else parse_partition_metadata(text)
    if metadata is not None and metadata.topic_id == known.topic_id:
        return
    if text is None:
        detail = f"is missing, the topic's is {known.topic_id}; a write, and recover, writes it"
        yield _topic_id(topic_partition, path, detail, refuses_writes=False)
    elif metadata is None:
        yield _unreadable_id(topic_partition, path, refuses_writes=True)
    else:
        detail = f"topic id {metadata.topic_id}, the topic's is {known.topic_id}"
        yield _topic_id(topic_partition, path, detail, refuses_writes=True)


def _unreadable_topic_id(topic_partition: TopicPartition, path: str) -> Iterator[Finding]:
    text = read_text(LOCAL, path, PARTITION_METADATA)
    if text is not None and parse_partition_metadata(text) is None:
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
    bases = {base for name in names if (base := find_base_offset(name)) is not None}
    suffixes = (*file_suffixes(), CLEANED_SUFFIX, SWAP_SUFFIX)
    for name in sorted(names):
        suffix = next((it for it in suffixes if name.endswith(it)), None)
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
    if not _JAVA_INTEGER.fullmatch(digits) or int(digits) > MAX_OFFSET:
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


# Owners


def _wrong_owner(
    directory: str, names: Iterable[str], topic_partition: TopicPartition | None
) -> Iterator[Finding]:
    """Find what the owner of a log directory, as whom its broker runs, cannot open for writing."""
    log_directory = directory if topic_partition is None else os.path.dirname(directory)
    owner = os.stat(log_directory)
    closed = [
        path
        for path in (directory, *(os.path.join(directory, name) for name in sorted(names)))
        if not _is_open_to(path, owner)
    ]
    if closed:
        yield Finding(
            kind=FindingKind.OWNER,
            path=closed[0],
            topic_partition=topic_partition,
            detail=f"{len(closed)} of the files here cannot be written by user {owner.st_uid}, the "
            "owner of the log directory",
            broker=f"{GOES_OFFLINE}, where it runs as that user",
        )


def _is_open_to(path: str, owner: os.stat_result) -> bool:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return True
    if owner.st_uid == 0:
        return True
    wanted = stat.S_IROTH | stat.S_IWOTH
    if status.st_uid == owner.st_uid:
        return status.st_mode >> 6 & wanted == wanted
    if status.st_gid == owner.st_gid:
        return status.st_mode >> 3 & wanted == wanted
    return status.st_mode & wanted == wanted


def check_owner(log_directories: Iterable[str]) -> None:
    """Refuse to create files in a broker's directories that it could not open.

    Raises
    ------
    PreflightError
        Before anything was created.
    """
    user = os.geteuid()
    findings = [
        Finding(
            kind=FindingKind.OWNER,
            path=path,
            detail=f"belongs to user {owner}, and files that user {user} creates could not be "
            "written by it: run this as that user, or as root",
            broker=f"{GOES_OFFLINE}, where it runs as user {owner}",
            refuses_writes=True,
        )
        for path in log_directories
        if user != 0
        and os.path.exists(os.path.join(path, META_PROPERTIES))
        and (owner := os.stat(path).st_uid) not in (user, 0)
    ]
    _refuse(findings)


# Torn segments, and where a log starts


def _torn_segments(
    state: LogDirectoryState, path: str, known_from: int | None
) -> Iterator[Finding]:
    """Find the closed segment at which a broker's recovery would cut the log, if there is one.

    `known_from` is the base offset before which somebody has looked; None for nobody.
    """
    if state.is_clean:
        return
    topic_partition = parse_partition_directory_name(os.path.basename(path))
    bases = sorted(
        base for name in os.listdir(path) if (base := find_base_offset(name)) is not None
    )
    flushed = max((state.recovery_points or {}).get(topic_partition, 0), known_from or 0)
    for base, bound in pairwise(bases):
        if bound <= flushed:
            continue
        segment = Segment(
            topic_partition=topic_partition,
            directory=path,
            base_offset=base,
            end_offset_bound=bound,
        )
        valid_bytes = _valid_bytes(segment)
        if valid_bytes < segment.size_bytes():
            yield torn_segment(segment, valid_bytes)
            return


def torn_segment(segment: Segment, valid_bytes: int) -> Finding:
    """Say that a broker's recovery cuts a closed segment."""
    return Finding(
        kind=FindingKind.TORN_SEGMENT,
        path=segment.log_path,
        topic_partition=segment.topic_partition,
        position=valid_bytes,
        detail="a closed segment above the recovery point does not end with a good batch",
        broker=CUTS_THE_LOG,
        refuses_writes=True,
    )


def _valid_bytes(segment: Segment) -> int:
    """Measure the good batches that a segment starts with."""
    valid_bytes = 0
    with segment.open_log() as file:
        walk = HeaderWalk(segment, file, 0, ReadBuffer(), False, None)
        try:
            for table in walk:
                is_good = check_crcs(walk.buffer, table, file_position=walk.file_position)
                if not is_good.all():
                    return int(table.position[is_good.argmin()])
                valid_bytes = int(table.position[-1] + table.size_bytes[-1])
        except CorruptRecordError as error:
            return error.position
    return valid_bytes


def _log_start(
    state: LogDirectoryState, topic_partition: TopicPartition, path: str
) -> Iterator[Finding]:
    start_offset = state.log_start_offsets.get(topic_partition, 0)
    bases = [base for name in os.listdir(path) if (base := find_base_offset(name)) is not None]
    if not bases or max(bases) >= start_offset:
        return
    last = Segment(
        topic_partition=topic_partition,
        directory=path,
        base_offset=max(bases),
        end_offset_bound=None,
    )
    with suppress(CorruptRecordError):
        end_offset = max(
            (int(table.last_offset[-1]) + 1 for table in last.headers(0, MAX_OFFSET)),
            default=last.base_offset,
        )
        if end_offset < start_offset:
            yield _start_beyond_end(topic_partition, path, start_offset, end_offset)


def _start_beyond_end(
    topic_partition: TopicPartition, path: str, start_offset: int, end_offset: int
) -> Finding:
    return Finding(
        kind=FindingKind.LOG_START,
        path=path,
        topic_partition=topic_partition,
        detail=f"the log ends at offset {end_offset}, below its start {start_offset} in "
        f"{LOG_START_OFFSET_CHECKPOINT}",
        broker="a broker deletes all its segments",
        refuses_writes=True,
    )


# Before a write


def check_write(
    layout: TargetLayout,
    topic_partitions: Iterable[TopicPartition],
    states: Mapping[str, LogDirectoryState],
    *,
    with_segments: bool = True,
) -> None:
    """Refuse to append to partitions where a broker, or a reader, would not see it.

    Parameters
    ----------
    layout : TargetLayout
    topic_partitions : iterable of TopicPartition
        Those that have no directory yet are left out.
    states : mapping of log directory to LogDirectoryState
    with_segments : bool
        Whether closed segments above the recovery point are read: those that no writer of this
        library has read or synced yet.

    Raises
    ------
    PreflightError
    """
    look = _surroundings_of(layout)
    findings = [it for path in layout.log_directories for it in unreadable_checkpoints(path)]
    for topic_partition in topic_partitions:
        if not layout.exists(topic_partition):
            continue
        directory = layout.directory_of(topic_partition)
        path = os.path.join(directory, str(topic_partition))
        findings += _losses(look, topic_partition, path)
        findings += _shared_folders(layout, path)
        if with_segments:
            known_from = last_written_base_offset(path)
            findings += _torn_segments(states[directory], path, known_from)
    _refuse(findings)


def check_places(layout: TargetLayout, topic_partitions: Iterable[TopicPartition]) -> None:
    """Refuse to clean partitions that stand twice, or whose starts cannot be read.

    Raises
    ------
    PreflightError
    """
    look = _surroundings_of(layout)
    findings = [it for path in layout.log_directories for it in unreadable_checkpoints(path)]
    for topic_partition in topic_partitions:
        directory = layout.directory_of(topic_partition)
        path = os.path.join(directory, str(topic_partition))
        findings += _twice(look, topic_partition, path)
        findings += _shared_folders(layout, path)
    _refuse(findings)


def _shared_folders(layout: TargetLayout, path: str) -> Iterator[Finding]:
    if path in layout.twins:
        yield _shared_folder(path, layout.twins[path])


def check_tail(tail: PartitionTail) -> None:
    """Refuse to append to a log that ends below its start: a broker deletes all of it.

    Raises
    ------
    PreflightError
    """
    if tail.file_bytes >= 0 and tail.segment.next_offset < tail.log_start_offset:
        _refuse(
            [
                _start_beyond_end(
                    tail.topic_partition,
                    tail.directory,
                    tail.log_start_offset,
                    tail.segment.next_offset,
                )
            ]
        )


def _surroundings_of(layout: TargetLayout) -> _Surroundings:
    cluster = layout.cluster
    if cluster is not None and layout.allow_unsafe:
        cluster = replace(cluster, topics=None)
    return _Surroundings(log_directories=layout.log_directories, cluster=cluster)


def _refuse(findings: Iterable[Finding]) -> None:
    refusing = [finding for finding in findings if finding.refuses_writes]
    if refusing:
        raise PreflightError(refusing)
