"""Reads the views of Kafka's own topics: the records of a read, each taken apart.

A metadata log whose front is gone goes on from a snapshot. A read from its start then begins with
the rows of that snapshot, which stand for all that is gone, and goes on after it in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from spark_segmentlog.log.directory.cluster_metadata import (
    MetadataSnapshot,
    iterate_metadata,
    list_snapshots,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.query.read_options import View
from spark_segmentlog.query.schema import schema_of_columns, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest, Slice, read_split
from spark_segmentlog.query.system_columns import SystemRow, make_batch
from spark_segmentlog.record.system.records import read_system_record
from spark_segmentlog.record.system.topics import CLUSTER_METADATA

ARROW_ROWS: Final = 4096
_MICROS: Final = 1000


def read_system_view(part: Slice, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Give the rows of a slice, with the columns that the request names."""
    is_metadata = request.options.view is View.CLUSTER_METADATA
    rows = _metadata_rows(part, request) if is_metadata else _log_rows(part, request)
    for some in _batched(rows):
        yield make_batch(request.options.view, some, request.shape.columns)


def _log_rows(part: Slice, request: ReadRequest) -> Iterator[SystemRow]:
    """Read the records of a slice; their timestamps only where they are wanted."""
    topic = str(request.options.view.system_topic)
    columns = ["partition", "offset", "key", "value"]
    if "recordTimestampMs" in request.shape.columns:
        columns.append("timestamp")
    options = replace(request.options, view=View.RECORDS)
    shape = shape_rows(schema_of_columns(columns, options), options)
    for batch in read_split((part,), replace(request, options=options, shape=shape)):
        for row in zip(*map(_python_values, batch.columns), strict=True):
            partition, offset, key, value, *micros = row
            yield SystemRow(
                partition=partition,
                offset=offset,
                timestamp_ms=micros[0] // _MICROS if micros else None,
                key=key,
                value=value,
                record=read_system_record(topic, key, value),
            )


def _python_values(column: pa.Array) -> list[Any]:
    is_time = pa.types.is_timestamp(column.type)
    values: list[Any] = (column.cast(pa.int64()) if is_time else column).to_pylist()
    return values


def _metadata_rows(part: Slice, request: ReadRequest) -> Iterator[SystemRow]:
    """Read a metadata log from its start, so that topics have names; give the rows of a slice."""
    log = open_partition(part, request)
    log_start_offset = log.log_start_offset
    snapshot = _snapshot_before(log) if log_start_offset > 0 else None
    is_from_start = part.start_offset <= log_start_offset
    names: dict[str, str] = {}
    if snapshot is not None:
        rows = _named(_snapshot_rows(snapshot, request), names)
        yield from (row for row in rows if is_from_start)
    segments = log.segments_between(log_start_offset, part.end_offset)
    whole = replace(part, segments=tuple(segments), start_offset=log_start_offset)
    start_offset = part.start_offset
    if is_from_start and snapshot is not None:
        start_offset = snapshot.snapshot_end_offset
    rows = _named(_log_rows(whole, request), names)
    yield from (row for row in rows if row.offset >= start_offset)


def open_partition(part: Slice, request: ReadRequest) -> PartitionLog:
    """Open the partition of a slice.

    Raises
    ------
    FileNotFoundError
        Its directory is gone.
    """
    first = part.segments[0]
    log = PartitionLog.open(
        first.directory, storage=first.storage, topic_partition=first.topic_partition
    )
    log.skip_corrupt = request.options.skips_corrupt
    return log


def _snapshot_before(log: PartitionLog) -> MetadataSnapshot | None:
    """Find the snapshot that a log without its front goes on from."""
    snapshots = list_snapshots(log.storage, log.directory)
    before = [
        snapshot for snapshot in snapshots if snapshot.snapshot_end_offset <= log.log_start_offset
    ]
    return next(iter(before[-1:] or snapshots[:1]), None)


def _snapshot_rows(snapshot: MetadataSnapshot, request: ReadRequest) -> Iterator[SystemRow]:
    for record in iterate_metadata(snapshot, skip_corrupt=request.options.skips_corrupt):
        yield SystemRow(
            partition=snapshot.topic_partition.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            record=read_system_record(CLUSTER_METADATA, record.key, record.value),
            snapshot=snapshot.name,
        )


def _named(rows: Iterable[SystemRow], names: dict[str, str]) -> Iterator[SystemRow]:
    """Let rows know the topics that were named so far."""
    for row in rows:
        if row.record.type == "TopicRecord" and row.record.value is not None:
            names[row.record.value["topicId"]] = row.record.value["name"]
        yield replace(row, topic_names=names)


def _batched(rows: Iterable[SystemRow]) -> Iterator[list[SystemRow]]:
    waiting: list[SystemRow] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == ARROW_ROWS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
