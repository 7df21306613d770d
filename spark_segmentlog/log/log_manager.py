"""All partitions below some paths: log directories, partition directories, `.log` files, globs.

Several log directories are one log, as ``log.dirs`` is. Nothing is opened here but the small
checkpoint files: names come from one listing of each folder. A commit of this library becomes
visible at once on all its partitions, so the state of commits is taken before and after the
listing, and again around the log end offsets, until it has not changed in between.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from spark_segmentlog.errors import (
    LogPathNotFoundError,
    SegmentLogError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.log import checkpoints
from spark_segmentlog.log.file_names import TopicPartition
from spark_segmentlog.log.log_directory import LogDirectoryState, are_unchanged
from spark_segmentlog.log.parallel import in_parallel
from spark_segmentlog.log.partition_listing import PartitionListing, list_partition
from spark_segmentlog.log.partition_log import PartitionLog
from spark_segmentlog.log.path_resolver import FoundPartition, PathResolver

LISTING_ATTEMPTS: Final = 100

_Log = TypeVar("_Log", bound=PartitionLog)
_log = logging.getLogger(__name__)


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
        places: Sequence[FoundPartition],
        states: Mapping[str, LogDirectoryState],
        logs: Mapping[TopicPartition, PartitionLog],
        reopen: Callable[[], LogManager],
    ) -> None:
        self._places = places
        self._states = states
        self._reopen = reopen
        self.topic_partitions: Mapping[TopicPartition, PartitionLog] = MappingProxyType(logs)

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
            resolver = PathResolver(filesystem, include_deleted=include_deleted)
            try:
                states = resolver.resolve(texts)
                logs = _load(resolver.places, states, skip_corrupt, check_crcs)
            except FileNotFoundError as error:
                if isinstance(error, SegmentLogError):
                    raise
                continue
            if are_unchanged(states, resolver.storages):
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
            ends = in_parallel(lambda log: log.log_end_offset, logs)
            storages = {place.log_directory: place.storage for place in self._places}
            if are_unchanged(self._states, storages):
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


def _load(
    places: Sequence[FoundPartition],
    states: Mapping[str, LogDirectoryState],
    skip_corrupt: bool,
    check_crcs: bool,
) -> dict[TopicPartition, PartitionLog]:
    logs = in_parallel(
        lambda place: open_found(
            PartitionLog,
            place,
            states[place.log_directory],
            list_partition(place.storage, place.directory),
        ),
        places,
    )
    for log in logs:
        log.skip_corrupt = skip_corrupt
        log.check_crcs = check_crcs
    return choose_replicas(logs)


def open_found(
    kind: type[_Log], place: FoundPartition, state: LogDirectoryState, listing: PartitionListing
) -> _Log:
    """Make the log of a partition directory that was listed."""
    return kind(
        place.topic_partition,
        place.directory,
        state=state,
        listing=listing if place.base_offsets is None else listing.only(place.base_offsets),
        all_base_offsets=listing.base_offsets,
        storage=place.storage,
    )


def choose_replicas(logs: Iterable[_Log]) -> dict[TopicPartition, _Log]:
    """Choose for each partition which of its directories serves; sorted."""
    replicas: dict[TopicPartition, list[_Log]] = {}
    for log in logs:
        replicas.setdefault(log.topic_partition, []).append(log)
    return {
        topic_partition: group[0] if len(group) == 1 else choose_replica(group)
        for topic_partition, group in sorted(replicas.items())
    }


def choose_replica(replicas: Sequence[_Log]) -> _Log:
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
