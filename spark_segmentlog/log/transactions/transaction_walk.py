"""Walks over batches for the sake of transactions: all of a log, and what is open at an offset."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_segmentlog.errors import CorruptRecordError, CrcMismatchError
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.segment.batch_order import WRONG_CHECKSUM
from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES, Piece, ReadBuffer
from spark_segmentlog.log.segment.segment import opened_ahead
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import WalkOptions, never
from spark_segmentlog.log.transactions.producer_tracker import ProducerTracker, Transaction
from spark_segmentlog.record.read.header_table import check_crcs
from spark_segmentlog.record.types import Int64s

if TYPE_CHECKING:
    from spark_segmentlog.log.partition.listed_log import ListedLog
    from spark_segmentlog.log.segment.segment import Segment


_log = logging.getLogger(__name__)


def transaction_tracker(log: ListedLog, *, uncommitted_only: bool = False) -> ProducerTracker:
    """Make a tracker of transactions that is as strict as the log's readers are."""
    return ProducerTracker(
        check_crcs=log.check_crcs,
        skip_corrupt=log.skip_corrupt,
        transactions_only=True,
        uncommitted_only=uncommitted_only,
    )


def follow_transactions(
    log: ListedLog, tracker: ProducerTracker, start_offset: int, end_offset: int
) -> Iterator[Int64s]:
    """Follow the batches that begin in [start, end); yields transactions as they end, in rows.

    Raises
    ------
    CorruptRecordError
        Bytes that are no batch, or a bad marker, unless the log steps over them.
    """
    buffer = ReadBuffer()
    segments = log.segments_between(start_offset, end_offset)
    for segment in opened_ahead(segments, end_offset):
        position = segment.position_for(start_offset)
        is_checked = log.check_crcs and log.skip_corrupt
        for piece, _ in quiet_pieces(
            segment,
            buffer,
            start_position=position,
            end_offset=end_offset,
            skip_corrupt=log.skip_corrupt,
            check_crcs=is_checked,
        ):
            yield tracker.follow(piece, segment.log_path, start_offset)


def find_open_transactions(
    log: ListedLog, tracker: ProducerTracker, start_offset: int, end_offset: int
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
        check_batches(log, max(first, start_offset), end_offset)
    return first


def walk_transactions(log: ListedLog, end_offset: int) -> Iterator[Transaction]:
    """Yield the transactions that begin below an offset, by their ends, open ones last.

    Markers without data in this log (compaction took it, or the producer wrote none) are no
    transaction here.

    Raises
    ------
    CorruptRecordError
        Bytes that are no batch, unless the log steps over them.
    """
    tracker = transaction_tracker(log)
    for ended in follow_transactions(log, tracker, log.first_offset, log.log_end_offset):
        yield from _with_data(map(Transaction.from_row, ended.tolist()), end_offset)
    yield from _with_data(tracker.open_transactions, end_offset)


def _with_data(transactions: Iterable[Transaction], end_offset: int) -> Iterator[Transaction]:
    for transaction in transactions:
        if transaction.first_offset < end_offset and transaction.records_count > 0:
            yield transaction


def batches_below(piece: Piece, end_offset: int) -> Piece:
    """Leave out the batches that begin at an offset or after it."""
    if int(piece.table.base_offset[-1]) < end_offset:
        return piece
    return replace(piece, table=piece.table.select(piece.table.base_offset < end_offset))


def quiet_pieces(
    segment: Segment,
    buffer: ReadBuffer,
    *,
    start_position: int,
    end_offset: int,
    skip_corrupt: bool,
    check_crcs: bool,
    file: LogFile | None = None,
    first_read_bytes: int = FIRST_READ_BYTES,
) -> Iterator[tuple[Piece, int]]:
    """Walk the batches of a segment that begin below an offset, and report nothing.

    Yields pieces, and the position where the walk goes on after each.
    """
    if segment.end_offset_bound is not None:
        end_offset = min(end_offset, segment.end_offset_bound)
    options = WalkOptions(
        skip_corrupt=skip_corrupt,
        check_crcs=check_crcs,
        is_reported=never,
        first_read_bytes=first_read_bytes,
    )
    with segment.open_log() if file is None else nullcontext(file) as file:
        walk = HeaderWalk(segment, file, options, position=start_position, buffer=buffer)
        for piece in walk.pieces():
            wanted = batches_below(piece, end_offset)
            if len(wanted.table) == 0:
                return
            if check_crcs and not skip_corrupt:
                # A walk that steps over bad bytes compares checksums itself.
                _check(walk, wanted)
            yield wanted, walk.position
            if wanted is not piece:
                return


def _check(walk: HeaderWalk, piece: Piece) -> None:
    table = piece.table
    is_good = check_crcs(piece.buffer, table, file_position=piece.file_position)
    if is_good.all():
        return
    row = int(is_good.argmin())
    position = int(table.position[row])
    start_offset, end_offset = walk.missing_offsets(table, position)
    raise CrcMismatchError(
        WRONG_CHECKSUM,
        source=walk.segment.log_path,
        position=position,
        length=int(table.size_bytes[row]),
        base_offset=int(table.base_offset[row]),
        start_offset=start_offset,
        end_offset=end_offset,
    )


def check_batches(log: ListedLog, start_offset: int, end_offset: int) -> None:
    """Compare the checksums of all batches in [start, end): a bad one is an error, or told."""
    if not log.check_crcs:
        return
    buffer = ReadBuffer()
    segments = log.segments_between(start_offset, end_offset)
    for segment in opened_ahead(segments, end_offset):
        try:
            for _ in quiet_pieces(
                segment,
                buffer,
                start_position=segment.position_for(start_offset),
                end_offset=end_offset,
                skip_corrupt=False,
                check_crcs=True,
            ):
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
