"""Which rows are committed: decided by the batches and markers of a log, and by nothing else.

A transactional batch is committed if the next marker of its producer is a COMMIT, aborted if that
is an ABORT, open if there is none. So a read looks at what it has in hand anyway, and ahead of it
no further than to the markers that decide. The last stable offset, where the oldest open
transaction begins, takes a walk over the headers of the whole log, since nothing else tells for
sure that none is open.

`.txnindex` and `.snapshot` files are not asked: whatever they hold, or if they are gone, the rows
are the same. What they would save is little, and one that is well-formed and lacks an entry cannot
be told from a right one without the same walk. `verify` compares transaction indexes with the
markers, since a broker believes them.

Headers that decide are checked. A read compares the checksums of all batches that it looks at, up
to the markers ahead. Where an open transaction hides the rows behind its begin, the checksums from
there to the log's end are compared: what hides them may be a flipped bit in a header.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, CrcMismatchError
from spark_segmentlog.log.file_names import MAX_OFFSET
from spark_segmentlog.log.header_walk import WRONG_CHECKSUM, HeaderWalk, Piece, ReadBuffer
from spark_segmentlog.log.producer_tracker import ProducerTracker, Transaction
from spark_segmentlog.record._types import Bools
from spark_segmentlog.record.header_table import HeaderTable, check_crcs

if TYPE_CHECKING:
    from spark_segmentlog.log.partition_log import PartitionLog
    from spark_segmentlog.log.segment import Segment

_log = logging.getLogger(__name__)


def transaction_tracker(log: PartitionLog, *, uncommitted_only: bool = False) -> ProducerTracker:
    """Make a tracker of transactions that is as strict as the log's readers are."""
    return ProducerTracker(
        check_crcs=log.check_crcs,
        skip_corrupt=log.skip_corrupt,
        transactions_only=True,
        uncommitted_only=uncommitted_only,
    )


def follow_transactions(
    log: PartitionLog, tracker: ProducerTracker, start_offset: int, end_offset: int
) -> Iterator[Transaction]:
    """Follow the batches that begin in [start, end); yields transactions as they end.

    Raises
    ------
    CorruptRecordError
        Bytes that are no batch, or a bad marker, unless the log steps over them.
    """
    buffer = ReadBuffer()
    for segment in log.segments_between(start_offset, end_offset):
        position = segment.position_for(start_offset)
        is_checked = log.check_crcs and log.skip_corrupt
        walk = _Walk(segment, buffer, end_offset, log.skip_corrupt, is_checked)
        for piece, _ in walk.pieces(position):
            yield from tracker.take(piece, segment.log_path, from_offset=start_offset)


def find_open_transactions(
    log: PartitionLog, tracker: ProducerTracker, start_offset: int, end_offset: int
) -> int | None:
    """Find where the oldest transaction begins that is open at an offset.

    Parameters
    ----------
    tracker : ProducerTracker
        Has followed the log up to `start_offset`, and follows it up to `end_offset` here.

    Returns
    -------
    int or None
        None where none is open.

    Raises
    ------
    CorruptRecordError
        Bad bytes, unless the log steps over them.
    """
    for _ in follow_transactions(log, tracker, start_offset, end_offset):
        pass
    first = tracker.first_open_offset
    if first is not None:
        # What lies before was checked when the tracker came to its offset.
        _check(log, max(first, start_offset), end_offset)
    return first


def walk_transactions(log: PartitionLog, end_offset: int) -> Iterator[Transaction]:
    """Yield the transactions that begin below an offset, by their ends, open ones last.

    Markers without data in this log (compaction took it, or the producer wrote none) are no
    transaction here.

    Raises
    ------
    CorruptRecordError
        Bytes that are no batch, unless the log steps over them.
    """
    tracker = transaction_tracker(log)
    start_offset = log.first_offset
    for transaction in follow_transactions(log, tracker, start_offset, log.log_end_offset):
        if transaction.first_offset < end_offset and transaction.records_count > 0:
            yield transaction
    for transaction in sorted(tracker.open_transactions, key=lambda it: it.first_offset):
        if transaction.first_offset < end_offset and transaction.records_count > 0:
            yield transaction


class TransactionOutcomes:
    """Tells of the batches that a scan has in hand which ones are not committed.

    Parameters
    ----------
    find_log : callable
        Gives the partition, listed; asked where markers must be looked for in later segments.
    check_crcs : bool
        Whether checksums are compared.
    skip_corrupt : bool
        Whether bad bytes are stepped over, or are an error.
    """

    def __init__(
        self, find_log: Callable[[], PartitionLog], *, check_crcs: bool, skip_corrupt: bool
    ) -> None:
        self._find_log = find_log
        self._skip_corrupt = skip_corrupt
        self._check_crcs = check_crcs
        self._tracker = ProducerTracker(
            check_crcs=check_crcs,
            skip_corrupt=skip_corrupt,
            transactions_only=True,
            uncommitted_only=True,
        )
        self._ended: list[Transaction] = []
        self._segment: Segment | None = None
        self._position = 0
        self._buffer = ReadBuffer()

    def uncommitted(self, segment: Segment, piece: Piece, end_offset: int) -> Bools:
        """Tell which batches of a piece belong to aborted or open transactions.

        Pieces come in the order of the log; those without transactional batches may be left out.
        Only batches that begin below `end_offset` are told of: the scan, which compares their
        checksums, reads no others.

        Raises
        ------
        FileNotFoundError
            A file is gone; the partition is to be listed again.
        CorruptRecordError
            Bad bytes ahead, up to the markers that decide.
        """
        table = piece.table
        is_read = table.base_offset < end_offset
        if is_read.any():
            read = piece if is_read.all() else replace(piece, table=table.select(is_read))
            self._come_to(segment, read)
            self._look_ahead(segment, read)
        first_offset = int(table.base_offset[0])
        self._ended = [it for it in self._ended if (it.marker_offset or 0) >= first_offset]
        is_hidden: Bools = np.zeros(len(table), np.bool_)
        for it in (*self._ended, *self._tracker.open_transactions):
            if it.marker is None or it.is_aborted:
                _mark(is_hidden, table, it)
        is_hidden &= is_read
        return is_hidden

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
        self._ended += self._tracker.take(replace(piece, table=table), segment.log_path)
        self._position = _end_of(table)

    def _look_ahead(self, segment: Segment, piece: Piece) -> None:
        """Look for markers until all is decided of the piece in hand."""
        while not self._is_decided(segment, piece):
            current = self._segment
            assert current is not None
            end_offset = MAX_OFFSET
            if current.end_offset_bound is None:
                end_offset = self._find_log().log_end_offset
            walk = _Walk(current, self._buffer, end_offset, self._skip_corrupt, self._check_crcs)
            for ahead, position in walk.pieces(self._position):
                self._ended += self._tracker.take(ahead, current.log_path)
                self._position = position
                if self._is_decided(segment, piece):
                    return
            if current.end_offset_bound is None:
                return
            later = self._find_log().segments_between(current.end_offset_bound, MAX_OFFSET)
            if not later:
                return
            self._segment, self._position = later[0], 0

    def _is_decided(self, segment: Segment, piece: Piece) -> bool:
        current = self._segment
        assert current is not None
        is_ahead = current.base_offset > segment.base_offset
        if not is_ahead and self._position < _end_of(piece.table):
            return False
        first = self._tracker.first_open_offset
        return first is None or first > int(piece.table.base_offset[-1])


def _mark(is_hidden: Bools, table: HeaderTable, transaction: Transaction) -> None:
    """Mark the batches of a transaction in a table, whose batches lie in order."""
    bounds = [transaction.first_offset, MAX_OFFSET]
    if transaction.marker_offset is not None:
        bounds[1] = transaction.marker_offset
    first, last = np.searchsorted(table.base_offset, bounds).tolist()
    if first < last:
        among = table.between(first, last)
        is_hidden[first:last] |= among.is_transactional & (
            among.producer_id == transaction.producer_id
        )


def _end_of(table: HeaderTable) -> int:
    """Give the position behind the last batch of a table."""
    return int(table.position[-1] + table.size_bytes[-1])


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk over the batches of a segment that begin below an offset; it reports nothing."""

    segment: Segment
    buffer: ReadBuffer
    end_offset: int
    skip_corrupt: bool
    check_crcs: bool

    def pieces(self, start_position: int) -> Iterator[tuple[Piece, int]]:
        """Yield pieces, and the position where the walk goes on behind each."""
        with self.segment.open_log() as file:
            walk = HeaderWalk(
                self.segment, file, start_position, self.buffer, self.skip_corrupt, None
            )
            walk.is_reported = lambda start_offset, end_offset: False
            for piece in walk.pieces():
                is_wanted = piece.table.base_offset < self.end_offset
                if not is_wanted.all():
                    piece = replace(piece, table=piece.table.select(is_wanted))
                if len(piece.table) == 0:
                    return
                if self.check_crcs:
                    self._check(walk, piece)
                yield piece, walk.position
                if not is_wanted.all():
                    return

    def _check(self, walk: HeaderWalk, piece: Piece) -> None:
        """Compare checksums; where bad bytes are stepped over, go on behind a bad last batch."""
        table = piece.table
        is_good = check_crcs(piece.buffer, table, file_position=piece.file_position)
        if is_good.all():
            return
        if not self.skip_corrupt:
            self._raise(walk, piece, int(is_good.argmin()))
        elif not is_good[-1]:
            position, size_bytes = int(table.position[-1]), int(table.size_bytes[-1])
            walk.step_over_batch(table, position, size_bytes, WRONG_CHECKSUM)

    def _raise(self, walk: HeaderWalk, piece: Piece, row: int) -> None:
        table = piece.table
        position = int(table.position[row])
        start_offset, end_offset = walk.missing_offsets(table, position)
        raise CrcMismatchError(
            WRONG_CHECKSUM,
            source=self.segment.log_path,
            position=position,
            length=int(table.size_bytes[row]),
            base_offset=int(table.base_offset[row]),
            start_offset=start_offset,
            end_offset=end_offset,
        )


def _check(log: PartitionLog, start_offset: int, end_offset: int) -> None:
    """Compare the checksums of all batches in [start, end): a bad one is an error, or told."""
    if not log.check_crcs:
        return
    buffer = ReadBuffer()
    for segment in log.segments_between(start_offset, end_offset):
        walk = _Walk(segment, buffer, end_offset, skip_corrupt=False, check_crcs=True)
        try:
            for _ in walk.pieces(segment.position_for(start_offset)):
                pass
        except CorruptRecordError as error:
            if not log.skip_corrupt:
                raise
            _log.warning(
                "committed rows from offset %d on are held back, the end of their transactions may "
                "lie in bad bytes: %s",
                start_offset,
                error,
            )
            return
