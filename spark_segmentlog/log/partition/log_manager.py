"""All partitions below some paths: log directories, partition directories, `.log` files, globs.

Several log directories are one log, as ``log.dirs`` is. Nothing is opened here but the small
checkpoint files: names come from listings of the folders.

A commit of this library becomes visible at once on all its partitions. So the state of commits is
taken before and after a look: where it is the same, the look is of one moment. Where it is not,
another look follows, which lists only what changed. If that shows the partitions that are asked for
as the one before did, they were so at the moment between the two, when the state was read again:
commits to other partitions are waited for no longer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from spark_segmentlog.errors import (
    LogPathNotFoundError,
    SegmentLogError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.log.directory.folder_memo import FolderMemo, RememberingReader
from spark_segmentlog.log.directory.listing import PartitionListing, list_partition
from spark_segmentlog.log.directory.paths import ListedPartition, PathResolver
from spark_segmentlog.log.directory.state import NOTHING_COMMITTED, LogDirectoryState, are_unchanged
from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.io.reading import Storage, without_secrets
from spark_segmentlog.log.io.signature import LISTING_ATTEMPTS, FileSignature
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.listed_log import is_beside_the_log
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.log.tier.tier import Tier

# Where each partition lies, its log start and log end offset.
Bounds = dict[TopicPartition, tuple[str, int, int]]

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
    copies : tuple of PartitionLog
        Every directory of every partition, replicas that do not serve included.
    named : frozenset of TopicPartition
        Partitions that were asked for by their own path.
    """

    def __init__(self, source: _Source, look: _Look) -> None:
        self._source = source
        self._look = look

    @classmethod
    def open(
        cls,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        filesystem: Any = None,
        include_deleted: bool = False,
        may_be_empty: bool = False,
        skip_corrupt: bool = False,
        check_crcs: bool = True,
        remote: RemoteOptions = NO_REMOTE,
        remote_filesystem: Any = None,
        topics: Collection[str] = (),
    ) -> LogManager:
        """List the partitions below some paths.

        Parameters
        ----------
        paths : path or iterable of paths
            Log directories, partition directories, `.log` files, globs of these.
        filesystem : pyarrow or fsspec file system, optional
            Where the paths are; by default the local disk, or what their scheme says.
        include_deleted : bool
            Whether ``-delete`` and ``-stray`` directories count.
        may_be_empty : bool
            Whether log directories may all be without partitions, or that is an error.
        skip_corrupt : bool
            Whether bad bytes are stepped over when offsets are looked up, or are an error.
        check_crcs : bool
            Whether checksums are compared when offsets are looked up by time.
        remote : RemoteOptions
            Stores of remote segments, and how they are read; a path that is no log directory may be
            such a store too.
        remote_filesystem : pyarrow or fsspec file system, optional
            Where those are; by default the local disk, or what their scheme says.
        topics : collection of str
            Topics that alone are listed, if all of them are there; by default every topic.

        Raises
        ------
        LogPathNotFoundError, NotALogDirectoryError, EmptyLogDirectoryError, LogPermissionError
        """
        wanted = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        texts = [os.fspath(path) for path in wanted]
        if not texts:
            raise LogPathNotFoundError("no path was given, at least one is needed")
        source = _Source(
            paths=tuple(texts),
            filesystem=remote.storage if filesystem is None else filesystem,
            include_deleted=include_deleted,
            may_be_empty=may_be_empty,
            skip_corrupt=skip_corrupt,
            check_crcs=check_crcs,
            tier=Tier(remote, remote_filesystem),
            topics=frozenset(topics),
        )
        look = source.look()
        for _ in range(LISTING_ATTEMPTS):
            if look.is_current():
                return cls(source, look)
            again = source.look(look)
            if again.directories == look.directories:
                return cls(source, again)
            look = again
        raise source.moves_too_fast()

    @property
    def topic_partitions(self) -> Mapping[TopicPartition, PartitionLog]:
        """Partitions, each with the log that serves."""
        return self._look.topic_partitions

    @property
    def copies(self) -> tuple[PartitionLog, ...]:
        """Every directory of every partition, sorted by partition."""
        return tuple(sorted(self._look.logs, key=lambda log: log.topic_partition))

    @property
    def named(self) -> frozenset[TopicPartition]:
        """Partitions that were asked for by their own path."""
        return frozenset(log.topic_partition for log in self._look.logs if log.is_named)

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The log directories that were read, by path."""
        return tuple(self._look.states)

    def topics(self) -> list[str]:
        """Names of the topics, sorted."""
        return sorted({topic_partition.topic for topic_partition in self.topic_partitions})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Partitions of a topic, sorted; none for a topic that is not there."""
        return [
            topic_partition
            for topic_partition in self.topic_partitions
            if topic_partition.topic == topic
        ]

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
        earlier: Bounds | None = None
        for _ in range(LISTING_ATTEMPTS):
            try:
                known = self.topic_partitions
                wanted = list(known if topic_partitions is None else topic_partitions)
                logs = [self.partition_log(topic_partition) for topic_partition in wanted]
                in_parallel(self._look.measure, logs)
            except FileNotFoundError:
                # A partition directory is gone: deleted, or moved.
                self._look = self._source.look(self._look)
                continue
            bounds = bounds_of(dict(zip(wanted, logs, strict=True)))
            if self._look.is_current() or bounds == earlier:
                return {
                    topic_partition: (start, end)
                    for topic_partition, (_, start, end) in bounds.items()
                }
            earlier = bounds
            self._look = self._source.look(self._look)
        raise self._source.moves_too_fast()

    def _unknown_text(self, topic_partition: TopicPartition) -> str:
        of_topic = [known.partition for known in self.partitions_of(topic_partition.topic)]
        where = ", ".join(self.log_directories)
        if of_topic:
            return (
                f"topic {topic_partition.topic!r} has no partition {topic_partition.partition} in "
                f"{where}: there are {of_topic}"
            )
        return f"topic {topic_partition.topic!r} is not in {where}: there are {self.topics()}"


@dataclass(slots=True, kw_only=True)
class _Source:
    """What is looked at, and what is known of its folders from one look to the next."""

    paths: tuple[str, ...]
    filesystem: Any
    include_deleted: bool
    may_be_empty: bool
    skip_corrupt: bool
    check_crcs: bool
    tier: Tier
    topics: frozenset[str]
    memo: FolderMemo = field(default_factory=FolderMemo)

    def look(self, earlier: _Look | None = None) -> _Look:
        """List everything; folders that have not changed since an earlier look are as they were."""
        for _ in range(LISTING_ATTEMPTS):
            reader = RememberingReader(self.memo, is_patient=self.may_be_empty)
            resolver = PathResolver(
                self.filesystem,
                include_deleted=self.include_deleted,
                reader=reader,
                find_places=self.tier.find_places,
            )
            try:
                states = resolver.resolve(self.paths)
                places = self.tier.attach(resolver.places, states, resolver.storages)
                logs = in_parallel(
                    self._open, [(place, states) for place in places_of(places, self.topics)]
                )
            except FileNotFoundError as error:
                if isinstance(error, SegmentLogError):
                    raise
                continue
            look = _Look(states, resolver.storages, tuple(logs))
            return look if earlier is None else look.keeping(earlier)
        raise self.moves_too_fast()

    def _open(self, found: tuple[ListedPartition, Mapping[str, LogDirectoryState]]) -> PartitionLog:
        place, states = found
        storage, directory = place.storage, place.directory
        listing = self.memo.get(
            storage, directory, "files", lambda: list_partition(storage, directory)
        )
        log = open_found(PartitionLog, place, states, listing)
        log.skip_corrupt = self.skip_corrupt
        log.check_crcs = self.check_crcs
        return log

    def moves_too_fast(self) -> SegmentLogError:
        """Make the error for a log that is never the same twice."""
        shown = ", ".join(map(without_secrets, self.paths))
        return SegmentLogError(
            f"{shown} changed during each of {LISTING_ATTEMPTS} listings: commits "
            "follow each other faster than the folders can be listed"
        )


@dataclass(frozen=True)
class _Look:
    """The partition directories below some paths at one look, and the commits that it saw."""

    states: Mapping[str, LogDirectoryState]
    storages: Mapping[str, Storage]
    logs: tuple[PartitionLog, ...]
    ends: dict[str, FileSignature | None] = field(default_factory=dict)

    @cached_property
    def topic_partitions(self) -> Mapping[TopicPartition, PartitionLog]:
        """Choose the directory that serves, for each partition."""
        return MappingProxyType(choose_replicas(self.logs))

    @property
    def directories(self) -> list[tuple[TopicPartition, str]]:
        """Name all partition directories."""
        return [(log.topic_partition, log.directory) for log in self.logs]

    def is_current(self) -> bool:
        """Tell whether no commit began or ended since the look began."""
        return are_unchanged(self.states, self.storages)

    def measure(self, log: PartitionLog) -> None:
        """Find the end of a log, and by what a later look can tell that it is the same."""
        if log.directory not in self.ends:
            self.ends[log.directory] = log.end_signature()
        _ = log.log_end_offset

    def keeping(self, earlier: _Look) -> _Look:
        """Take over the logs of an earlier look that are as they were, ends included."""
        known = {log.directory: log for log in earlier.logs if log.directory in earlier.ends}
        same_states = {
            path
            for path, state in self.states.items()
            if path in earlier.states and _checkpoints(state) == _checkpoints(earlier.states[path])
        }
        logs = []
        for log in self.logs:
            before = known.get(log.directory)
            signature = earlier.ends.get(log.directory)
            if (
                before is not None
                and signature is not None
                and log.state.path in same_states
                and log.listing is before.listing
                and log.state.visible_range(log.topic_partition)
                == before.state.visible_range(log.topic_partition)
                and log.end_signature() == signature
            ):
                log = before
                self.ends[log.directory] = signature
            logs.append(log)
        return replace(self, logs=tuple(logs))


def _checkpoints(state: LogDirectoryState) -> LogDirectoryState:
    return replace(state, commit_state=NOTHING_COMMITTED)


def places_of(
    places: Sequence[ListedPartition], topics: Collection[str]
) -> Sequence[ListedPartition]:
    """Leave out other topics than are asked for; none where one of those is not there."""
    if not topics or not set(topics) <= {place.topic_partition.topic for place in places}:
        return places
    return [place for place in places if place.topic_partition.topic in topics]


def bounds_of(logs: Mapping[TopicPartition, PartitionLog]) -> Bounds:
    """Say where partitions lie, start and end."""
    return {
        topic_partition: (log.directory, log.log_start_offset, log.log_end_offset)
        for topic_partition, log in logs.items()
    }


def open_found(
    kind: type[_Log],
    place: ListedPartition,
    states: Mapping[str, LogDirectoryState],
    listing: PartitionListing,
) -> _Log:
    """Make the log of a partition directory that was listed."""
    # What is in a store alone lies in no log directory.
    state = states.get(place.log_directory) or LogDirectoryState(
        path=place.log_directory, is_clean=True
    )
    log = kind(
        place.topic_partition,
        place.directory,
        state=state,
        listing=listing,
        named=place.named,
        storage=place.storage,
        is_named=place.is_named,
    )
    log.log_directories = tuple(states)
    return log


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
    known = [entry.epoch for entry in leader.leader_epochs if entry.epoch <= last]
    if not known:
        return min(*ends, leader.leader_epochs[0].start_offset)
    return min(
        checkpoints.end_offset_for_epoch(log.leader_epochs, known[-1], log.log_end_offset)
        for log in (replica, leader)
    )


def _rank(log: PartitionLog) -> tuple[bool, int, int, int]:
    """Rank a directory: what lives is before what a broker has left, of a topic made again."""
    epochs = log.leader_epochs
    last_epoch = epochs[-1].epoch if epochs else -1
    is_live = not is_beside_the_log(log.directory)
    return is_live, last_epoch, log.log_end_offset, -log.log_start_offset
