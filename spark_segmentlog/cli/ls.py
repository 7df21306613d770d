"""``segmentlog ls``: the topics below some paths, their partitions, or the segments of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import click

from spark_segmentlog.cli.arguments import (
    deleted_option,
    format_option,
    open_logs,
    paths_argument,
    remote_options,
    topics_option,
)
from spark_segmentlog.cli.output import Column, OutputFormat, print_sections
from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    INTERNAL_TOPIC_PREFIX,
    LOG_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog, while_it_is_there
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.upkeep.retention import largest_timestamp
from spark_segmentlog.record.layout import MAGIC_OFFSET, MAGIC_V2
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages

_TOPIC_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partitions", "parts", "number"),
    Column("segments", "segments", "number"),
    Column("sizeBytes", "size", "size"),
    Column("offsets", "offsets", "number"),
    Column("maxTimestampMs", "newest (UTC)", "minute"),
    Column("flags", "flags"),
)
_PARTITION_COLUMNS: Final = (
    Column("topic", "topic"),
    Column("partition", "part", "number"),
    Column("segments", "segs", "number"),
    Column("sizeBytes", "size", "size"),
    Column("logStartOffset", "start", "number"),
    Column("logEndOffset", "end", "number"),
    Column("highWatermark"),
    Column("lastStableOffset", "stable", "number"),
    Column("firstTimestampMs"),
    Column("maxTimestampMs", "newest (UTC)", "minute"),
    Column("flags", "flags"),
    Column("directory"),
)
_SEGMENT_COLUMNS: Final = (
    Column("topic"),
    Column("partition"),
    Column("baseOffset", "base offset", "number"),
    Column("endOffset", "end offset", "number"),
    Column("sizeBytes", "size", "size"),
    Column("maxTimestampMs", "newest (UTC)", "minute"),
    Column("offsetIndexEntries", "index", "number"),
    Column("timeIndexEntries", "times", "number"),
    Column("abortedTransactions", "aborted", "number"),
    Column("isActive", "active"),
    Column("tier", "tier"),
    Column("path"),
)
COLUMNS: Final = {
    "ls": _TOPIC_COLUMNS,
    "ls --partitions": _PARTITION_COLUMNS,
    "ls --segments": _SEGMENT_COLUMNS,
}
# By name, in the order they are shown: whether a log has it, given its last stable offset.
_FLAGS: Final[Mapping[str, Callable[[PartitionLog, int | None], bool]]] = {
    "clean": lambda log, _: log.state.is_clean,
    "unclean": lambda log, _: not log.state.is_clean,
    "internal": lambda log, _: log.topic_partition.topic.startswith(INTERNAL_TOPIC_PREFIX),
    "deleted": lambda log, _: log.directory.endswith(DELETE_DIRECTORY_SUFFIX),
    "stray": lambda log, _: log.directory.endswith(STRAY_DIRECTORY_SUFFIX),
    "future": lambda log, _: log.directory.endswith(FUTURE_DIRECTORY_SUFFIX),
    "remote": lambda log, _: log.remote_start_offset is not None,
    "open-commit": lambda log, _: log.state.commit_state.write_id is not None,
    "open-transaction": lambda log, stable: stable is not None and stable < log.log_end_offset,
}


@click.command(name="ls")
@paths_argument
@topics_option
@click.option("--partitions", "show_partitions", is_flag=True, help="A row a partition.")
@click.option("--segments", "show_segments", is_flag=True, help="A row a segment.")
@click.option("--bytes", "in_bytes", is_flag=True, help="Sizes as numbers of bytes.")
@click.option(
    "--fast", is_flag=True, help="Leave out timestamps and last stable offsets, which cost reads."
)
@deleted_option
@remote_options
@format_option
def ls_verb(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    show_partitions: bool,
    show_segments: bool,
    in_bytes: bool,
    fast: bool,
    include_deleted: bool,
    remote: RemoteOptions,
    output_format: OutputFormat,
) -> None:
    """List the topics in log directories, partition directories or .log files, with totals.

    Offsets at the end are exclusive. Flags: clean, or unclean where a broker runs or has crashed;
    internal (a broker's own topic), deleted, stray, future, remote (the log starts in remote
    storage), open-commit, open-transaction.

    \b
    segmentlog ls /var/lib/kafka/data
    segmentlog ls --partitions --topic orders /disk1/kafka /disk2/kafka
    segmentlog ls --segments --bytes /var/lib/kafka/data/orders-0
    """
    logs = open_logs(paths, topics, include_deleted=include_deleted, remote=remote)
    logs.sort(key=lambda log: log.topic_partition)
    columns: Sequence[Column]
    if show_segments:
        columns, rows = _SEGMENT_COLUMNS, _segment_rows(logs, fast=fast)
    elif show_partitions:
        logs.sort(key=_log_directory)
        columns, rows = _PARTITION_COLUMNS, _partition_rows(logs, fast=fast)
    else:
        columns, rows = _TOPIC_COLUMNS, _topic_rows(logs, fast=fast)
    if in_bytes:
        columns = tuple(
            replace(column, kind="number") if column.kind == "size" else column
            for column in columns
        )
    print_sections(columns, rows, output_format, _section)


def _log_directory(log: PartitionLog) -> str:
    return log.directory.rpartition("/")[0]


def _section(row: Mapping[str, Any]) -> str:
    """Name the folder of a row: of its segment, or that of its partition's folder."""
    return str(row.get("path", row.get("directory", ""))).rpartition("/")[0]


def _topic_rows(logs: Sequence[PartitionLog], *, fast: bool) -> Iterator[dict[str, Any]]:
    """Sum up the partitions of each topic, several copies of one too."""
    for topic, rows in groupby(_partition_rows(logs, fast=fast), itemgetter("topic")):
        found = list(rows)
        newest = [row["maxTimestampMs"] for row in found if row["maxTimestampMs"] is not None]
        yield {
            "topic": topic,
            "partitions": len({row["partition"] for row in found}),
            "segments": sum(row["segments"] for row in found),
            "sizeBytes": sum(row["sizeBytes"] for row in found),
            "offsets": sum(row["logEndOffset"] - row["logStartOffset"] for row in found),
            "maxTimestampMs": max(newest, default=None),
            "flags": [name for name in _FLAGS if any(name in row["flags"] for row in found)],
        }


def _partition_rows(logs: Sequence[PartitionLog], *, fast: bool) -> Iterator[dict[str, Any]]:
    buffer = ReadBuffer()
    for log in logs:
        yield from while_it_is_there(log, _partition_row(log, buffer, fast=fast))


def _partition_row(
    log: PartitionLog, buffer: ReadBuffer, *, fast: bool
) -> Iterator[dict[str, Any]]:
    def describe() -> dict[str, Any]:
        segments = log.segments
        stable = None if fast else log.last_stable_offset()
        return {
            "topic": log.topic_partition.topic,
            "partition": log.topic_partition.partition,
            "directory": log.directory,
            "segments": len(segments),
            "sizeBytes": sum(map(log.storage.size, segments.paths(LOG_SUFFIX))),
            "logStartOffset": log.log_start_offset,
            "logEndOffset": log.log_end_offset,
            "highWatermark": log.high_watermark,
            "lastStableOffset": stable,
            "firstTimestampMs": None if fast else _first_timestamp(log),
            "maxTimestampMs": None if fast else _max_timestamp(segments, buffer),
            "flags": _flags(log, stable),
        }

    yield log.resolved(describe)


def _segment_rows(logs: Sequence[PartitionLog], *, fast: bool) -> Iterator[dict[str, Any]]:
    buffer = ReadBuffer()
    for log in logs:
        yield from while_it_is_there(log, _rows_of_segments(log, buffer, fast=fast))


def _rows_of_segments(
    log: PartitionLog, buffer: ReadBuffer, *, fast: bool
) -> Iterator[dict[str, Any]]:
    """Describe the segments of one listing."""

    def describe(segment: Segment) -> dict[str, Any]:
        bound = segment.end_offset_bound
        with segment.offset_index() as offset_index, segment.time_index() as time_index:
            return {
                "topic": log.topic_partition.topic,
                "partition": log.topic_partition.partition,
                "path": segment.log_path,
                "baseOffset": segment.base_offset,
                "endOffset": log.log_end_offset if bound is None else bound,
                "sizeBytes": segment.size_bytes(),
                "maxTimestampMs": None if fast else _max_timestamp([segment], buffer),
                "offsetIndexEntries": offset_index.entries_count,
                "timeIndexEntries": time_index.entries_count,
                "abortedTransactions": len(segment.transaction_index()),
                "isActive": bound is None,
                "tier": segment.tier,
            }

    yield from log.at_one_moment(lambda: [describe(segment) for segment in log.segments])


def _flags(log: PartitionLog, last_stable_offset: int | None) -> list[str]:
    return [name for name, is_set in _FLAGS.items() if is_set(log, last_stable_offset)]


def _first_timestamp(log: PartitionLog) -> int | None:
    """Read the timestamp of the first record, in ms; None where there is none."""
    try:
        batch = log.read(log.log_start_offset, 1).record_batches
        if not batch:
            return None
        iterate = iterate_records if batch[MAGIC_OFFSET] == MAGIC_V2 else iterate_messages
        for record in iterate(batch):
            if record.offset >= log.log_start_offset:
                return record.timestamp_ms if record.timestamp_ms >= 0 else None
    except CorruptRecordError:
        # ``verify`` says what is wrong; here it is a timestamp that cannot be told.
        return None
    return None


def _max_timestamp(segments: Sequence[Segment], buffer: ReadBuffer) -> int | None:
    """Find the largest timestamp of segments, in ms; None where no record has one."""
    largest = -1
    for segment in segments:
        try:
            largest = max(largest, largest_timestamp(segment, buffer))
        except CorruptRecordError:
            # ``verify`` says what is wrong; this segment's largest timestamp cannot be told.
            continue
    return largest if largest >= 0 else None
