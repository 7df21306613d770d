"""The search for where a log goes on after bytes that are no good batch.

Of a batch with a wrong checksum nothing that its header says is believed, least of all its length:
the log goes on where it says only if a batch stands there that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.io.reading import LogFile, is_zero_from
from spark_segmentlog.log.segment.entry_check import (
    find_proven_size,
    has_good_checksum,
    read_entry_span,
    tells_its_size,
)
from spark_segmentlog.record.layout import LOG_OVERHEAD, LOG_PREFIX, MAGIC_OFFSET, MAGIC_V2
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import StopReason, find_next_batch, scan_headers

if TYPE_CHECKING:
    from spark_segmentlog.log.segment.segment import Segment

RESYNC_WINDOW_BYTES: Final = (8 * 1024 * 1024, 128 * 1024 * 1024)
PROBE_BYTES: Final = 128
LARGE_BATCH_BYTES: Final = 64 * 1024 * 1024
MAX_CANDIDATES: Final = 16


class NextBatchSearch:
    """Looks into a segment's file around its bad bytes; nothing in memory is touched."""

    def __init__(self, segment: Segment, file: LogFile) -> None:
        self._segment = segment
        self._file = file

    def find_after(self, position: int, min_offset: int) -> int:
        """Find where the log goes on after a bad batch, or bad bytes; -1 where it does not.

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
        found = self._find_next(position + 1, min_offset)
        if not is_end or self._leads_to(found, end):
            return found
        after = read_entry_span(self._file, end)
        if after is None:
            return end if end < size else -1
        return end if has_good_checksum(self._file, end, after.size_bytes) else found

    def _follows_on(self, position: int, end: int) -> bool:
        """Tell whether what stands at the end of a bad batch, as its header has it, follows it.

        Messages may stand in a wrapper as they are, and look like some that follow.
        """
        bad, after = read_entry_span(self._file, position), read_entry_span(self._file, end)
        if self._file.read_at(position + MAGIC_OFFSET, 1) != bytes([MAGIC_V2]):
            return after is None or has_good_checksum(self._file, end, after.size_bytes)
        if bad is None or after is None:
            return False
        return after.first_known_offset == bad.last_offset + 1

    def _leads_to(self, position: int, end: int) -> bool:
        """Tell whether good batches stand from a position up to another one."""
        while 0 <= position < end:
            span = read_entry_span(self._file, position)
            if span is None or not has_good_checksum(self._file, position, span.size_bytes):
                return False
            position += span.size_bytes
        return position == end

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
            return is_zero_from(self._file, position)
        return table.stop is StopReason.INCOMPLETE and 0 < table.needed_bytes <= (
            self._file.size() - position
        )

    def is_end(self, position: int) -> bool:
        """Tell whether only zeros stand from a position to the end of the file."""
        return is_zero_from(self._file, position)

    def exact_first_offset_at(self, position: int) -> int | None:
        """Read the first offset of the entry at a position, that of a wrapper from its messages."""
        span = read_entry_span(self._file, position) if position >= 0 else None
        if span is None or not span.is_wrapper or span.size_bytes > LARGE_BATCH_BYTES:
            return self._first_offset_at(position)
        data = self._file.read_at(position, span.size_bytes)
        try:
            return next(iterate_messages(data, check_crcs=False)).offset
        except CorruptRecordError:
            return None

    def _first_offset_at(self, position: int) -> int | None:
        """Read the first offset of the batch at a position; without one, where the segment ends."""
        if position < 0:
            return self._segment.end_offset_bound
        span = read_entry_span(self._file, position)
        if span is not None:
            return span.first_known_offset
        return self._segment.end_offset_bound if self.is_end(position) else None

    def _find_next(self, position: int, min_offset: int) -> int:
        """Find the next good batch with another one, or the end, after it.

        A value may hold the bytes of a whole batch; then others of the value follow. Where the
        first ones are all such, the first of them.
        """
        first = found = self._find_good(position, min_offset)
        for _ in range(MAX_CANDIDATES):
            span = read_entry_span(self._file, found) if found >= 0 else None
            if span is None:
                break
            if self.follows_plausibly(found + span.size_bytes):
                return found
            found = self._find_good(found + 1, min_offset)
        return first

    def _find_good(self, position: int, min_offset: int) -> int:
        """Find the next good batch; the window is wider in a second pass, for larger batches."""
        size = self._file.size()
        for window in RESYNC_WINDOW_BYTES:
            found = self._find_next_within(position, min_offset, min(window, size - position))
            if found >= 0 or size - position <= window:
                return found
        return -1

    def _find_next_within(self, position: int, min_offset: int, window: int) -> int:
        size = self._file.size()
        buffer = np.empty(max(window, 0), np.uint8)
        while position < size:
            count = self._file.pread_into(buffer, position, len(buffer))
            found = find_next_batch(
                buffer,
                0,
                count,
                file_position=position,
                min_offset=min_offset,
                end_offset=self._segment.offset_limit,
            )
            if found >= 0:
                return int(found)
            if count < len(buffer) or position + count >= size:
                return -1
            position += max(count // 2, 1)
        return -1


def _claimed_size(file: LogFile, position: int) -> int:
    """Read what a header says of its size; 0 where none stands there."""
    prefix = file.read_at(position, LOG_OVERHEAD)
    return 0 if len(prefix) < LOG_OVERHEAD else LOG_OVERHEAD + int(LOG_PREFIX.unpack(prefix)[1])
