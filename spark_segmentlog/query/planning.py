"""From offset ranges to input partitions: arithmetic over offsets and sizes, no file, no Spark.

Whatever is cut here is cut by offset, and every piece is read by offset, so that the pieces hold
each record of the ranges exactly once, whether or not an index told the truth about positions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import UnknownTopicOrPartitionError
from spark_segmentlog.log.names import (
    INTERNAL_TOPIC_PREFIX,
    MAX_OFFSET,
    OffsetRange,
    TopicPartition,
)
from spark_segmentlog.query.read_options import TopicSelection
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

_T = TypeVar("_T")

MAX_UNPACKED_SEGMENTS: Final = 1000
PACKED_BYTES: Final = 128 << 20
OPEN_COST_BYTES: Final = 512 << 10
"""What opening one more file weighs when small segments are packed, so that ten thousand tiny ones
still make some tens of tasks."""


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """A range of offsets that one task reads, and its bytes on disk as far as they are known."""

    offset_range: OffsetRange
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBounds:
    """What predicates leave of the rows: sets of topics and partitions, ranges of the rest.

    Attributes
    ----------
    topics, partitions : frozenset or None
        None for all.
    start_offset, end_offset : int
        The end is exclusive.
    min_timestamp_ms, max_timestamp_ms : int or None
        Both inclusive.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start_offset: int = 0
    end_offset: int = MAX_OFFSET
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None

    def intersect(self, other: RowBounds) -> RowBounds:
        """Give the bounds of rows that lie within both."""
        return RowBounds(
            topics=_common(self.topics, other.topics),
            partitions=_common(self.partitions, other.partitions),
            start_offset=max(self.start_offset, other.start_offset),
            end_offset=min(self.end_offset, other.end_offset),
            min_timestamp_ms=_largest(self.min_timestamp_ms, other.min_timestamp_ms),
            max_timestamp_ms=_smallest(self.max_timestamp_ms, other.max_timestamp_ms),
        )

    def choose(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Pick the partitions that may hold rows within the bounds."""
        is_empty = self.start_offset >= self.end_offset or (
            self.min_timestamp_ms is not None
            and self.max_timestamp_ms is not None
            and self.min_timestamp_ms > self.max_timestamp_ms
        )
        if is_empty:
            return []
        return [
            topic_partition
            for topic_partition in topic_partitions
            if (self.topics is None or topic_partition.topic in self.topics)
            and (self.partitions is None or topic_partition.partition in self.partitions)
        ]


EVERYTHING: Final = RowBounds()


def _common(left: frozenset[_T] | None, right: frozenset[_T] | None) -> frozenset[_T] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _largest(left: int | None, right: int | None) -> int | None:
    return max((value for value in (left, right) if value is not None), default=None)


def _smallest(left: int | None, right: int | None) -> int | None:
    return min((value for value in (left, right) if value is not None), default=None)


def choose_partitions(
    selection: TopicSelection,
    available: Iterable[TopicPartition],
    named: Collection[TopicPartition] = (),
) -> list[TopicPartition]:
    """Pick the partitions that ``subscribe``, ``subscribePattern`` or ``assign`` name, sorted.

    A pattern reaches no topic of the broker's own, as in a consumer; without any of the three no
    topic named ``__*`` is read. Both are, where their own path was given.

    Parameters
    ----------
    named : collection of TopicPartition
        Those that were asked for by their own path.

    Raises
    ------
    UnknownTopicOrPartitionError
        A topic or partition that is named and not there.
    """
    known = sorted(available)
    if selection.assign is not None:
        _check_known(selection.assign, known, "partitions")
        return sorted(selection.assign)
    if selection.subscribe is not None:
        _check_known(
            selection.subscribe, {topic_partition.topic for topic_partition in known}, "topics"
        )
        return [
            topic_partition
            for topic_partition in known
            if topic_partition.topic in selection.subscribe
        ]
    if selection.pattern is not None:
        matches = selection.pattern.fullmatch
        wanted = {
            topic
            for topic in {topic_partition.topic for topic_partition in known}
            if matches(topic)
        }
        hidden = wanted & INTERNAL_TOPICS.keys()
        return [
            topic_partition
            for topic_partition in known
            if topic_partition.topic in wanted
            and (topic_partition in named or topic_partition.topic not in hidden)
        ]
    return [
        topic_partition
        for topic_partition in known
        if topic_partition in named or not topic_partition.topic.startswith(INTERNAL_TOPIC_PREFIX)
    ]


def _check_known(wanted: Iterable[Any], known: Iterable[Any], kind: str) -> None:
    missing = sorted(set(wanted) - set(known))
    if missing:
        raise UnknownTopicOrPartitionError(
            f"not in this log: {', '.join(map(str, missing))}; there are {_shortened(known, kind)}"
        )


def _shortened(names: Iterable[Any], kind: str) -> str:
    listed = sorted(names)
    if not listed:
        return f"no {kind}"
    rest = f" and {len(listed) - 20} more {kind}" if len(listed) > 20 else ""
    return ", ".join(map(str, listed[:20])) + rest


def divide_ranges(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """Divide ranges as the Kafka source does (KafkaOffsetRangeCalculator); empty ones are dropped.

    First no range is left above `max_records_per_partition` offsets, then, where that makes fewer
    than `min_partitions`, large ranges are divided in proportion to their sizes into about as many.
    """
    divided = [offset_range for offset_range in ranges if _size(offset_range) > 0]
    if max_records_per_partition is not None:
        divided = [
            part
            for offset_range in divided
            for part in _divide(offset_range, -(-_size(offset_range) // max_records_per_partition))
        ]
    if min_partitions is None or len(divided) >= min_partitions:
        return divided
    total = sum(map(_size, divided))
    small = [
        offset_range
        for offset_range in divided
        if _parts_count(_size(offset_range), total, min_partitions) == 1
    ]
    large_total = total - sum(map(_size, small))
    large_parts = max(min_partitions - len(small), 1)
    is_small = set(small)
    return [
        part
        for offset_range in divided
        for part in (
            (offset_range,)
            if offset_range in is_small
            else _divide(offset_range, _parts_count(_size(offset_range), large_total, large_parts))
        )
    ]


def _parts_count(size: int, total: int, min_partitions: int) -> int:
    return max(math.floor(size / total * min_partitions + 0.5), 1)


def _divide(offset_range: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut into parts of equal size, the last ones one larger where it does not come out even."""
    remaining = _size(offset_range)
    start = offset_range.start_offset
    divided = []
    for part in range(min(parts, remaining)):
        size = remaining // (min(parts, _size(offset_range)) - part)
        remaining -= size
        divided.append(replace(offset_range, start_offset=start, end_offset=start + size))
        start += size
    return divided


def _size(offset_range: OffsetRange) -> int:
    return offset_range.end_offset - offset_range.start_offset


def cut_at_segments(
    offset_range: OffsetRange,
    base_offsets: npt.NDArray[np.int64],
    end_offset_bounds: npt.NDArray[np.int64],
) -> list[OffsetRange]:
    """Cut a range into the shares of segments.

    Parameters
    ----------
    base_offsets, end_offset_bounds : ndarray of int64
        Of segments that each hold some offset of the range, ascending.
    """
    starts = np.maximum(base_offsets, offset_range.start_offset).tolist()
    ends = np.minimum(end_offset_bounds, offset_range.end_offset).tolist()
    topic_partition = offset_range.topic_partition
    return [
        OffsetRange(topic_partition, start, end) for start, end in zip(starts, ends, strict=True)
    ]


def cut_at_index(
    offset_range: OffsetRange,
    size_bytes: int,
    last_offsets: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    max_bytes: int,
) -> list[PlannedRange]:
    """Cut a range inside of one segment after index entries, so that no piece is too large.

    An entry says that the batches appended at its position end with its offset, so after that
    offset a batch begins. A piece is larger than `max_bytes` only where entries are too far apart.

    Parameters
    ----------
    last_offsets, positions : ndarray of int64
        The entries of its offset index, both ascending.
    """
    # The piece after entry i - 1 begins at or above low[i]; entry i - 1 ends at or below high[i].
    low = np.concatenate([[0], positions])
    high = np.append(positions, size_bytes)
    number = int(np.searchsorted(last_offsets, offset_range.start_offset, side="left"))
    last = int(np.searchsorted(last_offsets, offset_range.end_offset - 1, side="left"))
    end = min(last + 1, len(positions))
    borders, weights = [offset_range.start_offset], []
    while number < last and high[end] - low[number] > max_bytes:
        reach = int(np.searchsorted(high, low[number] + max_bytes, side="right")) - 1
        cut = min(max(reach, number + 1), last)
        borders.append(int(last_offsets[cut - 1]) + 1)
        weights.append(int(high[cut] - low[number]))
        number = cut
    borders.append(offset_range.end_offset)
    weights.append(max(int(high[end] - low[number]), 0))
    return [
        PlannedRange(replace(offset_range, start_offset=first, end_offset=after), weight)
        for (first, after), weight in zip(pairwise(borders), weights, strict=True)
        if first < after
    ]


def pack(
    pieces: Iterable[PlannedRange], max_bytes: int, *, open_cost_bytes: int = 0
) -> list[list[OffsetRange]]:
    """Put neighbours together up to a size; those of one partition that meet become one range."""
    packs: list[list[OffsetRange]] = []
    filled = max_bytes
    for piece in pieces:
        weight = piece.size_bytes + open_cost_bytes
        if filled + weight > max_bytes or not packs:
            packs.append([piece.offset_range])
            filled = weight
        else:
            _append(packs[-1], piece.offset_range)
            filled += weight
    return packs


def _append(ranges: list[OffsetRange], added: OffsetRange) -> None:
    last = ranges[-1]
    if last.topic_partition == added.topic_partition and last.end_offset == added.start_offset:
        ranges[-1] = replace(last, end_offset=added.end_offset)
    else:
        ranges.append(added)
