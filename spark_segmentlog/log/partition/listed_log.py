"""One partition's log: its directory of segments, in the order of their base offsets.

The log starts at the larger of its checkpointed start and its first segment's base offset, and ends
after the last batch header of the last segment. While a commit of ours is open, both are what they
were before it. The directory is listed once; files are opened when they are needed, and one that is
gone by then (retention renamed it, compaction merged it into another) has its offsets looked up in
a fresh listing before anything is called lost.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Self, TypeVar

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log import names
from spark_segmentlog.log.directory.cluster_metadata import is_tiered
from spark_segmentlog.log.directory.listing import PartitionListing, list_partition
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.io.signature import FileSignature, signature_of
from spark_segmentlog.log.io.threads import FoundOnce
from spark_segmentlog.log.names import (
    MAX_OFFSET,
    OffsetRange,
    TopicPartition,
    parse_partition_directory_name,
)
from spark_segmentlog.log.partition.lost_ranges import find_lost_after, find_lost_segments
from spark_segmentlog.log.partition.segment_list import SegmentList
from spark_segmentlog.log.tier.remote_segment import StoreNote
from spark_segmentlog.log.tier.tiered_storage import TieredStorage
from spark_segmentlog.log.transactions.transaction_walk import (
    find_open_transactions,
    transaction_tracker,
)
from spark_segmentlog.record.types import Int64s

RESOLVE_ATTEMPTS: Final = 100

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class ListedLog:
    """One partition directory, listed.

    Parameters
    ----------
    state : LogDirectoryState
        Of the log directory that it lies in. It tells nothing of a directory beside the log
        (``-delete``, ``-future``, ``-stray``), nor of ``.deleted`` files.
    named : mapping of int to str, optional
        Base offsets of the segments that were asked for, and the suffixes of their files' names;
        by default all are.
    is_named : bool
        Whether it was asked for by its own path.

    Attributes
    ----------
    log_directories : sequence of str
        Those that are read as one log, in one of which the cluster's metadata may lie.
    found_end : int or None
        Where its last segment ended when `log_end_offset` was asked for; None before.
    all_base_offsets : ndarray of int64
        Base offsets of all segments in the directory, whichever of them were asked for.
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
        self.tier = storage if isinstance(storage, TieredStorage) else None
        self.skip_corrupt = False
        self.check_crcs = True
        self.is_named = is_named
        self.log_directories: Sequence[str] = (state.path,)
        self._named = named
        self.found_end: int | None = None
        is_beside = is_beside_the_log(directory, () if named is None else named.values())
        self.state = LogDirectoryState(path=state.path) if is_beside else state
        self._use(listing)

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        state: LogDirectoryState | None = None,
        storage: Storage = LOCAL,
        topic_partition: TopicPartition | None = None,
    ) -> Self:
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
        return f"{type(self).__name__}({self.topic_partition}, {self.directory!r})"

    @property
    def base_offsets(self) -> Int64s:
        """Base offsets of the segments, ascending."""
        return self.listing.base_offsets

    @property
    def segments(self) -> SegmentList:
        """The segments in their order, each made when it is asked for."""
        return SegmentList(self, np.arange(len(self.base_offsets)))

    def are_indexes_trusted(self, segments: SegmentList) -> npt.NDArray[np.bool_]:
        """Tell for each segment whether well-formed indexes reach to its end."""
        if self.state.is_clean:
            return np.ones(len(segments), np.bool_)
        trusted: npt.NDArray[np.bool_] = segments.end_offset_bounds <= (self.recovery_point or 0)
        return trusted

    def _settle(self, start_offset: int, end_offset: int) -> None:
        """Make sure which remote segments hold offsets in [start, end)."""
        if self.tier is not None and self.tier.settle(start_offset, end_offset):
            self.list_again()

    def segments_between(self, start_offset: int, end_offset: int) -> SegmentList:
        """Give the segments that may hold offsets in [start, end)."""
        self._settle(start_offset, end_offset)
        first, last = self._rows_between(start_offset, end_offset)
        return self.segments[first:last]

    @FoundOnce
    def log_start_offset(self) -> int:
        """First offset of the log (inclusive)."""
        visible = self._visible_range
        if visible is not None:
            return visible[0]
        first = int(self.base_offsets[0]) if len(self.base_offsets) else 0
        return max(self.state.log_start_offset(self.topic_partition), first)

    @property
    def first_offset(self) -> int:
        """Base offset of the segment that the log starts in, maybe above that."""
        if len(self.base_offsets) == 0:
            return self.log_start_offset
        return int(self.base_offsets[self._rows_between(self.log_start_offset, MAX_OFFSET)[0]])

    @FoundOnce
    def remote_start_offset(self) -> int | None:
        """Where a tiered log starts in remote storage, below its local segments; None otherwise.

        A broker writes the start of a tiered log to ``log-start-offset-checkpoint``. That of any
        other log may lie below its segments too, until the checkpoint is written again, a minute
        after retention came by. So the cluster's metadata tells; where they are not at hand, the
        leader epochs do: they reach back to where the log starts, remote storage included.
        """
        start = self.state.log_start_offsets.get(self.topic_partition)
        if start is None or self._named is not None or self._visible_range is not None:
            return None
        if len(self.base_offsets) == 0 or start >= int(self.base_offsets[0]):
            return None
        known = None
        if self.storage == LOCAL:
            known = is_tiered(self.topic_partition.topic, self.log_directories)
        if known is None:
            known = bool(self.leader_epochs) and self.leader_epochs[0].start_offset <= start
        return start if known else None

    @FoundOnce
    def log_end_offset(self) -> int:
        """Offset after the last record (exclusive).

        Raises
        ------
        CorruptRecordError
            Bad bytes in the last segment that are no torn end, unless `skip_corrupt` is set.
        """
        visible = self._visible_range
        if visible is not None:
            return visible[1]
        self.found_end = self.resolved(self.find_next_offset)
        return max(self.found_end, self.log_start_offset)

    @FoundOnce
    def lost_segments(self) -> list[OffsetRange]:
        """Offsets of segments whose `.log` is gone; see `find_lost_segments`."""
        return [] if self.is_part else find_lost_segments(self)

    @property
    def is_part(self) -> bool:
        """Whether it is not to be judged as a whole: some files of a log, or one as it was."""
        return self._named is not None or self._visible_range is not None

    @property
    def is_whole(self) -> bool:
        """Whether it is all of a live log: not some files that were named, nor a log beside it."""
        return self._named is None and not is_beside_the_log(self.directory)

    @property
    def high_watermark(self) -> int | None:
        """Checkpointed high watermark (exclusive), within the log; None where none is known."""
        marks = self.state.high_watermarks
        if marks is None or self.topic_partition not in marks:
            return None
        mark = marks[self.topic_partition]
        return min(max(mark, self.log_start_offset), self.log_end_offset)

    @FoundOnce
    def leader_epochs(self) -> list[LeaderEpoch]:
        """Entries of `leader-epoch-checkpoint`, ascending."""
        return checkpoints.read_leader_epochs(self.storage, self.directory)

    def last_stable_offset(self) -> int:
        """First offset of the oldest transaction that is open at the log's end, or that end."""
        return self._last_stable_offset

    @FoundOnce
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
        tier = self.tier
        pieces = () if tier is None else tier.remote.pieces()
        if tier is None or not pieces:
            return self.first_offset
        if tier.first_local is not None:
            return max(tier.first_local, self.first_offset)
        self._settle(0, MAX_OFFSET)
        states = tier.remote.producers_at_end()
        if states is None:
            return self.first_offset
        begun = [state.current_txn_first_offset for state in states if state.is_in_transaction]
        return max(min(begun, default=self.log_end_offset), self.first_offset)

    def remote_notes(self) -> list[StoreNote]:
        """Tell what remote stores have of the partition that is no part of its log."""
        return [] if self.tier is None else self.tier.remote.notes()

    def known_largest_timestamps(self, base_offsets: Int64s) -> list[int | None]:
        """Give the largest timestamps of segments, in ms; None each where a file has to tell."""
        if self.tier is None:
            return [None] * len(base_offsets)
        pieces = [self.tier.find_piece(base_offset) for base_offset in base_offsets.tolist()]
        return [None if piece is None else piece.segment.max_timestamp_ms for piece in pieces]

    def stable_offset_of(self, first_open_offset: int | None) -> int:
        """Give the last stable offset where the oldest open transaction begins at an offset."""
        if first_open_offset is None:
            return self.log_end_offset
        return max(min(first_open_offset, self.log_end_offset), self.log_start_offset)

    def lost_after(self, stable_offset: int) -> list[OffsetRange]:
        """Offsets that are gone after a last stable offset; see `find_lost_after`."""
        return find_lost_after(self, stable_offset)

    def end_signature(self) -> FileSignature | None:
        """Measure the file of the last segment; None where it is not local, gone or missing."""
        if len(self.base_offsets) == 0:
            return None
        try:
            return signature_of(self.storage, next(self.segments[-1:].paths(names.LOG_SUFFIX)))
        except FileNotFoundError:
            return None

    def find_next_offset(self) -> int:
        """Find the offset after the last batch of the last segment; `log_end_offset` asks once."""
        if self.tier is not None and self.tier.first_local is None:
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
        self.list_again()
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
                self.list_again()
        return look_up()

    def at_one_moment(self, look_up: Callable[[], _T]) -> _T:
        """Look something up in the files of one listing, which is still that of the directory."""
        for _ in range(RESOLVE_ATTEMPTS):
            found = self.resolved(look_up)
            before = self.listing
            self.list_again()
            if np.array_equal(before.base_offsets, self.listing.base_offsets):
                break
        return found

    def list_again(self) -> None:
        """List the directory again."""
        self._use(list_partition(self.storage, self.directory))

    def _use(self, listing: PartitionListing) -> None:
        self.listing = listing if self._named is None else listing.only(self._named)
        self.all_base_offsets = listing.base_offsets

    @property
    def _visible_range(self) -> tuple[int, int] | None:
        return self.state.visible_range(self.topic_partition)

    @FoundOnce
    def recovery_point(self) -> int | None:
        """Checkpointed recovery point; None where none is known."""
        return self.state.recovery_point(self.topic_partition)

    def next_base_offset(self, base_offset: int) -> int | None:
        """Give the base offset of the segment after one; None after the last."""
        index = bisect.bisect_right(self.all_base_offsets, base_offset)
        if index == len(self.all_base_offsets):
            return None
        return int(self.all_base_offsets[index])

    def _rows_between(self, start_offset: int, end_offset: int) -> tuple[int, int]:
        if end_offset <= start_offset:
            return 0, 0
        first = int(np.searchsorted(self.base_offsets, start_offset, side="right")) - 1
        last = int(np.searchsorted(self.base_offsets, min(end_offset, MAX_OFFSET), side="left"))
        return max(first, 0), last

    def snapshot_at(self, offset: int) -> list[ProducerState] | None:
        """Read the snapshot at an offset; None where it is missing or damaged."""
        name = names.segment_file_name(offset, names.SNAPSHOT_SUFFIX)
        data = self.storage.read_file(f"{self.directory}/{name}")
        return None if data is None else parse_producer_snapshot(data)


def is_beside_the_log(directory: str, suffixes: Iterable[str] = ()) -> bool:
    """Tell whether a directory, or files of such suffixes, are no part of the live log."""
    return directory.endswith(names.ASIDE_DIRECTORY_SUFFIXES) or any(
        suffix in (names.DELETED_SUFFIX, names.CLEANED_SUFFIX) for suffix in suffixes
    )
