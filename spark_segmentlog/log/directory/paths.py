"""From paths to partition directories: log directories, partition directories, files, globs.

A folder of partitions is listed until the listing can be believed. Beside the partitions, the state
of each log directory is read before they are: who lists the partitions next compares it with the
state after that.

In a log directory the live partitions count. Directories beside the log (``-delete``, ``-future``,
``-stray``) and files on their way out (``.deleted``) are read where their own path is given.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    NotALogDirectoryError,
)
from spark_segmentlog.log.directory.folder_memo import RememberingReader
from spark_segmentlog.log.directory.journal import COMMIT_DIRECTORY_NAME
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.directory.versions import VERSIONS_FILE_NAME
from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.io.as_listed import as_listed
from spark_segmentlog.log.io.lock import BROKER_LOCK_FILE_NAME
from spark_segmentlog.log.io.reading import LOCAL, Storage, without_secrets
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.io.signature import LISTING_ATTEMPTS
from spark_segmentlog.log.names import (
    ASIDE_DIRECTORY_SUFFIXES,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INTERNAL_TOPIC_PREFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TopicPartition,
    find_aside_topic_partition,
    find_base_offset,
    find_left_topic_partition,
    find_topic_partition,
    parse_partition_directory_name,
)

LOG_DIRECTORY_FILES: Final = frozenset(
    (
        checkpoints.META_PROPERTIES,
        checkpoints.LOG_START_OFFSET_CHECKPOINT,
        checkpoints.RECOVERY_POINT_CHECKPOINT,
        checkpoints.HIGH_WATERMARK_CHECKPOINT,
        checkpoints.CLEANER_OFFSET_CHECKPOINT,
        checkpoints.CLEAN_SHUTDOWN_MARK,
        VERSIONS_FILE_NAME,
        BROKER_LOCK_FILE_NAME,
    )
)
"""What a broker or a writer leaves in a log directory, whether or not it holds a partition."""

# The best first, where a segment is named under several.
_FILE_SUFFIXES: Final = ("", SWAP_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX)
# Folders that are looked into to name log directories below a folder that is none.
MOST_BELOW: Final = 20
_PARTITION_FILES: Final = (checkpoints.LEADER_EPOCH_CHECKPOINT, checkpoints.PARTITION_METADATA)


@dataclass(slots=True)
class ListedPartition:
    """A partition directory to list.

    Attributes
    ----------
    named : dict of int to str, or None
        Base offsets of the segments whose files were given, with what stands after their names;
        None for all of the directory.
    is_named : bool
        Whether its own path was given, or that of a file in it.
    """

    topic_partition: TopicPartition
    directory: str
    log_directory: str
    storage: Storage
    named: dict[int, str] | None = None
    is_named: bool = False


FindPlaces = Callable[[Storage, str, Sequence[str] | None], list[ListedPartition]]
"""Finds partitions at a path that is no log directory, by the folders in it if it was listed."""


class PathResolver:
    """Turns paths into partition directories, and reads the state of their log directories.

    Parameters
    ----------
    filesystem : pyarrow or fsspec file system, StorageOptions, or None
        Without a file system, the local disk or what a path's scheme says.
    include_deleted : bool
        Whether ``-delete`` and ``-stray`` directories count.
    reader : RememberingReader
        Reads the folders.
    find_places : callable
        Asked where a path is no log directory.

    Attributes
    ----------
    storages : dict of str to Storage
        Where each log directory is.
    """

    def __init__(
        self,
        filesystem: Any,
        *,
        reader: RememberingReader,
        find_places: FindPlaces,
        include_deleted: bool = False,
    ) -> None:
        self._find_places = find_places
        self._filesystem = filesystem
        self._include_deleted = include_deleted
        self._reader = reader
        self._places: dict[str, ListedPartition] = {}
        self._states: dict[str, LogDirectoryState] = {}
        self._empty: list[EmptyLogDirectoryError] = []
        self._listed: dict[str, tuple[Storage, list[str]]] = {}
        self.storages: dict[str, Storage] = {}

    @property
    def places(self) -> list[ListedPartition]:
        """The partition directories that were found, without those that a commit is making."""
        return [
            place
            for place in self._places.values()
            if not self._states[place.log_directory].is_hidden(place.topic_partition)
        ]

    def resolve(self, paths: Sequence[str]) -> dict[str, LogDirectoryState]:
        """Find the partition directories below some paths; gives the states of log directories.

        Raises
        ------
        LogPathNotFoundError, NotALogDirectoryError, EmptyLogDirectoryError, LogPermissionError
        FileNotFoundError
            A folder has gone meanwhile.
        """
        for _ in range(LISTING_ATTEMPTS):
            self._resolve_all(paths)
            if self._is_as_listed():
                break
        if not self.places and not self._reader.is_patient:
            raise (
                self._empty[0]
                if self._empty
                else EmptyLogDirectoryError(
                    f"{_shown(paths)} holds no partition yet: a commit is making the first ones"
                )
            )
        return self._states

    def _resolve_all(self, paths: Sequence[str]) -> None:
        for known in (self._places, self._states, self._empty, self._listed):
            known.clear()
        for path in paths:
            storage, inner = resolve_storage(path, self._filesystem)
            storage = as_listed(storage)
            expanded = expand(storage, inner)
            is_named = expanded == [inner] or _names_internal_topics(inner)
            for each in expanded:
                self._resolve_one(storage, each, is_named=is_named)

    def _is_as_listed(self) -> bool:
        """Tell whether no partition can have moved from one folder to another meanwhile."""
        if len(self._listed) < 2:
            return True
        return all(
            set(self._reader.list_directories(storage, path)[0]) == set(directories)
            for path, (storage, directories) in self._listed.items()
        )

    def _resolve_one(self, storage: Storage, path: str, *, is_named: bool) -> None:
        if storage.is_directory(path):
            self._resolve_directory(storage, path, is_named=is_named)
        elif storage.exists(path):
            self._resolve_file(storage, path, is_named=is_named)
        elif not self._resolve_otherwise(storage, path):
            raise LogPathNotFoundError(f"{path} does not exist")

    def _resolve_directory(self, storage: Storage, path: str, *, is_named: bool) -> None:
        real_path = storage.real_path(path)
        directories, others = self._reader.list_directories(storage, path)
        found = [(name, tp) for name in directories if (tp := self._partition_in(name))]
        if found:
            self._read_state(storage, real_path)
            self._listed[real_path] = (storage, directories)
            for name, topic_partition in found:
                self._add(
                    ListedPartition(topic_partition, f"{real_path}/{name}", real_path, storage)
                )
        elif is_partition_directory(others):
            parent, _, name = real_path.rpartition("/")
            topic_partition = parse_partition_directory_name(name)
            self._read_state(storage, parent or "/")
            self._add(
                ListedPartition(
                    topic_partition, real_path, parent or "/", storage, is_named=is_named
                )
            )
        elif not self._resolve_otherwise(storage, path, directories):
            empty = _empty_text(path, directories, others)
            if not _may_get_partitions(directories, others) and not self._reader.is_known(
                real_path
            ):
                raise EmptyLogDirectoryError(empty + _tell_below(storage, path, directories))
            # One of several log directories may hold no partition yet.
            self._read_state(storage, real_path)
            self._listed[real_path] = (storage, directories)
            self._empty.append(EmptyLogDirectoryError(empty))

    def _resolve_otherwise(
        self, storage: Storage, path: str, directories: Sequence[str] | None = None
    ) -> bool:
        """Look for partitions that are in no log directory."""
        places = self._find_places(storage, path, directories)
        for place in places:
            self._places.setdefault(place.directory, place)
            if place.log_directory not in self._states:
                state = LogDirectoryState(path=place.log_directory, is_clean=True)
                self._states[place.log_directory] = state.with_commits(storage)
                self.storages[place.log_directory] = storage
        return bool(places)

    def _resolve_file(self, storage: Storage, path: str, *, is_named: bool) -> None:
        real_path = storage.real_path(path)
        directory, _, name = real_path.rpartition("/")
        suffix = next(
            (file_suffix for file_suffix in _FILE_SUFFIXES[1:] if name.endswith(file_suffix)), ""
        )
        base_offset = find_base_offset(name, LOG_SUFFIX + suffix)
        if base_offset is None:
            raise NotALogDirectoryError(
                f"{path} is a file, but no segment: give a log directory, a partition directory "
                "or a file named like 00000000000000000000.log"
            )
        parent, _, directory_name = directory.rpartition("/")
        topic_partition = parse_partition_directory_name(directory_name)
        self._read_state(storage, parent or "/")
        named = {base_offset: suffix}
        self._add(
            ListedPartition(topic_partition, directory, parent or "/", storage, named, is_named)
        )

    def _partition_in(self, name: str) -> TopicPartition | None:
        found = find_topic_partition(name)
        if found is None and self._include_deleted:
            return find_left_topic_partition(name)
        return found

    def _read_state(self, storage: Storage, log_directory: str) -> None:
        if log_directory not in self._states:
            self._states[log_directory] = self._reader.read_state(log_directory, storage)
            self.storages[log_directory] = storage

    def _add(self, place: ListedPartition) -> None:
        known = self._places.setdefault(place.directory, place)
        known.is_named |= place.is_named
        if known.named is None or place.named is None:
            known.named = None
            return
        for base_offset, suffix in place.named.items():
            before = known.named.setdefault(base_offset, suffix)
            known.named[base_offset] = min(before, suffix, key=_FILE_SUFFIXES.index)


def log_directory_of(path: str) -> str:
    """Name the log directory whose lock guards a local path: itself, or the one that a partition
    directory beside the log stands in."""
    real_path = os.path.realpath(path)
    parent, name = os.path.split(real_path)
    return parent if find_aside_topic_partition(name) else real_path


def expand(storage: Storage, path: str) -> list[str]:
    """Expand a glob; a path that exists is itself, whatever characters it holds."""
    if not glob.has_magic(path) or storage.exists(path):
        return [path]
    matches = sorted(storage.glob(path))
    if storage == LOCAL:
        # A file that was renamed meanwhile may have been missed under both names.
        for _ in range(LISTING_ATTEMPTS):
            earlier, matches = matches, sorted(storage.glob(path))
            if matches == earlier:
                break
    found = [match for match in matches if not _is_met_by_chance(match, path)]
    if not found:
        raise LogPathNotFoundError(f"{path} matches nothing")
    return found


def _is_met_by_chance(path: str, pattern: str) -> bool:
    """Tell whether a glob that is not about them matches what lies beside the log, or goes."""
    name = path.rstrip("/").rpartition("/")[2]
    suffixes = (*_FILE_SUFFIXES[1:], *ASIDE_DIRECTORY_SUFFIXES)
    return any(name.endswith(suffix) and suffix not in pattern for suffix in suffixes)


def is_partition_directory(file_names: Sequence[str]) -> bool:
    """Tell whether a folder without partitions holds what only a partition directory does."""
    return any(name.startswith(_PARTITION_FILES) for name in file_names) or any(
        find_base_offset(name) is not None
        or find_base_offset(name, f"{LOG_SUFFIX}.swap") is not None
        for name in file_names
    )


def _may_get_partitions(directories: Sequence[str], others: Sequence[str]) -> bool:
    """Tell a log directory without partitions from a folder of something else."""
    if COMMIT_DIRECTORY_NAME in directories or not (directories or others):
        return True
    is_moving = any(find_aside_topic_partition(name) for name in directories)
    return is_moving or not LOG_DIRECTORY_FILES.isdisjoint(others)


def _names_internal_topics(pattern: str) -> bool:
    """Tell whether a glob asks for the broker's own topics, and does not just match them too."""
    return any(part.startswith(INTERNAL_TOPIC_PREFIX) for part in pattern.split("/"))


def _shown(paths: Sequence[str]) -> str:
    return ", ".join(map(without_secrets, paths))


def _empty_text(path: str, directories: Sequence[str], files: Sequence[str]) -> str:
    held = f"{len(directories)} folders and {len(files)} files"
    beside = sorted(name for name in directories if find_aside_topic_partition(name))
    advice = (
        f"; {len(beside)} are partitions that a broker was deleting, moving or setting aside: such "
        f"a one is read by its own path, as {path.rstrip('/')}/{beside[0]}"
        if beside
        else ""
    )
    return (
        f"{path} holds no partition: none of its {held} is a folder named topic-partition or a "
        f"segment{advice}"
    )


def _tell_below(storage: Storage, path: str, directories: Sequence[str]) -> str:
    """Name the log directories among the first folders in a folder that is none."""
    folders = [f"{path.rstrip('/')}/{name}" for name in sorted(directories)[:MOST_BELOW]]
    found = [folder for folder in folders if _holds_partitions(storage, folder)]
    return f"; log directories lie in it: name {', '.join(found)}" if found else ""


def _holds_partitions(storage: Storage, path: str) -> bool:
    """Tell whether partitions lie in a folder; not where it is gone or may not be read."""
    try:
        return any(map(find_topic_partition, storage.list_directories(path)[0]))
    except OSError:
        return False
