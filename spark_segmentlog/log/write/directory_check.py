"""What a broker would stop at in a log directory: its owner, and folders that are no partitions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_segmentlog.log.directory.cluster import unreadable_owner
from spark_segmentlog.log.directory.journal import COMMIT_DIRECTORY_NAME
from spark_segmentlog.log.findings import STAYS_DOWN, Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    CLEAN_SHUTDOWN_MARK,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    parse_meta_properties,
    read_text,
)
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import (
    ASIDE_DIRECTORY_SUFFIXES,
    MAX_PARTITION,
    TopicPartition,
    find_topic_partition,
)

# A broker keeps indexes of tiered segments there, and takes it for no partition.
REMOTE_INDEX_DIRECTORY: Final = "remote-log-index-cache"

SETS_ASIDE: Final = "a broker renames the folder to -stray, and starts with an empty one"

JAVA_INTEGER: Final = re.compile(r"[+-]?[0-9]+")

_DYING_NAME: Final = re.compile(r"\S+-[0-9]+\.\S+-(delete|future|stray)")

OFFSET_CHECKPOINTS: Final = (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryContents:
    """What one look into a log directory has seen.

    Attributes
    ----------
    is_stopped : bool
        Whether a broker has said that it was shut down cleanly: then all checkpoints are its last.
    checkpoints : mapping of str to str or None
        Texts of the offset checkpoints by their names; None for one that is missing.
    """

    path: str
    is_stopped: bool
    checkpoints: Mapping[str, str | None]
    folders: Sequence[str]
    files: Sequence[str]
    partitions: frozenset[TopicPartition]

    @classmethod
    def read(cls, path: str) -> DirectoryContents:
        """Look into a log directory."""
        is_stopped = LOCAL.exists(os.path.join(path, CLEAN_SHUTDOWN_MARK))
        checkpoints = read_offset_checkpoints(path)
        folders, files = LOCAL.list_directories(path)
        return cls(
            path=path,
            is_stopped=is_stopped,
            checkpoints=checkpoints,
            folders=folders,
            files=files,
            partitions=frozenset(filter(None, map(find_topic_partition, folders))),
        )


def read_offset_checkpoints(log_directory: str) -> dict[str, str | None]:
    """Read the offset checkpoints of a log directory; None for one that is missing."""
    return {name: read_text(LOCAL, log_directory, name) for name in OFFSET_CHECKPOINTS}


def compare_owners(directories: Sequence[str]) -> Iterator[Finding]:
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
            yield owner_finding(
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
        yield owner_finding(path, "is missing, and another log directory belongs to a cluster")


def owner_finding(path: str, detail: str) -> Finding:
    """Say what is wrong with the `meta.properties` of a log directory."""
    return Finding(
        kind=FindingKind.META_PROPERTIES,
        path=os.path.join(path, META_PROPERTIES),
        detail=detail,
        broker=f"{STAYS_DOWN} with both in log.dirs",
    )


def foreign_folders(directory: str, names: Iterable[str]) -> Iterator[Finding]:
    """Find folders of a log directory that are no partitions."""
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
        topic and JAVA_INTEGER.fullmatch(number) and int(number) <= MAX_PARTITION
    ) and not name.endswith(ASIDE_DIRECTORY_SUFFIXES)
