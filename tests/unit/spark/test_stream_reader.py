"""The stream reader, asked in the order in which Spark asks it."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from spark_segmentlog.errors import (
    CrcMismatchError,
    DataLossError,
)
from spark_segmentlog.testing.builder import ABORT, COMMIT, SegmentSpec, control_batch, v2_batch
from tests.support.stream import GrowingLog, Stream, batch, offsets, recreate, transactional


@pytest.fixture
def log(tmp_path: Path) -> GrowingLog:
    return GrowingLog(tmp_path / "log")


# Where a query starts


def test_a_new_query_starts_at_the_latest_offset_and_its_first_micro_batch_is_empty(
    log: GrowingLog,
) -> None:
    log.append(batch(0, 3))
    stream = Stream(log.path)
    assert stream.trigger() == []
    assert stream.committed == offsets(p0=3)
    assert stream.trigger() is None
    log.append(batch(3, 2))
    assert stream.trigger() == [3, 4]


def test_rows_that_arrive_while_a_new_query_starts_are_not_lost(log: GrowingLog) -> None:
    log.append(batch(0, 3))
    stream = Stream(log.path)
    start = stream.reader.initialOffset()
    log.append(batch(3, 2))
    first = stream.reader.latestOffset(start, ReadAllAvailable())
    log.append(batch(5, 2))
    # Spark asks again before it plans micro-batch 0.
    assert stream.reader.initialOffset() == start == first == offsets(p0=3)
    assert stream.read(start, first) == []
    assert stream.read(first, stream.reader.latestOffset(first, ReadAllAvailable())) == [3, 4, 5, 6]


def test_rows_that_arrive_around_a_crash_in_micro_batch_0_are_not_lost(log: GrowingLog) -> None:
    log.append(batch(0, 3))
    crashed = Stream(log.path)
    first = crashed.reader.latestOffset(crashed.reader.initialOffset(), ReadAllAvailable())
    log.append(batch(3, 2))
    # The checkpoint holds offsets/0 and no commit: Spark tells the latest offset it has seen,
    # plans micro-batch 0 between a new initial offset and that one, then goes on.
    reader = Stream(log.path).reader
    assert reader.partitions(first, first) == []
    start = reader.initialOffset()
    assert start == offsets(p0=5)
    assert reader.partitions(start, first) == []
    end = reader.latestOffset(first, ReadAllAvailable())
    assert end == offsets(p0=5)
    assert Stream(log.path).read(first, end) == [3, 4]


def test_an_available_now_run_after_a_crash_in_micro_batch_0_reads_on(log: GrowingLog) -> None:
    log.append(batch(0, 3))
    reader = Stream(log.path, available_now=True, startingOffsets="earliest").reader
    first = offsets(p0=0)
    reader.partitions(first, first)
    assert reader.partitions(reader.initialOffset(), first) == []
    assert reader.latestOffset(first, ReadAllAvailable()) == offsets(p0=3)


def test_an_empty_log_directory_is_a_log_without_partitions_yet(log: GrowingLog) -> None:
    stream = Stream(log.path)
    assert (stream.trigger(), stream.committed) == ([], {})
    assert stream.trigger() is None
    log.append(batch(0, 2))
    assert stream.trigger() == [0, 1]


# Offsets


def test_offsets_are_kafkas_json_in_a_fixed_order(log: GrowingLog) -> None:
    for topic, partition in (("b", 10), ("b", 9), ("a.x", 0), ("a-x", 1)):
        log.append(batch(0, partition + 1), topic=topic, partition=partition)
    reader = Stream(log.path).reader
    text = json.dumps(reader.initialOffset(), separators=(",", ":"))
    assert text == '{"a-x":{"1":2},"a.x":{"0":1},"b":{"9":10,"10":11}}'
    shuffled = {"b": {"10": 11, "9": 10}, "a.x": {"0": 1}, "a-x": {"1": 2}}
    reader.partitions(shuffled, shuffled)
    assert json.dumps(reader.latestOffset(shuffled, None), separators=(",", ":")) == text


def test_a_kafka_sources_checkpoint_is_taken_over(log: GrowingLog) -> None:
    log.append(batch(0, 6))
    log.append(batch(0, 6), partition=1)
    kafka = json.loads('{"t":{"1":4,"0":2}}')
    stream = Stream(log.path, committed=kafka)
    assert stream.trigger() == [2, 3, 4, 5, 4, 5]


def test_latest_offset_runs_without_arguments(log: GrowingLog) -> None:
    log.append(batch(0, 2))
    reader = Stream(log.path, startingOffsets="earliest").reader
    assert reader.latestOffset() == offsets(p0=0)
    assert reader.latestOffset() == offsets(p0=2)


def test_the_latest_offset_is_reported_whatever_is_admitted(log: GrowingLog) -> None:
    log.append(batch(0, 8))
    stream = Stream(log.path, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    assert stream.reader.reportLatestOffset() is None
    stream.trigger()
    stream.trigger()
    assert stream.committed == offsets(p0=3)
    assert stream.reader.reportLatestOffset() == offsets(p0=8)


def test_a_reader_pickles_without_what_it_watches(log: GrowingLog) -> None:
    log.append(batch(0, 2))
    stream = Stream(log.path, startingOffsets="earliest")
    stream.trigger()
    copy = pickle.loads(pickle.dumps(stream.reader))
    planned = stream.reader.partitions(offsets(p0=0), offsets(p0=2))
    tasks = pickle.loads(pickle.dumps(list(planned)))
    assert [
        row["offset"] for task in tasks for part in copy.read(task) for row in part.to_pylist()
    ] == [0, 1]


# Where it ends


def test_read_committed_waits_at_the_last_stable_offset(log: GrowingLog) -> None:
    log.append(transactional(0, 5, producer_id=7), batch(5, 2))
    options: dict[str, Any] = {
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    stream = Stream(log.path, **options)
    assert stream.run() == [[]]
    log.append(control_batch(COMMIT, base_offset=7, producer_id=7))
    assert stream.run() == [[0, 1, 2, 3, 4, 5, 6]]
    log.append(
        transactional(8, 2, producer_id=7), control_batch(ABORT, base_offset=10, producer_id=7)
    )
    assert stream.run() == [[]]
    assert stream.committed == offsets(p0=11)


def test_a_hanging_transaction_holds_read_committed_and_nothing_else(log: GrowingLog) -> None:
    log.append(batch(0, 100), transactional(100, 5, producer_id=7), batch(105, 6))
    committed: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
    assert Stream(log.path, committed=offsets(p0=98), **committed).run() == [[98, 99]]
    assert sum(map(len, Stream(log.path, committed=offsets(p0=98)).run())) == 13


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_gaps_of_markers_and_compaction_advance_the_offsets_and_are_no_loss(
    log: GrowingLog, limit: int
) -> None:
    # Markers only, first, last and in the middle (C74); a batch whose tail was compacted (C03).
    log.append(
        control_batch(COMMIT, base_offset=3, producer_id=7),
        transactional(4, 2, producer_id=7),
        control_batch(COMMIT, base_offset=6, producer_id=7),
        transactional(8, 2, producer_id=7),
        control_batch(ABORT, base_offset=10, producer_id=7),
        batch(11, 2, last_offset_delta=9),
        batch(21, 1),
    )
    stream = Stream(log.path, startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    read = stream.run()
    assert [offset for rows in read for offset in rows] == [4, 5, 8, 9, 11, 12, 21]
    assert stream.committed == offsets(p0=22)
    assert len(read) == 1 + -(-22 // limit)


@pytest.mark.parametrize(
    "limit",
    [
        {},
        {"maxOffsetsPerTrigger": 1},
        {"maxOffsetsPerTrigger": 4},
        {"maxBytesPerTrigger": 1},
        {"maxBytesPerTrigger": 200},
    ],
)
def test_batches_that_compaction_emptied_are_stepped_over(
    log: GrowingLog, limit: dict[str, Any]
) -> None:
    emptied = v2_batch([], base_offset=100, last_offset_delta=9)
    log.create(base=100)
    log.append(
        emptied,
        batch(110, 2, last_offset_delta=5),
        control_batch(COMMIT, base_offset=120, producer_id=7),
        v2_batch([], base_offset=121, last_offset_delta=8),
        base=100,
    )
    stream = Stream(log.path, startingOffsets="earliest", **limit)
    assert [offset for rows in stream.run() for offset in rows] == [110, 111]
    assert stream.committed == offsets(p0=130)
    log.append(batch(130), base=100)
    assert stream.trigger() == [130]


def test_a_query_may_start_in_the_removed_tail_of_a_segment(log: GrowingLog) -> None:
    log.append(batch(8737, 1, last_offset_delta=10))
    log.append(batch(8748, 2), base=8748)
    log.builder.log_start_offsets({("t", 0): 8737})
    stream = Stream(log.path, startingOffsets=json.dumps(offsets(p0=8745)))
    assert stream.run() == [[], [8748, 8749]]


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": 5}, ReadMaxRows(5)),
        ({"minOffsetsPerTrigger": 5}, ReadMinRows(5)),
        ({"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 9}, ReadMaxRows(9)),
        ({"maxBytesPerTrigger": "1m"}, ReadMaxBytes(1 << 20)),
    ],
)
def test_the_default_read_limit_is_of_the_kind_that_was_asked_for(
    log: GrowingLog, options: dict[str, Any], limit: object
) -> None:
    assert Stream(log.path, **options).limit == limit


def test_a_trigger_for_all_that_is_available_ignores_the_limits(log: GrowingLog) -> None:
    log.append(batch(0, 50))
    reader = Stream(log.path, committed={}, maxOffsetsPerTrigger=5, maxBytesPerTrigger=1).reader
    assert reader.latestOffset(offsets(p0=0), ReadAllAvailable()) == offsets(p0=50)


# AvailableNow


def test_available_now_reads_what_was_there_at_its_start_and_ends(log: GrowingLog) -> None:
    log.append(batch(0, 25))
    stream = Stream(
        log.path, available_now=True, startingOffsets="earliest", maxOffsetsPerTrigger=10
    )
    assert stream.trigger() == []
    log.append(batch(25, 5))
    log.append(batch(0, 5), partition=1)
    assert [len(rows) for rows in stream.run()] == [10, 10, 5]
    assert stream.committed == offsets(p0=25)
    assert stream.reader.reportLatestOffset() == offsets(p0=25)
    again = Stream(log.path, committed=stream.committed, available_now=True)
    assert again.run() == [[25, 26, 27, 28, 29, 0, 1, 2, 3, 4]]


def test_available_now_ignores_the_minimum(log: GrowingLog) -> None:
    log.append(batch(0, 5))
    stream = Stream(
        log.path,
        available_now=True,
        startingOffsets="earliest",
        minOffsetsPerTrigger=100,
        clock_ms=lambda: 0,
    )
    assert stream.run() == [[], [0, 1, 2, 3, 4]]


def test_available_now_replays_an_old_micro_batch_then_reads_a_new_partition(
    log: GrowingLog,
) -> None:
    for partition in range(3):
        log.append(batch(0, 4), partition=partition)
    start, end = offsets(p0=0, p1=0, p2=0), offsets(p0=2, p1=2, p2=2)
    log.append(batch(0, 3), partition=3)
    stream = Stream(log.path, available_now=True, committed=end)
    # The order that Spark has: the target is fixed before the replay.
    assert stream.reader.partitions(end, end) == []
    assert stream.read(start, end) == [0, 1] * 3
    assert stream.run() == [[2, 3, 2, 3, 2, 3, 0, 1, 2]]
    assert stream.committed == offsets(p0=4, p1=4, p2=4, p3=3)


def test_available_now_from_latest_ends_although_rows_arrive_between_its_calls(
    log: GrowingLog,
) -> None:
    log.append(batch(0, 5))
    stream = Stream(log.path, available_now=True)
    log.append(batch(5, 5))
    log.append(batch(0, 5), partition=1)
    assert stream.run() == [[]]
    assert stream.committed == offsets(p0=10, p1=5)


def test_a_segment_that_compaction_merged_between_planning_and_reading(log: GrowingLog) -> None:
    log.append(batch(0, 5))
    log.append(batch(5, 5), base=5)
    log.append(batch(10, 1), base=10)
    stream = Stream(log.path)
    tasks = stream.reader.partitions(offsets(p0=2), offsets(p0=11))
    log.segment(base=5).unlink()
    log.segment().write_bytes(batch(0, 5) + batch(5, 5))
    read = [
        row["offset"]
        for task in tasks
        for part in stream.reader.read(task)
        for row in part.to_pylist()
    ]
    assert read == list(range(2, 11))


def test_a_deleted_partition_is_a_loss_and_goes_on_from_its_offset_if_it_returns(
    log: GrowingLog, caplog: Any
) -> None:
    log.append(batch(0, 5))
    log.append(batch(0, 5), partition=1)
    moved = log.path.parent / "elsewhere"
    shutil.move(log.path / "t-1", moved)
    start = offsets(p0=5, p1=3)
    with pytest.raises(
        DataLossError, match=r"PARTITIONS_DELETED.*Partitions t-1 have been deleted"
    ):
        Stream(log.path, committed=start).trigger()
    stream = Stream(log.path, committed=start, failOnDataLoss=False)
    with caplog.at_level(logging.WARNING):
        assert stream.run() == []
        assert stream.run() == []
    assert caplog.text.count("PARTITIONS_DELETED") == 1
    shutil.move(moved, log.path / "t-1")
    assert stream.run() == [[3, 4]]


def test_a_partition_that_a_broker_moves_is_looked_for_again(
    log: GrowingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(batch(0, 5))
    directory, moved = log.path / "t-0", log.path / "t-0.0123-future"
    directory.rename(moved)
    clock = SimpleNamespace(sleep=lambda _: moved.rename(directory))
    monkeypatch.setattr("spark_segmentlog.query.stream_planner.time", clock)
    assert Stream(log.path, committed=offsets(p0=3)).trigger() == [3, 4]


def test_a_topic_made_again_below_the_offset_is_a_loss_then_read_from_its_start(
    log: GrowingLog,
) -> None:
    log.append(batch(0, 500))
    recreate(log, 20)
    with pytest.raises(DataLossError, match=r"t-0 offset was changed from 500 to 20") as info:
        Stream(log.path, committed=offsets(p0=500)).trigger()
    assert info.value.condition == "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"
    stream = Stream(log.path, committed=offsets(p0=500), failOnDataLoss=False)
    assert stream.trigger() == []
    assert stream.committed == offsets(p0=0)
    # A replay of that micro-batch reads nothing, so no row comes twice.
    assert stream.read(offsets(p0=500), offsets(p0=0)) == []
    assert stream.run() == [list(range(20))]


@pytest.mark.parametrize("count", [3, 20, 600])
def test_a_topic_made_again_while_the_query_runs_is_told_by_its_id(
    log: GrowingLog, count: int
) -> None:
    log.append(batch(0, 500))

    def running(fail: bool) -> Stream:
        stream = Stream(log.path, committed=offsets(p0=490), failOnDataLoss=fail)
        assert stream.run() == [list(range(490, 500))]
        return stream

    failing, going_on = running(True), running(False)
    recreate(log, count)
    with pytest.raises(DataLossError, match="made again"):
        failing.trigger()
    assert going_on.run() == [[], list(range(count))]


def test_a_replay_over_a_topic_made_again_reads_it_once_from_its_start(log: GrowingLog) -> None:
    log.append(batch(0, 500))
    recreate(log, 450)
    stream = Stream(log.path, committed=offsets(p0=500), failOnDataLoss=False)
    assert stream.read(offsets(p0=400), offsets(p0=500)) == []
    # It grows beyond the old end before the next trigger; that it was made again is known by now.
    log.append(batch(450, 100))
    assert stream.run() == [[], list(range(550))]


# A live directory


def test_a_torn_last_batch_is_read_once_it_is_whole(log: GrowingLog) -> None:
    log.append(batch(0, 2))
    whole = batch(2, 3, size=500)
    stream = Stream(log.path, startingOffsets="earliest")
    assert stream.run() == [[], [0, 1]]
    log.append(whole[: len(whole) * 7 // 10])
    assert stream.run() == []
    log.append(whole[len(whole) * 7 // 10 :])
    assert stream.run() == [[2, 3, 4]]


def test_a_zero_tail_is_the_end(log: GrowingLog) -> None:
    log.builder.partition("t", 0, [SegmentSpec([batch(0, 2)], tail=bytes(1 << 20))])
    stream = Stream(log.path, startingOffsets="earliest")
    assert stream.run() == [[], [0, 1]]
    with open(log.segment(), "r+b") as file:
        file.seek(len(batch(0, 2)))
        file.write(batch(2, 2))
    assert stream.run() == [[2, 3]]


@pytest.fixture
def one_bad_batch(log: GrowingLog) -> GrowingLog:
    """Five batches of two records, the third with a wrong checksum."""
    log.append(*[batch(base, 2, crc=1 if base == 4 else None) for base in range(0, 10, 2)])
    return log


def test_bad_bytes_fail_the_task_that_reads_them(one_bad_batch: GrowingLog) -> None:
    stream = Stream(one_bad_batch.path, startingOffsets="earliest", maxOffsetsPerTrigger=4)
    assert stream.trigger() == []
    assert stream.trigger() == [0, 1, 2, 3]
    for _ in range(2):
        with pytest.raises(CrcMismatchError, match=r"position \d+, base offset 4, offsets 4 to 5"):
            stream.trigger()
    assert stream.committed == offsets(p0=4)


@pytest.mark.parametrize("mode", ["DROPMALFORMED", "PERMISSIVE"])
@pytest.mark.parametrize(
    "limit",
    [
        {},
        {"maxOffsetsPerTrigger": 1},
        {"maxOffsetsPerTrigger": 3},
        {"maxBytesPerTrigger": 1},
        {"maxBytesPerTrigger": 200},
        {"maxBytesPerTrigger": 330},
    ],
)
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(batch(4, 2, crc=1), id="checksum"),
        pytest.param(b"\xff" * 80, id="rubbish"),
        pytest.param(bytes(300), id="zeros"),
    ],
)
def test_bad_bytes_are_stepped_over_and_the_offsets_advance(
    log: GrowingLog, bad: bytes, limit: dict[str, Any], mode: str
) -> None:
    log.append(batch(0, 2), batch(2, 2), bad, batch(6, 2), batch(8, 2))
    stream = Stream(log.path, startingOffsets="earliest", mode=mode, **limit)
    assert [offset for rows in stream.run() for offset in rows] == [0, 1, 2, 3, 6, 7, 8, 9]
    assert stream.committed == offsets(p0=10)


def test_a_rolled_segment_is_followed(log: GrowingLog) -> None:
    log.append(batch(0, 2))
    stream = Stream(log.path, startingOffsets="earliest")
    assert stream.run() == [[], [0, 1]]
    log.append(batch(2, 2))
    log.append(batch(4, 2), base=4)
    log.append(batch(6, 2), base=6)
    assert stream.run() == [[2, 3, 4, 5, 6, 7]]


def test_commit_deletes_nothing_and_an_end_below_the_start_reads_nothing(log: GrowingLog) -> None:
    log.append(batch(0, 5))
    before = sorted(log.path.rglob("*"))
    stream = Stream(log.path, startingOffsets="earliest")
    stream.run()
    stream.reader.commit(offsets(p0=5))
    stream.reader.stop()
    assert sorted(log.path.rglob("*")) == before
    assert stream.reader.partitions(offsets(p0=5), offsets(p0=2)) == []
