"""The scan of segments: which of their batches hold wanted rows, and these rows in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.segment import index_trust
from spark_segmentlog.log.segment.pieces import Piece, ReadBuffer
from spark_segmentlog.log.segment.read_ahead import pieces_ahead
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import OnCorrupt, WalkOptions
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.read.record_filter import EntryChoice, RecordFilter, choose_entries
from spark_segmentlog.record.types import Bools

if TYPE_CHECKING:
    from spark_segmentlog.log.transactions.outcomes import TransactionOutcomes

ALL_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)

# Told of offsets [start, end) that a segment lacks, and why that is known.
OnLost = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What a scan gives and how strict it is; travels to tasks.

    Attributes
    ----------
    columns : tuple of str
        Those of the row schema to decode, in this order.
    record_filter : RecordFilter
        Offsets (end exclusive) and timestamps (both inclusive), exact for each record.
    isolation_level : str
        ``read_uncommitted`` or ``read_committed``.
    check_crcs : bool
        Whether checksums are compared.
    skip_corrupt : bool
        False: bad bytes are an error. True: they are stepped over and reported.
    fail_on_data_loss : bool
        Whether offsets that are gone are an error, or are reported and left out.
    max_decompressed_bytes : int or None
        Limit of one decompressed batch; None for the decoder's own.
    read_range : tuple of (int, int), optional
        Offsets [start, end) of the read that this scan is a part of; its own where not given. What
        is reported of bad bytes is reported once a read.
    read_ahead : bool
        Whether a thread reads a piece of a large file while the one before it is decoded; to no
        avail where all cores are busy.
    """

    columns: tuple[str, ...] = ALL_COLUMNS
    record_filter: RecordFilter = field(default_factory=RecordFilter)
    isolation_level: str = "read_uncommitted"
    check_crcs: bool = True
    skip_corrupt: bool = False
    fail_on_data_loss: bool = True
    max_decompressed_bytes: int | None = None
    read_range: tuple[int, int] | None = None
    read_ahead: bool = True


class SegmentScanner:
    """Decodes segments of one topic partition, one after the other, with one decoder and buffer.

    `next_offset` tells how far it has come: everything below was delivered or is no row.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        options: ScanOptions,
        *,
        on_corrupt: OnCorrupt | None = None,
    ) -> None:
        self.options = options
        self.next_offset = options.record_filter.start_offset
        self._on_corrupt = on_corrupt
        self._buffer = ReadBuffer()
        limits = (
            {}
            if options.max_decompressed_bytes is None
            else {"max_decompressed_bytes": options.max_decompressed_bytes}
        )
        self._decoder = RecordDecoder(
            options.columns,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            source="",
            record_filter=options.record_filter,
            check_crcs=options.check_crcs,
            validate_first=options.skip_corrupt,
            **limits,
        )

    @property
    def schema(self) -> pa.Schema:
        """Schema of the Arrow batches."""
        return self._decoder.schema

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Give the rows that are held back until an Arrow batch is full."""
        arrow_batch = self._decoder.flush()
        if arrow_batch is not None:
            yield arrow_batch

    def scan(
        self,
        segment: Segment,
        *,
        start_position: int | None = None,
        end_position: int | None = None,
        outcomes: TransactionOutcomes | None = None,
        on_lost: OnLost | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the rows of a segment; some may be held back until `flush`.

        Parameters
        ----------
        start_position, end_position : int, optional
            Starts of batches; found by the filter where not given.
        outcomes : TransactionOutcomes, optional
            Asked for the batches that are not committed, and where the log is stable.
        on_lost : callable, optional
            Told of offsets at the segment's end that are gone, as its indexes tell.

        Raises
        ------
        FileNotFoundError
            The file is gone; nothing of it was delivered.
        CorruptRecordError
            Bad bytes, unless the options say to skip them.
        """
        self._decoder.source = segment.log_path
        with segment.open_log() as file:
            end_offset = self._end_offset(segment)
            if start_position is None:
                start_position = self._start_position(segment, file)
            chooser = _PieceChooser(
                self.options,
                segment,
                start_offset=self.next_offset,
                end_offset=end_offset,
                end_position=end_position,
                outcomes=outcomes,
                on_lost=on_lost,
            )
            options = WalkOptions(
                skip_corrupt=self.options.skip_corrupt,
                check_crcs=self.options.check_crcs,
                on_corrupt=self._on_corrupt,
                is_reported=chooser.is_reported,
            )
            walk = HeaderWalk(segment, file, options, position=start_position, buffer=self._buffer)
            with closing(self._chosen_pieces(walk, chooser)) as chosen_pieces:
                for chosen in chosen_pieces:
                    if chosen.selected.any():
                        yield from self._decode(walk, chosen.piece, chosen.selected)
                        if walk.is_redirected:
                            reached = min(walk.next_offset, chosen.end_offset)
                            self.next_offset = max(self.next_offset, reached)
                            continue
                    next_offset = int(chosen.piece.table.last_offset[-1]) + 1
                    self.next_offset = max(self.next_offset, min(next_offset, chosen.end_offset))
                    if chosen.is_last:
                        return
            if end_position is None and on_lost is not None:
                self._look_for_lost(segment, file, walk, chooser.end_offset, on_lost)

    def _look_for_lost(
        self, segment: Segment, file: LogFile, walk: HeaderWalk, end_offset: int, on_lost: OnLost
    ) -> None:
        """Tell of offsets after the end of a closed segment that its indexes speak of."""
        if walk.known_offset >= end_offset or segment.end_offset_bound is None:
            return
        promised = segment.promised_end
        if promised is not None and walk.known_offset < promised:
            if walk.options.is_reported(walk.known_offset, promised):
                reason = f"the segment ends before offset {walk.known_offset}"
                start_offset = max(walk.known_offset, self.next_offset)
                on_lost(start_offset, min(end_offset, promised), reason)
            return
        named = index_trust.offset_beyond_end(segment, file, walk.position, walk.known_offset)
        bound = segment.end_offset_bound
        start_offset = walk.known_offset
        if named is None or not walk.options.is_reported(start_offset, bound):
            return
        reason = (
            f"the segment ends before offset {start_offset}, its index names offset {named}, "
            f"the next segment starts at {bound}"
        )
        if self.options.skip_corrupt:
            walk.report(walk.position, 0, reason, start_offset=start_offset, end_offset=bound)
        on_lost(max(start_offset, self.next_offset), min(end_offset, bound), reason)

    def _chosen_pieces(self, walk: HeaderWalk, chooser: _PieceChooser) -> Generator[_ChosenPiece]:
        # With `skip_corrupt`, what decoding finds in one piece tells where the next one starts.
        choose = partial(chooser.choose, walk)
        if self.options.read_ahead and not self.options.skip_corrupt:
            yield from pieces_ahead(walk, choose)
        else:
            yield from map(choose, walk.pieces())

    def _end_offset(self, segment: Segment) -> int:
        end_offset = self.options.record_filter.end_offset
        if segment.end_offset_bound is not None:
            return min(end_offset, segment.end_offset_bound)
        if segment.recovery_point is not None and end_offset == MAX_OFFSET:
            return segment.next_offset(
                buffer=self._buffer,
                skip_corrupt=self.options.skip_corrupt,
                check_crcs=self.options.check_crcs,
            )
        return end_offset

    def _start_position(self, segment: Segment, file: LogFile) -> int:
        start_offset = self.next_offset
        min_timestamp_ms = self.options.record_filter.min_timestamp_ms
        if min_timestamp_ms is not None:
            start_offset = max(start_offset, segment.offset_below_timestamp(min_timestamp_ms))
        return segment.position_for(start_offset, file)

    def _decode(
        self, walk: HeaderWalk, piece: Piece, selected: npt.NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        table = piece.table
        try:
            yield from self._decoder.decode(
                piece.buffer,
                table,
                selected,
                file_position=piece.file_position,
                min_offset=piece.floor,
                check_wrapper=partial(walk.check_wrapper, table),
            )
        except CorruptRecordError as error:
            if not self.options.skip_corrupt:
                raise error.naming(*walk.missing_offsets(table, error.position)) from error
            walk.step_over_batch(table, error.position, error.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChosenPiece:
    """A piece of a segment, and what a scan reads of it.

    Attributes
    ----------
    selected : ndarray of bool
        The batches that may hold rows.
    end_offset : int
        Where the rows end that the scan may give, as far as is known with this piece.
    is_last : bool
        Whether nothing after the piece is wanted.
    """

    piece: Piece
    selected: Bools
    end_offset: int
    is_last: bool


class _PieceChooser:
    """Chooses what a scan reads of a segment's pieces, in their order."""

    def __init__(
        self,
        options: ScanOptions,
        segment: Segment,
        *,
        start_offset: int,
        end_offset: int,
        end_position: int | None,
        outcomes: TransactionOutcomes | None,
        on_lost: OnLost | None,
    ) -> None:
        self.end_offset = end_offset
        self._options = options
        self._segment = segment
        self._start_offset = start_offset
        self._end_position = end_position
        self._outcomes = outcomes
        self._on_lost = on_lost
        self._has_begun = False
        # A walk that steps over bad bytes compares all checksums itself.
        self._compares_unread = options.check_crcs and not options.skip_corrupt

    def choose(self, walk: HeaderWalk, piece: Piece) -> _ChosenPiece:
        """Choose the batches of the next piece.

        Raises
        ------
        CorruptRecordError
            A batch that gives no row has a wrong checksum, or bad bytes lie up to the markers that
            decide.
        """
        if not self._has_begun:
            self._has_begun = True
            self._look_before(piece.table)
        choice = self._choice(piece)
        if self._outcomes is not None:
            uncommitted = self._outcomes.uncommitted(
                self._segment,
                piece,
                self.end_offset,
                has_transactions=choice.has_transactions,
            )
            if self._outcomes.stable_offset < self.end_offset:
                self._end_at_stable(self._outcomes)
                choice = self._choice(piece)
            if uncommitted is not None:
                choice = _without(choice, uncommitted)
        if self._compares_unread and choice.unread.any():
            self._check_unread(walk, piece, choice.unread)
        return _ChosenPiece(
            piece=piece,
            selected=choice.selected,
            end_offset=self.end_offset,
            is_last=self._is_last(piece.table),
        )

    def _look_before(self, table: HeaderTable) -> None:
        """Tell of offsets before the first batch, where all are known to be there."""
        is_partial = self._options.record_filter.min_timestamp_ms is not None
        if self._segment.promised_end is None or self._on_lost is None or is_partial:
            return
        start, first = max(self._start_offset, self._segment.base_offset), int(table.base_offset[0])
        end = min(first, self.end_offset)
        if start < end and self.is_reported(start, first):
            self._on_lost(start, end, f"the segment begins with offset {first}")

    def _choice(self, piece: Piece) -> EntryChoice:
        """Choose the entries that may hold rows of the range that were not met before."""
        wanted = replace(
            self._options.record_filter,
            start_offset=max(self._start_offset, piece.floor),
            end_offset=self.end_offset,
        )
        return choose_entries(piece.table, wanted, end_position=self._end_position)

    def _end_at_stable(self, outcomes: TransactionOutcomes) -> None:
        self.end_offset = outcomes.stable_offset
        if self._on_lost is not None:
            for lost in outcomes.lost:
                self._on_lost(*lost, "the end of an open transaction may be there")

    def is_reported(self, missing_start: int, missing_end: int | None) -> bool:
        """Tell whether missing offsets [start, end) are this scan's to report.

        They are reported by the scan whose range they begin in, or that begins a read inside them;
        bytes after the last offset by the one that reads up to the segment's end.
        """
        start_offset, end_offset = self._start_offset, self.end_offset
        read_range = self._options.read_range
        first = start_offset if read_range is None else min(read_range[0], start_offset)
        last = end_offset if read_range is None else read_range[1]
        is_at_end = end_offset >= min(last, self._segment.offset_limit)
        if missing_end is not None and max(missing_end, missing_start + 1) <= first:
            return False
        begins = max(missing_start, first)
        return start_offset <= begins and (begins < end_offset or is_at_end)

    def _is_last(self, table: HeaderTable) -> bool:
        if self._end_position is not None and table.end_position >= self._end_position:
            return True
        # Bad bytes after the last good batch are reported too, so those who skip them look on
        # until a batch lies beyond the end.
        if self._options.skip_corrupt:
            return int(table.base_offset[-1]) >= self.end_offset
        return int(table.last_offset[-1]) + 1 >= self.end_offset

    def _check_unread(self, walk: HeaderWalk, piece: Piece, unread: Bools) -> None:
        """Compare the checksums of markers and of what was aborted, as a consumer does."""
        table = piece.table
        rows = np.flatnonzero(unread)
        good = check_crcs(piece.buffer, table.select(rows), file_position=piece.file_position)
        for row in rows[~good].tolist():
            try:
                piece.parse_batch(row, self._segment.log_path)
            except CorruptRecordError as error:
                start, end = walk.missing_offsets(table, int(table.position[row]))
                raise error.naming(start, end) from error


def _without(choice: EntryChoice, uncommitted: Bools) -> EntryChoice:
    """Leave out the batches that are not committed; their checksums are compared all the same."""
    left_out = choice.selected & uncommitted
    return replace(choice, selected=choice.selected & ~left_out, unread=choice.unread | left_out)
