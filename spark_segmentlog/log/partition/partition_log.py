"""One partition's log as others use it: `ListedLog` with lookups, fetches and scans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from spark_segmentlog.errors import OffsetOutOfRangeError
from spark_segmentlog.log.io.signature import signature_of
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.partition.fetch import FetchedBatches, fetch
from spark_segmentlog.log.partition.listed_log import RESOLVE_ATTEMPTS, ListedLog
from spark_segmentlog.log.partition.lost_ranges import tell_of_gone
from spark_segmentlog.log.partition.make_segment import make_segment
from spark_segmentlog.log.partition.pursuit import SegmentPursuit
from spark_segmentlog.log.partition.scan import READ_COMMITTED, scan_segments
from spark_segmentlog.log.partition.time_lookup import find_timestamp
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import OnCorrupt

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class PartitionLog(ListedLog):
    """A partition's log and what is asked of it: rows, batches, offsets of times."""

    def visit_segments(
        self,
        visit: Callable[[Segment, int], Iterator[tuple[_T, int]]],
        start_offset: int = 0,
        end_offset: int = MAX_OFFSET,
    ) -> Iterator[_T]:
        """Give what a visit to each segment gives, whatever is renamed meanwhile.

        `visit` is that of `SegmentPursuit.visit`. Offsets that retention takes away meanwhile are
        passed over.
        """
        segments = self.segments_between(start_offset, end_offset)
        if not segments:
            return
        pursuit = SegmentPursuit(segments, end_offset, tell_of_gone(self.directory))
        yield from pursuit.visit(start_offset, visit)

    def looked_at(self, segment: Segment, look: Callable[[Segment], Sequence[_T]]) -> Sequence[_T]:
        """Give what a look finds to be wrong with a segment that was the same all the while.

        Nothing found is believed at once. What was found in files that were replaced or written
        meanwhile is looked for again.

        Raises
        ------
        FileNotFoundError
            It is gone.
        """
        for _ in range(RESOLVE_ATTEMPTS):
            before = signature_of(segment.storage, segment.log_path)
            found = look(segment)
            if not found:
                break
            self.list_again()
            now = make_segment(self, segment.base_offset)
            if now == segment and signature_of(segment.storage, segment.log_path) == before:
                break
            segment = now
        return found

    def offset_for_timestamp(
        self, timestamp_ms: int, start_offset: int = 0
    ) -> tuple[int, int] | None:
        """Find the first offset whose record timestamp is at or above a time, from one on.

        Control records count, as they do for a broker.

        Returns
        -------
        tuple of (offset, timestamp in ms), or None
            None where no record is that late.
        """
        return self.resolved(lambda: find_timestamp(self, timestamp_ms, start_offset))

    def scan(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        options: ScanOptions | None = None,
        on_corrupt: OnCorrupt | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows of [start, end), which defaults to the whole log, in the order of offsets."""
        options = options or ScanOptions()
        wanted = options.record_filter
        start = max(self.log_start_offset, wanted.start_offset, start_offset or 0)
        end = min(wanted.end_offset, MAX_OFFSET if end_offset is None else end_offset)
        is_whole = wanted.min_timestamp_ms is None
        if end > self.log_start_offset:
            is_known = options.isolation_level == READ_COMMITTED and not is_whole
            end = min(end, self.last_stable_offset() if is_known else self.log_end_offset)
        segments = self.segments_between(start, end)
        if wanted.min_timestamp_ms is not None:
            segments = segments.reaching_timestamp(wanted.min_timestamp_ms)
        yield from scan_segments(
            segments,
            _with_range(options, start, end),
            on_corrupt=on_corrupt,
            partition_log=self,
            finds_stable_offset=is_whole,
        )

    def read(self, start_offset: int, max_bytes: int) -> FetchedBatches:
        """Fetch whole record batches as a broker does, at least one though it be larger.

        Raises
        ------
        OffsetOutOfRangeError
            `start_offset` is below the log's start or beyond its end.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} of {self.topic_partition} is out of range: the log holds "
                f"offsets from {self.log_start_offset} (inclusive) to {self.log_end_offset} "
                "(exclusive)"
            )
        return self.resolved(lambda: fetch(self, start_offset, max_bytes))


def while_it_is_there(log: PartitionLog, items: Iterable[_T]) -> Iterator[_T]:
    """Give items of a partition until there are no more, or its directory is deleted meanwhile."""
    try:
        yield from items
    except FileNotFoundError:
        if log.storage.exists(log.directory):
            raise
        _log.warning("%s is gone: it was deleted while it was looked at", log.directory)


def _with_range(options: ScanOptions, start_offset: int, end_offset: int) -> ScanOptions:
    return replace(
        options,
        record_filter=replace(
            options.record_filter, start_offset=start_offset, end_offset=end_offset
        ),
    )
