"""The walk over a segment's batches: from header to header, to where the log or the bytes end.

What may be a log's normal end is decided here, once:

- nothing but zeros up to the end of the file: a preallocated file;
- in the log's last segment, a batch that the end of the file cuts off, unless good batches lie
  within it: then its length is wrong;
- in the last segment, a whole batch with a wrong checksum and nothing but zeros behind it, where a
  crash can have left it: at or above the recovery point of a directory that was not shut cleanly
  (`HeaderWalk.is_torn_end`).

All other bytes that make no batch are bad: an error, or stepped over up to the next good batch.
A segment that is not the last ends with a whole batch.

Of a batch with a wrong checksum nothing that its header says is believed, least of all its length:
the log goes on where it says only if a batch stands there that fits (`HeaderWalk.find_behind`). So
a walk that steps over bad bytes compares all checksums.

Offsets. A batch's checksum does not cover its base offset, so that a wrong one shows only by its
neighbours: batches lie in the order of their offsets, within those of their segment. Old brokers
left logs in which offsets dip: some are met again. A batch whose offsets were all met before, or
whose first ones were, is such a repetition, and a consumer gets each offset once, the first that it
meets. But where offsets are missing in front of the batch that is repeated, or behind the one that
repeats, no old broker is the cause: that batch is misplaced, which is bad bytes. So is one below
the segment's name that no batch of the segment stands in front of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import (
    CorruptRecordError,
    CrcMismatchError,
    InvalidBatchError,
    describe_offsets,
)
from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.io.reading import LogFile, is_zero_from
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.entry_check import (
    EntrySpan,
    find_proven_size,
    has_good_checksum,
    read_entry_span,
    tells_its_size,
)
from spark_segmentlog.record.layout import LOG_OVERHEAD, LOG_PREFIX, MAGIC_OFFSET, MAGIC_V2
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import (
    HeaderTable,
    StopReason,
    check_crcs,
    find_next_batch,
    scan_headers,
)

if TYPE_CHECKING:
    from spark_segmentlog.log.segment.segment import Segment

FIRST_READ_BYTES: Final = 256 * 1024
READ_BUFFER_BYTES: Final = 4 * 1024 * 1024
RESYNC_WINDOW_BYTES: Final = (8 * 1024 * 1024, 128 * 1024 * 1024)
PROBE_BYTES: Final = 128
LARGE_BATCH_BYTES: Final = 64 * 1024 * 1024
WRONG_CHECKSUM: Final = "wrong checksum"
MAX_CANDIDATES: Final = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Bytes that were stepped over, and the offsets that are missing for it.

    Attributes
    ----------
    length : int
        Up to the next good batch, or to the end of the file. 0 where the file ends and offsets that
        its indexes speak of are gone.
    start_offset, end_offset : int or None
        Offsets [start, end) that no good batch has; the end is None where nothing tells it.
    """

    topic_partition: TopicPartition
    path: str
    position: int
    length: int
    reason: str
    start_offset: int
    end_offset: int | None


OnCorrupt = Callable[[CorruptRange], None]
# Whether missing offsets [start, end) are to be reported.
IsReported = Callable[[int, int | None], bool]


class ReadBuffer:
    """Memory for pieces of a file, used again for each; grows only for a larger batch."""

    __slots__ = ("array",)

    def __init__(self, size_bytes: int = READ_BUFFER_BYTES) -> None:
        self.array: npt.NDArray[np.uint8] = np.empty(size_bytes, np.uint8)

    def reserve(self, size_bytes: int) -> None:
        """Make room for a batch of this size."""
        if len(self.array) < size_bytes:
            self.array = np.empty(size_bytes, np.uint8)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a segment in memory: the headers of its batches, its bytes and where they lie.

    `file_position` is that of the first byte of `buffer`. Offsets below `floor` were met before, in
    batches in front of the piece.
    """

    table: HeaderTable
    buffer: npt.NDArray[np.uint8]
    file_position: int
    floor: int = 0

    def parse_batch(self, row: int, source: str) -> None:
        """Parse one batch of format 2 plainly, only to raise what is wrong with it."""
        position, size_bytes = int(self.table.position[row]), int(self.table.size_bytes[row])
        start = position - self.file_position
        batch = self.buffer.data[start : start + size_bytes]
        for _ in iterate_records(batch, source=source, file_position=position):
            pass


class ChosenPiece(Protocol):
    """What somebody made of a piece."""

    @property
    def is_last(self) -> bool:
        """Whether nothing behind the piece is wanted."""


_Chosen = TypeVar("_Chosen", bound=ChosenPiece)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Misplaced:
    """A row of a table whose batch cannot stand there, and why."""

    row: int
    reason: str


class HeaderWalk:
    """Tables of batch headers, one a piece of the file that is in memory.

    While a table is in hand, `buffer` holds its batches, and `file_position` is that of the first
    byte of `buffer`. Tables are never empty. A batch that repeats offsets makes a table of its own.

    Attributes
    ----------
    position : int
        Where the next batch stands; at the end of the walk, the end of the good batches.
    next_offset : int
        Offset behind all that the walk has met.
    known_offset : int
        The same, or behind the offsets that are known to be missing for bad bytes.
    floor : int
        Offsets below it were met before the table in hand; 0 where they all lie above.
    is_redirected : bool
        Whether a batch of the table in hand was found to be bad: the walk goes on behind that.
    torn_end : str
        What of a torn last batch lies at the walk's end; empty where none does.
    """

    def __init__(
        self,
        segment: Segment,
        file: LogFile,
        position: int,
        read_buffer: ReadBuffer,
        skip_corrupt: bool,
        on_corrupt: OnCorrupt | None,
        *,
        check_crcs: bool = True,
        first_read_bytes: int = FIRST_READ_BYTES,
    ) -> None:
        self.segment = segment
        self.position = position
        self.file_position = position
        self.next_offset = segment.base_offset
        self.known_offset = segment.base_offset
        self.floor = 0
        self.torn_end = ""
        self._bad_reason = ""
        self.is_reported: IsReported = lambda start_offset, end_offset: True
        self._file = file
        self._read_buffer = read_buffer
        self._skip_corrupt = skip_corrupt
        self._is_checked = skip_corrupt and check_crcs
        self._on_corrupt = on_corrupt
        self._offset_before = segment.base_offset
        self._is_gap_known = position == 0
        self._last_span: tuple[int, int] | None = None
        self.is_redirected = False
        self._read_bytes = first_read_bytes
        self._kept_bytes = 0

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The piece of the file that is in memory."""
        return self._read_buffer.array

    def __iter__(self) -> Iterator[HeaderTable]:
        needed = 0
        while needed >= 0:
            table, is_end_of_file = self._next_table(needed)
            self.position = table.end_position
            if len(table):
                self._offset_before = self.next_offset
                self.next_offset = max(self.next_offset, int(table.last_offset[-1]) + 1)
                self.known_offset = max(self.known_offset, self.next_offset)
                self._last_span = int(table.position[-1]), int(table.size_bytes[-1])
                self._is_gap_known = True
                yield table
            if self.is_redirected:
                # Who took the table found a batch to be bad.
                self.is_redirected = False
                needed = 0
            elif table.stop is StopReason.END and is_end_of_file:
                return
            else:
                needed = self._after_stop(table, is_end_of_file)

    def offset_before_last(self, table: HeaderTable) -> int:
        """Offset behind all that stands in front of the last batch of the table in hand."""
        if len(table) == 1:
            return self._offset_before
        return max(self._offset_before, int(table.last_offset[-2]) + 1)

    def pieces(self) -> Iterator[Piece]:
        """Give each table with its bytes, which are good until the next one is asked for."""
        for table in self:
            yield Piece(table, self.buffer, self.file_position, self.floor)

    def pieces_ahead(self, choose: Callable[[Piece], _Chosen]) -> Iterator[_Chosen]:
        """Give what is made of each piece; while one is in hand, a thread makes the next.

        Reading, walking, choosing and decoding hold no GIL. Nothing is read behind a piece that
        `is_last`. To be closed before the file is.
        """
        pieces = map(choose, self.pieces())
        chosen = next(pieces, None)
        if chosen is None:
            return
        if self._file.size() - self.position <= FIRST_READ_BYTES:
            yield chosen
            yield from pieces
            return
        buffers = [ReadBuffer(), self._read_buffer]

        def read_next() -> _Chosen | None:
            self._read_buffer = buffers[0]
            self._kept_bytes = 0
            buffers.reverse()
            return next(pieces, None)

        with ThreadPoolExecutor(1, "segmentlog-read-ahead") as reader:
            while chosen is not None:
                coming = None if chosen.is_last else reader.submit(read_next)
                yield chosen
                chosen = None if coming is None else coming.result()

    def _next_table(self, needed: int) -> tuple[HeaderTable, bool]:
        """Take the next piece of the file and its headers, and whether the file ends with it."""
        start, end, is_end_of_file = self._next_piece(needed)
        table = scan_headers(
            self.buffer,
            start,
            end,
            file_position=self.file_position,
            first_offset=self.next_offset,
        )
        self.floor = 0
        if self._is_checked:
            table = self._before_bad(table)
        return self._in_order(table), is_end_of_file

    def _before_bad(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before its first batch with a wrong checksum."""
        is_good = check_crcs(self.buffer, table, file_position=self.file_position)
        if is_good.all():
            return table
        row = int(is_good.argmin())
        self._bad_reason = self._worded(table, row)
        return self._before_misplaced(table, _Misplaced(row=row, reason=WRONG_CHECKSUM))

    def _worded(self, table: HeaderTable, row: int) -> str:
        """Say what is wrong with a bad batch, as its plain twin finds it."""
        position = int(table.position[row])
        start = position - self.file_position
        data = self.buffer.data[start : start + int(table.size_bytes[row])]
        iterate = iterate_records if table.magic[row] == MAGIC_V2 else iterate_messages
        try:
            for _ in iterate(data, source=self.segment.log_path, file_position=position):
                pass
        except CorruptRecordError as error:
            return error.reason
        return WRONG_CHECKSUM

    def _next_piece(self, needed: int) -> tuple[int, int, bool]:
        """Read the next piece; gives its indexes in the buffer, and whether the file ends there.

        What is in memory already, behind a table that was cut, is not read again.
        """
        start = self.position - self.file_position
        if needed == 0 and 0 < start < self._kept_bytes:
            return start, self._kept_bytes, False
        length = min(max(self._read_bytes, needed), max(len(self.buffer), needed))
        self._read_buffer.reserve(length)
        count = self._file.pread_into(self.buffer, self.position, length)
        self._read_bytes = min(self._read_bytes * 4, READ_BUFFER_BYTES)
        self.file_position = self.position
        self._kept_bytes = 0
        return 0, count, count < length

    # The order of offsets

    def _in_order(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before a batch that is misplaced, or that repeats offsets."""
        if len(table) == 0:
            return table
        if int(table.last_offset[0]) == 0 and _is_wrapper(table, 0):
            # Some producers left the wrapper's offset 0 and counted its messages up from there.
            table.last_offset[0] = self._exact_offsets(table, 0)[1]
        is_in_order = table.unordered_row < 0
        if is_in_order and int(table.last_offset[-1]) < self.segment.offset_limit:
            return self._confirmed(self._without_jump(table))
        above = np.flatnonzero(table.last_offset >= self.segment.offset_limit)
        if len(above) and (is_in_order or int(above[0]) < table.unordered_row):
            self.segment.check_bound()
            row = int(above[0])
            reason = (
                f"{_offsets(table, row)}, the next segment starts at {self.segment.offset_limit}"
            )
            return self._before_misplaced(table, _Misplaced(row=row, reason=reason))
        row = table.unordered_row
        return self._judged(table, row, _span_of(table, row))

    def _without_jump(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before a batch that jumps over where the log is known to have ended.

        It lies behind a gap, in front of which it would end where the high watermark is. Nor does
        a wrapper in the last segment have an offset beyond its messages.
        """
        reached = self.segment.reached_offset
        is_looked_at = self.segment.end_offset_bound is None and reached > 0
        if not is_looked_at or int(table.last_offset[-1]) < reached:
            return table
        row = int(np.searchsorted(table.last_offset, reached))
        if row == 0 and not self._is_gap_known:
            return table
        before, claimed = self._offset_in_front(table, row), int(table.last_offset[row])
        first, last = self._exact_offsets(table, row)
        if before < first and before + last - first + 1 == reached:
            reason = (
                f"offsets {first} to {last} behind offset {before - 1}, and the log had offset "
                f"{reached - 1}"
            )
        elif last < claimed:
            reason = _beyond_its_messages(claimed, last)
        else:
            return table
        return self._before_misplaced(table, _Misplaced(row=row, reason=reason))

    def _confirmed(self, table: HeaderTable) -> HeaderTable:
        """Compare the last batch of a table with the one behind it, where it leaves a gap."""
        last = len(table) - 1
        if last < 0:
            return table
        if table.reason == WRONG_CHECKSUM or not self._has_gap_before(table, last):
            return table
        behind = read_entry_span(self._file, table.end_position)
        if behind is not None and behind.last_offset <= int(table.last_offset[last]):
            return self._judged(table, len(table), behind)
        if behind is None and self._is_out_of_reach(table, last):
            base_offset = self.segment.base_offset
            reason = (
                f"{_offsets(table, last)}, more than {MAX_RELATIVE_OFFSET} above the segment's "
                f"base offset {base_offset}, and nothing behind"
            )
            return self._before_misplaced(table, _Misplaced(row=last, reason=reason))
        return table

    def _is_out_of_reach(self, table: HeaderTable, row: int) -> bool:
        """Tell whether a batch jumps to where no broker writes: an index holds 32 bits.

        Old compactions did; then other batches follow, or the next segment starts behind it.
        """
        limit = self.segment.base_offset + MAX_RELATIVE_OFFSET
        is_followed = int(table.last_offset[row]) + 1 == self.segment.end_offset_bound
        before = self._offset_in_front(table, row)
        return int(table.last_offset[row]) > limit >= before and not is_followed

    def _judged(self, table: HeaderTable, row: int, span: EntrySpan) -> HeaderTable:
        """Decide about a batch that does not lie behind the one before it, at a row of a table."""
        misplaced = self._misplaced_before(table, row, span)
        if misplaced is not None:
            return self._before_misplaced(table, misplaced)
        if row > 0:
            # What is kept in memory from here on is judged next.
            self._kept_bytes = table.end_position - self.file_position
            return _cut(table, row, StopReason.FULL)
        base_offset = self.segment.base_offset
        begins = int((table.last_offset if self.segment.is_first else table.base_offset)[0])
        if begins < base_offset == self.next_offset:
            reason = f"{_offsets(table, 0)}, the segment starts at {base_offset}"
            return self._before_misplaced(table, _Misplaced(row=0, reason=reason))
        if self._last_span is not None and not has_good_checksum(self._file, *self._last_span):
            return self._without_last_claim(table)
        misplaced = self._misplaced_repetition(table)
        if misplaced is not None:
            return self._before_misplaced(table, misplaced)
        self.floor = self.next_offset
        _warn_repeated(
            self.segment.log_path,
            int(table.position[0]),
            int(table.last_offset[0]) if _is_wrapper(table, 0) else int(table.base_offset[0]),
            int(table.last_offset[0]),
        )
        self._kept_bytes = table.end_position - self.file_position
        return _cut(table, 1, StopReason.FULL)

    def _misplaced_before(self, table: HeaderTable, row: int, span: EntrySpan) -> _Misplaced | None:
        """Tell whether the batch in front of a row is misplaced, since what follows fits before it.

        One with a wrong checksum is bad whatever follows.
        """
        if row == 0:
            return None
        previous = row - 1
        position, size_bytes = int(table.position[previous]), int(table.size_bytes[previous])
        if not has_good_checksum(self._file, position, size_bytes):
            return _Misplaced(row=previous, reason=WRONG_CHECKSUM)
        first, last = self._exact_offsets(table, previous)
        if last != int(table.last_offset[previous]):
            return _Misplaced(
                row=previous,
                reason=_beyond_its_messages(int(table.last_offset[previous]), last),
            )
        before = self._offset_in_front(table, previous)
        is_gap_known = previous > 0 or self._is_gap_known
        if not is_gap_known or before == first or span.last_offset < before:
            return None
        return _Misplaced(
            row=previous,
            reason=f"offsets {first} to {last} between offset {before - 1} and a batch that ends "
            f"with offset {span.last_offset}",
        )

    def _misplaced_repetition(self, table: HeaderTable) -> _Misplaced | None:
        """Tell whether the first batch, which goes back, leaves a gap that it should fill."""
        last = int(table.last_offset[0])
        end = int(table.position[0] + table.size_bytes[0])
        expected = max(self.next_offset, last + 1)
        follows = self._offset_after(end)
        is_unknown = follows == 0 and last >= self.next_offset and self._last_span is not None
        if follows is None or (follows <= expected and not is_unknown):
            return None
        return _Misplaced(
            row=0,
            reason=f"offsets {table.base_offset[0]} to {last} again, between offset "
            f"{self.next_offset - 1} and {_worded_offset(follows)}",
        )

    def check_wrapper(self, table: HeaderTable, row: int, first: int, last: int) -> None:
        """Check the offsets of a wrapper that only its messages tell, by the entry behind it.

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
                source=self.segment.log_path,
                position=position,
                base_offset=claimed,
                length=size_bytes,
            )

    def _misfit_of_wrapper(self, table: HeaderTable, row: int, first: int, last: int) -> str:
        """Tell between which offsets a wrapper does not fit; an empty text where it does."""
        base_offset = self.segment.base_offset
        if first < base_offset and not self.segment.is_first:
            return f"the segment starts at {base_offset}"
        expected, claimed = int(table.base_offset[row]), int(table.last_offset[row])
        end = int(table.position[row] + table.size_bytes[row])
        follows = self._offset_after(end)
        if follows is None:
            return ""
        # One that lies below all that stands in front is misplaced itself.
        is_behind = expected <= follows <= claimed and not self._is_end(end)
        is_too_high = (first > expected or last < claimed) and is_behind
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
        if not self._is_end(position):
            return self._exact_first_offset_at(position)
        bound = self.segment.end_offset_bound
        return self.segment.reached_offset if bound is None else bound

    def _exact_first_offset_at(self, position: int) -> int | None:
        """Read the first offset of the entry at a position, that of a wrapper from its messages."""
        span = read_entry_span(self._file, position) if position >= 0 else None
        if span is None or not span.is_wrapper or span.size_bytes > LARGE_BATCH_BYTES:
            return self._first_offset_at(position)
        data = self._file.read_at(position, span.size_bytes)
        try:
            return next(iterate_messages(data, check_crcs=False)).offset
        except CorruptRecordError:
            return None

    def _before_misplaced(self, table: HeaderTable, misplaced: _Misplaced) -> HeaderTable:
        cut = _cut(table, misplaced.row, StopReason.INVALID)
        size_bytes = int(table.size_bytes[misplaced.row])
        return replace(cut, reason=misplaced.reason, needed_bytes=size_bytes)

    def _without_last_claim(self, table: HeaderTable) -> HeaderTable:
        """Forget the offsets of a batch in front of the table whose checksum is wrong."""
        self.next_offset = self._offset_before
        self._last_span = None
        start = self.position - self.file_position
        end = table.end_position - self.file_position
        again = scan_headers(
            self.buffer,
            start,
            end,
            file_position=self.file_position,
            first_offset=self.next_offset,
        )
        rest = replace(again, stop=table.stop, needed_bytes=table.needed_bytes, reason=table.reason)
        return self._in_order(rest)

    def _has_gap_before(self, table: HeaderTable, row: int) -> bool:
        """Tell whether offsets are missing in front of a batch, or may be, as before a wrapper."""
        if _is_wrapper(table, row):
            return True
        return int(table.base_offset[row]) > self._offset_in_front(table, row)

    def _offset_in_front(self, table: HeaderTable, row: int) -> int:
        return int(table.last_offset[row - 1]) + 1 if row else self.next_offset

    def _exact_offsets(self, table: HeaderTable, row: int) -> tuple[int, int]:
        """Give the first and last offset of a batch; those of a wrapper are in its messages."""
        if not _is_wrapper(table, row):
            return int(table.base_offset[row]), int(table.last_offset[row])
        position = int(table.position[row])
        start = position - self.file_position
        data = self.buffer.data[start : start + int(table.size_bytes[row])]
        messages = iterate_messages(
            data, source=self.segment.log_path, file_position=position, check_crcs=False
        )
        try:
            offsets = [message.offset for message in messages]
        except CorruptRecordError:
            # Whoever decodes it says what is wrong.
            return int(table.base_offset[row]), int(table.last_offset[row])
        return offsets[0], offsets[-1]

    # Where batches end

    def _after_stop(self, table: HeaderTable, is_end_of_file: bool) -> int:
        """Decide what follows a table: bytes to read next time, or -1 for the end."""
        if table.stop is StopReason.ZERO:
            return self._after_zeros()
        if table.stop is StopReason.INVALID:
            if table.reason == WRONG_CHECKSUM and self._is_torn_at(table.needed_bytes):
                return -1
            if self._is_checked and table.reason == WRONG_CHECKSUM:
                # The one in front of it may have been bad too.
                return self.go_to_next_good(
                    self.position, self._bad_reason, start_offset=self.known_offset
                )
            return self.step_over(self.position, table.reason, length=table.needed_bytes)
        if table.stop is StopReason.INCOMPLETE:
            return self._after_incomplete(table, is_end_of_file)
        return 0

    def _after_zeros(self) -> int:
        if is_zero_from(self._file, self.position, self.buffer):
            _log.debug("%s: zeros from position %d on", self.segment.log_path, self.position)
            return -1
        self._kept_bytes = 0
        return self.step_over(self.position, "zeros where a batch should start, and data behind")

    def _after_incomplete(self, table: HeaderTable, is_end_of_file: bool) -> int:
        rest = self._file.size() - self.position
        if table.needed_bytes <= rest and not (is_end_of_file and table.needed_bytes == 0):
            if table.needed_bytes > LARGE_BATCH_BYTES and not self._is_good(table.needed_bytes):
                reason = f"batch of {table.needed_bytes} bytes with a wrong checksum"
                return self.step_over(self.position, reason, length=table.needed_bytes)
            self._kept_bytes = 0
            return table.needed_bytes
        if rest <= 0:
            return -1
        # A batch that reaches beyond the file is a torn end, unless good batches lie within it:
        # then its length is wrong.
        position = self.find_behind(self.position)
        if position < 0 and self.segment.end_offset_bound is None:
            self._end_torn(self.position, f"{rest} bytes of a batch that is cut off")
            return -1
        among = "good batches among them" if position >= 0 else "another segment follows"
        reason = f"batch of {_size(table.needed_bytes)} bytes, {rest} are left, {among}"
        return self.step_over(self.position, reason)

    def is_torn_end(self, last: HeaderTable) -> bool:
        """Tell whether a batch, a table of one row, is the half-written last one of a crash.

        The third way in which a log may end: see the module's text. What is in `buffer` is lost
        where the batch lies where a crash can have reached.
        """
        place = int(last.position[0]), int(last.size_bytes[0])
        return self._is_half_written(int(last.base_offset[0]), *place)

    def _is_torn_at(self, size_bytes: int) -> bool:
        span = read_entry_span(self._file, self.position)
        first = None if span is None else span.first_known_offset
        base_offset = self.next_offset if first is None else first
        return self._is_half_written(base_offset, self.position, size_bytes)

    def _is_half_written(self, base_offset: int, position: int, size_bytes: int) -> bool:
        if not self.segment.may_end_torn(base_offset):
            return False
        self._kept_bytes = 0
        if has_good_checksum(self._file, position, size_bytes, self.buffer):
            return False
        if not is_zero_from(self._file, position + size_bytes, self.buffer):
            return False
        self._end_torn(position, "a batch with a wrong checksum")
        return True

    def _end_torn(self, position: int, measured: str) -> None:
        self.torn_end = measured
        _warn_torn(self.segment.log_path, position, measured)

    def _is_good(self, size_bytes: int) -> bool:
        """Compare the checksum of a huge batch piece by piece, before memory is taken for it."""
        self._kept_bytes = 0
        return has_good_checksum(self._file, self.position, size_bytes, self.buffer)

    # Bad bytes

    def step_over(self, position: int, reason: str, *, length: int = 0) -> int:
        """Go on at the next good batch behind bad bytes; -1 where there is none.

        Raises
        ------
        InvalidBatchError
            Bad bytes are an error here.
        """
        if self._skip_corrupt:
            return self.go_to_next_good(position, reason)
        found = self.find_behind(position)
        kind = CrcMismatchError if reason == WRONG_CHECKSUM else InvalidBatchError
        raise kind(
            reason,
            source=self.segment.log_path,
            position=position,
            length=length,
            start_offset=self.next_offset,
            end_offset=self._exact_first_offset_at(found),
        )

    def go_to_next_good(
        self, position: int, reason: str, *, start_offset: int | None = None
    ) -> int:
        """Go on at the next good batch behind a position; -1 where there is none."""
        found = self.find_behind(position)
        end = found if found >= 0 else self._file.size()
        end_offset = self._exact_first_offset_at(found)
        self.report(
            position, end - position, reason, start_offset=start_offset, end_offset=end_offset
        )
        self.position = end
        return 0 if found >= 0 else -1

    def step_over_batch(self, table: HeaderTable, position: int, reason: str) -> None:
        """Step over a batch of the table in hand that is found to be bad, and tell of it.

        What the table says of the batches behind it may have come from its header: the walk goes
        on there anew.
        """
        start_offset, end_offset = self.missing_offsets(table, position)
        row = int(np.searchsorted(table.position, position))
        self.next_offset = int(table.last_offset[row - 1]) + 1 if row else self._offset_before
        self._last_span = None
        found = self.find_behind(position)
        end = found if found >= 0 else self._file.size()
        self.report(
            position, end - position, reason, start_offset=start_offset, end_offset=end_offset
        )
        self.position = end
        self.is_redirected = True

    def find_behind(self, position: int) -> int:
        """Find where the log goes on behind a bad batch, or bad bytes; -1 where it does not.

        Where its checksum tells its length, there; else where its header says that it ends, if what
        stands there follows on; else at the next good batch which others follow. That may lie
        within what the header says, where good batches lead from there to its end.
        """
        size = self._file.size()
        proven = find_proven_size(self._file, position)
        if proven is not None:
            return position + proven if position + proven < size else -1
        end = position + _claimed_size(self._file, position)
        if end > size and tells_its_size(self._file, position):
            return -1
        is_end = position + LOG_OVERHEAD < end <= size and self.follows_plausibly(end)
        if is_end and self._follows_on(position, end):
            return end if end < size else -1
        found = self._find_next(position + 1)
        if not is_end or self._leads_to(found, end):
            return found
        behind = read_entry_span(self._file, end)
        if behind is None:
            return end if end < size else -1
        return end if has_good_checksum(self._file, end, behind.size_bytes) else found

    def _follows_on(self, position: int, end: int) -> bool:
        """Tell whether what stands at the end of a bad batch, as its header has it, is behind it.

        Messages may stand in a wrapper as they are, and look like some that follow.
        """
        bad, behind = read_entry_span(self._file, position), read_entry_span(self._file, end)
        if self._file.read_at(position + MAGIC_OFFSET, 1) != bytes([MAGIC_V2]):
            return behind is None or has_good_checksum(self._file, end, behind.size_bytes)
        if bad is None or behind is None:
            return False
        return behind.first_known_offset == bad.last_offset + 1

    def _leads_to(self, position: int, end: int) -> bool:
        """Tell whether good batches stand from a position up to another one."""
        while 0 <= position < end:
            span = read_entry_span(self._file, position)
            if span is None or not has_good_checksum(self._file, position, span.size_bytes):
                return False
            position += span.size_bytes
        return position == end

    def missing_offsets(self, table: HeaderTable, position: int) -> tuple[int, int | None]:
        """Give the offsets [start, end) that a bad batch of the table in hand leaves missing.

        By the batches beside it, since its own header may be wrong; the end is None where none
        stands behind it, and the log's end is not known by another segment.
        """
        row = int(np.searchsorted(table.position, position))
        start = int(table.last_offset[row - 1]) + 1 if row else self._offset_before
        found = self.find_behind(position)
        return start, self._exact_first_offset_at(found)

    def report(
        self,
        position: int,
        length: int,
        reason: str,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
    ) -> None:
        """Tell of bytes that are stepped over, and of the offsets that are missing for it."""
        start = self.next_offset if start_offset is None else start_offset
        if end_offset is not None:
            end_offset = min(end_offset, self.segment.offset_limit)
        self.known_offset = max(self.known_offset, start if end_offset is None else end_offset)
        if not self.is_reported(start, end_offset):
            return
        found = CorruptRange(
            topic_partition=self.segment.topic_partition,
            path=self.segment.log_path,
            position=position,
            length=length,
            reason=reason,
            start_offset=start,
            end_offset=end_offset,
        )
        _log.warning(
            "%s: skip %d bytes at position %d (%s): %s",
            found.path,
            length,
            position,
            describe_offsets(start, end_offset),
            reason,
        )
        if self._on_corrupt is not None:
            self._on_corrupt(found)

    def follows_plausibly(self, position: int) -> bool:
        """Tell whether a batch header, or the end, stands at a position."""
        probe = np.empty(PROBE_BYTES, np.uint8)
        count = self._file.pread_into(probe, position, PROBE_BYTES)
        if count == 0:
            return True
        table = scan_headers(probe, 0, count, file_position=position)
        if len(table):
            return True
        if table.stop is StopReason.ZERO:
            return is_zero_from(self._file, position, probe)
        return table.stop is StopReason.INCOMPLETE and 0 < table.needed_bytes <= (
            self._file.size() - position
        )

    def _is_end(self, position: int) -> bool:
        return is_zero_from(self._file, position, np.empty(PROBE_BYTES, np.uint8))

    def _first_offset_at(self, position: int) -> int | None:
        """Read the first offset of the batch at a position; without one, where the segment ends."""
        if position < 0:
            return self.segment.end_offset_bound
        span = read_entry_span(self._file, position)
        if span is not None:
            return span.first_known_offset
        return self.segment.end_offset_bound if self._is_end(position) else None

    def _find_next(self, position: int) -> int:
        """Find the next good batch with another one, or the end, behind it.

        A value may hold the bytes of a whole batch; then others of the value follow. Where the
        first ones are all such, the first of them.
        """
        first = found = self._find_good(position)
        for _ in range(MAX_CANDIDATES):
            span = read_entry_span(self._file, found) if found >= 0 else None
            if span is None:
                break
            if self.follows_plausibly(found + span.size_bytes):
                return found
            found = self._find_good(found + 1)
        return first

    def _find_good(self, position: int) -> int:
        """Find the next good batch; the window is wider in a second pass, for larger batches."""
        size = self._file.size()
        for window in RESYNC_WINDOW_BYTES:
            found = self._find_next_within(position, size, min(window, size - position))
            if found >= 0 or size - position <= window:
                return found
        return -1

    def _find_next_within(self, position: int, size: int, window: int) -> int:
        buffer = np.empty(max(window, 0), np.uint8)
        while position < size:
            count = self._file.pread_into(buffer, position, len(buffer))
            found = find_next_batch(
                buffer,
                0,
                count,
                file_position=position,
                min_offset=self.next_offset,
                end_offset=self.segment.offset_limit,
            )
            if found >= 0:
                return int(found)
            if count < len(buffer) or position + count >= size:
                return -1
            position += max(count // 2, 1)
        return -1


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


def _cut(table: HeaderTable, rows: int, stop: StopReason) -> HeaderTable:
    """Keep the first rows of a table; it then ends where the next row stands."""
    return HeaderTable(
        entries=table.entries[:rows],
        end_position=int(table.position[rows]) if rows < len(table) else table.end_position,
        stop=stop,
        unordered_row=table.unordered_row if table.unordered_row < rows else -1,
    )


def _claimed_size(file: LogFile, position: int) -> int:
    """Read what a header says of its size; 0 where none stands there."""
    prefix = file.read_at(position, LOG_OVERHEAD)
    return 0 if len(prefix) < LOG_OVERHEAD else LOG_OVERHEAD + int(LOG_PREFIX.unpack(prefix)[1])


def _size(needed_bytes: int) -> str:
    return str(needed_bytes) if needed_bytes else "unknown"


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


def _warn_torn(path: str, position: int, measured: str) -> None:
    """Warn of a last batch that is cut off or half written."""
    _log.warning("%s ends at position %d: %s follow, a torn last batch", path, position, measured)
