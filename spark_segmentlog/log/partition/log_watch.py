"""A log that is looked at again and again while it grows: a look costs stats where nothing changed.

A folder that has not changed holds the same names (`FolderMemo`), a file that has not changed the
same batches; so a look lists only folders that changed, and walks only the headers after the last
known end. On a far file system a look lists each folder, and reads again what changed since; all of
it where listings do not tell that.

The end of a live log is torn at any moment: half of a batch is where the log ends for now. A look
sees a commit on all partitions or on none, by the rule of `LogManager`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, SegmentLogError
from spark_segmentlog.log.directory.folder_memo import FolderMemo, RememberingReader
from spark_segmentlog.log.directory.listing import PartitionListing, list_partition
from spark_segmentlog.log.directory.paths import ListedPartition, PathResolver
from spark_segmentlog.log.directory.state import LogDirectoryState, are_unchanged
from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.io.as_listed import StorageAsListed, waiting_threads
from spark_segmentlog.log.io.reading import LOCAL, Storage, without_secrets
from spark_segmentlog.log.io.signature import LISTING_ATTEMPTS, FileSignature
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.partition.log_manager import (
    Bounds,
    bounds_of,
    choose_replicas,
    open_found,
    places_of,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.segment_list import SegmentList
from spark_segmentlog.log.partition.time_lookup import find_timestamp
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import WalkOptions
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.log.tier.tier import Tier
from spark_segmentlog.log.transactions.producer_tracker import ProducerTracker
from spark_segmentlog.log.transactions.transaction_walk import (
    find_open_transactions,
    transaction_tracker,
)
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.types import Int64s

TAIL_ATTEMPTS: Final = 4
TAIL_PAUSE_SECONDS: Final = 0.05

# Batch headers from a position on.
Walk = Callable[[int], Iterator[HeaderTable]]

# Picks the partitions that count out of those that are there.
Choose = Callable[[Mapping[TopicPartition, PartitionLog]], Collection[TopicPartition]]


@dataclass(slots=True)
class _WalkMemory:
    """How far the last segment of a partition directory has been walked."""

    topic_id: str | None = None
    base_offset: int = -1
    signature: FileSignature | None = None
    is_settled: bool = False
    position: int = 0
    next_offset: int = 0
    transactions: ProducerTracker | None = None
    transactions_end: int = 0
    sizes_bytes: dict[int, int] = field(default_factory=dict)

    def start_segment(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.signature = None
        self.position = 0
        self.next_offset = base_offset


class LogWatch:
    """Partitions below some paths, looked at as often as one likes.

    Parameters
    ----------
    paths : iterable of str
        Log directories, partition directories, `.log` files, globs of these. A log directory may
        be empty: partitions can still appear.
    skip_corrupt : bool
        Whether bad bytes are stepped over when offsets are looked up, or are an error.
    check_crcs : bool
        Whether checksums are compared when offsets are looked up by time.
    choose : callable, optional
        Picks the partitions that are to be seen as of one commit, by default all: commits to the
        others make no look longer.
    remote : RemoteOptions
        Stores of remote segments, and how they are read.
    topics : collection of str
        Topics that alone are listed, if all of them are there; by default every topic.
    """

    def __init__(
        self,
        paths: Iterable[str],
        *,
        choose: Choose = tuple,
        skip_corrupt: bool = False,
        check_crcs: bool = True,
        remote: RemoteOptions = NO_REMOTE,
        topics: Collection[str] = (),
    ) -> None:
        self._topics = frozenset(topics)
        self._tier = Tier(remote)
        self._storage = remote.storage
        self._paths = tuple(paths)
        self._choose = choose
        self._skip_corrupt = skip_corrupt
        self._check_crcs = check_crcs
        self._memo = FolderMemo()
        self._memories: dict[str, _WalkMemory] = {}
        self._far_logs: dict[str, _FarLog] = {}
        self._log_directories: set[str] = set()

    def refresh(self) -> dict[TopicPartition, WatchedPartitionLog]:
        """List the partitions as they are now, all as of one commit; sorted.

        Raises
        ------
        LogPathNotFoundError, NotALogDirectoryError, EmptyLogDirectoryError, LogPermissionError
        CorruptRecordError
            Bad bytes at the end of a log, unless they are skipped.
        """
        earlier: Bounds | None = None
        for _ in range(LISTING_ATTEMPTS):
            try:
                found, is_current = self._look_once()
                bounds = bounds_of(
                    {
                        topic_partition: found[topic_partition]
                        for topic_partition in self._choose(found)
                    }
                )
            except FileNotFoundError as error:
                if isinstance(error, SegmentLogError):
                    raise
                continue
            if is_current or bounds == earlier:
                return found
            earlier = bounds
        shown = ", ".join(map(without_secrets, self._paths))
        raise SegmentLogError(
            f"{shown} changed during each of {LISTING_ATTEMPTS} looks: commits "
            "follow each other faster than the folders can be listed"
        )

    def _look_once(self) -> tuple[dict[TopicPartition, WatchedPartitionLog], bool]:
        """Look, and tell whether no commit came by meanwhile."""
        reader = RememberingReader(self._memo, self._log_directories, is_patient=True)
        resolver = PathResolver(self._storage, reader=reader, find_places=self._tier.find_places)
        states = resolver.resolve(self._paths)
        places = self._tier.attach(resolver.places, states, resolver.storages)
        wanted = places_of(places, self._topics)
        threads = max((waiting_threads(place.storage) for place in wanted), default=1)
        logs = in_parallel(lambda place: self._open(place, states), wanted, threads)
        chosen = set(self._choose({log.topic_partition: log for log in logs}))
        counting = [log for log in logs if log.topic_partition in chosen]
        in_parallel(lambda log: log.log_end_offset, [log for log in counting if log.is_unknown])
        for log in counting:
            _ = log.log_end_offset
        is_current = are_unchanged(states, resolver.storages)
        self._memo.forget_unused()
        self._log_directories.update(states)
        for directory in self._memories.keys() - {place.directory for place in wanted}:
            del self._memories[directory]
            self._far_logs.pop(directory, None)
        return choose_replicas(logs), is_current

    def _open(
        self, place: ListedPartition, states: Mapping[str, LogDirectoryState]
    ) -> WatchedPartitionLog:
        storage, directory = place.storage, place.directory
        state = states.get(place.log_directory)
        topic_id, listing = self._memo.get(
            storage, directory, "files", lambda: _read_directory(storage, directory)
        )
        known = self._far_logs.get(directory)
        if known is not None and known.is_of(place, state, listing):
            return known.log
        memory = self._memories.setdefault(directory, _WalkMemory())
        if storage != LOCAL or memory.topic_id != topic_id:
            memory = self._memories[directory] = _WalkMemory(topic_id)
        log = open_found(WatchedPartitionLog, place, states, listing)
        log.skip_corrupt = self._skip_corrupt
        log.check_crcs = self._check_crcs
        log.topic_id = topic_id
        log.memory = memory
        if isinstance(storage, StorageAsListed):
            self._far_logs[directory] = _FarLog(log, listing, state, place.named)
        return log


class WatchedPartitionLog(PartitionLog):
    """One partition directory at one look; what it has walked is known to the next look.

    Attributes
    ----------
    topic_id : str or None
        Of `partition.metadata`, as text.
    """

    topic_id: str | None
    memory: _WalkMemory

    @property
    def is_unknown(self) -> bool:
        """Whether no look has walked it yet."""
        return self.memory.signature is None

    def estimate_bytes(self, start_offset: int, end_offset: int) -> Int64s:
        """Estimate the `.log` bytes of offsets in [start, end), for each of their segments.

        A segment's bytes count in proportion to its offsets.
        """
        segments = self.segments_between(start_offset, end_offset)
        if not segments:
            return np.empty(0, np.int64)
        first = segments.base_offsets
        after = np.minimum(segments.end_offset_bounds, max(self.log_end_offset, end_offset))
        wanted = np.minimum(after, end_offset) - np.maximum(first, start_offset)
        shares = np.maximum(wanted, 0) / np.maximum(after - first, 1)
        return np.asarray(np.ceil(self._sizes_bytes(segments) * shares), np.int64)

    def offset_after_bytes(self, start_offset: int, size_bytes: int, end_offset: int) -> int:
        """Find how far whole batches of this size reach from an offset; one batch at least.

        Nothing is walked after the batch that reaches `end_offset`: it may be half written.

        Returns
        -------
        int
            Next offset, above `start_offset` and not above `end_offset`.

        Raises
        ------
        InvalidBatchError
            Bad bytes on the way, unless `skip_corrupt` is set.
        """
        reached, left = start_offset, size_bytes
        for segment in self.segments_between(start_offset, end_offset):
            walk = partial(_headers_until, segment, end_offset, self.skip_corrupt)
            position = _exact_position(segment, walk, start_offset)
            rest = segment.size_bytes() - position
            if rest > left:
                reached = _offset_at(
                    segment, walk, start_offset, position, position + left, reached
                )
                break
            left -= rest
            bound = segment.end_offset_bound
            reached = end_offset if bound is None else bound
        return min(max(reached, start_offset + 1), end_offset)

    def first_offset_at(self, timestamp_ms: int, start_offset: int) -> int | None:
        """Find the first offset whose record timestamp is at or above a time, from an offset on."""
        found = find_timestamp(self, timestamp_ms, start_offset)
        return None if found is None else found[0]

    def find_next_offset(self) -> int:
        """Find the end, from where the last look has found it."""
        if self.storage != LOCAL:
            return super().find_next_offset()
        if len(self.base_offsets) == 0:
            return 0
        segment, memory = self.segments[-1], self.memory
        for attempt in range(TAIL_ATTEMPTS):
            signature = FileSignature.from_path(segment.log_path)
            if self._has_not_changed(segment, signature):
                break
            try:
                self._walk_to_end(segment, signature)
                break
            except CorruptRecordError:
                # Bytes that are being written can look wrong for a moment, and a file that was cut
                # and has grown since does not start a batch where it ended before.
                memory.start_segment(segment.base_offset)
                if attempt == TAIL_ATTEMPTS - 1 or signature.is_settled():
                    raise
                time.sleep(TAIL_PAUSE_SECONDS)
        bound = segment.end_offset_bound
        return memory.next_offset if bound is None else min(memory.next_offset, bound)

    def _has_not_changed(self, segment: Segment, signature: FileSignature) -> bool:
        memory = self.memory
        known = memory.signature
        if (
            memory.base_offset != segment.base_offset
            or known is None
            or not known.is_same_file(signature)
            or signature.size_bytes < memory.position
        ):
            if segment.base_offset <= memory.base_offset:
                # The log was cut, or is another one.
                memory.transactions = None
            memory.start_segment(segment.base_offset)
            return False
        return memory.is_settled and known == signature

    def _walk_to_end(self, segment: Segment, signature: FileSignature) -> None:
        memory = self.memory
        is_settled = signature.is_settled()
        options = WalkOptions(
            skip_corrupt=self.skip_corrupt, compares_last=True, is_growing=not is_settled
        )
        with segment.open_log() as file:
            end = memory.position or segment.position_for(MAX_OFFSET, file), memory.next_offset
            walk = HeaderWalk(segment, file, options, position=end[0], next_offset=end[1])
            for table in walk:
                end = table.end_position, walk.next_offset
        memory.signature, memory.is_settled = signature, is_settled
        memory.position, memory.next_offset = end

    def find_last_stable_offset(self) -> int:
        """Find the last stable offset, from what was open where the last look has found the end."""
        memory, end_offset = self.memory, self.log_end_offset
        tracker, start_offset = memory.transactions, memory.transactions_end
        if tracker is None or not self.log_start_offset <= start_offset <= end_offset:
            tracker, start_offset = (
                transaction_tracker(self, uncommitted_only=True),
                self.settled_offset,
            )
        # One that has not come to the end, for an error, cannot go on.
        memory.transactions = None
        first = find_open_transactions(self, tracker, start_offset, end_offset)
        memory.transactions, memory.transactions_end = tracker, end_offset
        return self.stable_offset_of(first)

    def _sizes_bytes(self, segments: SegmentList) -> Int64s:
        """Measure segments, those that are closed once; 0 for one that has gone since the look."""
        known = self.memory.sizes_bytes
        if len(known) > 2 * len(self.base_offsets):
            known.clear()
        base_offsets = segments.base_offsets.tolist()
        last = int(self.base_offsets[-1])
        for index, base_offset in enumerate(base_offsets):
            if base_offset == last or base_offset not in known:
                try:
                    known[base_offset] = segments[index].size_bytes()
                except FileNotFoundError:
                    known.pop(base_offset, None)
        return np.array([known.get(base_offset, 0) for base_offset in base_offsets], np.int64)


@dataclass(frozen=True, slots=True)
class _FarLog:
    """A log as of a look at a far folder, with what it was made of."""

    log: WatchedPartitionLog
    listing: PartitionListing
    state: LogDirectoryState | None
    named: Mapping[int, str] | None

    def is_of(
        self, place: ListedPartition, state: LogDirectoryState | None, listing: PartitionListing
    ) -> bool:
        """Tell whether a look found the same, of which nothing was read again."""
        is_same = self.listing is listing and self.state is state
        return is_same and self.named == place.named


def _read_directory(storage: Storage, directory: str) -> tuple[str | None, PartitionListing]:
    """Read the topic id and the listing of a partition directory."""
    topic_id = checkpoints.read_topic_id(storage, directory)
    return topic_id, list_partition(storage, directory)


def _headers_until(
    segment: Segment, end_offset: int, skip_corrupt: bool, position: int
) -> Iterator[HeaderTable]:
    """Walk batch headers from a position up to the batch that reaches an offset."""
    for table in segment.headers(position, skip_corrupt=skip_corrupt):
        yield table
        if int(table.last_offset[-1]) + 1 >= end_offset:
            return


def _exact_position(segment: Segment, walk: Walk, offset: int) -> int:
    """Find where the batch stands that reaches an offset."""
    position = segment.position_for(offset)
    for table in walk(position):
        rows = np.flatnonzero(table.last_offset >= offset)
        if len(rows):
            return int(table.position[rows[0]])
        position = table.end_position
    return position


def _offset_at(
    segment: Segment,
    walk: Walk,
    start_offset: int,
    start_position: int,
    end_position: int,
    reached: int,
) -> int:
    """Find the next offset after the batches that end at or before a position.

    Where not even one does, and nothing was reached before, the first batch counts all the same.
    """
    position = max(start_position, segment.position_below(end_position))
    found = _last_within(walk(position), end_position)
    if found is None and reached <= start_offset:
        first = next(walk(start_position), None)
        return reached if first is None else int(first.last_offset[0]) + 1
    return reached if found is None else found


def _last_within(tables: Iterable[HeaderTable], end_position: int) -> int | None:
    found = None
    for table in tables:
        rows = np.flatnonzero(table.position + table.size_bytes <= end_position)
        if len(rows):
            found = int(table.last_offset[rows[-1]]) + 1
        if len(rows) < len(table):
            break
    return found
