"""All partitions below some paths: log directories, partition directories, `.log` files, globs.

Several log directories are one log, as ``log.dirs`` is. Nothing is opened here but the small
checkpoint files: names come from one listing of each folder. A commit of this library becomes
visible at once on all its partitions, so the state of commits is taken before and after the
listing, and again around the log end offsets, until it has not changed in between.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    NotALogDirectoryError,
    SegmentLogError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.log import checkpoints
from spark_segmentlog.log.commit_journal import CommitState
from spark_segmentlog.log.file_names import (
    LOG_SUFFIX,
    TopicPartition,
    find_base_offset,
    find_deleted_topic_partition,
    find_topic_partition,
    parse_partition_directory_name,
)
from spark_segmentlog.log.files import Storage, resolve_storage
from spark_segmentlog.log.lock import BROKER_LOCK_FILE_NAME
from spark_segmentlog.log.log_directory import LogDirectoryState, commit_state
from spark_segmentlog.log.partition_listing import list_partition
from spark_segmentlog.log.partition_log import PartitionLog

LISTING_ATTEMPTS: Final = 100
LOADING_THREADS: Final = 8
_PARTITION_FILES: Final = (checkpoints.LEADER_EPOCH_CHECKPOINT, checkpoints.PARTITION_METADATA)

_T = TypeVar("_T")
_R = TypeVar("_R")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PartitionPlace:
    """A partition directory to list; `base_offsets` names some of its files, None means all."""

    topic_partition: TopicPartition
    directory: str
    log_directory: str
    storage: Storage
    base_offsets: set[int] | None = field(default=None)


class LogManager:
    """Partitions by topic and number.

    Attributes
    ----------
    topic_partitions : mapping of TopicPartition to PartitionLog
        Sorted by topic, then by number.
    log_directories : tuple of str
        The log directories that were read, those of single partitions and files included.
    """

    def __init__(
        self,
        places: Sequence[_PartitionPlace],
        states: Mapping[str, LogDirectoryState],
        logs: Mapping[TopicPartition, PartitionLog],
        reopen: Callable[[], LogManager],
    ) -> None:
        self._places = places
        self._states = states
        self._reopen = reopen
        self.topic_partitions: Mapping[TopicPartition, PartitionLog] = MappingProxyType(
            {topic_partition: logs[topic_partition] for topic_partition in sorted(logs)}
        )

    @classmethod
    def open(
        cls,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        filesystem: Any = None,
        include_deleted: bool = False,
        skip_corrupt: bool = False,
        check_crcs: bool = True,
    ) -> LogManager:
        """List the partitions below some paths.

        Parameters
        ----------
        paths : path or iterable of paths
            Log directories, partition directories, `.log` files, globs of these.
        filesystem : pyarrow or fsspec file system, optional
            Where the paths are; by default the local disk, or what their scheme says.
        include_deleted : bool
            Whether ``-delete`` directories count, for partitions that have no other.
        skip_corrupt : bool
            Whether bad bytes are stepped over when offsets are looked up, or are an error.
        check_crcs : bool
            Whether checksums are compared when offsets are looked up by time.

        Raises
        ------
        LogPathNotFoundError, NotALogDirectoryError, EmptyLogDirectoryError, LogPermissionError
        """
        wanted = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        texts = [os.fspath(path) for path in wanted]
        if not texts:
            raise LogPathNotFoundError("no path was given, at least one is needed")
        for _ in range(LISTING_ATTEMPTS):
            resolver = _PathResolver(filesystem, include_deleted)
            try:
                states = resolver.resolve(texts)
                logs = _load(resolver.places, states, skip_corrupt, check_crcs)
            except FileNotFoundError as error:
                if isinstance(error, SegmentLogError):
                    raise
                continue
            if _are_unchanged(states, resolver.storages):
                return cls(
                    resolver.places,
                    states,
                    logs,
                    lambda: cls.open(
                        texts,
                        filesystem=filesystem,
                        include_deleted=include_deleted,
                        skip_corrupt=skip_corrupt,
                        check_crcs=check_crcs,
                    ),
                )
        raise SegmentLogError(
            f"{', '.join(texts)} changed during each of {LISTING_ATTEMPTS} listings: commits "
            "follow each other faster than the folders can be listed"
        )

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The log directories that were read, by path."""
        return tuple(self._states)

    def topics(self) -> list[str]:
        """Names of the topics, sorted."""
        return sorted({topic_partition.topic for topic_partition in self.topic_partitions})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Partitions of a topic, sorted; none for a topic that is not there."""
        return [it for it in self.topic_partitions if it.topic == topic]

    def partition_log(self, topic_partition: TopicPartition) -> PartitionLog:
        """Find a partition.

        Raises
        ------
        UnknownTopicOrPartitionError
        """
        found = self.topic_partitions.get(topic_partition)
        if found is None:
            raise UnknownTopicOrPartitionError(self._unknown_text(topic_partition))
        return found

    def offset_bounds(
        self, topic_partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Read (log start offset, log end offset) of partitions, all as of one commit.

        Partitions are listed again where a commit came in between, so take the `PartitionLog` of a
        partition after this call. All partitions by default.
        """
        for _ in range(LISTING_ATTEMPTS):
            wanted = list(self.topic_partitions if topic_partitions is None else topic_partitions)
            logs = [self.partition_log(topic_partition) for topic_partition in wanted]
            ends = _in_parallel(lambda log: log.log_end_offset, logs)
            storages = {place.log_directory: place.storage for place in self._places}
            if _are_unchanged(self._states, storages):
                starts = [log.log_start_offset for log in logs]
                return dict(zip(wanted, zip(starts, ends, strict=True), strict=True))
            self._take_over(self._reopen())
        raise SegmentLogError(
            f"{', '.join(self._states)} changed during each of {LISTING_ATTEMPTS} listings"
        )

    def _take_over(self, other: LogManager) -> None:
        self._places = other._places
        self._states = other._states
        self.topic_partitions = other.topic_partitions

    def _unknown_text(self, topic_partition: TopicPartition) -> str:
        of_topic = [it.partition for it in self.partitions_of(topic_partition.topic)]
        where = ", ".join(self._states)
        if of_topic:
            return (
                f"topic {topic_partition.topic!r} has no partition {topic_partition.partition} in "
                f"{where}: there are {of_topic}"
            )
        return f"topic {topic_partition.topic!r} is not in {where}: there are {self.topics()}"


class _PathResolver:
    """Turns paths into partition directories, and reads the state of their log directories."""

    def __init__(self, filesystem: Any, include_deleted: bool) -> None:
        self._filesystem = filesystem
        self._include_deleted = include_deleted
        self._places: dict[str, _PartitionPlace] = {}
        self._states: dict[str, LogDirectoryState] = {}
        self._empty: list[EmptyLogDirectoryError] = []
        self.storages: dict[str, Storage] = {}

    @property
    def places(self) -> list[_PartitionPlace]:
        return [
            place
            for place in self._places.values()
            if not self._states[place.log_directory].is_hidden(place.topic_partition)
        ]

    def resolve(self, paths: Sequence[str]) -> dict[str, LogDirectoryState]:
        for path in paths:
            storage, inner = resolve_storage(path, self._filesystem)
            for expanded in _expand(storage, inner):
                self._resolve_one(storage, expanded)
        if self._empty and not self._places:
            raise self._empty[0]
        return self._states

    def _resolve_one(self, storage: Storage, path: str) -> None:
        if storage.is_directory(path):
            self._resolve_directory(storage, path)
        elif storage.exists(path):
            self._resolve_file(storage, path)
        else:
            raise LogPathNotFoundError(f"{path} does not exist")

    def _resolve_directory(self, storage: Storage, path: str) -> None:
        real_path = storage.real_path(path)
        directories, others = storage.list_directories(path)
        found = [(name, tp) for name in directories if (tp := self._partition_in(name))]
        if found:
            self._read_state(storage, real_path)
            for name, topic_partition in _without_dead_twins(found):
                self._add(topic_partition, f"{real_path}/{name}", real_path, storage)
        elif _is_partition_directory(others):
            parent, _, name = real_path.rpartition("/")
            topic_partition = self._partition_in(name) or parse_partition_directory_name(name)
            self._read_state(storage, parent or "/")
            self._add(topic_partition, real_path, parent or "/", storage)
        else:
            empty = EmptyLogDirectoryError(_empty_text(path, directories, others))
            if not _is_log_directory(others):
                raise empty
            # One of several log directories may hold no partition yet.
            self._read_state(storage, real_path)
            self._empty.append(empty)

    def _resolve_file(self, storage: Storage, path: str) -> None:
        real_path = storage.real_path(path)
        directory, _, name = real_path.rpartition("/")
        base_offset = find_base_offset(name, LOG_SUFFIX)
        if base_offset is None:
            raise NotALogDirectoryError(
                f"{path} is a file, but no segment: give a log directory, a partition directory "
                "or a file named like 00000000000000000000.log"
            )
        parent, _, directory_name = directory.rpartition("/")
        topic_partition = find_deleted_topic_partition(
            directory_name
        ) or parse_partition_directory_name(directory_name)
        self._read_state(storage, parent or "/")
        self._add(topic_partition, directory, parent or "/", storage, base_offset)

    def _partition_in(self, name: str) -> TopicPartition | None:
        found = find_topic_partition(name)
        if found is None and self._include_deleted:
            return find_deleted_topic_partition(name)
        return found

    def _read_state(self, storage: Storage, log_directory: str) -> None:
        if log_directory not in self._states:
            self._states[log_directory] = LogDirectoryState.read(log_directory, storage)
            self.storages[log_directory] = storage

    def _add(
        self,
        topic_partition: TopicPartition,
        directory: str,
        log_directory: str,
        storage: Storage,
        base_offset: int | None = None,
    ) -> None:
        place = self._places.get(directory)
        if place is None:
            base_offsets = None if base_offset is None else {base_offset}
            self._places[directory] = _PartitionPlace(
                topic_partition, directory, log_directory, storage, base_offsets
            )
        elif base_offset is None:
            place.base_offsets = None
        elif place.base_offsets is not None:
            place.base_offsets.add(base_offset)


def _load(
    places: Sequence[_PartitionPlace],
    states: Mapping[str, LogDirectoryState],
    skip_corrupt: bool,
    check_crcs: bool,
) -> dict[TopicPartition, PartitionLog]:
    logs = _in_parallel(lambda place: _open_place(place, states[place.log_directory]), places)
    replicas: dict[TopicPartition, list[PartitionLog]] = {}
    for log in logs:
        log.skip_corrupt = skip_corrupt
        log.check_crcs = check_crcs
        replicas.setdefault(log.topic_partition, []).append(log)
    return {
        topic_partition: group[0] if len(group) == 1 else choose_replica(group)
        for topic_partition, group in replicas.items()
    }


def _open_place(place: _PartitionPlace, state: LogDirectoryState) -> PartitionLog:
    listing = list_partition(place.storage, place.directory)
    return PartitionLog(
        place.topic_partition,
        place.directory,
        state=state,
        listing=listing if place.base_offsets is None else listing.only(place.base_offsets),
        all_base_offsets=listing.base_offsets,
        storage=place.storage,
    )


def choose_replica(replicas: Sequence[PartitionLog]) -> PartitionLog:
    """Choose which of several directories of one partition serves.

    The one with the highest last leader epoch, then the longest: the others may hold records that
    a leader's change took back.
    """
    chosen = max(replicas, key=_rank)
    for other in replicas:
        if other is not chosen:
            cut_offset = divergence_offset(other, chosen)
            _log.info(
                "%s: %s serves; %s agrees with it below offset %d",
                chosen.topic_partition,
                chosen.directory,
                other.directory,
                cut_offset,
            )
    return chosen


def divergence_offset(replica: PartitionLog, leader: PartitionLog) -> int:
    """Find the offset from which on a replica may differ from the one that serves.

    As a follower is cut: the last epoch that both know ends where it ends in either of them. An
    epoch below all those of the leader ended where the leader's first one starts.
    """
    ends = replica.log_end_offset, leader.log_end_offset
    if not replica.leader_epochs or not leader.leader_epochs:
        return min(ends)
    last = replica.leader_epochs[-1].epoch
    known = [it.epoch for it in leader.leader_epochs if it.epoch <= last]
    if not known:
        return min(*ends, leader.leader_epochs[0].start_offset)
    return min(
        checkpoints.end_offset_for_epoch(log.leader_epochs, known[-1], log.log_end_offset)
        for log in (replica, leader)
    )


def _rank(log: PartitionLog) -> tuple[int, int, int]:
    epochs = log.leader_epochs
    return (epochs[-1].epoch if epochs else -1, log.log_end_offset, -log.log_start_offset)


def _are_unchanged(
    states: Mapping[str, LogDirectoryState], storages: Mapping[str, Storage]
) -> bool:
    return all(
        _same(state.commit_state, commit_state(path, storages[path]))
        for path, state in states.items()
    )


def _same(before: CommitState, after: CommitState) -> bool:
    return before == after


def _expand(storage: Storage, path: str) -> list[str]:
    """Expand a glob; a path that exists is itself, whatever characters it holds."""
    if not glob.has_magic(path) or storage.exists(path):
        return [path]
    found = sorted(storage.glob(path))
    if not found:
        raise LogPathNotFoundError(f"{path} matches nothing")
    return found


def _without_dead_twins(
    found: Sequence[tuple[str, TopicPartition]],
) -> list[tuple[str, TopicPartition]]:
    """Leave out ``-delete`` directories of partitions that live, as after a topic was made anew."""
    live = {topic_partition for name, topic_partition in found if find_topic_partition(name)}
    return [
        (name, topic_partition)
        for name, topic_partition in found
        if find_topic_partition(name) or topic_partition not in live
    ]


def _is_partition_directory(file_names: Sequence[str]) -> bool:
    return any(name.startswith(_PARTITION_FILES) for name in file_names) or any(
        find_base_offset(name) is not None
        or find_base_offset(name, f"{LOG_SUFFIX}.swap") is not None
        for name in file_names
    )


def _is_log_directory(files: Sequence[str]) -> bool:
    """Tell whether a folder without partitions holds what a broker or a writer leaves there."""
    return checkpoints.META_PROPERTIES in files or BROKER_LOCK_FILE_NAME in files


def _empty_text(path: str, directories: Sequence[str], files: Sequence[str]) -> str:
    held = f"{len(directories)} folders and {len(files)} files"
    dying = [name for name in directories if find_deleted_topic_partition(name)]
    advice = f"; {len(dying)} are partitions that a broker was deleting" if dying else ""
    return (
        f"{path} holds no partition: none of its {held} is a folder named topic-partition or a "
        f"segment{advice}"
    )


def _in_parallel(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    if len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(LOADING_THREADS, len(items))) as pool:
        return list(pool.map(function, items))
