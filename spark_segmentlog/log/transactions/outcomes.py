"""Which rows are committed: decided by the batches and markers of a log, and by nothing else.

A transactional batch is committed if the next marker of its producer is a COMMIT, aborted if that
is an ABORT, open if there is none. So a read looks at what it has in hand anyway, and
ahead of it no further than to the markers that decide. The last stable offset, where the oldest
open transaction begins, takes a walk over the headers of the whole log, since nothing else tells
for sure that none is open; a read of the whole log is that walk.

`.txnindex` and `.snapshot` files are not asked: whatever they hold, or if they are gone, the rows
are the same. What they would save is little, and one that is well-formed and lacks an entry cannot
be told from a right one without the same walk. `verify` compares transaction indexes with the
markers, since a broker believes them.

Headers that decide are checked: the checksums of markers are compared, and of all that one flipped
bit may have made of a marker. Data with a flipped bit decides nothing about other data; a read
compares the checksums of all that it reads. Where an open transaction hides the rows after its
begin, the checksums from there to the log's end are compared: what hides them may be a flipped bit
in a header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.names import MAX_OFFSET, OffsetRange
from spark_segmentlog.log.segment.pieces import Piece, ReadBuffer
from spark_segmentlog.log.segment.segment import opened_ahead
from spark_segmentlog.log.transactions.producer_tracker import ProducerTracker, Transaction
from spark_segmentlog.log.transactions.transaction_walk import (
    batches_below,
    check_batches,
    follow_transactions,
    quiet_pieces,
)
from spark_segmentlog.record.kernels import producers as kernels
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.types import Bools, Int64s

if TYPE_CHECKING:
    from spark_segmentlog.log.partition.listed_log import ListedLog
    from spark_segmentlog.log.segment.segment import Segment

# A look ahead for the markers of short transactions reads little first.
FIRST_LOOK_AHEAD_BYTES: Final = 32 * 1024
LOOK_AHEAD_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRead:
    """A read of all that follows an offset, which finds out by itself where the log is stable.

    Attributes
    ----------
    start_offset : int
        Where it starts; no batch after it is passed over.
    log_end_offset : int
        Where the log ended when it began.
    """

    start_offset: int
    log_end_offset: int


class TransactionOutcomes:
    """Tells of the batches that a scan has in hand which ones are not committed.

    The scan's own pieces are followed, and ahead of them headers as far as the markers that decide.

    Parameters
    ----------
    find_log : callable
        Gives the partition, listed; asked where markers must be looked for in later segments.
    whole_read : WholeRead, optional
        Of a scan that does not know the last stable offset.

    Attributes
    ----------
    stable_offset : int
        Where a transaction begins that is open at the end of the log of a whole read; the largest
        number while none is known.
    lost : sequence of OffsetRange
        Offsets after it that are gone.
    """

    def __init__(
        self,
        find_log: Callable[[], ListedLog],
        *,
        check_crcs: bool,
        skip_corrupt: bool,
        whole_read: WholeRead | None = None,
    ) -> None:
        self.stable_offset = MAX_OFFSET
        self.lost: Sequence[OffsetRange] = ()
        self._find_log = find_log
        self._check_crcs = check_crcs
        self._skip_corrupt = skip_corrupt
        self._whole_read = whole_read
        self._has_begun = whole_read is None
        self._from_offset = 0
        self._tracker = ProducerTracker(
            check_crcs=check_crcs,
            skip_corrupt=skip_corrupt,
            transactions_only=True,
            uncommitted_only=True,
        )
        self._aborted = self._tracker.no_transactions
        self._segment: Segment | None = None
        self._file: tuple[int, LogFile] | None = None
        self._coming: Iterator[Segment] = iter(())
        self._met_ahead: Segment | None = None
        self._position = 0
        self._buffer = ReadBuffer(LOOK_AHEAD_BYTES)

    def uncommitted(
        self,
        segment: Segment,
        file: LogFile,
        piece: Piece,
        end_offset: int,
        *,
        has_transactions: bool,
    ) -> Bools | None:
        """Tell which batches of a piece belong to aborted or open transactions; None for none.

        `file` is the `.log` of the segment, of which a scan of a far one has read ahead. Pieces
        come in the order of the log. Only batches that begin below `end_offset` are told of: the
        scan, which compares their checksums, reads no others. Where `has_transactions` is false,
        none of them is of a transaction.

        Raises
        ------
        FileNotFoundError
            A file is gone; the partition is to be listed again.
        CorruptRecordError
            Bad bytes ahead, up to the markers that decide.
        """
        self._file = segment.base_offset, file
        if not self._has_begun:
            self._begin(segment, piece)
        if not has_transactions:
            return None
        read = batches_below(piece, end_offset)
        self._come_to(segment, read)
        self._look_ahead(segment, read)
        is_late = self._aborted[:, kernels.ENDED_MARKER_OFFSET] >= int(piece.table.base_offset[0])
        self._aborted = self._aborted[is_late]
        marks = np.zeros(len(piece.table), np.bool_)
        spans = _spans(self._aborted, self._tracker.open_transactions)
        marks[: len(read.table)] = batches_within(read.table, spans)
        return marks

    def _begin(self, segment: Segment, piece: Piece) -> None:
        """Follow what lies before a whole read, and what is open there up to where it ends."""
        self._has_begun = True
        assert self._whole_read is not None
        log, start_offset = self._find_log(), self._whole_read.start_offset
        settled_offset = min(log.settled_offset, start_offset)
        for aborted in follow_transactions(log, self._tracker, settled_offset, start_offset):
            self._note(aborted)
        self._from_offset = start_offset
        if self._tracker.first_open_offset is not None:
            self._segment, self._position = segment, int(piece.table.position[0])
            self._look_ahead(segment, piece)

    def _come_to(self, segment: Segment, piece: Piece) -> None:
        """Take what was not looked at before of the piece in hand."""
        known = self._segment
        table = piece.table
        position = int(table.position[0])
        if known is None or known.base_offset < segment.base_offset:
            self._segment, self._position = segment, position
        elif known.base_offset > segment.base_offset:
            return
        self._position = max(self._position, position)
        # Where bad bytes are stepped over, only a look ahead tells what they hide.
        if self._skip_corrupt or self._position >= _end_of(table):
            return
        if position < self._position:
            first = int(np.searchsorted(table.position, self._position))
            table = table.between(first, len(table))
        self._apply(replace(piece, table=table), segment)
        self._position = _end_of(table)

    def _look_ahead(self, segment: Segment, piece: Piece) -> None:
        """Look for markers until all is decided of the piece in hand."""
        while not self._is_decided(segment, piece):
            current = self._segment
            assert current is not None
            for ahead, position in quiet_pieces(
                current,
                self._buffer,
                start_position=self._position,
                end_offset=self._end_offset_of(current),
                skip_corrupt=self._skip_corrupt,
                check_crcs=self._check_crcs and self._skip_corrupt,
                file=self._file_of(current),
                first_read_bytes=FIRST_LOOK_AHEAD_BYTES,
            ):
                self._apply(ahead, current)
                self._position = position
                if self._is_decided(segment, piece):
                    return
            following = self._segment_after(current)
            if following is None:
                self._hold_back()
                return
            self._segment, self._position = following, 0

    def _file_of(self, segment: Segment) -> LogFile | None:
        """Give the file of the segment that the scan reads; None for another one."""
        known = self._file
        return known[1] if known is not None and known[0] == segment.base_offset else None

    def _apply(self, piece: Piece, segment: Segment) -> None:
        self._note(self._tracker.follow(piece, segment.log_path, self._from_offset))

    def _note(self, aborted: Int64s) -> None:
        if len(aborted):
            self._aborted = np.concatenate([self._aborted, aborted])

    def _is_decided(self, segment: Segment, piece: Piece) -> bool:
        current = self._segment
        assert current is not None
        is_ahead = current.base_offset > segment.base_offset
        if not is_ahead and self._position < _end_of(piece.table):
            return False
        first = self._tracker.first_open_offset
        return first is None or first > int(piece.table.base_offset[-1])

    def _end_offset_of(self, segment: Segment) -> int:
        if self._whole_read is not None:
            return self._whole_read.log_end_offset
        return (
            MAX_OFFSET if segment.end_offset_bound is not None else self._find_log().log_end_offset
        )

    def _segment_after(self, segment: Segment) -> Segment | None:
        bound = segment.end_offset_bound
        end_offset = MAX_OFFSET if self._whole_read is None else self._whole_read.log_end_offset
        if bound is None or bound >= end_offset:
            return None
        if segment is not self._met_ahead:
            later = self._find_log().segments_between(bound, end_offset)
            self._coming = opened_ahead(later, end_offset)
        self._met_ahead = next(self._coming, None)
        return self._met_ahead

    def _hold_back(self) -> None:
        """Hold back what follows the begin of a transaction that is open at the log's end."""
        first = self._tracker.first_open_offset
        if self._whole_read is not None and first is not None:
            self.stable_offset = first
            log = self._find_log()
            check_batches(log, first, self._whole_read.log_end_offset)
            self.lost = log.lost_after(first)


def _spans(aborted: Int64s, still_open: Sequence[Transaction]) -> Int64s:
    rows = [
        (transaction.producer_id, transaction.first_offset, MAX_OFFSET)
        for transaction in still_open
    ]
    columns = [kernels.ENDED_ID, kernels.ENDED_FIRST_OFFSET, kernels.ENDED_MARKER_OFFSET]
    return np.concatenate([aborted[:, columns], np.array(rows, np.int64).reshape(-1, 3)])


def batches_within(table: HeaderTable, spans: Int64s) -> Bools:
    """Tell which batches of a table, in the order of their offsets, belong to some transactions.

    Parameters
    ----------
    spans : ndarray of int64, shape (transactions, 3)
        Producer id, first offset, and that of the marker. Those of one producer do not overlap.
    """
    marks = np.zeros(len(table), np.bool_)
    if len(table):
        offsets = table.base_offset
        spans = spans[(spans[:, 1] <= offsets.max()) & (spans[:, 2] >= offsets.min())]
    if len(spans):
        producer_ids, first_offsets, end_offsets = np.ascontiguousarray(
            spans[np.argsort(spans[:, 1], kind="stable")].T
        )
        slots = np.zeros(4 << len(spans).bit_length(), np.int64)
        kernels.mark_uncommitted(
            table.entries, producer_ids, first_offsets, end_offsets, slots, marks
        )
    return marks


def _end_of(table: HeaderTable) -> int:
    """Give the position after the last batch of a table."""
    return int(table.position[-1] + table.size_bytes[-1])
