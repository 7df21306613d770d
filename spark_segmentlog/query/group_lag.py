"""How far consumer groups are behind, from offsets on disk: no broker, no Spark.

The committed offset of a group is that of the last record of ``__consumer_offsets`` that names it,
where that takes nothing back. A commit within a transaction counts once that is committed; others
count at once, so that an open transaction of one group holds back no other group.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.query.log_bounds import LogBounds
from spark_segmentlog.query.options import keywords_to_options, parse_read_options
from spark_segmentlog.query.read_arrow import Paths, path_texts, read_arrow
from spark_segmentlog.query.read_options import ReadOptions, View
from spark_segmentlog.query.read_range import open_log_manager
from spark_segmentlog.record.system.topics import CONSUMER_OFFSETS

LAG_SCHEMA: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committedOffset", pa.int64()),
        ("logEndOffset", pa.int64()),
        ("lag", pa.int64()),
    ]
)
_COMMIT_TYPES: Final = ("OffsetCommit", "LegacyOffsetCommit")
_COLUMNS: Final = (
    "recordPartition",
    "recordOffset",
    "type",
    "typeId",
    "isTombstone",
    "group",
    "topic",
    "partition",
    "offset",
    "reason",
)

_log = logging.getLogger(__name__)

Committed = dict[tuple[str, TopicPartition], int]


def group_lag(paths: Paths, **options: Any) -> pa.Table:
    """Tell how far each consumer group is behind the end of what it reads.

    Parameters
    ----------
    paths : path or iterable of paths
        Log directories of one cluster that hold ``__consumer_offsets`` and the topics.
    **options
        Those of `read_arrow` that say how strict a read is (``mode``, ``fail_on_data_loss``), and
        where a log ends: ``until_high_watermark``, or ``kafka_isolation_level`` for the last stable
        offset.

    Returns
    -------
    pyarrow.Table
        A row a committed offset, sorted by group, topic and partition. ``logEndOffset`` and ``lag``
        are null where the partition is in none of the directories.

    Raises
    ------
    SegmentLogError
        One of its subclasses; `UnknownTopicOrPartitionError` without ``__consumer_offsets``.
    """
    parsed = parse_read_options(keywords_to_options(path_texts(paths), options))
    committed = _Commits(paths, options).committed(_ends(parsed, {CONSUMER_OFFSETS}))
    ends = _ends(parsed, {topic_partition.topic for _, topic_partition in committed})
    rows = [
        {
            "group": group,
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "committedOffset": offset,
            "logEndOffset": ends.get(topic_partition),
            "lag": ends[topic_partition] - offset if topic_partition in ends else None,
        }
        for (group, topic_partition), offset in sorted(committed.items())
    ]
    return pa.Table.from_pylist(rows, LAG_SCHEMA)


def _ends(options: ReadOptions, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Find where the partitions of some topics end, as far as they are there."""
    manager = open_log_manager(options)
    wanted = [
        topic_partition
        for topic_partition in manager.topic_partitions
        if topic_partition.topic in topics
    ]
    manager.offset_bounds(wanted)
    return {
        topic_partition: LogBounds(manager.partition_log(topic_partition), options).latest_offset()
        for topic_partition in wanted
        if topic_partition in manager.topic_partitions
    }


class _Commits:
    """Follows the commits of all groups to the last one of each."""

    def __init__(self, paths: Paths, options: Mapping[str, Any]) -> None:
        self._paths = paths
        self._options = options
        self._unread: list[str] = []

    def committed(self, ends: Mapping[TopicPartition, int]) -> Committed:
        """Read the offsets that stand at some ends of ``__consumer_offsets``."""
        committed: Committed = {}
        hidden = self._hidden_ranges()
        ending = {str(topic_partition.partition): end for topic_partition, end in ends.items()}
        rows = self._read(
            View.CONSUMER_OFFSETS, _COLUMNS, ending_offsets={CONSUMER_OFFSETS: ending}
        )
        for row in rows:
            if row["typeId"] is not None and row["type"] not in _COMMIT_TYPES:
                continue
            if row["reason"] is not None:
                self._unread.append(
                    f"partition {row['recordPartition']}, offset {row['recordOffset']}: "
                    f"{row['reason']}"
                )
            elif not _is_within(row["recordOffset"], hidden.get(row["recordPartition"], ())):
                _apply(row, committed)
        if self._unread:
            _log.warning(
                "%d records of %s cannot be read, so that a committed offset may be older than it "
                "is (%s)",
                len(self._unread),
                CONSUMER_OFFSETS,
                self._unread[0],
            )
        return committed

    def _hidden_ranges(self) -> dict[int, list[tuple[int, int]]]:
        """Find what was written in transactions that are not committed: [first, last] in order."""
        columns = ("partition", "producerId", "state", "firstOffset", "lastOffset")
        open_or_aborted: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for row in self._read(View.TRANSACTIONS, columns):
            if row["state"] != "committed":
                of_producer = open_or_aborted.setdefault((row["partition"], row["producerId"]), [])
                of_producer.append((row["firstOffset"], row["lastOffset"]))
        for of_producer in open_or_aborted.values():
            of_producer.sort()
        hidden: dict[int, list[tuple[int, int]]] = {}
        columns = ("partition", "producerId", "isTransactional", "baseOffset", "lastOffset")
        for row in self._read(View.BATCHES, columns) if open_or_aborted else ():
            ranges = open_or_aborted.get((row["partition"], row["producerId"]), ())
            if row["isTransactional"] and _is_within(row["baseOffset"], ranges):
                found = hidden.setdefault(row["partition"], [])
                found.append((row["baseOffset"], row["lastOffset"]))
        return hidden

    def _read(
        self, view: View, columns: Sequence[str], **options: Any
    ) -> Iterator[Mapping[str, Any]]:
        given = {**self._options, "kafka_isolation_level": None, "until_high_watermark": None}
        reader = read_arrow(
            self._paths,
            columns=columns,
            view=view,
            subscribe=CONSUMER_OFFSETS,
            **{**given, **options},
        )
        return (row for batch in reader for row in batch.to_pylist())


def _apply(row: Mapping[str, Any], committed: Committed) -> None:
    key = row["group"], TopicPartition(row["topic"], row["partition"])
    if row["isTombstone"]:
        committed.pop(key, None)
    else:
        committed[key] = row["offset"]


def _is_within(offset: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Tell whether an offset lies in one of some ranges [first, last], which are in order."""
    index = bisect_right(ranges, (offset, MAX_OFFSET)) - 1
    return index >= 0 and offset <= ranges[index][1]
