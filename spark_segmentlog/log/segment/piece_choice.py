"""The choice of what a scan reads of a segment, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES, READ_BUFFER_BYTES, Piece
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.record.codec.codecs import slow_codecs
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.read.record_filter import EntryChoice, choose_entries
from spark_segmentlog.record.types import Bools

if TYPE_CHECKING:
    from spark_segmentlog.log.segment.scanner import OnLost, ScanOptions
    from spark_segmentlog.log.segment.segment import Segment
    from spark_segmentlog.log.transactions.outcomes import TransactionOutcomes

WORTH_A_THREAD_BYTES: Final = FIRST_READ_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPiece:
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

    @property
    def is_slow(self) -> bool:
        """Whether the piece has batches that take long to decompress."""
        return bool(np.isin(self.piece.table.codec, slow_codecs()).any())

    @property
    def is_worth_a_thread(self) -> bool:
        """Whether there is enough to decode; of huge pieces one at a time is in memory."""
        selected_bytes = int(self.piece.table.size_bytes[self.selected].sum())
        is_huge = len(self.piece.buffer) > READ_BUFFER_BYTES
        return selected_bytes >= WORTH_A_THREAD_BYTES and not is_huge


class PieceChooser:
    """Chooses what a scan reads of a segment's pieces, in their order."""

    def __init__(
        self,
        options: ScanOptions,
        segment: Segment,
        *,
        start_offset: int,
        end_offset: int,
        outcomes: TransactionOutcomes | None,
        on_lost: OnLost | None,
    ) -> None:
        self.end_offset = end_offset
        self._options = options
        self._segment = segment
        self._start_offset = start_offset
        self._outcomes = outcomes
        self._on_lost = on_lost
        self._has_begun = False
        # A walk that steps over bad bytes compares all checksums itself.
        self._compares_others = options.check_crcs and not options.skip_corrupt

    def choose(self, walk: HeaderWalk, piece: Piece) -> ChosenPiece:
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
                walk.file,
                piece,
                self.end_offset,
                has_transactions=choice.has_transactions,
            )
            if self._outcomes.stable_offset < self.end_offset:
                self._end_at_stable(self._outcomes)
                choice = self._choice(piece)
            if uncommitted is not None:
                choice = _without(choice, uncommitted)
        if self._compares_others and choice.verified_only.any():
            self._verify(walk, piece, choice.verified_only)
        return ChosenPiece(
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
        return choose_entries(piece.table, wanted)

    def _end_at_stable(self, outcomes: TransactionOutcomes) -> None:
        self.end_offset = outcomes.stable_offset
        if self._on_lost is not None:
            reason = "the end of an open transaction may be there"
            for lost in outcomes.lost:
                self._on_lost(lost.start_offset, lost.end_offset, reason)

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
        # Bad bytes after the last good batch are reported too, so those who skip them look on
        # until a batch lies beyond the end.
        if self._options.skip_corrupt:
            return int(table.base_offset[-1]) >= self.end_offset
        return int(table.last_offset[-1]) + 1 >= self.end_offset

    def _verify(self, walk: HeaderWalk, piece: Piece, verified_only: Bools) -> None:
        """Compare the checksums of markers and of what was aborted, as a consumer does."""
        table = piece.table
        rows = np.flatnonzero(verified_only)
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
    return replace(
        choice, selected=choice.selected & ~left_out, verified_only=choice.verified_only | left_out
    )
