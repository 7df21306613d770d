"""Cuts the ranges of a read into splits, one for each task, on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.segment_list import SegmentList
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.query import planning
from spark_segmentlog.query.planning import EVERYTHING, PlannedRange, RowBounds
from spark_segmentlog.query.read_options import ReadOptions, View
from spark_segmentlog.query.read_range import ResolvedRead, resolve_read
from spark_segmentlog.query.split_reader import Slice, Split

SEGMENTS_OF_A_LISTING: Final = 500
"""Segments whose rows about them take one task about as long as it takes to start it."""


@dataclass(frozen=True, slots=True)
class _SegmentShares:
    """Segments of one partition, and the offsets of a range that lie in each."""

    segments: SegmentList
    ranges: list[OffsetRange]


def plan_splits(options: ReadOptions, bounds: RowBounds = EVERYTHING) -> list[Split]:
    """Cut a read into what one task reads each; none where there is nothing to read.

    Slices know the range that they are cut from: bad bytes are reported once a read.
    """
    read = resolve_read(options, bounds)
    whole = {
        wanted.topic_partition: (wanted.start_offset, wanted.end_offset) for wanted in read.ranges
    }
    return [
        tuple(replace(part, read_range=whole[part.segments[0].topic_partition]) for part in split)
        for split in _cut_into_splits(read, options, bounds)
    ]


def plan_whole_ranges(options: ReadOptions) -> list[Split]:
    """Make one split of each partition, for a reader that takes them one after the other."""
    finds_stable_offset = options.is_read_committed and options.view.is_of_records
    read = resolve_read(options, finds_stable_offset=finds_stable_offset)
    if options.view is View.SEGMENTS:
        return _splits_of_listings(read, EVERYTHING)
    splits = _splits_of_ranges(read.ranges, read.logs, EVERYTHING)
    if not finds_stable_offset and options.view is not View.TRANSACTIONS:
        return splits
    return [(replace(part, log=read.logs[part.segments[0].topic_partition]),) for (part,) in splits]


def _cut_into_splits(read: ResolvedRead, options: ReadOptions, bounds: RowBounds) -> list[Split]:
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
        return _splits_of_ranges(divided, read.logs, bounds)
    if options.max_partition_bytes is not None:
        return _splits_of_bytes(read, options.max_partition_bytes, bounds)
    return _splits_of_segments(read, bounds)


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
        is_in_commit = log.state.visible_range(wanted_range.topic_partition) is not None
        is_whole = not is_in_commit and wanted_range.end_offset >= log.log_end_offset
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
