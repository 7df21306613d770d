"""From paths to partition directories: log directories, partition directories, files, globs.

Names come from one listing of each folder. Beside the partitions, the state of each log directory
is read before they are: who lists the partitions next compares it with the state behind that.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    NotALogDirectoryError,
)
from spark_segmentlog.log import checkpoints
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
from spark_segmentlog.log.log_directory import LogDirectoryState

_PARTITION_FILES: Final = (checkpoints.LEADER_EPOCH_CHECKPOINT, checkpoints.PARTITION_METADATA)


@dataclass(slots=True)
class FoundPartition:
    """A partition directory to list; `base_offsets` names some of its files, None means all."""

    topic_partition: TopicPartition
    directory: str
    log_directory: str
    storage: Storage
    base_offsets: set[int] | None = field(default=None)


class FolderReader:
    """How folders are read on the way to partitions; a subclass may remember what it read."""

    def list_directories(self, storage: Storage, path: str) -> tuple[list[str], list[str]]:
        """List the names of the folders and of the other files in a folder."""
        return storage.list_directories(path)

    def read_state(self, log_directory: str, storage: Storage) -> LogDirectoryState:
        """Read the state of a log directory."""
        return LogDirectoryState.read(log_directory, storage)

    def awaits_partitions(
        self, path: str, directories: Sequence[str], others: Sequence[str]
    ) -> bool:
        """Tell whether a folder without partitions is a log directory that may still get some."""
        return False


class PathResolver:
    """Turns paths into partition directories, and reads the state of their log directories.

    Parameters
    ----------
    filesystem : pyarrow or fsspec file system, or None
        None for the local disk, or what a path's scheme says.
    include_deleted : bool
        Whether ``-delete`` directories count, for partitions that have no other.
    reader : FolderReader
        How folders are read.

    Attributes
    ----------
    storages : dict of str to Storage
        Where each log directory is.
    """

    def __init__(
        self,
        filesystem: Any,
        *,
        include_deleted: bool = False,
        reader: FolderReader | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._include_deleted = include_deleted
        self._reader = reader or FolderReader()
        self._places: dict[str, FoundPartition] = {}
        self._states: dict[str, LogDirectoryState] = {}
        self._empty: list[EmptyLogDirectoryError] = []
        self.storages: dict[str, Storage] = {}

    @property
    def places(self) -> list[FoundPartition]:
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
        directories, others = self._reader.list_directories(storage, path)
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
            is_awaited = self._reader.awaits_partitions(real_path, directories, others)
            if not is_awaited and not _is_log_directory(others):
                raise empty
            # One of several log directories may hold no partition yet.
            self._read_state(storage, real_path)
            if not is_awaited:
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
            self._states[log_directory] = self._reader.read_state(log_directory, storage)
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
            self._places[directory] = FoundPartition(
                topic_partition, directory, log_directory, storage, base_offsets
            )
        elif base_offset is None:
            place.base_offsets = None
        elif place.base_offsets is not None:
            place.base_offsets.add(base_offset)


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
