"""Which offsets a read covers: options and predicates to one range a partition, on the driver.

All offsets are as of one commit of this library. What is gone is told here: before a range, in it,
and after the log's end.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from spark_segmentlog.log.io.as_listed import waiting_threads
from spark_segmentlog.log.io.threads import in_parallel
from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.lost_ranges import find_lost_at_end, find_lost_by_high_watermark
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.query import offsets, planning
from spark_segmentlog.query.log_bounds import LogBounds
from spark_segmentlog.query.offsets import (
    EARLIEST,
    EarliestOffsets,
    LatestOffsets,
    OffsetLimit,
    SpecificOffsets,
)
from spark_segmentlog.query.planning import EVERYTHING, RowBounds
from spark_segmentlog.query.read_options import ReadOptions, View

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResolvedRead:
    """Offset ranges of a read, and the partitions they are of.

    None of the ranges is empty, but for those of the view of segments.
    """

    ranges: tuple[OffsetRange, ...]
    logs: Mapping[TopicPartition, PartitionLog]


def open_log_manager(options: ReadOptions, topics: Collection[str] = ()) -> LogManager:
    """List everything below the paths of a read, or some topics alone if they are there."""
    return LogManager.open(
        options.paths,
        skip_corrupt=options.skips_corrupt,
        check_crcs=options.check_crcs,
        remote=options.remote,
        filesystem=options.filesystem,
        remote_filesystem=options.filesystem,
        topics=topics,
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
    manager = open_log_manager(options, options.selection.named_topics)
    chosen = partitions_asked_for(options, manager)
    offsets.check_assigned(options.starting, chosen, position="start")
    offsets.check_assigned(options.ending, chosen, position="end")
    wanted = bounds.choose(chosen)
    # The ends are read together, so that no commit is seen on some of the partitions only.
    manager.offset_bounds(
        [
            topic_partition
            for topic_partition in wanted
            if _needs_end(manager.partition_log(topic_partition), options, bounds)
        ]
    )
    logs = {topic_partition: manager.partition_log(topic_partition) for topic_partition in wanted}

    def resolve(log: PartitionLog) -> OffsetRange:
        log_bounds = LogBounds(log, options, finds_stable_offset=finds_stable_offset)
        found = _resolve_range(log.topic_partition, log_bounds, options, bounds)
        _check_segments(log, log_bounds, found, options)
        _check_log_end(log, log_bounds, found.end_offset, options)
        return found

    threads = max((waiting_threads(log.storage) for log in logs.values()), default=1)
    ranges = in_parallel(resolve, [*logs.values()], threads)
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
    lost, beyond = find_lost_at_end(log), find_lost_by_high_watermark(log)
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
        is_after = lost.start_offset >= log.log_end_offset <= end_offset
        if is_inside or is_in_front or is_after:
            reason = "the .log of the segment is gone, its index is there"
            _tell_lost(log, lost.start_offset, lost.end_offset, reason, options)


def _tell_lost(
    log: PartitionLog, start_offset: int, end_offset: int, reason: str, options: ReadOptions
) -> None:
    wanted = OffsetRange(log.topic_partition, start_offset, end_offset)
    error = offsets.could_not_read(wanted, f"{reason}, in {log.directory}")
    if options.fail_on_data_loss and not options.skips_corrupt:
        raise error
    _log.warning("%s", error)


def _needs_end(log: PartitionLog, options: ReadOptions, bounds: RowBounds) -> bool:
    """Tell whether the end of a log must be read to know the range.

    Not for ranges below the last segment, so that a look at old offsets opens no file.
    """
    log_bounds = LogBounds(log, options)
    last_base = log_bounds.last_base_offset
    start = _known_offset(options.starting, log.topic_partition)
    end = _known_offset(options.ending, log.topic_partition)
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
        _check_start(topic_partition, start, log_bounds, options)
    last = available.end_offset
    if log_bounds.is_always_bounded:
        last = min(last, log_bounds.end_of_read())
    return OffsetRange(
        topic_partition,
        max(available.start_offset, bounds.start_offset),
        min(last, bounds.end_offset),
    )


def _check_start(
    topic_partition: TopicPartition, start: int, log_bounds: LogBounds, options: ReadOptions
) -> None:
    """Refuse a start that is there, but above where a bounded read has to stop."""
    is_named = isinstance(options.starting, SpecificOffsets)
    if is_named and log_bounds.is_always_bounded and start <= log_bounds.log_end_offset():
        offsets.check_resolved(topic_partition, start, log_bounds.latest_offset())


def _check_range(wanted: OffsetRange, log_bounds: LogBounds, options: ReadOptions) -> OffsetRange:
    return offsets.check_available(
        wanted, log_bounds, fail_on_data_loss=options.fail_on_data_loss, warn=_log.warning
    )
