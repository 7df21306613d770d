"""What the tasks of a micro-batch read: splits, and a look at whether topics are the same still."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from spark_segmentlog.log.formats.checkpoints import read_topic_id
from spark_segmentlog.log.names import MAX_OFFSET, OffsetRange
from spark_segmentlog.log.partition.log_watch import WatchedPartitionLog
from spark_segmentlog.query import offsets as kafka_offsets
from spark_segmentlog.query import planning, stream_planning
from spark_segmentlog.query.byte_admission import Logs
from spark_segmentlog.query.planning import PlannedRange
from spark_segmentlog.query.read_options import ReadOptions
from spark_segmentlog.query.split_reader import ReadRequest, Slice, Split, read_split

_log = logging.getLogger(__name__)

# Bad bytes are reported by the micro-batch that holds the first offset that is missing for them.
_WHOLE_STREAM: Final = (0, MAX_OFFSET)


def cut_into_tasks(ranges: Sequence[OffsetRange], logs: Logs, options: ReadOptions) -> list[Split]:
    """Cut the ranges of a micro-batch into what one task reads each.

    By number or by records where the options say so, else by segments and bytes.
    """
    if options.min_partitions is not None or options.max_records_per_partition is not None:
        divided = planning.divide_ranges(
            ranges,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
        return _to_splits([[divided_range] for divided_range in divided], logs)
    pieces = [
        piece
        for offset_range in ranges
        for piece in _pieces(offset_range, logs[offset_range.topic_partition])
    ]
    max_bytes = stream_planning.task_bytes(sum(piece.size_bytes for piece in pieces))
    packs = planning.pack(pieces, max_bytes, open_cost_bytes=stream_planning.OPEN_COST_BYTES)
    return _to_splits(packs, logs)


def _pieces(offset_range: OffsetRange, log: WatchedPartitionLog) -> list[PlannedRange]:
    """Cut a range where segments begin, each part with the bytes that it is likely to have."""
    segments = log.segments_between(offset_range.start_offset, offset_range.end_offset)
    parts = planning.cut_at_segments(
        offset_range, segments.base_offsets, segments.end_offset_bounds
    )
    sizes_bytes = log.estimate_bytes(offset_range.start_offset, offset_range.end_offset).tolist()
    return [PlannedRange(part, size) for part, size in zip(parts, sizes_bytes, strict=True)]


def _to_splits(packs: Iterable[Sequence[OffsetRange]], logs: Logs) -> list[Split]:
    return [
        tuple(_slice(wanted, logs[wanted.topic_partition]) for wanted in pack) for pack in packs
    ]


def _slice(wanted: OffsetRange, log: WatchedPartitionLog) -> Slice:
    start_offset, end_offset = wanted.start_offset, wanted.end_offset
    segments = tuple(log.segments_between(start_offset, end_offset))
    return Slice(segments, start_offset, end_offset, _WHOLE_STREAM, topic_id=log.topic_id)


def read_stream_split(split: Split, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read the rows of a split, unless their topic was made again since it was planned.

    Raises
    ------
    DataLossError
        It was, or rows are gone, and ``failOnDataLoss`` is true.
    """
    kept = tuple(part for part in split if _is_same(part, request))
    if kept:
        yield from read_split(kept, request)
    for part in kept:
        _is_same(part, request)


def _is_same(part: Slice, request: ReadRequest) -> bool:
    """Compare the topic's id with the one that was planned; tell of the loss where it differs."""
    segment = part.segments[0]
    found = read_topic_id(segment.storage, segment.directory)
    if part.topic_id is None or found in (None, part.topic_id):
        return True
    wanted = OffsetRange(segment.topic_partition, part.start_offset, part.end_offset)
    error = kafka_offsets.could_not_read(wanted, "the topic was deleted and made again")
    if request.options.fail_on_data_loss:
        raise error
    _log.warning("%s", error)
    return False
