"""What the tasks of a micro-batch read, and whether topics are the same still."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark_segmentlog.errors import DataLossError
from tests.support.stream import GrowingLog, Stream, batch, offsets, recreate


def test_a_file_renamed_away_between_planning_and_reading(log: GrowingLog, caplog: Any) -> None:
    log.append(batch(0, 50))
    log.append(batch(50, 50), base=50)

    def plan(fail: bool) -> tuple[Stream, Any]:
        stream = Stream(log.path, committed=offsets(p0=10), failOnDataLoss=fail)
        return stream, stream.reader.partitions(offsets(p0=10), offsets(p0=100))

    (failing, tasks), (going_on, others) = plan(True), plan(False)
    log.segment().rename(f"{log.segment()}.deleted")
    with pytest.raises(DataLossError, match=r"\[10, 50\)"):
        list(failing.reader.read(tasks[0]))
    with caplog.at_level(logging.WARNING):
        rows = [
            row["offset"] for part in going_on.reader.read(others[0]) for row in part.to_pylist()
        ]
    assert rows == list(range(50, 100))
    assert "[10, 50)" in caplog.text


def test_a_topic_made_again_between_planning_and_reading_gives_no_row_twice(
    log: GrowingLog,
) -> None:
    log.append(batch(0, 500))
    start, end = offsets(p0=0), offsets(p0=500)

    def plan(fail: bool) -> tuple[Stream, Any]:
        stream = Stream(log.path, committed=start, failOnDataLoss=fail)
        assert stream.reader.latestOffset(start, ReadAllAvailable()) == end
        return stream, stream.reader.partitions(start, end)

    (failing, tasks), (going_on, others) = plan(True), plan(False)
    recreate(log, 20)
    with pytest.raises(DataLossError, match="made again"):
        list(failing.reader.read(tasks[0]))
    assert [row for part in going_on.reader.read(others[0]) for row in part.to_pylist()] == []
    going_on.committed = end
    assert going_on.run() == [[], list(range(20))]


def test_small_partitions_share_a_task_and_options_divide_ranges(log: GrowingLog) -> None:
    for partition in range(5):
        log.append(batch(0, 100), partition=partition)
    ends = {f"p{partition}": 100 for partition in range(5)}
    start, end = offsets(**dict.fromkeys(ends, 0)), offsets(**ends)
    assert len(Stream(log.path).reader.partitions(start, end)) == 1
    assert len(Stream(log.path, minPartitions=10).reader.partitions(start, end)) == 10
    divided = Stream(log.path, maxRecordsPerPartition=50)
    assert len(divided.reader.partitions(start, end)) == 10
    assert divided.read(start, end) == list(range(100)) * 5


def test_a_backlog_is_cut_into_tasks_at_segments(log: GrowingLog) -> None:
    for base in range(0, 40, 10):
        log.append(batch(base, 10, size=300_000), base=base)
    tasks: Sequence[Any] = Stream(log.path).reader.partitions(offsets(p0=0), offsets(p0=40))
    ranges = [(slice.start_offset, slice.end_offset) for task in tasks for slice in task.split]
    assert ranges == [(0, 10), (10, 20), (20, 30), (30, 40)]
