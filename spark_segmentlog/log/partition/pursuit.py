"""Segments that are read while others rename and delete them."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.directory.listing import list_partition
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.io.signature import FileSignature, signature_of
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.partition.listed_log import RESOLVE_ATTEMPTS, ListedLog
from spark_segmentlog.log.segment.segment import Segment, opened_ahead

_T = TypeVar("_T")


class SegmentPursuit:
    """Segments of an offset range in their order; one that is gone is looked up in a new listing.

    Who reads them tells how far it has come; what is left then comes from the segments that hold it
    now, and offsets that none holds any more are lost.

    Parameters
    ----------
    end_offset : int
        Exclusive.
    on_lost : callable
        Takes the offsets [start, end) that are gone; may raise.
    skip_corrupt, check_crcs : bool
        How the partition's end, and what is asked of it else, is read.
    opens_ahead : bool
        Whether the `.log` files are read, each from where the one before it ends.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        end_offset: int,
        on_lost: Callable[[int, int], None],
        partition_log: ListedLog | None = None,
        *,
        skip_corrupt: bool = False,
        check_crcs: bool = True,
        opens_ahead: bool = True,
    ) -> None:
        self._first = segments[0]
        self._opens_ahead = opens_ahead
        self._end_offset = end_offset
        self._on_lost = on_lost
        self._partition_log = partition_log
        self._skip_corrupt = skip_corrupt
        self._check_crcs = check_crcs
        self._attempts = 0
        self._reached = -1
        self._listed: tuple[FileSignature, list[int]] | None = None
        self._given: Segment | None = None
        self._before: FileSignature | None = None
        self._coming = self._in_order(segments)

    def next(self) -> Segment | None:
        """Give the next segment; None after the last."""
        segment = next(self._coming, None)
        if segment is not None:
            self._given = segment
            self._before = _signature(segment)
        return segment

    def _in_order(self, segments: Sequence[Segment]) -> Iterator[Segment]:
        return opened_ahead(segments, self._end_offset) if self._opens_ahead else iter(segments)

    def partition_log(self) -> ListedLog:
        """Give the partition, as it was last listed."""
        if self._partition_log is None:
            first = self._first
            self._partition_log = ListedLog.open(
                first.directory, storage=first.storage, topic_partition=first.topic_partition
            )
        self._partition_log.skip_corrupt = self._skip_corrupt
        self._partition_log.check_crcs = self._check_crcs
        return self._partition_log

    def _listed_again(self) -> ListedLog:
        self._partition_log = None
        return self.partition_log()

    def held_less(self, next_offset: int, end_offset: int) -> bool:
        """Tell whether the segment given last may have held less than it was listed with.

        It may where it was read to an end below that, and below `end_offset`, as compaction leaves
        it too; on the local disk alone. What it lacks is in a segment of its own, or was for a
        moment, while the file that was read stood under its name.

        Parameters
        ----------
        next_offset : int
            Offset after all that was met.
        end_offset : int
            Where the wanted offsets end.
        """
        segment = self._given
        if segment is None or segment.storage != LOCAL:
            return False
        bound = MAX_OFFSET if segment.end_offset_bound is None else segment.end_offset_bound
        wanted_end = min(bound, end_offset)
        if not max(next_offset, segment.base_offset + 1) < wanted_end < MAX_OFFSET:
            return False
        try:
            # While the file is the one that was read, a listing shows what it was split into.
            following = self._base_offset_after(segment)
        except FileNotFoundError:
            return False
        is_split = following is not None and following < wanted_end
        return is_split or _signature(segment) != self._before

    def _base_offset_after(self, segment: Segment) -> int | None:
        signature = FileSignature.from_path(segment.directory)
        if self._listed is None or self._listed[0] != signature or not signature.is_settled():
            listing = list_partition(segment.storage, segment.directory)
            self._listed = signature, listing.base_offsets.tolist()
        base_offsets = self._listed[1]
        index = bisect.bisect_right(base_offsets, segment.base_offset)
        return base_offsets[index] if index < len(base_offsets) else None

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
                f"offset {next_offset} of {self._first.topic_partition} was not found in "
                f"{RESOLVE_ATTEMPTS} listings of {self._first.directory}: files in it are renamed "
                "faster than they can be read"
            )
        self._coming = iter(())
        try:
            log = self._listed_again()
        except FileNotFoundError:
            self._on_lost(next_offset, self._end_offset)
            return next_offset
        if len(log.base_offsets) == 0:
            self._on_lost(next_offset, self._end_offset)
            return next_offset
        if next_offset < log.log_start_offset:
            self._on_lost(next_offset, min(self._end_offset, log.log_start_offset))
        start_offset = max(next_offset, log.log_start_offset)
        self._coming = self._in_order(log.segments_between(start_offset, self._end_offset))
        return start_offset

    def look_at_end(self, next_offset: int, end_offset: int) -> None:
        """Tell of offsets below `end_offset` that the log had reached, and lacks by now.

        To be asked when all segments were read: who truncates a log takes its last ones away.

        Parameters
        ----------
        next_offset : int
            Offset after all that was met.
        end_offset : int
            Exclusive; the log's end was not below it.
        """
        is_last = self._given is not None and self._given.end_offset_bound is None
        if not is_last or not next_offset < end_offset < MAX_OFFSET:
            return
        try:
            log = self._listed_again()
            log_end_offset = log.resolved(log.find_next_offset)
        except FileNotFoundError:
            log_end_offset = next_offset
        if log_end_offset < end_offset:
            self._on_lost(max(next_offset, log_end_offset), end_offset)

    def visit(
        self, start_offset: int, visit: Callable[[Segment, int], Iterator[tuple[_T, int]]]
    ) -> Iterator[_T]:
        """Give what a visit to each segment gives.

        Parameters
        ----------
        visit : callable
            Takes a segment and the offset from which on it is wanted; gives what there is, each
            with the offset after it.
        """
        next_offset = reached = start_offset
        while (segment := self.next()) is not None:
            try:
                for item, after in visit(segment, next_offset):
                    reached = max(reached, after)
                    yield item
            except FileNotFoundError:
                is_gone = True
            else:
                is_gone = False
            reached = max(next_offset, reached)
            next_offset, _ = self.go_on(reached, self._end_offset, is_gone=is_gone)

    def go_on(self, reached: int, end_offset: int, *, is_gone: bool) -> tuple[int, bool]:
        """Give where reading goes on after the segment given last, and whether in a new listing.

        `reached` is the offset after all that was met. A file that is gone may have been a new one
        that held more than its old name says, and one that others take the place of may reach into
        the next.
        """
        if is_gone or self.held_less(reached, end_offset):
            return self.look_again(reached), True
        bound = None if self._given is None else self._given.end_offset_bound
        return max(reached, bound or 0), False


def _signature(segment: Segment) -> FileSignature | None:
    try:
        return signature_of(segment.storage, segment.log_path)
    except FileNotFoundError:
        return None
