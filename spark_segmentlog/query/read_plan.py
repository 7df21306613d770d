"""Reads as a whole, without Spark: options and predicates to splits (on the driver), a split to
Arrow batches (in a task).

The driver lists the directories, fixes where each partition starts and ends, and cuts that into
splits; a split carries the segments it needs, so a task opens their files and nothing else. All of
the driver's offsets are as of one commit of this library.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.partition.segment_list import SegmentList
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import CorruptRange
from spark_segmentlog.query import offsets, planning
from spark_segmentlog.query.offsets import (
    EARLIEST,
    EarliestOffsets,
    LatestOffsets,
    OffsetLimit,
    SpecificOffsets,
)
from spark_segmentlog.query.planning import EVERYTHING, PlannedRange, RowBounds
from spark_segmentlog.query.read_options import Mode, ReadOptions, View
from spark_segmentlog.query.schema import RowShape
from spark_segmentlog.record.read.record_filter import RecordFilter

SMALL_ARROW_ROWS: Final = 4096
SEGMENTS_OF_A_LISTING: Final = 500
"""Segments whose rows about them take one task about as long as it takes to start it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets [start, end) of one partition, and the neighbouring segments that hold them.

    `read_range` is that of the whole read, where it is cut into slices. `log` is the partition, for
    a reader in this process that is yet to find its last stable offset.
    """

    segments: tuple[Segment, ...]
    start_offset: int
    end_offset: int
    read_range: tuple[int, int] | None = None
    log: PartitionLog | None = None


Split = tuple[Slice, ...]


class LogBounds:
    """Where one partition starts and ends, as the isolation level and the high watermark say."""

    def __init__(
        self, log: PartitionLog, options: ReadOptions, *, finds_stable_offset: bool = False
    ) -> None:
        self._log = log
        self._options = options
        self._finds_stable_offset = finds_stable_offset

    @property
    def log_start_offset(self) -> int:
        """First offset that is there."""
        return self._log.log_start_offset

    @property
    def remote_start_offset(self) -> int | None:
        """Where the log starts in remote storage; the views are of what is there alone."""
        return self._log.remote_start_offset if self._options.view.is_of_records else None

    @cached_property
    def last_base_offset(self) -> int:
        """Base offset of the last segment: the log ends there or after it."""
        # An open commit hides what lies after the offset where the log ended before it.
        is_capped = self._log.state.visible_range(self._log.topic_partition) is not None
        if is_capped or len(self._log.base_offsets) == 0:
            return self.log_start_offset
        return max(int(self._log.base_offsets[-1]), self.log_start_offset)

    @property
    def is_always_bounded(self) -> bool:
        """Whether a read may have to stop before the log ends."""
        return self._options.is_read_committed or self._options.until_high_watermark

    def log_end_offset(self) -> int:
        """Offset after the last record."""
        return self._log.log_end_offset

    def latest_offset(self) -> int:
        """End of what may be read.

        Raises
        ------
        OptionValueError
            The high watermark is asked for, and no checkpoint tells it.
        """
        end = self._visible_end_offset()
        if self._options.is_read_committed:
            end = min(end, self._log.last_stable_offset())
        return max(end, self.log_start_offset)

    def end_of_read(self) -> int:
        """Offset where a read has to stop by what is known before it.

        Raises
        ------
        OptionValueError
            The high watermark is asked for, and no checkpoint tells it.
        """
        if self._finds_stable_offset:
            return max(self._visible_end_offset(), self.log_start_offset)
        return self.latest_offset()

    def _visible_end_offset(self) -> int:
        end = self._log.log_end_offset
        return min(end, self._high_watermark()) if self._options.until_high_watermark else end

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """Offset of the first record at or after a timestamp."""
        found = self._log.offset_for_timestamp(timestamp_ms)
        return None if found is None else found[0]

    def _high_watermark(self) -> int:
        mark = self._log.high_watermark
        if mark is None:
            raise OptionValueError(
                f"option 'untilHighWatermark' is 'true', but {self._log.state.path} has no "
                f"replication-offset-checkpoint that names {self._log.topic_partition}"
            )
        return mark


@dataclass(frozen=True, slots=True)
class _SegmentShares:
    """Segments of one partition, and the offsets of a range that lie in each."""

    segments: SegmentList
    ranges: list[OffsetRange]


@dataclass(frozen=True, slots=True)
class ResolvedRead:
    """Offset ranges of a read, and the partitions they are of.

    None of the ranges is empty, but for those of the view of segments.
    """

    ranges: tuple[OffsetRange, ...]
    logs: Mapping[TopicPartition, PartitionLog]


def open_log_manager(options: ReadOptions) -> LogManager:
    """List everything below the paths of a read."""
    return LogManager.open(
        options.paths,
        skip_corrupt=options.mode is not Mode.FAILFAST,
        check_crcs=options.check_crcs,
        remote=options.remote,
    )


def partitions_asked_for(options: ReadOptions, manager: LogManager) -> list[TopicPartition]:
    """Pick the partitions of a read, and tell when only internal topics are left out.

    Raises
    ------
    UnknownTopicOrPartitionError
        A topic or partition that the options name is not there.
    """
    chosen = planning.choose_partitions(options.selection, manager.topic_partitions, manager.named)
    if not chosen and manager.topic_partitions:
        _log.warning(
            "none of the topics %s is read; those named __* are read only when subscribe or assign "
            "names them",
            ", ".join(manager.topics()),
        )
    return chosen


def resolve_read(
    options: ReadOptions, bounds: RowBounds = EVERYTHING, *, finds_stable_offset: bool = False
) -> ResolvedRead:
    """Fix where a read starts and ends in each partition.

    Parameters
    ----------
    finds_stable_offset : bool
        Whether the read stops at the last stable offset by itself, so that nobody looks for it now.

    Raises
    ------
    OptionValueError, DataLossError, UnknownTopicOrPartitionError
    LogPathNotFoundError, NotALogDirectoryError, EmptyLogDirectoryError, LogPermissionError
    """
    manager = open_log_manager(options)
    chosen = partitions_asked_for(options, manager)
    offsets.check_assigned(options.starting, chosen, position="start")
    offsets.check_assigned(options.ending, chosen, position="end")
    wanted = bounds.choose(chosen)
    # The ends are read together, so that no commit is seen on some of the partitions only.
    manager.offset_bounds(
        [
            topic_partition
            for topic_partition in wanted
            if _needs_end(topic_partition, manager.partition_log(topic_partition), options, bounds)
        ]
    )
    logs = {topic_partition: manager.partition_log(topic_partition) for topic_partition in wanted}
    ranges = []
    for topic_partition, log in logs.items():
        log_bounds = LogBounds(log, options, finds_stable_offset=finds_stable_offset)
        found = _resolve_range(topic_partition, log_bounds, options, bounds)
        _check_segments(log, log_bounds, found, options)
        _check_log_end(log, log_bounds, found.end_offset, options)
        ranges.append(found)
    if options.view is not View.SEGMENTS:
        ranges = [found for found in ranges if found.start_offset < found.end_offset]
    return ResolvedRead(tuple(ranges), logs)


def _check_log_end(
    log: PartitionLog, log_bounds: LogBounds, end_offset: int, options: ReadOptions
) -> None:
    """Tell of offsets after the log's end that were there once, where a read reaches its end.

    Raises
    ------
    DataLossError
        There are some, and neither ``failOnDataLoss`` nor ``mode`` says to leave them out.
    """
    planned, end_offset = end_offset, _end_that_matters(log, log_bounds, end_offset, options)
    if end_offset > planned:
        for gap in log.resolved(lambda: log.lost_after(planned)):
            reason = "the segment ends before, and its index names some of them"
            _tell_lost(log, gap.start_offset, gap.end_offset, reason, options)
    if len(log.base_offsets) and end_offset < int(log.base_offsets[-1]):
        return
    if end_offset < log.log_end_offset:
        return
    lost, beyond = log.lost_at_end, log.lost_by_high_watermark
    if lost is not None:
        _tell_lost(log, *lost, f"the log ends below its recovery point {lost[1]}", options)
    elif beyond is not None:
        _log.warning(
            "%s ends at offset %d, below its high watermark %d: a crash may have taken offsets "
            "%d to %d",
            log.directory,
            *beyond,
            beyond[0],
            beyond[1] - 1,
        )


def _end_that_matters(
    log: PartitionLog, log_bounds: LogBounds, end_offset: int, options: ReadOptions
) -> int:
    """Give the offset below which offsets that are gone matter to a read up to an offset.

    What holds back the rows of transactions may be that the end of one of them is gone.
    """
    if options.is_read_committed and end_offset == log_bounds.end_of_read():
        return log.log_end_offset
    return end_offset


def _check_segments(
    log: PartitionLog, log_bounds: LogBounds, offset_range: OffsetRange, options: ReadOptions
) -> None:
    """Tell of segments that are gone from a range, or from before or after the whole log."""
    first = int(log.base_offsets[0]) if len(log.base_offsets) else 0
    for lost in log.lost_segments:
        end_offset = _end_that_matters(log, log_bounds, offset_range.end_offset, options)
        is_inside = lost.start_offset < end_offset and offset_range.start_offset < lost.end_offset
        is_in_front = lost.end_offset == first == offset_range.start_offset
        is_behind = lost.start_offset >= log.log_end_offset <= end_offset
        if is_inside or is_in_front or is_behind:
            reason = "the .log of the segment is gone, its index is there"
            _tell_lost(log, lost.start_offset, lost.end_offset, reason, options)


def _tell_lost(
    log: PartitionLog, start_offset: int, end_offset: int, reason: str, options: ReadOptions
) -> None:
    wanted = OffsetRange(log.topic_partition, start_offset, end_offset)
    error = offsets.could_not_read(wanted, f"{reason}, in {log.directory}")
    if options.fail_on_data_loss and options.mode is Mode.FAILFAST:
        raise error
    _log.warning("%s", error)


def _needs_end(
    topic_partition: TopicPartition, log: PartitionLog, options: ReadOptions, bounds: RowBounds
) -> bool:
    """Tell whether the end of a log must be read to know the range.

    Not for ranges below the last segment, so that a look at old offsets opens no file.
    """
    log_bounds = LogBounds(log, options)
    last_base = log_bounds.last_base_offset
    start = _known_offset(options.starting, topic_partition)
    end = _known_offset(options.ending, topic_partition)
    if log_bounds.is_always_bounded or start is None or start > last_base:
        return True
    if end is None:
        return not isinstance(options.ending, LatestOffsets) or bounds.end_offset > last_base
    return end > last_base


def _known_offset(limit: OffsetLimit, topic_partition: TopicPartition) -> int | None:
    """Give the offset that a limit names as it stands; None where the log must be asked."""
    if isinstance(limit, EarliestOffsets):
        return EARLIEST
    if isinstance(limit, SpecificOffsets):
        offset = limit.offsets[topic_partition]
        return None if offset == offsets.LATEST else offset
    return None


def _resolve_range(
    topic_partition: TopicPartition,
    log_bounds: LogBounds,
    options: ReadOptions,
    bounds: RowBounds,
) -> OffsetRange:
    start = offsets.resolve_start(
        options.starting, topic_partition, log_bounds, options.missing_timestamp
    )
    end = offsets.resolve_end(options.ending, topic_partition, log_bounds)
    last_base = log_bounds.last_base_offset
    if end is not None:
        available = _check_range(OffsetRange(topic_partition, start, end), log_bounds, options)
        offsets.check_resolved(topic_partition, available.start_offset, available.end_offset)
    elif not log_bounds.is_always_bounded and max(start, bounds.end_offset) <= last_base:
        available = _check_range(
            OffsetRange(topic_partition, start, last_base), log_bounds, options
        )
    else:
        latest = log_bounds.end_of_read()
        asked = OffsetRange(topic_partition, start, max(start, latest))
        available = replace(_check_range(asked, log_bounds, options), end_offset=latest)
    last = available.end_offset
    if log_bounds.is_always_bounded:
        last = min(last, log_bounds.end_of_read())
    return OffsetRange(
        topic_partition,
        max(available.start_offset, bounds.start_offset),
        min(last, bounds.end_offset),
    )


def _check_range(wanted: OffsetRange, log_bounds: LogBounds, options: ReadOptions) -> OffsetRange:
    return offsets.check_available(
        wanted, log_bounds, fail_on_data_loss=options.fail_on_data_loss, warn=_log.warning
    )


# Splits


def plan_splits(options: ReadOptions, bounds: RowBounds = EVERYTHING) -> list[Split]:
    """Cut a read into what one task reads each; none where there is nothing to read."""
    read = resolve_read(options, bounds)
    return cut_into_splits(read, options, bounds)


def plan_whole_ranges(options: ReadOptions, bounds: RowBounds = EVERYTHING) -> list[Split]:
    """Make one split of each partition, for a reader that takes them one after the other."""
    # A scan that passes segments over does not meet all transactions.
    finds_stable_offset = (
        options.is_read_committed and options.view.is_of_records and bounds.min_timestamp_ms is None
    )
    read = resolve_read(options, bounds, finds_stable_offset=finds_stable_offset)
    if options.view is View.SEGMENTS:
        return _splits_of_listings(read, bounds)
    splits = _splits_of_ranges(read.ranges, read.logs, bounds)
    return _with_logs(splits, read.logs) if finds_stable_offset else splits


def _with_logs(splits: list[Split], logs: Mapping[TopicPartition, PartitionLog]) -> list[Split]:
    return [
        tuple(replace(part, log=logs[part.segments[0].topic_partition]) for part in split)
        for split in splits
    ]


def cut_into_splits(
    read: ResolvedRead, options: ReadOptions, bounds: RowBounds = EVERYTHING
) -> list[Split]:
    """Cut resolved ranges as the options say: by number, by records, by bytes or by segments."""
    if options.view in (View.TRANSACTIONS, View.CLUSTER_METADATA):
        # A transaction may reach over several segments, and so may what a name in one stands for.
        return _splits_of_ranges(read.ranges, read.logs, bounds)
    if options.view is View.SEGMENTS:
        return _splits_of_listings(read, bounds)
    if not options.view.is_of_records:
        return _splits_of_segments(read, bounds)
    if options.min_partitions is not None or options.max_records_per_partition is not None:
        divided = planning.divide_ranges(
            read.ranges,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
        return _with_read_range(_splits_of_ranges(divided, read.logs, bounds), read)
    if options.max_partition_bytes is not None:
        splits = _splits_of_bytes(read, options.max_partition_bytes, bounds)
        return _with_read_range(splits, read)
    return _with_read_range(_splits_of_segments(read, bounds), read)


def _with_read_range(splits: Iterable[Split], read: ResolvedRead) -> list[Split]:
    """Let slices know the range that they are cut from: bad bytes are reported once a read."""
    whole = {
        wanted.topic_partition: (wanted.start_offset, wanted.end_offset) for wanted in read.ranges
    }
    return [
        tuple(replace(part, read_range=whole[part.segments[0].topic_partition]) for part in split)
        for split in splits
    ]


def _splits_of_ranges(
    ranges: Iterable[OffsetRange],
    logs: Mapping[TopicPartition, PartitionLog],
    bounds: RowBounds,
) -> list[Split]:
    slices = (_slice(logs[wanted.topic_partition], wanted, bounds) for wanted in ranges)
    return [(part,) for part in slices if part.segments]


def _splits_of_listings(read: ResolvedRead, bounds: RowBounds) -> list[Split]:
    """Put all segments of a partition in one split, so that its rows are of one moment."""
    splits: list[Split] = []
    waiting: list[Slice] = []
    for wanted_range in read.ranges:
        log = read.logs[wanted_range.topic_partition]
        # A segment that is still empty starts where the log ends, unless a commit is making it.
        is_capped = log.state.visible_range(wanted_range.topic_partition) is not None
        is_whole = not is_capped and wanted_range.end_offset >= log.log_end_offset
        wanted = (
            replace(wanted_range, end_offset=wanted_range.end_offset + 1)
            if is_whole
            else wanted_range
        )
        found = _slice(log, wanted, bounds)
        if found.segments:
            waiting.append(replace(found, end_offset=wanted_range.end_offset))
        if sum(len(each.segments) for each in waiting) >= SEGMENTS_OF_A_LISTING:
            splits.append(tuple(waiting))
            waiting = []
    return [*splits, tuple(waiting)] if waiting else splits


def _splits_of_segments(read: ResolvedRead, bounds: RowBounds) -> list[Split]:
    shares = _segment_shares(read, bounds)
    is_few = sum(len(shared.ranges) for shared in shares) <= planning.MAX_UNPACKED_SEGMENTS
    # Below an upper time bound most segments give no row, but each must be looked through, since
    # timestamps may be out of order. That takes less time than a task does, so they share tasks.
    if is_few and bounds.max_timestamp_ms is None:
        return [
            (Slice((segment,), share.start_offset, share.end_offset),)
            for shared in shares
            for segment, share in zip(shared.segments, shared.ranges, strict=True)
        ]
    pieces = [
        PlannedRange(share, size_bytes)
        for shared in shares
        for share, size_bytes in zip(
            shared.ranges, shared.segments.sizes_bytes().tolist(), strict=True
        )
    ]
    open_cost_bytes = 0 if is_few else planning.OPEN_COST_BYTES
    packs = planning.pack(pieces, planning.PACKED_BYTES, open_cost_bytes=open_cost_bytes)
    return _splits_of_packs(packs, read)


def _splits_of_bytes(read: ResolvedRead, max_bytes: int, bounds: RowBounds) -> list[Split]:
    pieces = []
    for shared in _segment_shares(read, bounds):
        sizes_bytes = shared.segments.sizes_bytes().tolist()
        for index, size_bytes in enumerate(sizes_bytes):
            share = shared.ranges[index]
            if size_bytes <= max_bytes:
                pieces.append(PlannedRange(share, size_bytes))
            else:
                pieces += _cut_segment(shared.segments[index], share, size_bytes, max_bytes)
    return _splits_of_packs(planning.pack(pieces, max_bytes), read)


def _splits_of_packs(packs: Iterable[list[OffsetRange]], read: ResolvedRead) -> list[Split]:
    return [
        tuple(_slice(read.logs[part.topic_partition], part, EVERYTHING) for part in pack)
        for pack in packs
    ]


def _segment_shares(read: ResolvedRead, bounds: RowBounds) -> list[_SegmentShares]:
    """Cut ranges where segments begin; leaves segments out that lie below a lower time bound."""
    shares = []
    for whole in read.ranges:
        segments = _segments(read.logs[whole.topic_partition], whole, bounds)
        ranges = planning.cut_at_segments(whole, segments.base_offsets, segments.end_offset_bounds)
        shares.append(_SegmentShares(segments, ranges))
    return shares


def _segments(log: PartitionLog, offset_range: OffsetRange, bounds: RowBounds) -> SegmentList:
    segments = log.segments_between(offset_range.start_offset, offset_range.end_offset)
    if bounds.min_timestamp_ms is None:
        return segments
    return segments.reaching_timestamp(bounds.min_timestamp_ms)


def _slice(log: PartitionLog, offset_range: OffsetRange, bounds: RowBounds) -> Slice:
    segments = tuple(_segments(log, offset_range, bounds))
    return Slice(segments, offset_range.start_offset, offset_range.end_offset)


def _cut_segment(
    segment: Segment, share: OffsetRange, size_bytes: int, max_bytes: int
) -> list[PlannedRange]:
    with segment.offset_index() as index:
        # Its entries say where to cut, not what is read: a wrong one costs balance, no row.
        entries = index.entries() if index.is_well_formed(whole=True) else index.entries()[:0]
    entries = entries[entries["position"] < size_bytes]
    last_offsets = entries["relative_offset"].astype(np.int64) + segment.base_offset
    positions = entries["position"].astype(np.int64)
    return planning.cut_at_index(share, size_bytes, last_offsets, positions, max_bytes)


# In a task


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What a task must know besides its split; travels once with the reader."""

    options: ReadOptions
    shape: RowShape
    bounds: RowBounds = EVERYTHING
    read_ahead: bool = False

    @property
    def gives_corrupt_rows(self) -> bool:
        """Whether bad bytes become rows: only where the schema has a column for them."""
        is_permissive = self.options.mode is Mode.PERMISSIVE
        return is_permissive and self.shape.corrupt_place is not None

    def narrowed(self, bounds: RowBounds) -> ReadRequest:
        """Give the same request for fewer rows."""
        return replace(self, bounds=self.bounds.intersect(bounds))

    def scan_options(self, part: Slice) -> ScanOptions:
        """Say what a scan of a slice gives."""
        return ScanOptions(
            columns=self.shape.columns,
            record_filter=RecordFilter(
                start_offset=part.start_offset,
                end_offset=part.end_offset,
                min_timestamp_ms=self.bounds.min_timestamp_ms,
                max_timestamp_ms=self.bounds.max_timestamp_ms,
            ),
            isolation_level=self.options.isolation_level,
            check_crcs=self.options.check_crcs,
            skip_corrupt=self.options.mode is not Mode.FAILFAST,
            fail_on_data_loss=self.options.fail_on_data_loss,
            max_decompressed_bytes=self.options.max_decompressed_bytes,
            read_ahead=self.read_ahead,
            read_range=part.read_range,
        )


def read_split(split: Split, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split, in the order of its slices."""
    batches = (batch for part in split for batch in _read_slice(part, request))
    return joined(batches) if len(split) > 1 else batches


def _read_slice(part: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    corrupt: list[CorruptRange] = []
    for batch in scan_segments(
        part.segments,
        request.scan_options(part),
        on_corrupt=corrupt.append if request.gives_corrupt_rows else None,
        partition_log=part.log,
        finds_stable_offset=part.log is not None,
    ):
        yield request.shape.fit(batch)
        if corrupt:
            yield request.shape.corrupt_rows(_taken(corrupt))
    if corrupt:
        yield request.shape.corrupt_rows(_taken(corrupt))


def _taken(corrupt: list[CorruptRange]) -> list[dict[str, Any]]:
    rows = [
        {
            "path": lost.path,
            "position": lost.position,
            "length": lost.length,
            "reason": lost.reason,
            "startOffset": lost.start_offset,
            "endOffset": lost.end_offset,
        }
        for lost in corrupt
    ]
    corrupt.clear()
    return rows


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small Arrow batches together, since each one has its price in Spark."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= SMALL_ARROW_ROWS:
            yield _join(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if batches[0].num_columns == 0:
        return _rows_without_columns(sum(batch.num_rows for batch in batches))
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _rows_without_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["nothing"]).select([])
