"""One partition's log: its directory of segments, in the order of their base offsets.

The log starts at the larger of its checkpointed start and its first segment's base offset, and ends
behind the last batch header of the last segment. While a commit of ours is open, both are what they
were before it. The directory is listed once; files are opened when they are needed, and one that is
gone by then (retention renamed it, compaction merged it into another) has its offsets looked up in
a fresh listing before anything is called lost.
"""

from __future__ import annotations

import bisect
import copy
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.errors import (
    CorruptRecordError,
    DataLossError,
    OffsetOutOfRangeError,
    SegmentLogError,
)
from spark_segmentlog.log import names
from spark_segmentlog.log.directory.cluster_metadata import is_tiered
from spark_segmentlog.log.directory.listing import PartitionListing, list_partition
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from spark_segmentlog.log.formats.time_index import read_largest_timestamp
from spark_segmentlog.log.io.reading import LOCAL, LogFile, Storage
from spark_segmentlog.log.io.signature import FileSignature, signature_of
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition, parse_partition_directory_name
from spark_segmentlog.log.segment.index_trust import LOOKUP_READ_BYTES
from spark_segmentlog.log.segment.segment import RemoteCopy, ScanOptions, Segment, SegmentScanner
from spark_segmentlog.log.segment.walk import HeaderWalk, OnCorrupt, ReadBuffer
from spark_segmentlog.log.tier.remote_segment import RemotePiece, StoreNote
from spark_segmentlog.log.tier.tiered_storage import TieredStorage
from spark_segmentlog.log.transactions.outcomes import (
    TransactionOutcomes,
    WholeRead,
    find_open_transactions,
    transaction_tracker,
)
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.types import Int64s

READ_COMMITTED: Final = "read_committed"
RESOLVE_ATTEMPTS: Final = 100
MAX_WALKED_SEGMENTS: Final = 2000
MAX_CONFIRMED_SEGMENTS: Final = 100
ORPHAN_PAUSE_SECONDS: Final = 0.05

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Offsets [start, end) that are gone though they were promised."""

    topic_partition: TopicPartition
    start_offset: int
    end_offset: int


OnDataLoss = Callable[[LostRange], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """Whole record batches as they lie on disk, from a broker-like fetch.

    `record_batches` may start below the offset asked for, with the batch that holds it;
    `next_offset` is where to fetch next.
    """

    topic_partition: TopicPartition
    record_batches: bytes
    next_offset: int
    log_start_offset: int
    log_end_offset: int


class SegmentList(Sequence[Segment]):
    """Some segments of a partition in their order, each made when it is asked for.

    Planning over many segments uses the arrays, one number a segment, and makes none.

    Attributes
    ----------
    slots : ndarray of int64
        Places in the listing that it was made from, ascending.
    base_offsets : ndarray of int64
        Of each segment. They stay when the partition is listed again.
    """

    def __init__(self, partition_log: PartitionLog, slots: Int64s) -> None:
        self._log = partition_log
        self.slots = slots
        self.base_offsets = partition_log.base_offsets[slots]

    def __len__(self) -> int:
        return len(self.slots)

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> SegmentList: ...

    def __getitem__(self, index: int | slice) -> Segment | SegmentList:
        if isinstance(index, slice):
            return self._some(index)
        return self._log.segment_named(int(self.base_offsets[index]))

    @property
    def end_offset_bounds(self) -> Int64s:
        """Offset below which each segment's records lie; the largest number for the last one."""
        bounds = np.append(self._log.all_base_offsets, MAX_OFFSET)
        return bounds[np.searchsorted(self._log.all_base_offsets, self.base_offsets, "right")]

    def sizes_bytes(self) -> Int64s:
        """Measure each `.log` file; 0 for one that is gone."""
        storage = self._log.storage
        return np.fromiter(
            (_size_or_zero(storage, path) for path in self.paths(names.LOG_SUFFIX)),
            np.int64,
            len(self),
        )

    def reaching_timestamp(self, timestamp_ms: int) -> SegmentList:
        """Leave out the segments whose records are all known to lie below a time.

        By the last entry of the `.timeindex`, and the headers behind it. Where more than
        `MAX_CONFIRMED_SEGMENTS` of a partition lie below, those with a trusted index are left out
        by its last entry alone, so that one that lies hides their records; of the others, more than
        `MAX_WALKED_SEGMENTS` are kept unseen.
        """
        known = self._log.known_largest_timestamps(self.base_offsets)
        largest = [
            read_largest_timestamp(self._log.storage, path) if time is None else time
            for time, path in zip(known, self.paths(names.TIME_INDEX_SUFFIX), strict=True)
        ]
        is_kept = np.array([it is not None and it >= timestamp_ms for it in largest], np.bool_)
        looked_into = ~is_kept & np.array([it is None for it in known], np.bool_)
        if looked_into.sum() > MAX_CONFIRMED_SEGMENTS:
            is_unknown = np.array([it is None for it in largest], np.bool_)
            looked_into &= is_unknown | ~self._log.are_indexes_trusted(self)
        if looked_into.sum() > MAX_WALKED_SEGMENTS:
            is_kept |= looked_into
            return self._some(is_kept)
        buffer = ReadBuffer(LOOKUP_READ_BYTES)
        for index in np.flatnonzero(looked_into).tolist():
            is_kept[index] = _reaches(self[index], timestamp_ms, buffer)
        return self._some(is_kept)

    def _some(self, chosen: slice | npt.NDArray[np.bool_]) -> SegmentList:
        some = copy.copy(self)
        some.slots, some.base_offsets = self.slots[chosen], self.base_offsets[chosen]
        return some

    def paths(self, kind: str) -> Iterator[str]:
        """Give the path of each segment's file of one kind."""
        prefix = f"{self._log.directory}/"
        suffixes = self._log.listing.suffixes
        for base_offset in self.base_offsets.tolist():
            yield f"{prefix}{base_offset:020d}{kind}{suffixes.get(base_offset, '')}"


class PartitionLog:
    """One partition directory, listed.

    Parameters
    ----------
    topic_partition : TopicPartition
    directory : str
    state : LogDirectoryState
        Of the log directory that it lies in. It tells nothing of a directory beside the log
        (``-delete``, ``-future``, ``-stray``), nor of ``.deleted`` files.
    listing : PartitionListing
        Its files.
    named : mapping of int to str, optional
        Base offsets of the segments that were asked for, and the suffixes of their files' names;
        by default all are.
    is_named : bool
        Whether it was asked for by its own path.

    Attributes
    ----------
    log_directories : sequence of str
        Those that are read as one log, in one of which the cluster's metadata may lie.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        *,
        state: LogDirectoryState,
        listing: PartitionListing,
        named: Mapping[int, str] | None = None,
        storage: Storage = LOCAL,
        is_named: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.storage = storage
        self._tier = storage if isinstance(storage, TieredStorage) else None
        self.skip_corrupt = False
        self.check_crcs = True
        self.is_named = is_named
        self.log_directories: Sequence[str] = (state.path,)
        self._named = named
        is_beside = is_beside_the_log(directory, () if named is None else named.values())
        self.state = LogDirectoryState(path=state.path) if is_beside else state
        self._take(listing)

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        state: LogDirectoryState | None = None,
        storage: Storage = LOCAL,
        topic_partition: TopicPartition | None = None,
    ) -> PartitionLog:
        """List a partition directory.

        Raises
        ------
        FileNotFoundError
            The directory is gone.
        """
        parent, _, name = directory.rstrip("/").rpartition("/")
        return cls(
            topic_partition or parse_partition_directory_name(name),
            directory,
            state=state or LogDirectoryState.read(parent or "/", storage),
            listing=list_partition(storage, directory),
            storage=storage,
        )

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.directory!r})"

    # Segments

    @property
    def base_offsets(self) -> Int64s:
        """Base offsets of the segments, ascending."""
        return self.listing.base_offsets

    @property
    def segments(self) -> SegmentList:
        """The segments in their order, each made when it is asked for."""
        return SegmentList(self, np.arange(len(self.base_offsets)))

    @property
    def all_base_offsets(self) -> Int64s:
        """Base offsets of all segments in the directory, whichever of them were asked for."""
        return self._all_base_offsets

    def are_indexes_trusted(self, segments: SegmentList) -> npt.NDArray[np.bool_]:
        """Tell for each segment whether well-formed indexes reach to its end."""
        if self.state.is_clean:
            return np.ones(len(segments), np.bool_)
        trusted: npt.NDArray[np.bool_] = segments.end_offset_bounds <= (self._recovery_point or 0)
        return trusted

    def segment_named(self, base_offset: int) -> Segment:
        """Make the segment of a base offset."""
        bound = self._next_base_offset(base_offset)
        storage = self.storage
        if self._tier is not None:
            piece = self._tier.find_piece(base_offset)
            if piece is not None:
                return self._remote_segment(self._tier, piece, bound)
            storage = self._tier.narrowed(base_offset)
        recovery_point = self._recovery_point
        is_flushed = bound is not None and recovery_point is not None and bound <= recovery_point
        is_moving = self._is_moving(base_offset) or self._is_moving(bound)
        return Segment(
            topic_partition=self.topic_partition,
            directory=self.directory,
            base_offset=base_offset,
            end_offset_bound=bound,
            is_index_trusted=is_flushed or self.state.is_clean,
            recovery_point=recovery_point,
            reached_offset=self.state.reached_offset(self.topic_partition),
            suffix=self.listing.suffixes.get(base_offset, ""),
            is_moving=is_moving,
            is_first=is_moving or base_offset == int(self._all_base_offsets[0]),
            storage=storage,
        )

    def _remote_segment(
        self, tier: TieredStorage, piece: RemotePiece, bound: int | None
    ) -> Segment:
        # What is known to end where the next begins is as strict as a local segment.
        is_exact = bound is None or piece.segment.end_offset == bound
        return Segment(
            topic_partition=self.topic_partition,
            directory=self.directory,
            base_offset=piece.start_offset,
            end_offset_bound=bound,
            is_index_trusted=True,
            is_moving=not is_exact,
            copy=RemoteCopy(
                tier.remote.object_path(piece), piece.end_offset if bound is None else bound
            ),
            storage=tier.narrowed(piece.start_offset),
        )

    def _settle(self, start_offset: int, end_offset: int) -> None:
        """Make sure which remote segments hold offsets in [start, end)."""
        if self._tier is not None and self._tier.settle(start_offset, end_offset):
            self._list_again()

    def _is_moving(self, base_offset: int | None) -> bool:
        suffix = None if base_offset is None else self.listing.suffixes.get(base_offset)
        return suffix == names.SWAP_SUFFIX

    def visit_segments(
        self,
        visit: Callable[[Segment, int], Iterator[tuple[_T, int]]],
        start_offset: int = 0,
        end_offset: int = MAX_OFFSET,
    ) -> Iterator[_T]:
        """Give what a visit to each segment gives, whatever is renamed meanwhile.

        `visit` is that of `SegmentPursuit.visit`. Offsets that retention takes away meanwhile are
        passed over.
        """
        segments = self.segments_between(start_offset, end_offset)
        if not segments:
            return
        pursuit = SegmentPursuit(segments, end_offset, _tell_of_gone(self.directory))
        yield from pursuit.visit(start_offset, visit)

    def looked_at(self, segment: Segment, look: Callable[[Segment], Sequence[_T]]) -> Sequence[_T]:
        """Give what a look finds to be wrong with a segment that was the same all the while.

        Nothing found is believed at once. What was found in files that were replaced or written
        meanwhile is looked for again.

        Raises
        ------
        FileNotFoundError
            It is gone.
        """
        for _ in range(RESOLVE_ATTEMPTS):
            before = signature_of(segment.storage, segment.log_path)
            found = look(segment)
            if not found:
                break
            self._list_again()
            now = self.segment_named(segment.base_offset)
            if now == segment and signature_of(segment.storage, segment.log_path) == before:
                break
            segment = now
        return found

    def segments_between(self, start_offset: int, end_offset: int) -> SegmentList:
        """Give the segments that may hold offsets in [start, end)."""
        self._settle(start_offset, end_offset)
        first, last = self._slots_between(start_offset, end_offset)
        return self.segments[first:last]

    # Where the log starts and ends

    @cached_property
    def log_start_offset(self) -> int:
        """First offset of the log (inclusive)."""
        cap = self._cap
        if cap is not None:
            return cap[0]
        first = int(self.base_offsets[0]) if len(self.base_offsets) else 0
        return max(self.state.log_start_offsets.get(self.topic_partition, 0), first)

    @property
    def first_offset(self) -> int:
        """Base offset of the segment that the log starts in, maybe above that."""
        if len(self.base_offsets) == 0:
            return self.log_start_offset
        return int(self.base_offsets[self._slots_between(self.log_start_offset, MAX_OFFSET)[0]])

    @cached_property
    def remote_start_offset(self) -> int | None:
        """Where a tiered log starts in remote storage, below its local segments; None otherwise.

        A broker writes the start of a tiered log to ``log-start-offset-checkpoint``. That of any
        other log may lie below its segments too, until the checkpoint is written again, a minute
        after retention came by. So the cluster's metadata tells; where they are not at hand, the
        leader epochs do: they reach back to where the log starts, remote storage included.
        """
        start = self.state.log_start_offsets.get(self.topic_partition)
        if start is None or self._named is not None or self._cap is not None:
            return None
        if len(self.base_offsets) == 0 or start >= int(self.base_offsets[0]):
            return None
        known = None
        if self.storage == LOCAL:
            known = is_tiered(self.topic_partition.topic, self.log_directories)
        if known is None:
            known = bool(self.leader_epochs) and self.leader_epochs[0].start_offset <= start
        return start if known else None

    @cached_property
    def log_end_offset(self) -> int:
        """Offset behind the last record (exclusive).

        Raises
        ------
        CorruptRecordError
            Bad bytes in the last segment that are no torn end, unless `skip_corrupt` is set.
        """
        cap = self._cap
        if cap is not None:
            return cap[1]
        return max(self.resolved(self.find_next_offset), self.log_start_offset)

    @cached_property
    def lost_segments(self) -> list[LostRange]:
        """Offsets of segments whose `.log` is gone and whose index is still there.

        Retention and compaction take both away, one after the other, so that what a listing shows
        is looked at once more. Below the checkpointed log start nothing is lost.
        """
        found = set(self.listing.orphan_offsets.tolist())
        if not found or self._named is not None or self._cap is not None:
            return []
        time.sleep(ORPHAN_PAUSE_SECONDS)
        again = list_partition(self.storage, self.directory)
        found &= set(again.orphan_offsets.tolist())
        log_start_offset = self.state.log_start_offsets.get(self.topic_partition, 0)
        ranges = [(max(it, log_start_offset), self._end_of_lost(it)) for it in sorted(found)]
        return [
            LostRange(topic_partition=self.topic_partition, start_offset=start, end_offset=end)
            for start, end in ranges
            if start < end
        ]

    def _end_of_lost(self, base_offset: int) -> int:
        bound = self._next_base_offset(base_offset)
        if bound is not None:
            return bound
        points = self.state.recovery_points or {}
        return max(points.get(self.topic_partition, 0), base_offset + 1)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a live log: not some files that were named, nor a log beside it."""
        return self._named is None and not is_beside_the_log(self.directory)

    @property
    def lost_at_end(self) -> tuple[int, int] | None:
        """Offsets [log end offset, recovery point) that are gone; None where none is known to be.

        A broker writes a recovery point when everything below it is on the disk.
        """
        points = self.state.recovery_points
        # The end of some files that were named is not that of the log.
        if points is None or self._named is not None or self._cap is not None:
            return None
        recovery_point = points.get(self.topic_partition, 0)
        return (
            (self.log_end_offset, recovery_point) if recovery_point > self.log_end_offset else None
        )

    @property
    def lost_by_high_watermark(self) -> tuple[int, int] | None:
        """Offsets [log end offset, checkpointed high watermark); None where the log reaches it.

        Records below it can be lost to a crash, since it is written before they are flushed.
        """
        marks = self.state.high_watermarks or {}
        mark = marks.get(self.topic_partition, 0)
        if self._named is not None or self._cap is not None or mark <= self.log_end_offset:
            return None
        return self.log_end_offset, mark

    @property
    def high_watermark(self) -> int | None:
        """Checkpointed high watermark (exclusive), within the log; None where none is known."""
        marks = self.state.high_watermarks
        if marks is None or self.topic_partition not in marks:
            return None
        mark = marks[self.topic_partition]
        return min(max(mark, self.log_start_offset), self.log_end_offset)

    @cached_property
    def leader_epochs(self) -> list[LeaderEpoch]:
        """Entries of `leader-epoch-checkpoint`, ascending."""
        return checkpoints.read_leader_epochs(self.storage, self.directory)

    def last_stable_offset(self) -> int:
        """First offset of the oldest transaction that is open at the log's end, or that end."""
        return self._last_stable_offset

    @cached_property
    def _last_stable_offset(self) -> int:
        return self.resolved(self.find_last_stable_offset)

    def find_last_stable_offset(self) -> int:
        """Find what `last_stable_offset` gives, which asks once."""
        tracker = transaction_tracker(self, uncommitted_only=True)
        return self.stable_offset_of(
            find_open_transactions(self, tracker, self.settled_offset, self.log_end_offset)
        )

    @property
    def settled_offset(self) -> int:
        """Offset below which no transaction begins that is open at the log's end.

        A broker copies a segment to a remote tier once all transactions in it have ended; of those
        whose marker was not copied too, the snapshot at the end of what was copied tells.
        """
        tier = self._tier
        pieces = () if tier is None else tier.remote.pieces()
        if tier is None or not pieces:
            return self.first_offset
        if tier.first_local is not None:
            return max(tier.first_local, self.first_offset)
        self._settle(0, MAX_OFFSET)
        states = tier.remote.producers_at_end()
        if states is None:
            return self.first_offset
        begun = [it.current_txn_first_offset for it in states if it.is_in_transaction]
        return max(min(begun, default=self.log_end_offset), self.first_offset)

    def remote_notes(self) -> list[StoreNote]:
        """Tell what remote stores have of the partition that is no part of its log."""
        return [] if self._tier is None else self._tier.remote.notes()

    def known_largest_timestamps(self, base_offsets: Int64s) -> list[int | None]:
        """Give the largest timestamps of segments, in ms; None each where a file has to tell."""
        if self._tier is None:
            return [None] * len(base_offsets)
        pieces = [self._tier.find_piece(it) for it in base_offsets.tolist()]
        return [None if it is None else it.segment.max_timestamp_ms for it in pieces]

    def stable_offset_of(self, first_open_offset: int | None) -> int:
        """Give the last stable offset where the oldest open transaction begins at an offset."""
        if first_open_offset is None:
            return self.log_end_offset
        return max(min(first_open_offset, self.log_end_offset), self.log_start_offset)

    def lost_behind(self, stable_offset: int) -> list[LostRange]:
        """Find offsets that are gone behind a last stable offset, as the indexes there tell.

        The end of the transaction that holds rows back may have been among them.
        """
        found = []
        for segment in self.segments_between(stable_offset, self.log_end_offset):
            lost = segment.lost_at_end()
            if lost is not None:
                start, end = lost
                found.append(
                    LostRange(
                        topic_partition=self.topic_partition, start_offset=start, end_offset=end
                    )
                )
        return found

    def end_signature(self) -> FileSignature | None:
        """Measure the file of the last segment; None where it is not local, gone or missing."""
        if len(self.base_offsets) == 0:
            return None
        try:
            return signature_of(self.storage, next(self.segments[-1:].paths(names.LOG_SUFFIX)))
        except FileNotFoundError:
            return None

    def find_next_offset(self) -> int:
        """Find the offset behind the last batch of the last segment; `log_end_offset` asks once."""
        if self._tier is not None and self._tier.first_local is None:
            # The segment that begins last need not be the one that ends last.
            self._settle(0, MAX_OFFSET)
        if len(self.base_offsets) == 0:
            return 0
        segment = self.segments[-1]
        next_offset = segment.next_offset(
            skip_corrupt=self.skip_corrupt, check_crcs=self.check_crcs
        )
        bound = segment.end_offset_bound
        return next_offset if bound is None else min(next_offset, bound)

    def goes_on_after(self, end_offset: int) -> bool:
        """Tell whether batches have come, by a new listing, after an offset that was the end."""
        self._list_again()
        return self.resolved(self.find_next_offset) > end_offset

    def resolved(self, look_up: Callable[[], _T]) -> _T:
        """Look something up in the files; list them again when one was renamed meanwhile.

        Raises
        ------
        FileNotFoundError
            The directory is gone.
        """
        for _ in range(RESOLVE_ATTEMPTS):
            try:
                return look_up()
            except FileNotFoundError as error:
                _log.info("%s is gone: list %s again", error.filename, self.directory)
                self._list_again()
        return look_up()

    def at_one_moment(self, look_up: Callable[[], _T]) -> _T:
        """Look something up in the files of one listing, which is still that of the directory."""
        for _ in range(RESOLVE_ATTEMPTS):
            found = self.resolved(look_up)
            before = self.listing
            self._list_again()
            if np.array_equal(before.base_offsets, self.listing.base_offsets):
                break
        return found

    def _list_again(self) -> None:
        self._take(list_partition(self.storage, self.directory))

    def _take(self, listing: PartitionListing) -> None:
        self.listing = listing if self._named is None else listing.only(self._named)
        self._all_base_offsets = listing.base_offsets

    @property
    def _cap(self) -> tuple[int, int] | None:
        return self.state.cap(self.topic_partition)

    @cached_property
    def _recovery_point(self) -> int | None:
        return self.state.recovery_point(self.topic_partition)

    def _next_base_offset(self, base_offset: int) -> int | None:
        slot = bisect.bisect_right(self._all_base_offsets, base_offset)
        if slot == len(self._all_base_offsets):
            return None
        return int(self._all_base_offsets[slot])

    def _slots_between(self, start_offset: int, end_offset: int) -> tuple[int, int]:
        if end_offset <= start_offset:
            return 0, 0
        first = int(np.searchsorted(self.base_offsets, start_offset, side="right")) - 1
        last = int(np.searchsorted(self.base_offsets, min(end_offset, MAX_OFFSET), side="left"))
        return max(first, 0), last

    # Snapshots

    def newest_snapshot(self, end_offset: int) -> tuple[int, list[ProducerState]] | None:
        """Read the newest good snapshot at or below an offset: its offset, and the producers."""
        for offset in reversed(self.listing.snapshot_offsets.tolist()):
            if offset <= end_offset:
                states = self.snapshot_at(offset)
                if states is not None:
                    return offset, states
        return None

    def snapshot_at(self, offset: int) -> list[ProducerState] | None:
        """Read the snapshot at an offset; None where it is missing or does not hold together."""
        name = names.segment_file_name(offset, names.SNAPSHOT_SUFFIX)
        data = self.storage.read_file(f"{self.directory}/{name}")
        return None if data is None else parse_producer_snapshot(data)

    def _tables(
        self, segment: Segment, start_offset: int, buffer: ReadBuffer
    ) -> Iterator[tuple[HeaderTable, HeaderWalk]]:
        with segment.open_log() as file:
            position = segment.position_for(start_offset, file)
            walk = HeaderWalk(
                segment,
                file,
                position,
                buffer,
                self.skip_corrupt,
                None,
                check_crcs=self.check_crcs,
            )
            for table in walk:
                yield table, walk

    # Lookup by time

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Find the first offset whose record timestamp is at or above a time.

        Control records count, as they do for a broker.

        Returns
        -------
        tuple of (offset, timestamp in ms), or None
            None where no record is that late.
        """
        return self.resolved(lambda: self._find_timestamp(timestamp_ms))

    def _find_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        buffer = ReadBuffer()
        segments = self.segments_between(self.log_start_offset, self.log_end_offset)
        for segment in segments.reaching_timestamp(timestamp_ms):
            found = self.first_at_or_after(segment, timestamp_ms, buffer)
            if found is not None:
                return found
        return None

    def first_at_or_after(
        self, segment: Segment, timestamp_ms: int, buffer: ReadBuffer
    ) -> tuple[int, int] | None:
        """Find the first (offset, timestamp) of one segment at or above a time, within the log."""
        start_offset = max(self.log_start_offset, segment.offset_below_timestamp(timestamp_ms))
        end_offset = self.log_end_offset
        if segment.end_offset_bound is not None:
            end_offset = min(end_offset, segment.end_offset_bound)
        for table, walk in self._tables(segment, start_offset, buffer):
            late = (table.max_timestamp >= timestamp_ms) & (table.last_offset >= start_offset)
            late &= (table.base_offset < end_offset) & (table.records_count != 0)
            for row in np.flatnonzero(late).tolist():
                found = self._first_record(walk, table, row, timestamp_ms, start_offset)
                if found is not None:
                    return found if found[0] < end_offset else None
            if int(table.base_offset[-1]) >= end_offset:
                return None
        return None

    def _first_record(
        self, walk: HeaderWalk, table: HeaderTable, row: int, timestamp_ms: int, start_offset: int
    ) -> tuple[int, int] | None:
        """Find the first record of one batch that is late enough, with its timestamp."""
        start = int(table.position[row]) - walk.file_position
        batch = walk.buffer[start : start + int(table.size_bytes[row])].tobytes()
        iterate = iterate_records if table.magic[row] == MAGIC_V2 else iterate_messages
        records = iterate(
            batch,
            source=walk.segment.log_path,
            file_position=int(table.position[row]),
            check_crcs=self.check_crcs,
        )
        try:
            for record in records:
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return record.offset, record.timestamp_ms
        except CorruptRecordError:
            if not self.skip_corrupt:
                raise
        return None

    # Reading

    def scan(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        options: ScanOptions | None = None,
        on_corrupt: OnCorrupt | None = None,
        on_data_loss: OnDataLoss | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows of [start, end), which defaults to the whole log, in the order of offsets."""
        options = options or ScanOptions()
        wanted = options.record_filter
        start = max(self.log_start_offset, wanted.start_offset, start_offset or 0)
        end = min(wanted.end_offset, MAX_OFFSET if end_offset is None else end_offset)
        is_whole = wanted.min_timestamp_ms is None
        if end > self.log_start_offset:
            is_known = options.isolation_level == READ_COMMITTED and not is_whole
            end = min(end, self.last_stable_offset() if is_known else self.log_end_offset)
        segments = self.segments_between(start, end)
        if wanted.min_timestamp_ms is not None:
            segments = segments.reaching_timestamp(wanted.min_timestamp_ms)
        yield from scan_segments(
            segments,
            _with_range(options, start, end),
            on_corrupt=on_corrupt,
            on_data_loss=on_data_loss,
            partition_log=self,
            finds_stable_offset=is_whole,
        )

    def read(self, start_offset: int, max_bytes: int) -> FetchedBatches:
        """Fetch whole record batches as a broker does, at least one though it be larger.

        Raises
        ------
        OffsetOutOfRangeError
            `start_offset` is below the log's start or beyond its end.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} of {self.topic_partition} is out of range: the log holds "
                f"offsets from {self.log_start_offset} (inclusive) to {self.log_end_offset} "
                "(exclusive)"
            )
        return self.resolved(lambda: self._find_batches(start_offset, max_bytes))

    def _find_batches(self, start_offset: int, max_bytes: int) -> FetchedBatches:
        buffer = ReadBuffer()
        for segment in self.segments_between(start_offset, self.log_end_offset):
            with segment.open_log() as file:
                position = segment.position_for(start_offset, file)
                walk = HeaderWalk(segment, file, position, buffer, False, None)
                fetched = self._fetch(walk, file, start_offset, max_bytes)
            if fetched is not None:
                return fetched
        return self._fetched(b"", max(start_offset, self.log_end_offset))

    def _fetch(
        self, walk: HeaderWalk, file: LogFile, start_offset: int, max_bytes: int
    ) -> FetchedBatches | None:
        first = end = -1
        next_offset = start_offset
        for table in walk:
            wanted = table.last_offset >= start_offset
            wanted &= table.last_offset < self.log_end_offset
            rows = np.flatnonzero(wanted)
            if first < 0 and len(rows):
                first = int(table.position[rows[0]])
                end = first + int(table.size_bytes[rows[0]])
                next_offset = int(table.last_offset[rows[0]]) + 1
            ends = (table.position + table.size_bytes)[rows]
            fitting = rows[ends - first <= max_bytes]
            if len(fitting):
                end = max(end, int(table.position[fitting[-1]] + table.size_bytes[fitting[-1]]))
                next_offset = max(next_offset, int(table.last_offset[fitting[-1]]) + 1)
            if first >= 0 and len(fitting) < len(table):
                break
        if first < 0:
            return None
        return self._fetched(file.read_at(first, end - first), next_offset)

    def _fetched(self, record_batches: bytes, next_offset: int) -> FetchedBatches:
        return FetchedBatches(
            topic_partition=self.topic_partition,
            record_batches=record_batches,
            next_offset=next_offset,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
        )


def scan_segments(
    segments: Sequence[Segment],
    options: ScanOptions,
    *,
    on_corrupt: OnCorrupt | None = None,
    on_data_loss: OnDataLoss | None = None,
    partition_log: PartitionLog | None = None,
    finds_stable_offset: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read rows from segments of one partition, in their order; runs in a task.

    The offsets to read are those of ``options.record_filter``, which must have both ends when rows
    of a log that grows are wanted as of one time.

    Parameters
    ----------
    segments : sequence of Segment
        Neighbours that hold the offsets; their partition is listed again only if one is gone, or
        to know what was aborted.
    partition_log : PartitionLog, optional
        The partition, if it is at hand.
    finds_stable_offset : bool
        Whether rows of transactions that are open at the end of `partition_log`, and those behind
        them, are yet to be left out; only for all segments that hold the offsets.

    Raises
    ------
    DataLossError
        Offsets are gone from the partition, and the options say to fail then.
    CorruptRecordError
        Bad bytes, and the options do not say to skip them.
    """
    if not segments:
        return
    log_end_offset = None
    if finds_stable_offset:
        assert partition_log is not None
        log_end_offset = partition_log.log_end_offset
    scan = _PartitionScan(
        segments, options, on_corrupt, on_data_loss, partition_log, log_end_offset
    )
    yield from scan.rows()


class SegmentPursuit:
    """Segments of an offset range in their order; one that is gone is looked up in a new listing.

    Who reads them tells how far it has come; what is left then comes from the segments that hold it
    now, and offsets that none holds any more are lost.

    Parameters
    ----------
    segments : sequence of Segment
        Neighbours, at least one.
    end_offset : int
        Exclusive.
    on_lost : callable
        Takes the offsets [start, end) that are gone; may raise.
    partition_log : PartitionLog, optional
        The partition, if it is at hand.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        end_offset: int,
        on_lost: Callable[[int, int], None],
        partition_log: PartitionLog | None = None,
    ) -> None:
        self._place = segments[0]
        self._pending = deque(segments)
        self._end_offset = end_offset
        self._on_lost = on_lost
        self._partition_log = partition_log
        self._attempts = 0
        self._reached = -1
        self._listed: tuple[FileSignature, list[int]] | None = None

    def next(self) -> Segment | None:
        """Give the next segment; None behind the last."""
        return self._pending.popleft() if self._pending else None

    def partition_log(self) -> PartitionLog:
        """Give the partition, as it was last listed."""
        if self._partition_log is None:
            place = self._place
            self._partition_log = PartitionLog.open(
                place.directory, storage=place.storage, topic_partition=place.topic_partition
            )
        return self._partition_log

    def was_split(self, segment: Segment, end_offset: int) -> bool:
        """Tell whether offsets of a segment below `end_offset` have got a segment of their own.

        To be asked where a segment ends before it was to, as it does after compaction too; on the
        local disk alone.
        """
        bound = segment.end_offset_bound
        if bound is None or end_offset <= segment.base_offset + 1 or segment.storage != LOCAL:
            return False
        try:
            signature = FileSignature.of(segment.directory)
            if self._listed is None or self._listed[0] != signature or not signature.is_settled():
                listing = list_partition(segment.storage, segment.directory)
                self._listed = signature, listing.base_offsets.tolist()
        except FileNotFoundError:
            return False
        base_offsets = self._listed[1]
        slot = bisect.bisect_right(base_offsets, segment.base_offset)
        return slot < len(base_offsets) and base_offsets[slot] < min(bound, end_offset)

    def look_again(self, next_offset: int) -> int:
        """Look the offsets from `next_offset` on up in a fresh listing; gives where they go on.

        Raises
        ------
        SegmentLogError
            Files are renamed faster than anything is read of them.
        """
        self._attempts = 1 if next_offset > self._reached else self._attempts + 1
        self._reached = next_offset
        if self._attempts > RESOLVE_ATTEMPTS:
            raise SegmentLogError(
                f"offset {next_offset} of {self._place.topic_partition} was not found in "
                f"{RESOLVE_ATTEMPTS} listings of {self._place.directory}: files in it are renamed "
                "faster than they can be read"
            )
        self._partition_log = None
        self._pending.clear()
        try:
            log = self.partition_log()
        except FileNotFoundError:
            self._on_lost(next_offset, self._end_offset)
            return next_offset
        if len(log.base_offsets) == 0:
            self._on_lost(next_offset, self._end_offset)
            return next_offset
        if next_offset < log.log_start_offset:
            self._on_lost(next_offset, min(self._end_offset, log.log_start_offset))
        start_offset = max(next_offset, log.log_start_offset)
        self._pending.extend(log.segments_between(start_offset, self._end_offset))
        return start_offset

    def visit(
        self, start_offset: int, visit: Callable[[Segment, int], Iterator[tuple[_T, int]]]
    ) -> Iterator[_T]:
        """Give what a visit to each segment gives.

        Parameters
        ----------
        start_offset : int
        visit : callable
            Takes a segment and the offset from which on it is wanted; gives what there is, each
            with the offset behind it.
        """
        next_offset = reached = start_offset
        while (segment := self.next()) is not None:
            try:
                for item, behind in visit(segment, next_offset):
                    reached = max(reached, behind)
                    yield item
            except FileNotFoundError:
                # The last file may have been a new one, that holds more than its old name says.
                next_offset = self.look_again(max(next_offset, reached))
            else:
                bound = segment.end_offset_bound or 0
                if reached < bound and self.was_split(segment, self._end_offset):
                    next_offset = self.look_again(max(next_offset, reached))
                else:
                    # One that others take the place of may reach into the next.
                    next_offset = max(next_offset, bound, reached)


class _PartitionScan:
    """A scan over segments that may be renamed while it runs.

    Its parts know nothing of it, so that its buffers are free again as soon as it is over.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        options: ScanOptions,
        on_corrupt: OnCorrupt | None,
        on_data_loss: OnDataLoss | None,
        partition_log: PartitionLog | None,
        log_end_offset: int | None,
    ) -> None:
        self._options = options
        self._log_end_offset = log_end_offset
        self._losses = _Losses(segments[0], options, on_data_loss)
        end_offset = options.record_filter.end_offset
        self._pursuit = SegmentPursuit(segments, end_offset, self._losses.tell, partition_log)
        topic_partition = segments[0].topic_partition
        self._scanner = SegmentScanner(topic_partition, options, on_corrupt=on_corrupt)
        self._outcomes = self._new_outcomes()

    def rows(self) -> Iterator[pa.RecordBatch]:
        scanner, wanted_end = self._scanner, self._options.record_filter.end_offset
        while (segment := self._pursuit.next()) is not None:
            try:
                yield from scanner.scan(
                    segment, outcomes=self._outcomes, on_lost=self._losses.tell_at_end
                )
                if self._outcomes is not None:
                    wanted_end = min(wanted_end, self._outcomes.stable_offset)
                end_offset = min(wanted_end, segment.end_offset_bound or 0)
                if scanner.next_offset >= wanted_end:
                    break
                if scanner.next_offset < end_offset and self._pursuit.was_split(
                    segment, end_offset
                ):
                    self._look_again()
                else:
                    scanner.next_offset = max(scanner.next_offset, segment.end_offset_bound or 0)
            except FileNotFoundError:
                self._look_again()
        yield from scanner.flush()

    def _look_again(self) -> None:
        """Go on in a new listing, in which batches stand at other positions."""
        self._scanner.next_offset = self._pursuit.look_again(self._scanner.next_offset)
        self._outcomes = self._new_outcomes()

    def _new_outcomes(self) -> TransactionOutcomes | None:
        if self._options.isolation_level != READ_COMMITTED:
            return None
        whole_read = None
        if self._log_end_offset is not None:
            whole_read = WholeRead(
                start_offset=self._scanner.next_offset, log_end_offset=self._log_end_offset
            )
        return TransactionOutcomes(
            partial(_listed_log, self._pursuit, self._options),
            check_crcs=self._options.check_crcs,
            skip_corrupt=self._options.skip_corrupt,
            whole_read=whole_read,
        )


def _listed_log(pursuit: SegmentPursuit, options: ScanOptions) -> PartitionLog:
    log = pursuit.partition_log()
    log.skip_corrupt, log.check_crcs = options.skip_corrupt, options.check_crcs
    return log


class _Losses:
    """What a scan does about offsets that are gone."""

    def __init__(
        self, segment: Segment, options: ScanOptions, on_data_loss: OnDataLoss | None
    ) -> None:
        self._topic_partition = segment.topic_partition
        self._directory = segment.directory
        self._options = options
        self._on_data_loss = on_data_loss

    def tell_at_end(self, start_offset: int, end_offset: int, reason: str) -> None:
        """Tell of offsets at a segment's end; an error, unless bad bytes are stepped over."""
        self.tell(start_offset, end_offset, reason, is_error=not self._options.skip_corrupt)

    def tell(
        self, start_offset: int, end_offset: int, reason: str = "", *, is_error: bool = True
    ) -> None:
        """Tell of offsets [start, end).

        Raises
        ------
        DataLossError
            The options say to fail.
        """
        text = (
            f"could not read records in offset [{start_offset}, {end_offset}) of topic partition "
            f"{self._topic_partition}: they are gone from {self._directory}"
        )
        if reason:
            text = f"{text}, {reason}"
        if is_error and self._options.fail_on_data_loss:
            raise DataLossError("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", text)
        _log.warning(text)
        if self._on_data_loss is not None:
            self._on_data_loss(
                LostRange(
                    topic_partition=self._topic_partition,
                    start_offset=start_offset,
                    end_offset=end_offset,
                )
            )


def _tell_of_gone(directory: str) -> Callable[[int, int], None]:
    def tell(start_offset: int, end_offset: int) -> None:
        to = "their end" if end_offset == MAX_OFFSET else end_offset
        _log.warning("%s: offsets from %d to %s are gone", directory, start_offset, to)

    return tell


def while_it_is_there(log: PartitionLog, items: Iterable[_T]) -> Iterator[_T]:
    """Give items of a partition until there are no more, or its directory is deleted meanwhile."""
    try:
        yield from items
    except FileNotFoundError:
        if log.storage.exists(log.directory):
            raise
        _log.warning("%s is gone: it was deleted while it was looked at", log.directory)


def is_beside_the_log(directory: str, suffixes: Iterable[str] = ()) -> bool:
    """Tell whether a directory, or files of such suffixes, are no part of the live log."""
    return directory.endswith(names.ASIDE_DIRECTORY_SUFFIXES) or any(
        suffix in (names.DELETED_SUFFIX, names.CLEANED_SUFFIX) for suffix in suffixes
    )


def _size_or_zero(storage: Storage, path: str) -> int:
    try:
        return storage.size(path)
    except FileNotFoundError:
        return 0


def _reaches(segment: Segment, timestamp_ms: int, buffer: ReadBuffer) -> bool:
    """Tell whether a segment may hold a record at or after a time; false only when it is known."""
    try:
        return segment.may_reach_timestamp(timestamp_ms, buffer)
    except (FileNotFoundError, CorruptRecordError):
        # Whoever reads the segment will see, and has the means to deal with it.
        return True


def _with_range(options: ScanOptions, start_offset: int, end_offset: int) -> ScanOptions:
    return replace(
        options,
        record_filter=replace(
            options.record_filter, start_offset=start_offset, end_offset=end_offset
        ),
    )
