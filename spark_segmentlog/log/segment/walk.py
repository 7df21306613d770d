"""The walk over a segment's batches: from header to header, to where the log or the bytes end.

It alone reads a segment's bytes; whoever wants to know something of batches goes along with it.

What may be a log's normal end is decided here, once:

- nothing but zeros up to the end of the file: a preallocated file;
- in the log's last segment, a batch that the end of the file cuts off, unless good batches lie
  within it: then its length is wrong. While somebody may be writing the file
  (`WalkOptions.is_growing`), whatever lies within;
- in the last segment, a whole batch with a wrong checksum and nothing but zeros after it, where a
  crash can have left it: at or above the recovery point of a directory that was not shut cleanly
  (`WalkOptions.compares_last`, or where bad bytes are stepped over).

All other bytes that make no batch are bad: an error, or stepped over up to the next good batch,
which `next_batch` finds. So a walk that steps over bad bytes compares all checksums. A segment that
is not the last ends with a whole batch. Which batches stand in a wrong place is told in
`batch_order`. No bytes are bad of a file that was replaced meanwhile (`Segment.check_current`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_segmentlog.errors import (
    CorruptRecordError,
    CrcMismatchError,
    InvalidBatchError,
    describe_offsets,
)
from spark_segmentlog.log.io.reading import LogFile, is_zero_from
from spark_segmentlog.log.segment.batch_order import WRONG_CHECKSUM, BatchOrder, before_bad
from spark_segmentlog.log.segment.entry_check import has_good_checksum, read_entry_span
from spark_segmentlog.log.segment.next_batch import LARGE_BATCH_BYTES, NextBatchSearch
from spark_segmentlog.log.segment.pieces import Piece, PieceReader, ReadBuffer
from spark_segmentlog.log.segment.walk_options import STRICT, CorruptRange, WalkOptions
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import (
    HeaderTable,
    StopReason,
    check_crcs,
    scan_headers,
)
from spark_segmentlog.record.types import Bytes

if TYPE_CHECKING:
    from spark_segmentlog.log.segment.segment import Segment

HALF_WRITTEN: Final = "a batch with a wrong checksum"

_log = logging.getLogger(__name__)


class HeaderWalk:
    """Tables of batch headers, one a piece of the file that is in memory.

    While a table is in hand, `buffer` holds its batches, and `file_position` is that of the first
    byte of `buffer`. Tables are never empty. A batch that repeats offsets makes a table of its own.

    Parameters
    ----------
    file : LogFile
        Its `.log`, open for as long as the walk goes on.
    position : int
        Start of a batch.
    next_offset : int
        Offset after all that stands before `position`, where that is known.

    Attributes
    ----------
    position : int
        Where the next batch stands; at the end of the walk, the end of the good batches.
    known_offset : int
        `next_offset`, or after the offsets that are known to be missing for bad bytes.
    is_redirected : bool
        Whether a batch of the table in hand was found to be bad: the walk goes on after that.
    torn_end : str
        What of a torn last batch lies at the walk's end; empty where none does.
    """

    def __init__(
        self,
        segment: Segment,
        file: LogFile,
        options: WalkOptions = STRICT,
        *,
        position: int = 0,
        next_offset: int = 0,
        buffer: ReadBuffer | None = None,
    ) -> None:
        self.segment = segment
        self.file = file
        self.options = options
        self.position = position
        self.known_offset = segment.base_offset
        self.is_redirected = False
        self.torn_end = ""
        self._bad_reason = ""
        self._reader = PieceReader(file, position, buffer, options.first_read_bytes)
        self._search = NextBatchSearch(segment, file)
        next_offset = max(segment.base_offset, next_offset)
        self._order = BatchOrder(segment, file, self._reader, self._search, next_offset)
        self._is_checked = options.skip_corrupt and options.check_crcs

    @property
    def buffer(self) -> Bytes:
        """The piece of the file that is in memory."""
        return self._reader.buffer

    @property
    def file_position(self) -> int:
        """Position of the first byte of `buffer`."""
        return self._reader.file_position

    @property
    def next_offset(self) -> int:
        """Offset after all that the walk has met."""
        return self._order.next_offset

    @property
    def floor(self) -> int:
        """Offsets below it were met before the table in hand; 0 where they all lie above."""
        return self._order.floor

    def __iter__(self) -> Iterator[HeaderTable]:
        needed = 0
        while needed >= 0:
            table, is_end_of_file = self._next_table(needed)
            self.position = table.end_position
            if len(table):
                self._order.met(table)
                self.known_offset = max(self.known_offset, self.next_offset)
                yield table
            if self.is_redirected:
                # Who took the table found a batch to be bad.
                self.is_redirected = False
                needed = 0
            elif table.stop is StopReason.END and is_end_of_file:
                return
            else:
                needed = self._after_stop(table, is_end_of_file)

    def read_into(self, buffer: ReadBuffer) -> ReadBuffer:
        """Read into other memory from now on; gives what was read into until now."""
        return self._reader.exchange(buffer)

    def pieces(self) -> Iterator[Piece]:
        """Give each table with its bytes, which are good until the next one is asked for."""
        for table in self:
            yield Piece(
                table,
                self.buffer,
                self.file_position,
                self.floor,
                offset_before=self._order.offset_before,
                next_offset=self.next_offset,
            )

    def check_whole(self) -> None:
        """Refuse padding at the end of a closed segment; to be called when the walk is over.

        Raises
        ------
        InvalidBatchError
            With the position where its whole batches end.
        """
        size_bytes = self.file.size()
        if self.position != size_bytes:
            raise InvalidBatchError(
                f"closed segment of {size_bytes} bytes has whole batches up to {self.position} "
                "only; run segmentlog verify before its log is cleaned",
                source=self.segment.log_path,
                position=self.position,
            )

    def check_wrapper(self, table: HeaderTable, row: int, first: int, last: int) -> None:
        """Check the offsets of a wrapper that only its messages tell, by the entry after it.

        Raises
        ------
        InvalidBatchError
            The wrapper is misplaced.
        """
        self._order.check_wrapper(table, row, first, last)

    def _next_table(self, needed: int) -> tuple[HeaderTable, bool]:
        """Read the next piece of the file and its headers; tells whether the file ends with it."""
        start, end, is_end_of_file = self._reader.read(self.position, needed)
        table = scan_headers(
            self.buffer,
            start,
            end,
            file_position=self.file_position,
            first_offset=self.next_offset,
        )
        if self._is_checked:
            table = self._before_bad(table)
        table = self._order.judge(table)
        return self._before_torn(table), is_end_of_file

    def _before_bad(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before its first batch with a wrong checksum."""
        is_good = check_crcs(self.buffer, table, file_position=self.file_position)
        if is_good.all():
            return table
        row = int(is_good.argmin())
        self._bad_reason = self._worded(table, row)
        return before_bad(table, row, WRONG_CHECKSUM)

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

    # Where batches end

    def _before_torn(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before the half-written last batch of a crash."""
        last = len(table) - 1
        if not self.options.compares_last or last < 0 or table.stop is StopReason.INVALID:
            return table
        base_offset, position = int(table.base_offset[last]), int(table.position[last])
        size_bytes = int(table.size_bytes[last])
        if not self._is_half_written(base_offset, position, size_bytes):
            return table
        self._end_torn(position, HALF_WRITTEN)
        return before_bad(table, last, WRONG_CHECKSUM)

    def _after_stop(self, table: HeaderTable, is_end_of_file: bool) -> int:
        """Decide what follows a table: bytes to read next time, or -1 for the end."""
        if self.torn_end:
            return -1
        if table.stop is StopReason.ZERO:
            return self._after_zeros()
        if table.stop is StopReason.INVALID:
            if table.reason == WRONG_CHECKSUM and self._is_torn_at(table.needed_bytes):
                return -1
            if self._is_checked and table.reason == WRONG_CHECKSUM:
                # The one before it may have been bad too.
                return self._go_to_next_good(
                    self.position, self._bad_reason, start_offset=self.known_offset
                )
            return self._step_over(self.position, table.reason, length=table.needed_bytes)
        if table.stop is StopReason.INCOMPLETE:
            return self._after_incomplete(table, is_end_of_file)
        return 0

    def _after_zeros(self) -> int:
        if is_zero_from(self.file, self.position):
            _log.debug("%s: zeros from position %d on", self.segment.log_path, self.position)
            return -1
        self._reader.forget()
        return self._step_over(self.position, "zeros where a batch should start, and data after")

    def _after_incomplete(self, table: HeaderTable, is_end_of_file: bool) -> int:
        rest = self.file.size() - self.position
        if table.needed_bytes <= rest and not (is_end_of_file and table.needed_bytes == 0):
            if table.needed_bytes > LARGE_BATCH_BYTES and not self._is_good(table.needed_bytes):
                reason = f"batch of {table.needed_bytes} bytes with a wrong checksum"
                return self._step_over(self.position, reason, length=table.needed_bytes)
            self._reader.forget()
            return table.needed_bytes
        if rest <= 0 or self.options.is_growing:
            return -1
        # A batch that reaches beyond the file is a torn end, unless good batches lie within it:
        # then its length is wrong.
        position = self._search.find_after(self.position, self.next_offset)
        if position < 0 and self.segment.end_offset_bound is None:
            self._end_torn(self.position, f"{rest} bytes of a batch that is cut off")
            return -1
        among = "good batches among them" if position >= 0 else "another segment follows"
        reason = f"batch of {_size(table.needed_bytes)} bytes, {rest} are left, {among}"
        return self._step_over(self.position, reason)

    def _is_torn_at(self, size_bytes: int) -> bool:
        span = read_entry_span(self.file, self.position)
        first = None if span is None else span.first_known_offset
        base_offset = self.next_offset if first is None else first
        if not self._is_half_written(base_offset, self.position, size_bytes):
            return False
        self._end_torn(self.position, HALF_WRITTEN)
        return True

    def _is_half_written(self, base_offset: int, position: int, size_bytes: int) -> bool:
        """Tell whether a batch is the half-written last one of a crash: see the module's text."""
        return (
            self.segment.may_end_torn(base_offset)
            and is_zero_from(self.file, position + size_bytes)
            and not has_good_checksum(self.file, position, size_bytes)
        )

    def _end_torn(self, position: int, measured: str) -> None:
        self.torn_end = measured
        _warn_torn(self.segment.log_path, position, measured)

    def _is_good(self, size_bytes: int) -> bool:
        """Compare the checksum of a huge batch piece by piece, before memory is taken for it."""
        return has_good_checksum(self.file, self.position, size_bytes)

    # Bad bytes

    def _step_over(self, position: int, reason: str, *, length: int = 0) -> int:
        """Go on at the next good batch after bad bytes; -1 where there is none.

        Raises
        ------
        InvalidBatchError
            Bad bytes are an error here.
        """
        if self.options.skip_corrupt:
            return self._go_to_next_good(position, reason)
        self.segment.check_current(self.file)
        found = self._search.find_after(position, self.next_offset)
        kind = CrcMismatchError if reason == WRONG_CHECKSUM else InvalidBatchError
        raise kind(
            reason,
            source=self.segment.log_path,
            position=position,
            length=length,
            start_offset=self.next_offset,
            end_offset=self._search.exact_first_offset_at(found),
        )

    def _go_to_next_good(
        self, position: int, reason: str, *, start_offset: int | None = None
    ) -> int:
        """Go on at the next good batch after a position; -1 where there is none."""
        found = self._search.find_after(position, self.next_offset)
        end = found if found >= 0 else self.file.size()
        end_offset = self._search.exact_first_offset_at(found)
        self.report(
            position, end - position, reason, start_offset=start_offset, end_offset=end_offset
        )
        self.position = end
        return 0 if found >= 0 else -1

    def step_over_batch(self, table: HeaderTable, position: int, reason: str) -> None:
        """Step over a batch of the table in hand that is found to be bad, and tell of it.

        What the table says of the batches after it may have come from its header: the walk looks
        at these again.
        """
        start_offset, end_offset = self.missing_offsets(table, position)
        self._order.go_back(table, int(np.searchsorted(table.position, position)))
        found = self._search.find_after(position, self.next_offset)
        end = found if found >= 0 else self.file.size()
        self.report(
            position, end - position, reason, start_offset=start_offset, end_offset=end_offset
        )
        self.position = end
        self.is_redirected = True

    def missing_offsets(self, table: HeaderTable, position: int) -> tuple[int, int | None]:
        """Give the offsets [start, end) that a bad batch of the table in hand leaves missing.

        By the batches beside it, since its own header may be wrong; the end is None where none
        stands after it, and the log's end is not known by another segment.
        """
        row = int(np.searchsorted(table.position, position))
        start = self._order.offset_in_hand(table, row)
        return start, self._offset_found_after(position, self.next_offset)

    def missing_offsets_in(self, piece: Piece, position: int) -> tuple[int, int | None]:
        """Give the same for a bad batch of any piece of the walk, wherever the walk is by now."""
        row = int(np.searchsorted(piece.table.position, position))
        start = int(piece.table.last_offset[row - 1]) + 1 if row else piece.offset_before
        return start, self._offset_found_after(position, piece.next_offset)

    def _offset_found_after(self, position: int, min_offset: int) -> int | None:
        found = self._search.find_after(position, min_offset)
        return self._search.exact_first_offset_at(found)

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
        self.segment.check_current(self.file)
        start = self.next_offset if start_offset is None else start_offset
        if end_offset is not None:
            end_offset = min(end_offset, self.segment.offset_limit)
        self.known_offset = max(self.known_offset, start if end_offset is None else end_offset)
        if not self.options.is_reported(start, end_offset):
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
        if self.options.on_corrupt is not None:
            self.options.on_corrupt(found)


def _size(needed_bytes: int) -> str:
    return str(needed_bytes) if needed_bytes else "unknown"


def _warn_torn(path: str, position: int, measured: str) -> None:
    """Warn of a last batch that is cut off or half written."""
    _log.warning("%s ends at position %d: %s follow, a torn last batch", path, position, measured)
