"""The order of offsets in a segment: which batches repeat others, and which are misplaced.

A batch's checksum does not cover its base offset, so that a wrong one shows only by its neighbours:
batches lie in the order of their offsets, within those of their segment. Old brokers left logs in
which offsets dip: some are met again. A batch whose offsets were all met before, or whose first
ones were, is such a repetition, and a consumer gets each offset once, the first that it meets. But
where offsets are missing before the batch that is repeated, or after the one that repeats, no old
broker is the cause: that batch is misplaced, which is bad bytes. So is one below the segment's name
that no batch of the segment stands before.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, InvalidBatchError
from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.segment.entry_check import EntrySpan, has_good_checksum, read_entry_span
from spark_segmentlog.log.segment.next_batch import NextBatchSearch
from spark_segmentlog.log.segment.pieces import PieceReader
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import HeaderTable, StopReason, scan_headers

if TYPE_CHECKING:
    from spark_segmentlog.log.segment.segment import Segment

WRONG_CHECKSUM: Final = "wrong checksum"

_log = logging.getLogger(__name__)


class BatchOrder:
    """Judges a walk's tables by the batches that the walk has met.

    Attributes
    ----------
    next_offset : int
        Offset after all that was met.
    offset_before : int
        What `next_offset` was before the table in hand.
    floor : int
        Offsets below it were met before the table in hand; 0 where they all lie above.
    """

    def __init__(
        self,
        segment: Segment,
        file: LogFile,
        reader: PieceReader,
        search: NextBatchSearch,
        next_offset: int,
    ) -> None:
        self.next_offset = next_offset
        self.offset_before = segment.base_offset
        self.floor = 0
        self._segment = segment
        self._file = file
        self._reader = reader
        self._search = search
        self._is_gap_known = reader.file_position == 0
        self._last_span: tuple[int, int] | None = None

    def met(self, table: HeaderTable) -> None:
        """Go on after the batches of a table."""
        self.offset_before = self.next_offset
        self.next_offset = max(self.next_offset, int(table.last_offset[-1]) + 1)
        self._last_span = int(table.position[-1]), int(table.size_bytes[-1])
        self._is_gap_known = True

    def go_back(self, table: HeaderTable, row: int) -> None:
        """Forget the batches of the table in hand from a row on."""
        self.next_offset = self.offset_in_hand(table, row)
        self._last_span = None

    def judge(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before a batch that is misplaced, or that repeats offsets."""
        self.floor = 0
        return self._in_order(table)

    def _in_order(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before a batch that is misplaced, or that repeats offsets."""
        if len(table) == 0:
            return table
        if int(table.last_offset[0]) == 0 and _is_wrapper(table, 0):
            # Some producers left the wrapper's offset 0 and counted its messages up from there.
            table.last_offset[0] = self._exact_offsets(table, 0)[1]
        is_in_order = table.unordered_row < 0
        if is_in_order and int(table.last_offset[-1]) < self._segment.offset_limit:
            return self._confirmed(self._without_jump(table))
        above = np.flatnonzero(table.last_offset >= self._segment.offset_limit)
        if len(above) and (is_in_order or int(above[0]) < table.unordered_row):
            row = int(above[0])
            reason = (
                f"{_offsets(table, row)}, the next segment starts at {self._segment.offset_limit}"
            )
            return before_bad(table, row, reason)
        row = table.unordered_row
        return self._judged(table, row, _span_of(table, row))

    def _without_jump(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before a batch that jumps over where the log is known to have ended.

        It lies after a gap; without the gap it would end where the high watermark is. Nor does
        a wrapper in the last segment have an offset beyond its messages.
        """
        reached = self._segment.reached_offset
        is_looked_at = self._segment.end_offset_bound is None and reached > 0
        if not is_looked_at or int(table.last_offset[-1]) < reached:
            return table
        row = int(np.searchsorted(table.last_offset, reached))
        if row == 0 and not self._is_gap_known:
            return table
        before, claimed = self._offset_in_front(table, row), int(table.last_offset[row])
        first, last = self._exact_offsets(table, row)
        if before < first and before + last - first + 1 == reached:
            reason = (
                f"offsets {first} to {last} after offset {before - 1}, and the log had offset "
                f"{reached - 1}"
            )
        elif last < claimed:
            reason = _beyond_its_messages(claimed, last)
        else:
            return table
        return before_bad(table, row, reason)

    def _confirmed(self, table: HeaderTable) -> HeaderTable:
        """Compare the last batch of a table with the one after it, where it leaves a gap."""
        last = len(table) - 1
        if last < 0:
            return table
        if table.reason == WRONG_CHECKSUM or not self._has_gap_before(table, last):
            return table
        after = read_entry_span(self._file, table.end_position)
        if after is not None and after.last_offset <= int(table.last_offset[last]):
            return self._judged(table, len(table), after)
        if after is None and self._is_out_of_reach(table, last):
            base_offset = self._segment.base_offset
            reason = (
                f"{_offsets(table, last)}, more than {MAX_RELATIVE_OFFSET} above the segment's "
                f"base offset {base_offset}, and nothing after"
            )
            return before_bad(table, last, reason)
        return table

    def _is_out_of_reach(self, table: HeaderTable, row: int) -> bool:
        """Tell whether a batch jumps to where no broker writes: an index holds 32 bits.

        Old compactions did; then other batches follow, or the next segment starts after it.
        """
        limit = self._segment.base_offset + MAX_RELATIVE_OFFSET
        is_followed = int(table.last_offset[row]) + 1 == self._segment.end_offset_bound
        before = self._offset_in_front(table, row)
        return int(table.last_offset[row]) > limit >= before and not is_followed

    def _judged(self, table: HeaderTable, row: int, span: EntrySpan) -> HeaderTable:
        """Decide about a batch that does not lie after the one before it, at a row of a table."""
        misplaced = self._misplaced_before(table, row, span)
        if misplaced is not None:
            return misplaced
        if row > 0:
            # What is kept in memory from here on is judged next.
            self._reader.keep(table.end_position)
            return _cut(table, row, StopReason.FULL)
        base_offset = self._segment.base_offset
        begins = int((table.last_offset if self._segment.is_first else table.base_offset)[0])
        if begins < base_offset == self.next_offset:
            reason = f"{_offsets(table, 0)}, the segment starts at {base_offset}"
            return before_bad(table, 0, reason)
        if self._last_span is not None and not has_good_checksum(self._file, *self._last_span):
            return self._without_last_claim(table)
        misplaced = self._misplaced_repetition(table)
        if misplaced is not None:
            return misplaced
        self.floor = self.next_offset
        _warn_repeated(
            self._segment.log_path,
            int(table.position[0]),
            int(table.last_offset[0]) if _is_wrapper(table, 0) else int(table.base_offset[0]),
            int(table.last_offset[0]),
        )
        self._reader.keep(table.end_position)
        return _cut(table, 1, StopReason.FULL)

    def _misplaced_before(
        self, table: HeaderTable, row: int, span: EntrySpan
    ) -> HeaderTable | None:
        """Cut a table before the batch before a row, if what follows fits before that one.

        One with a wrong checksum is bad whatever follows.
        """
        if row == 0:
            return None
        previous = row - 1
        position, size_bytes = int(table.position[previous]), int(table.size_bytes[previous])
        if not has_good_checksum(self._file, position, size_bytes):
            return before_bad(table, previous, WRONG_CHECKSUM)
        first, last = self._exact_offsets(table, previous)
        if last != int(table.last_offset[previous]):
            reason = _beyond_its_messages(int(table.last_offset[previous]), last)
            return before_bad(table, previous, reason)
        before = self._offset_in_front(table, previous)
        is_gap_known = previous > 0 or self._is_gap_known
        if not is_gap_known or before == first or span.last_offset < before:
            return None
        reason = (
            f"offsets {first} to {last} between offset {before - 1} and a batch that ends with "
            f"offset {span.last_offset}"
        )
        return before_bad(table, previous, reason)

    def _misplaced_repetition(self, table: HeaderTable) -> HeaderTable | None:
        """Cut a table before its first batch, which goes back, if that leaves a gap to fill."""
        last = int(table.last_offset[0])
        end = int(table.position[0] + table.size_bytes[0])
        expected = max(self.next_offset, last + 1)
        follows = self._offset_after(end)
        is_unknown = follows == 0 and last >= self.next_offset and self._last_span is not None
        if follows is None or (follows <= expected and not is_unknown):
            return None
        reason = (
            f"offsets {table.base_offset[0]} to {last} again, between offset "
            f"{self.next_offset - 1} and {_worded_offset(follows)}"
        )
        return before_bad(table, 0, reason)

    def check_wrapper(self, table: HeaderTable, row: int, first: int, last: int) -> None:
        """Check the offsets of a wrapper that only its messages tell, by the entry after it.

        Raises
        ------
        InvalidBatchError
            The wrapper is misplaced.
        """
        claimed = int(table.last_offset[row])
        position, size_bytes = int(table.position[row]), int(table.size_bytes[row])
        around = self._misfit_of_wrapper(table, row, first, last)
        if around:
            raise InvalidBatchError(
                f"wrapper of offset {claimed} around offsets {first} to {last}, {around}",
                source=self._segment.log_path,
                position=position,
                base_offset=claimed,
                length=size_bytes,
            )

    def _misfit_of_wrapper(self, table: HeaderTable, row: int, first: int, last: int) -> str:
        """Tell between which offsets a wrapper does not fit; an empty text where it does."""
        base_offset = self._segment.base_offset
        if first < base_offset and not self._segment.is_first:
            return f"the segment starts at {base_offset}"
        expected, claimed = int(table.base_offset[row]), int(table.last_offset[row])
        end = int(table.position[row] + table.size_bytes[row])
        follows = self._offset_after(end)
        if follows is None:
            return ""
        # One that lies below all that stands before it is misplaced itself.
        is_after = expected <= follows <= claimed and not self._search.is_end(end)
        is_too_high = (first > expected or last < claimed) and is_after
        is_unknown = follows == 0 and expected <= claimed
        is_too_low = first < expected and (follows > claimed + 1 or is_unknown)
        is_misfit = is_too_high or is_too_low
        return f"between offset {expected - 1} and {_worded_offset(follows)}" if is_misfit else ""

    def _offset_after(self, position: int) -> int | None:
        """Give the offset with which the log goes on at a position; None for bytes that are none.

        At the end of a segment that is where the next one starts, or what the log is known to have
        reached, 0 where nothing tells. A batch at such an end that repeats some offsets and adds
        others is taken for a misplaced one.
        """
        if not self._search.is_end(position):
            return self._search.exact_first_offset_at(position)
        bound = self._segment.end_offset_bound
        return self._segment.reached_offset if bound is None else bound

    def _without_last_claim(self, table: HeaderTable) -> HeaderTable:
        """Forget the offsets of a batch before the table whose checksum is wrong."""
        self.next_offset = self.offset_before
        self._last_span = None
        start = int(table.position[0]) - self._reader.file_position
        end = table.end_position - self._reader.file_position
        again = scan_headers(
            self._reader.buffer,
            start,
            end,
            file_position=self._reader.file_position,
            first_offset=self.next_offset,
        )
        rest = replace(again, stop=table.stop, needed_bytes=table.needed_bytes, reason=table.reason)
        return self._in_order(rest)

    def _has_gap_before(self, table: HeaderTable, row: int) -> bool:
        """Tell whether offsets are missing before a batch, or may be, as before a wrapper."""
        if _is_wrapper(table, row):
            return True
        return int(table.base_offset[row]) > self._offset_in_front(table, row)

    def _offset_in_front(self, table: HeaderTable, row: int) -> int:
        return int(table.last_offset[row - 1]) + 1 if row else self.next_offset

    def offset_in_hand(self, table: HeaderTable, row: int) -> int:
        """Give the offset after all before a row of the table in hand, which counts as met."""
        return int(table.last_offset[row - 1]) + 1 if row else self.offset_before

    def _exact_offsets(self, table: HeaderTable, row: int) -> tuple[int, int]:
        """Give the first and last offset of a batch; those of a wrapper are in its messages."""
        if not _is_wrapper(table, row):
            return int(table.base_offset[row]), int(table.last_offset[row])
        position = int(table.position[row])
        start = position - self._reader.file_position
        data = self._reader.buffer.data[start : start + int(table.size_bytes[row])]
        messages = iterate_messages(
            data, source=self._segment.log_path, file_position=position, check_crcs=False
        )
        try:
            offsets = [message.offset for message in messages]
        except CorruptRecordError:
            # Whoever decodes it says what is wrong.
            return int(table.base_offset[row]), int(table.last_offset[row])
        return offsets[0], offsets[-1]


def _offsets(table: HeaderTable, row: int) -> str:
    return f"offsets {table.base_offset[row]} to {table.last_offset[row]}"


def _worded_offset(follows: int) -> str:
    return f"offset {follows}" if follows else "the end of the log"


def _beyond_its_messages(claimed: int, last: int) -> str:
    return f"offset {claimed} of a wrapper whose last message has offset {last}"


def _is_wrapper(table: HeaderTable, row: int) -> bool:
    return int(table.records_count[row]) < 0


def _span_of(table: HeaderTable, row: int) -> EntrySpan:
    return EntrySpan(
        base_offset=int(table.base_offset[row]),
        last_offset=int(table.last_offset[row]),
        size_bytes=int(table.size_bytes[row]),
        is_wrapper=_is_wrapper(table, row),
    )


def before_bad(table: HeaderTable, row: int, reason: str) -> HeaderTable:
    """Cut a table before a batch that is bad."""
    size_bytes = int(table.size_bytes[row])
    return replace(_cut(table, row, StopReason.INVALID), reason=reason, needed_bytes=size_bytes)


def _cut(table: HeaderTable, rows: int, stop: StopReason) -> HeaderTable:
    """Keep the first rows of a table; it then ends where the next row stands."""
    return HeaderTable(
        entries=table.entries[:rows],
        end_position=int(table.position[rows]) if rows < len(table) else table.end_position,
        stop=stop,
        unordered_row=table.unordered_row if table.unordered_row < rows else -1,
    )


@lru_cache(maxsize=1024)
def _warn_repeated(path: str, position: int, first_offset: int, last_offset: int) -> None:
    """Warn once a place; the first offset of a wrapper is not known."""
    first = f"{first_offset} to" if first_offset < last_offset else "up to"
    _log.warning(
        "%s: offsets %s stand again at position %d; each is read once, where it stands first",
        path,
        f"{first} {last_offset}",
        position,
    )
