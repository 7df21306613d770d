"""A log that is looked at again and again while it grows: a look costs stats where nothing changed.

A folder whose modification time has not moved holds the same names, a file that has not changed
the same batches; so a look lists only folders that changed, and walks only the headers behind
the last known end. What changed a moment ago may change again within one tick of the file
system's clock, and is read again until it has settled.

A live tail is torn at any moment: half of a batch is where the log ends for now. As in
`LogManager`, the state of commits is taken before and after, so that a look sees a commit on all
partitions or on none. On file systems other than the local one every look reads anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, SegmentLogError
from spark_segmentlog.log import checkpoints
from spark_segmentlog.log.commit_journal import COMMIT_DIRECTORY_NAME, VERSIONS_FILE_NAME
from spark_segmentlog.log.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    MAX_OFFSET,
    STRAY_DIRECTORY_SUFFIX,
    TopicPartition,
)
from spark_segmentlog.log.files import LOCAL, LogFile, Storage
from spark_segmentlog.log.header_walk import PROBE_BYTES, HeaderWalk, ReadBuffer
from spark_segmentlog.log.log_directory import LogDirectoryState, are_unchanged, commit_state
from spark_segmentlog.log.log_manager import (
    LISTING_ATTEMPTS,
    choose_replicas,
    open_found,
)
from spark_segmentlog.log.parallel import in_parallel
from spark_segmentlog.log.partition_listing import PartitionListing, list_partition
from spark_segmentlog.log.partition_log import PartitionLog, SegmentList
from spark_segmentlog.log.path_resolver import FolderReader, FoundPartition, PathResolver
from spark_segmentlog.log.segment import Segment
from spark_segmentlog.log.transactions import OpenTransactions
from spark_segmentlog.record._types import Int64s
from spark_segmentlog.record.header_table import HeaderTable, StopReason, scan_headers

SETTLED_NS: Final = 2_000_000_000
TAIL_ATTEMPTS: Final = 4
TAIL_PAUSE_SECONDS: Final = 0.05

LOG_DIRECTORY_FILES: Final = frozenset(
    (
        checkpoints.META_PROPERTIES,
        checkpoints.LOG_START_OFFSET_CHECKPOINT,
        checkpoints.RECOVERY_POINT_CHECKPOINT,
        checkpoints.HIGH_WATERMARK_CHECKPOINT,
        checkpoints.CLEANER_OFFSET_CHECKPOINT,
        checkpoints.CLEAN_SHUTDOWN_MARK,
        VERSIONS_FILE_NAME,
        ".lock",
    )
)

MOVING_DIRECTORY_SUFFIXES: Final = (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
)

# Batch headers from a position on.
Walk = Callable[[int], Iterator[HeaderTable]]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Signature:
    """By what a changed file or folder is told from one that has not changed."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int

    @classmethod
    def of(cls, path: str) -> _Signature:
        status = os.stat(path)
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def is_same_file(self, other: _Signature) -> bool:
        return (self.device, self.inode) == (other.device, other.inode)

    def is_settled(self) -> bool:
        """Whether a later change is sure to show in the modification time."""
        return time.time_ns() - self.modified_ns > SETTLED_NS


@dataclass(slots=True)
class _Memo:
    """What was read of folders, for as long as they have not changed."""

    _entries: dict[tuple[str, str], tuple[_Signature, bool, Any]] = field(default_factory=dict)
    _used: set[tuple[str, str]] = field(default_factory=set)

    def get(self, path: str, kind: str, read: Callable[[], _T]) -> _T:
        key = (path, kind)
        self._used.add(key)
        signature = _Signature.of(path)
        entry = self._entries.get(key)
        if entry is not None and entry[1] and entry[0] == signature:
            value: _T = entry[2]
            return value
        is_settled = signature.is_settled()
        value = read()
        self._entries[key] = (signature, is_settled, value)
        return value

    def forget_unused(self) -> None:
        """Drop what no look since the last call has asked for."""
        for key in self._entries.keys() - self._used:
            del self._entries[key]
        self._used.clear()


@dataclass(slots=True)
class _Tail:
    """How far the last segment of a partition directory has been walked."""

    topic_id: str | None = None
    base_offset: int = -1
    signature: _Signature | None = None
    is_settled: bool = False
    position: int = 0
    next_offset: int = 0
    open_transactions: OpenTransactions | None = None
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
    filesystem : pyarrow or fsspec file system, optional
    skip_corrupt : bool
        Whether bad bytes are stepped over when offsets are looked up, or are an error.
    check_crcs : bool
        Whether checksums are compared when offsets are looked up by time.
    """

    def __init__(
        self,
        paths: Iterable[str],
        *,
        filesystem: Any = None,
        skip_corrupt: bool = False,
        check_crcs: bool = True,
    ) -> None:
        self._paths = tuple(paths)
        self._filesystem = filesystem
        self._skip_corrupt = skip_corrupt
        self._check_crcs = check_crcs
        self._memo = _Memo()
        self._tails: dict[str, _Tail] = {}
        self._log_directories: set[str] = set()

    def look(self) -> dict[TopicPartition, WatchedPartitionLog]:
        """List the partitions as they are now, all as of one commit; sorted.

        Raises
        ------
        LogPathNotFoundError, NotALogDirectoryError, EmptyLogDirectoryError, LogPermissionError
        CorruptRecordError
            Bad bytes at the end of a log, unless they are skipped.
        """
        for _ in range(LISTING_ATTEMPTS):
            try:
                found = self._look_once()
            except FileNotFoundError as error:
                if isinstance(error, SegmentLogError):
                    raise
                continue
            if found is not None:
                return found
        raise SegmentLogError(
            f"{', '.join(self._paths)} changed during each of {LISTING_ATTEMPTS} looks: commits "
            "follow each other faster than the folders can be listed"
        )

    def _look_once(self) -> dict[TopicPartition, WatchedPartitionLog] | None:
        reader = _WatchingReader(self._memo, self._log_directories)
        resolver = PathResolver(self._filesystem, reader=reader)
        states = resolver.resolve(self._paths)
        places = resolver.places
        logs = [self._open(place, states[place.log_directory]) for place in places]
        in_parallel(lambda log: log.log_end_offset, [it for it in logs if it.is_unknown])
        for log in logs:
            _ = log.log_end_offset
        if not are_unchanged(states, resolver.storages):
            return None
        self._memo.forget_unused()
        self._log_directories.update(states)
        for directory in self._tails.keys() - {place.directory for place in places}:
            del self._tails[directory]
        return choose_replicas(logs)

    def _open(self, place: FoundPartition, state: LogDirectoryState) -> WatchedPartitionLog:
        storage, directory = place.storage, place.directory
        if storage == LOCAL:
            topic_id, listing = self._memo.get(
                directory, "files", lambda: _read_directory(storage, directory)
            )
            tail = self._tails.setdefault(directory, _Tail())
            if tail.topic_id != topic_id:
                tail = self._tails[directory] = _Tail(topic_id)
        else:
            topic_id, listing = _read_directory(storage, directory)
            tail = _Tail(topic_id)
        log = open_found(WatchedPartitionLog, place, state, listing)
        log.skip_corrupt = self._skip_corrupt
        log.check_crcs = self._check_crcs
        log.topic_id = topic_id
        log.tail = tail
        return log


class WatchedPartitionLog(PartitionLog):
    """One partition directory at one look; what it has walked is known to the next look.

    Attributes
    ----------
    topic_id : str or None
        Of `partition.metadata`, as text.
    """

    topic_id: str | None
    tail: _Tail

    @property
    def is_unknown(self) -> bool:
        """Whether no look has walked it yet."""
        return self.tail.signature is None

    def estimate_bytes(self, start_offset: int, end_offset: int) -> Int64s:
        """Estimate the `.log` bytes of offsets in [start, end), for each of their segments.

        A segment's bytes count in proportion to its offsets.
        """
        segments = self.segments_between(start_offset, end_offset)
        if not segments:
            return np.empty(0, np.int64)
        first = segments.base_offsets
        behind = np.minimum(segments.end_offset_bounds, max(self.log_end_offset, end_offset))
        wanted = np.minimum(behind, end_offset) - np.maximum(first, start_offset)
        shares = np.maximum(wanted, 0) / np.maximum(behind - first, 1)
        return np.asarray(np.ceil(self._sizes_bytes(segments) * shares), np.int64)

    def offset_after_bytes(self, start_offset: int, size_bytes: int, end_offset: int) -> int:
        """Find how far whole batches of this size reach from an offset; one batch at least.

        Nothing is walked behind the batch that reaches `end_offset`: it may be half written.

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
        buffer = ReadBuffer()
        segments = self.segments_between(start_offset, self.log_end_offset)
        for segment in segments.reaching_timestamp(timestamp_ms):
            found = self.first_at_or_after(segment, timestamp_ms, buffer)
            if found is not None:
                return found[0]
        return None

    def find_next_offset(self) -> int:
        """Find the end, from where the last look has found it."""
        if self.storage != LOCAL:
            return super().find_next_offset()
        if len(self.base_offsets) == 0:
            return 0
        segment, tail = self.segments[-1], self.tail
        for attempt in range(TAIL_ATTEMPTS):
            signature = _Signature.of(segment.log_path)
            if self._has_not_changed(segment, signature):
                break
            try:
                self._walk_tail(segment, signature)
                break
            except CorruptRecordError:
                # Bytes that are being written can look wrong for a moment, and a file that was cut
                # and has grown since does not start a batch where it ended before.
                tail.start_segment(segment.base_offset)
                if attempt == TAIL_ATTEMPTS - 1 or signature.is_settled():
                    raise
                time.sleep(TAIL_PAUSE_SECONDS)
        bound = segment.end_offset_bound
        return tail.next_offset if bound is None else min(tail.next_offset, bound)

    def _has_not_changed(self, segment: Segment, signature: _Signature) -> bool:
        tail = self.tail
        known = tail.signature
        if (
            tail.base_offset != segment.base_offset
            or known is None
            or not known.is_same_file(signature)
            or signature.size_bytes < tail.position
        ):
            tail.start_segment(segment.base_offset)
            return False
        return tail.is_settled and known == signature

    def _walk_tail(self, segment: Segment, signature: _Signature) -> None:
        tail = self.tail
        is_settled = signature.is_settled()
        buffer = ReadBuffer()
        with segment.open_log() as file:
            end = tail.position or segment.position_for(MAX_OFFSET, file), tail.next_offset
            before, last = end, None
            walk = HeaderWalk(segment, file, end[0], buffer, self.skip_corrupt, None)
            walk.next_offset = max(walk.next_offset, end[1])
            for table in _live_tables(walk, file, is_settled):
                before = _position_of_last(table, end[0]), walk.offset_before_last(table)
                end = table.end_position, walk.next_offset
                last = table.select(np.array([len(table) - 1]))
            if last is not None and walk.is_torn_end(last):
                end = before
        tail.signature, tail.is_settled = signature, is_settled
        tail.position, tail.next_offset = end

    def find_last_stable_offset(self) -> int:
        """Find the last stable offset, from what was open where the last look has found the end."""
        tail, end_offset = self.tail, self.log_end_offset
        known = tail.open_transactions
        if known is not None and self.log_start_offset <= tail.transactions_end <= end_offset:
            found = self.open_transactions(end_offset, (known, tail.transactions_end))
        else:
            found = self.open_transactions(end_offset)
        tail.open_transactions, tail.transactions_end = found, end_offset
        return self.stable_offset_of(found)

    def _sizes_bytes(self, segments: SegmentList) -> Int64s:
        """Measure segments, those that are closed once; 0 for one that has gone since the look."""
        known = self.tail.sizes_bytes
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
        return np.array([known.get(it, 0) for it in base_offsets], np.int64)


class _WatchingReader(FolderReader):
    """Reads of the local disk's folders only what changed."""

    def __init__(self, memo: _Memo, log_directories: Collection[str]) -> None:
        self._memo = memo
        self._log_directories = log_directories

    def list_directories(self, storage: Storage, path: str) -> tuple[list[str], list[str]]:
        if storage != LOCAL:
            return super().list_directories(storage, path)
        return self._memo.get(path, "names", lambda: storage.list_directories(path))

    def read_state(self, log_directory: str, storage: Storage) -> LogDirectoryState:
        if storage != LOCAL:
            return super().read_state(log_directory, storage)
        state = self._memo.get(
            log_directory, "state", lambda: LogDirectoryState.read(log_directory, storage)
        )
        return replace(state, commit_state=commit_state(log_directory, storage))

    def awaits_partitions(
        self, path: str, directories: Sequence[str], others: Sequence[str]
    ) -> bool:
        return path in self._log_directories or _may_get_partitions(directories, others)


def _read_directory(storage: Storage, directory: str) -> tuple[str | None, PartitionListing]:
    """Read the topic id and the listing of a partition directory."""
    metadata = checkpoints.read_partition_metadata(storage, directory)
    listing = list_partition(storage, directory)
    return None if metadata is None else metadata.topic_id, listing


def _may_get_partitions(directories: Sequence[str], others: Sequence[str]) -> bool:
    """Tell an empty log directory from a folder of something else."""
    if not others and set(directories) <= {COMMIT_DIRECTORY_NAME}:
        return True
    is_moving = any(name.endswith(MOVING_DIRECTORY_SUFFIXES) for name in directories)
    return is_moving or not LOG_DIRECTORY_FILES.isdisjoint(others)


def _live_tables(walk: HeaderWalk, file: LogFile, is_settled: bool) -> Iterator[HeaderTable]:
    """Walk to the end of a file that may be written at this moment: half a batch is its end."""
    if not is_settled and _is_half_written(file, walk.position):
        return
    for table in walk:
        yield table
        if not is_settled and _is_half_written(file, table.end_position):
            return


def _is_half_written(file: LogFile, position: int) -> bool:
    """Tell whether the file ends within the batch at a position."""
    rest = file.size() - position
    start = np.frombuffer(file.read_at(position, PROBE_BYTES), np.uint8)
    probed = scan_headers(start, 0, len(start), file_position=position)
    is_cut_off = probed.needed_bytes > rest or probed.needed_bytes == 0
    return len(probed) == 0 and probed.stop is StopReason.INCOMPLETE and is_cut_off


def _position_of_last(table: HeaderTable, start_position: int) -> int:
    """Give where the walk may go on in front of the last batch of a table."""
    return start_position if len(table) == 1 else int(table.position[-1])


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
    """Find the next offset behind the batches that end at or before a position.

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
