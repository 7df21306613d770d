"""One segment: a `.log` of record batches from its base offset on, and the indexes beside it.

A segment covers ``[base offset, next segment's base offset)``; its first record may lie above its
name, its last far below the next segment's. How its batches are walked, where they end and which
bytes are bad is told in `walk`; when an entry of an index is believed, in `index_trust`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from spark_segmentlog.log import names
from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.formats.time_index import TimeEntry, TimeIndex
from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    parse_transaction_index,
)
from spark_segmentlog.log.io.as_listed import StorageAsListed
from spark_segmentlog.log.io.reading import LOCAL, LogFile, Storage, is_replaced, not_there
from spark_segmentlog.log.io.remote_file import MOST_AHEAD_BYTES, PEEK_BYTES, expect_whole
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.segment import index_trust
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import QUIET, STRICT, WalkOptions
from spark_segmentlog.record.read.header_table import HeaderTable

MAX_TIME_WALK_BYTES: Final = 8 * 1024 * 1024
SEGMENTS_AHEAD: Final = 12

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteCopy:
    """A segment in a remote tier: the object that holds it, and the offset that it reaches, if
    that is known."""

    object_path: str
    end_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment's place and what may be trusted of it; opens files only when asked. Pickles.

    Attributes
    ----------
    end_offset_bound : int or None
        Base offset of the next segment; None for the last, which a broker may be writing.
    is_index_trusted : bool
        Whether a well-formed index is known to reach to the segment's end.
    recovery_point : int or None
        Of a directory that was not shut cleanly: at or above it a last batch may be half written.
        None where no crash can have left that, or nothing tells.
    reached_offset : int
        The log is known to have reached it, by its high watermark; 0 where nothing tells.
    suffix : str
        ``.swap`` while a cleaner renames it, else empty.
    is_moving : bool
        Whether it, or the one after it, is taking the place of others at this moment: those stand
        beside it, so that offsets may be there twice.
    is_first : bool
        Whether it may be the log's first, whose first batch may begin below its base offset: a
        replica that began inside a batch, or records that were deleted, leave that.
    copy : RemoteCopy or None
        What is known of a segment that lies in a remote tier; None for a local one.
    listed_end : int or None
        Where the log ended when that was looked up, of the last segment; None where it was not.
    """

    topic_partition: TopicPartition
    directory: str
    base_offset: int
    end_offset_bound: int | None = None
    is_index_trusted: bool = False
    recovery_point: int | None = None
    reached_offset: int = 0
    suffix: str = ""
    is_moving: bool = False
    is_first: bool = True
    copy: RemoteCopy | None = None
    listed_end: int | None = field(default=None, compare=False)
    storage: Storage = LOCAL

    @property
    def offset_limit(self) -> int:
        """Offset that no record of the segment reaches: the next segment's, if there is one."""
        is_open = self.end_offset_bound is None or self.is_moving
        return MAX_OFFSET if is_open else self.end_offset_bound or 0

    @property
    def log_path(self) -> str:
        """Path of the `.log` file, or of the object that it was copied to."""
        return self.stored_path if self.copy is None else self.copy.object_path

    @property
    def stored_path(self) -> str:
        """Path by which the storage knows the `.log` file."""
        return self._path(names.LOG_SUFFIX)

    @property
    def tier(self) -> str:
        """Whether it is ``local`` or ``remote``."""
        return "local" if self.copy is None else "remote"

    @property
    def promised_end(self) -> int | None:
        """Offset that its batches are known to reach; None where nothing tells.

        Those of a local log may end before the next segment, since compaction leaves offsets out.
        """
        return None if self.copy is None else self.copy.end_offset

    def size_bytes(self) -> int:
        """Measure the `.log` file."""
        return self.storage.size(self.stored_path)

    def open_log(self) -> LogFile:
        """Open the `.log` file.

        Raises
        ------
        FileNotFoundError
            It was renamed or deleted; the partition's listing is out of date.
        """
        return self.storage.open_input(self.stored_path)

    def is_read_whole(self, end_offset: int) -> bool:
        """Tell whether a read up to an offset (exclusive) takes all of it, as far as is known."""
        ends = (self.end_offset_bound, self.promised_end, self.listed_end)
        return any(end is not None and end <= end_offset for end in ends)

    def open_soon(self, end_offset: int) -> int:
        """Have the `.log` of a far segment opened, and fetched from its start; gives the bytes.

        Unless only a part of it is read, up to an offset (exclusive), and that may be a small one.
        """
        if not isinstance(self.storage, StorageAsListed):
            return 0
        size_bytes = self.size_bytes()
        if not self.is_read_whole(end_offset) and size_bytes > PEEK_BYTES:
            return 0
        self.storage.open_soon(self.stored_path)
        return min(size_bytes, MOST_AHEAD_BYTES)

    def call_at_end(self, action: Callable[[], object]) -> None:
        """Have something done once all of a far `.log` is asked for by who opens it next."""
        if isinstance(self.storage, StorageAsListed):
            self.storage.call_at_end(self.stored_path, action)

    def check_current(self, file: LogFile) -> None:
        """Make sure that a file that was read is still the segment's, and ends where it is to.

        Raises
        ------
        FileNotFoundError
            It is not, or the next segment is gone, which it may have taken over; the partition's
            listing is out of date.
        """
        if self.end_offset_bound is not None and not self.is_moving:
            following = names.segment_file_name(self.end_offset_bound)
            path = f"{self.directory}/{following}"
            if not self.storage.exists(path):
                raise not_there(path)
        # Last, so that what was read stood beside the next segment.
        if is_replaced(file):
            raise not_there(self.log_path)

    def offset_index(self) -> OffsetIndex:
        """Open the `.index`; one that is missing has no entries."""
        return OffsetIndex(self._open_index(names.OFFSET_INDEX_SUFFIX), self.base_offset)

    def time_index(self) -> TimeIndex:
        """Open the `.timeindex`; one that is missing has no entries."""
        return TimeIndex(self._open_index(names.TIME_INDEX_SUFFIX), self.base_offset)

    def transaction_index(self) -> list[AbortedTransaction]:
        """Read the `.txnindex`; none where it is missing."""
        return parse_transaction_index(self.transaction_index_bytes() or b"")

    def transaction_index_bytes(self) -> bytes | None:
        """Read the bytes of the `.txnindex`, of a renamed one too; None where it is missing."""
        name = self._path(names.TRANSACTION_INDEX_SUFFIX, suffix="")
        renamed = name + names.SWAP_SUFFIX
        for path in (renamed, name) if self.suffix else (name, renamed):
            data = self.storage.read_file(path)
            if data is not None:
                return data
        return None

    def position_for(self, offset: int, file: LogFile | None = None) -> int:
        """Find a position at or before the first batch that reaches an offset, by the index.

        Returns
        -------
        int
            Start of a batch; no record at or above `offset` lies before it.
        """
        if offset <= self.base_offset:
            return 0
        if file is None:
            with self.open_log() as opened:
                return self.position_for(offset, opened)
        with self.offset_index() as index:
            entry = index.lookup(offset, below_position=file.size())
        is_believed = entry is not None and index_trust.is_position(self, file, entry)
        return entry.position if entry is not None and is_believed else 0

    def position_below(self, end_position: int) -> int:
        """Find where a batch starts that ends at or before a position, by the index; 0 for none."""
        with self.offset_index() as index, self.open_log() as file:
            entry = index.entry_below(end_position)
            is_believed = entry is not None and index_trust.is_position(self, file, entry)
            return entry.position if entry is not None and is_believed else 0

    def last_time_entry(self) -> TimeEntry | None:
        """Read the last entry of the `.timeindex`, if the log bears it out; None otherwise."""
        with self.time_index() as index:
            entry = index.last_entry()
        if entry is None:
            return None
        with self.open_log() as file:
            is_believed = index_trust.batch_of_largest(self, file, entry) is not None
            return entry if is_believed else None

    def may_reach_timestamp(self, timestamp_ms: int, last: TimeEntry | None) -> bool:
        """Tell whether a record may lie at or after a time; false only when it is known.

        After `last`, that of its time index, headers are walked, as far as `MAX_TIME_WALK_BYTES`.
        """
        if last is not None and last.timestamp >= timestamp_ms:
            return True
        with self.open_log() as file:
            _, start = self._batch_of(last, file)
            options = WalkOptions(first_read_bytes=index_trust.LOOKUP_READ_BYTES)
            buffer = ReadBuffer(index_trust.LOOKUP_BUFFER_BYTES)
            walk = HeaderWalk(self, file, options, position=start, buffer=buffer)
            for table in walk:
                if (table.max_timestamp >= timestamp_ms).any():
                    return True
                if walk.position - start > MAX_TIME_WALK_BYTES:
                    return True
        return False

    def start_position(
        self, file: LogFile, offset: int, min_timestamp_ms: int | None = None
    ) -> int:
        """Find a position at or before the first batch that reaches an offset, and a time if given.

        As `position_for`: what lies before it is below the offset, or below the time by the index.
        """
        position = self.position_for(offset, file)
        if min_timestamp_ms is None:
            return position
        with self.time_index() as index:
            entry = index.lookup(min_timestamp_ms)
        return max(position, self._batch_of(entry, file)[0])

    def _batch_of(self, entry: TimeEntry | None, file: LogFile) -> tuple[int, int]:
        """Find where the batch starts and ends that bears out a time entry; 0 and 0 for none."""
        found = None if entry is None else index_trust.batch_of_largest(self, file, entry)
        return found or (0, 0)

    @contextmanager
    def walk(
        self,
        options: WalkOptions = STRICT,
        *,
        start_offset: int = 0,
        min_timestamp_ms: int | None = None,
        buffer: ReadBuffer | None = None,
    ) -> Iterator[HeaderWalk]:
        """Open the `.log` and walk its batches, from its `start_position` on.

        Raises
        ------
        FileNotFoundError
            It was renamed or deleted; the partition's listing is out of date.
        """
        with self.open_log() as file:
            position = self.start_position(file, start_offset, min_timestamp_ms)
            if position == 0:
                expect_whole(file)
            yield HeaderWalk(self, file, options, position=position, buffer=buffer)

    def headers(
        self,
        start_position: int = 0,
        end_position: int | None = None,
        *,
        buffer: ReadBuffer | None = None,
        skip_corrupt: bool = False,
    ) -> Iterator[HeaderTable]:
        """Walk the batch headers, many in one table.

        Parameters
        ----------
        start_position : int
            Start of a batch.
        end_position : int, optional
            Batches that start at or after it are left out.

        Raises
        ------
        InvalidBatchError
            Bytes that are no batch and not the end, unless `skip_corrupt` is true.
        """
        options = WalkOptions(skip_corrupt=skip_corrupt)
        with self.open_log() as file:
            if start_position == 0 and end_position is None:
                expect_whole(file)
            walk = HeaderWalk(self, file, options, position=start_position, buffer=buffer)
            for table in walk:
                if end_position is not None and walk.position >= end_position:
                    yield table.select(table.position < end_position)
                    return
                yield table

    def next_offset(
        self,
        *,
        buffer: ReadBuffer | None = None,
        skip_corrupt: bool = False,
        check_crcs: bool = True,
    ) -> int:
        """Find the offset after the segment's last batch, by walking headers from the last entry.

        Where a crash can have left it half written, the last batch's checksum is compared too;
        where bad bytes are skipped, those of all others, unless `check_crcs` is false.
        """
        options = WalkOptions(skip_corrupt=skip_corrupt, check_crcs=check_crcs, compares_last=True)
        with self.open_log() as file:
            position = self.position_for(MAX_OFFSET, file)
            # Where the indexed batch itself is cut off, a walk alone knows what stands before it.
            for start_position in dict.fromkeys((position, 0)):
                walk = HeaderWalk(self, file, options, position=start_position, buffer=buffer)
                if sum(len(table) for table in walk):
                    return walk.next_offset
        return self.base_offset

    def lost_at_end(self) -> tuple[int, int] | None:
        """Find offsets [start, end) after the last batch that were there once; None for none.

        Those that the indexes name, or that are known to have been copied.
        """
        if self.end_offset_bound is None:
            return None
        with self.walk(QUIET) as walk:
            for _ in walk:
                pass
            start_offset = walk.known_offset
            if self.promised_end is not None and start_offset < self.promised_end:
                return start_offset, self.promised_end
            named = index_trust.offset_beyond_end(self, walk.file, walk.position, start_offset)
        return None if named is None else (start_offset, self.end_offset_bound)

    def may_end_torn(self, base_offset: int) -> bool:
        """Tell whether a batch at this offset may be the half-written last one of a crash."""
        return (
            self.end_offset_bound is None
            and self.recovery_point is not None
            and base_offset >= self.recovery_point
        )

    def _open_index(self, kind: str) -> LogFile | None:
        try:
            return self.storage.open_input(self._path(kind))
        except FileNotFoundError:
            if self.size_bytes() > 0:
                _warn_missing(self.directory, kind)
            return None

    def _path(self, kind: str, suffix: str | None = None) -> str:
        name = names.segment_file_name(self.base_offset, kind)
        return f"{self.directory}/{name}{self.suffix if suffix is None else suffix}"


def opened_ahead(segments: Iterable[Segment], end_offset: int) -> Iterator[Segment]:
    """Give neighbours that are read up to an offset (exclusive), far ones fetched ahead.

    As soon as the last block of one is asked for, those after it are opened, each up to
    `MOST_AHEAD_BYTES`, and as many as make these together, `SEGMENTS_AHEAD` at most.
    """
    coming = iter(segments)
    ahead: deque[tuple[Segment, int]] = deque()

    def open_more() -> None:
        ahead_bytes = sum(size_bytes for _, size_bytes in ahead)
        while ahead_bytes < MOST_AHEAD_BYTES and len(ahead) < SEGMENTS_AHEAD:
            following = next(coming, None)
            if following is None:
                return
            ahead.append((following, following.open_soon(end_offset)))
            ahead_bytes += ahead[-1][1]

    while (segment := ahead.popleft()[0] if ahead else next(coming, None)) is not None:
        segment.call_at_end(open_more)
        yield segment


@lru_cache(maxsize=1024)
def _warn_missing(directory: str, kind: str) -> None:
    """Warn once a partition directory."""
    _log.warning("%s lacks %s files: lookups there take longer", directory, kind)
