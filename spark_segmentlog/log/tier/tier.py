"""Remote stores beside log directories, and in their place: finds what each partition has there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.directory.paths import ListedPartition
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import read_leader_epochs, read_topic_id
from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import find_topic_partition
from spark_segmentlog.log.tier.listed_storage import ListedFolders
from spark_segmentlog.log.tier.remote_log import RemoteLog
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.log.tier.remote_segment import TopicIdPartition
from spark_segmentlog.log.tier.remote_source import RemoteSource
from spark_segmentlog.log.tier.stores import RemoteStore, find_store, open_store, store_root
from spark_segmentlog.log.tier.tiered_storage import TieredStorage
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS


class Tier:
    """What a read takes from remote stores.

    Parameters
    ----------
    filesystem : pyarrow or fsspec file system, optional
        Where the stores are; by default the local disk, or what their scheme says.
    """

    def __init__(self, options: RemoteOptions = NO_REMOTE, filesystem: Any = None) -> None:
        self._options = options
        self._filesystem = options.storage if filesystem is None else filesystem
        self._source: RemoteSource | None = None
        self._alone: dict[str, RemoteSource] = {}
        self._log_directories: tuple[tuple[Storage, str], ...] = ()

    def find_places(
        self, storage: Storage, path: str, directories: Sequence[str] | None
    ) -> list[ListedPartition]:
        """Find the partitions of a store that is read by itself; none where it is no store.

        Raises
        ------
        OptionValueError
            The store has several topics of one name, and nothing says which is meant.
        """
        layout = self._options.layout
        folders = ListedFolders(storage)
        if directories is not None:
            folders.know(path, directories)
        store = (
            find_store(folders, path)
            if layout is None or self._options.uris
            else RemoteStore(storage, store_root(folders, path), layout)
        )
        if store is None:
            return []
        source = self._alone.setdefault(store.root, RemoteSource([store], self._options.keys))
        places = _with_pieces(
            [
                _place(store, source, partition)
                for partition in store.layout.list_partitions(folders, store.root)
            ]
        )
        return self._one_of_each_name(places)

    def attach(
        self,
        places: Sequence[ListedPartition],
        states: Mapping[str, LogDirectoryState],
        storages: Mapping[str, Storage],
    ) -> list[ListedPartition]:
        """Put the remote segments of partitions beside their local files.

        Raises
        ------
        RemoteStorageError
        """
        if not self._options.uris:
            return list(places)
        source = self._refreshed(tuple((storages[path], path) for path in states))
        attached = in_parallel(
            lambda place: _attached(place, source, states[place.log_directory]), places
        )
        return [*attached, *self._named_by_id(source, places)]

    def _refreshed(self, log_directories: tuple[tuple[Storage, str], ...]) -> RemoteSource:
        if self._source is None or self._log_directories != log_directories:
            options = self._options
            stores = [open_store(uri, options.layout, self._filesystem) for uri in options.uris]
            self._source = RemoteSource(stores, options.keys, log_directories)
            self._log_directories = log_directories
        self._source.refresh()
        return self._source

    def _named_by_id(
        self, source: RemoteSource, places: Sequence[ListedPartition]
    ) -> list[ListedPartition]:
        """Find partitions of the topic ids that are asked for and that no directory is of."""
        wanted = set(self._options.topic_ids)
        if not wanted:
            return []
        found = dict.fromkeys(source.metadata.partitions(), source.stores[0])
        for store in source.stores:
            for partition in store.layout.list_partitions(store.storage, store.root):
                found.setdefault(partition, store)
        present = {place.topic_partition for place in places}
        chosen = [partition for partition in sorted(found) if partition.topic_id in wanted]
        taken = [partition for partition in chosen if partition.topic_partition in present]
        local = {_topic_id(place) for place in places}
        for partition in taken:
            if partition.topic_id not in local:
                raise OptionValueError(
                    f"option 'remoteStorage.topicIds' names {partition.topic_id}, a topic "
                    f"{partition.topic_partition.topic!r}, but the log directory has another one "
                    "of that name: read the store by itself"
                )
        others = [partition for partition in chosen if partition.topic_partition not in present]
        return _with_pieces([_place(found[partition], source, partition) for partition in others])

    def _one_of_each_name(self, places: Sequence[ListedPartition]) -> list[ListedPartition]:
        """Leave out topics whose name another one has that is asked for by its id."""
        ids: dict[str, set[str]] = {}
        for place in places:
            ids.setdefault(place.topic_partition.topic, set()).add(_topic_id(place) or "")
        chosen: dict[str, str] = {}
        for topic, found in ids.items():
            wanted = found & set(self._options.topic_ids) if len(found) > 1 else found
            if len(wanted) != 1:
                raise OptionValueError(
                    f"the store has {len(found)} topics named {topic!r}, with the ids "
                    f"{', '.join(sorted(found))}: remoteStorage.topicIds, or --remote-topic-id, "
                    "must name one"
                )
            chosen[topic] = wanted.pop()
        return [
            place for place in places if chosen[place.topic_partition.topic] == _topic_id(place)
        ]


def _attached(
    place: ListedPartition, source: RemoteSource, state: LogDirectoryState
) -> ListedPartition:
    """Put remote segments beside a partition's local files, if there are any."""
    topic_id = _topic_id(place)
    is_live = find_topic_partition(place.directory.rpartition("/")[2]) is not None
    is_internal = place.topic_partition.topic in INTERNAL_TOPICS
    if topic_id is None or place.named is not None or is_internal or not is_live:
        return place
    lineage = read_leader_epochs(place.storage, place.directory)
    start_offset = state.log_start_offset(place.topic_partition)
    partition = TopicIdPartition(place.topic_partition, topic_id)
    remote = RemoteLog(source, partition, lineage, start_offset)
    if not remote.pieces():
        return place
    return replace(place, storage=TieredStorage(place.directory, place.storage, remote))


def _place(
    store: RemoteStore, source: RemoteSource, partition: TopicIdPartition
) -> ListedPartition:
    directory = store.layout.path_of(store.root, partition, 0, "", None).rpartition("/")[0]
    return ListedPartition(
        partition.topic_partition,
        directory,
        store.root.rstrip("/"),
        TieredStorage(directory, None, RemoteLog(source, partition)),
    )


def _with_pieces(places: Sequence[ListedPartition]) -> list[ListedPartition]:
    """Leave out partitions of which a store has nothing any more."""
    are_there = in_parallel(lambda place: place.storage.exists(place.directory), places)
    return [place for place, is_there in zip(places, are_there, strict=True) if is_there]


def _topic_id(place: ListedPartition) -> str | None:
    if isinstance(place.storage, TieredStorage):
        return place.storage.remote.partition.topic_id
    return read_topic_id(place.storage, place.directory)
