"""What a batch write does: rows to partitions, all of them or none, and what it refuses."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.errors import (
    InvalidRowError,
    LogLockedError,
    NotALogDirectoryError,
    OptionValueError,
    RecordTooLargeError,
    SegmentLogError,
    StagingError,
    UnknownOptionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.formats.checkpoints import META_PROPERTIES
from spark_segmentlog.log.io import files
from tests.support.noting import note_calls
from tests.support.plain_partitioner import partition_for_key
from tests.support.sink import (
    START_MS,
    Sink,
    at,
    rows,
    values,
)

# Rows


def test_nulls_empties_and_headers_come_back_as_they_were(sink: Sink) -> None:
    choices = (None, b"", b"x")
    written = [(key, value) for key in choices for value in choices]
    headers = [[("trace-id", None), ("x", b"")], None, [], *([None] * 6)]
    sink.save(
        rows(
            key=[key for key, _ in written],
            value=[value for _, value in written],
            headers=[
                None if each is None else [{"key": key, "value": value} for key, value in each]
                for each in headers
            ],
        ),
        topic="t",
    )
    read = sink.read(include_headers=True)
    assert [(row["key"], row["value"]) for row in read] == written
    assert [row["offset"] for row in read] == list(range(9))
    # As with the Kafka source, a record without headers has none.
    assert read[0]["headers"] == [{"key": "trace-id", "value": None}, {"key": "x", "value": b""}]
    assert [row["headers"] for row in read[1:]] == [None] * 8


def test_timestamps_older_than_the_first_come_back_exactly(sink: Sink) -> None:
    times = [START_MS, START_MS - 60_000, START_MS + 1, -1]
    sink.save(rows(value=[b"v"] * 4, timestamp=[at(ms) for ms in times]), topic="t")
    assert sink.column("timestamp") == [at(ms) for ms in times]
    assert sink.column("maxTimestampMs", view="batches") == [START_MS + 1]
    time_index = next(sink.path.glob("t-0/*.timeindex")).read_bytes()
    assert int.from_bytes(time_index[:8], "big") == START_MS + 1


@pytest.mark.parametrize("bad", [-2, -5000, 253_402_300_800_000])
def test_a_time_that_kafka_or_spark_stops_at_is_refused_and_nothing_is_written(
    sink: Sink, bad: int
) -> None:
    good = rows(value=[b"a"] * 2, timestamp=[at(START_MS)] * 2)
    times = pa.array([START_MS * 1000, bad * 1000]).cast(good["timestamp"].type)
    task = [good, good.set_column(1, "timestamp", times)]
    message = f"column timestamp, row 3: {bad} ms"
    with pytest.raises(InvalidRowError, match=message):
        sink.save(task, topic="t")
    with pytest.raises(InvalidRowError, match=message):
        sink.micro_batch(0, task, topic="t")
    assert (list(sink.path.glob("t-*")), sink.staged()) == ([], [])


def test_rows_without_a_time_get_that_of_the_write(sink: Sink) -> None:
    sink.save(rows(value=[b"a", b"b"], timestamp=[None, at(START_MS)]), topic="t")
    now, given = sink.column("timestamp")
    assert given == at(START_MS)
    assert abs((datetime.now(UTC) - now).total_seconds()) < 3600


def test_log_append_time_is_one_time_for_all_rows(sink: Sink) -> None:
    options: dict[str, Any] = {"topic": "t", "message.timestamp.type": "LogAppendTime"}
    sink.save(rows(value=[b"a", b"b"], timestamp=[at(START_MS), at(0)]), **options)
    assert sink.column("timestampType") == [1, 1]
    times = sink.column("timestamp")
    assert times[0] == times[1] > at(START_MS)


def test_what_was_read_can_be_written(sink: Sink, tmp_path: Path, monkeypatch: Any) -> None:
    sink.save(
        rows(
            key=[b"a", None, b"c"],
            value=[b"1", b"2", None],
            timestamp=[at(START_MS + place) for place in range(3)],
            headers=[None, [{"key": "h", "value": b"v"}], None],
        ),
        topic="t",
        num_partitions=3,
    )
    other = Sink(monkeypatch, [tmp_path / "other"])
    from spark_segmentlog import read_arrow

    read = read_arrow(str(sink.path), include_headers=True).read_all()
    other.save(read.to_batches(), num_partitions=3)
    assert other.read(include_headers=True) == sink.read(include_headers=True)


def test_a_task_without_rows_and_a_write_without_any(sink: Sink) -> None:
    sink.save([], values(2), [], topic="t")
    sink.save([], topic="t")
    assert sink.column("value") == [b"v0", b"v1"]
    sink.save([], topic="u", num_partitions=2)
    assert sorted(path.name for path in sink.path.glob("u-*")) == ["u-0", "u-1"]


def test_partitions_of_a_topic_that_exists_stay_as_many(sink: Sink) -> None:
    sink.save(values(1), topic="t", num_partitions=3)
    sink.save(rows(key=[b"%d" % n for n in range(50)], value=[b""] * 50), topic="t")
    assert {row["partition"] for row in sink.read()} == {0, 1, 2}


def test_several_directories_are_one_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sink = Sink(monkeypatch, [tmp_path / "d0", tmp_path / "d1"])
    sink.save(values(8), topic="t", num_partitions=4)
    sink.save(values(8), topic="t")
    assert len(sink.read()) == 16
    assert [len(list(path.glob("t-*"))) for path in sink.directories] == [2, 2]


# What is refused


def one_bad(kind: str) -> tuple[pa.RecordBatch, str]:
    good = 5
    if kind == "null topic":
        topics = rows(value=[b""] * 6, topic=["t"] * good + [None])
        return topics, r"\[KAFKA_NULL_TOPIC_IN_DATA\] column topic, row 15: null"
    if kind == "no topic name":
        text = "column topic, row 15: topic 'a b': a name has"
        return rows(value=[b""] * 6, topic=["t"] * good + ["a b"]), text
    if kind == "broker's own topic":
        text = "column topic, row 15: topic __consumer_offsets is the broker's own"
        return rows(value=[b""] * 6, topic=["t"] * good + ["__consumer_offsets"]), text
    if kind == "null header key":
        bad = [{"key": "k", "value": b""}, {"key": None, "value": b""}]
        return (
            rows(value=[b""] * 6, headers=[None] * good + [bad]),
            "column headers, row 15: the key of header 1 is null",
        )
    if kind == "partition too high":
        text = "column partition, row 15: partition 2 of topic t, allowed are 0 to 1"
        return rows(value=[b""] * 6, partition=[1] * good + [2]), text
    if kind == "partition below 0":
        text = "column partition, row 15: partition -1 of topic t, allowed are 0 to 1"
        return rows(value=[b""] * 6, partition=[0] * good + [-1]), text
    assert kind == "record too large"
    return rows(value=[b""] * good + [b"x" * 3000]), "row 15: a record batch of 30.. bytes"


IN_COLUMNS = ("null header key", "partition too high", "partition below 0", "record too large")


OF_TOPICS = ("null topic", "no topic name", "broker's own topic")


@pytest.mark.parametrize(
    ("kind", "topic_by"),
    [
        *((kind, "option") for kind in IN_COLUMNS),
        *((kind, "column") for kind in (*IN_COLUMNS, *OF_TOPICS)),
    ],
)
def test_a_bad_row_names_its_column_and_leaves_the_log_as_it_was(
    sink: Sink, kind: str, topic_by: str
) -> None:
    sink.save(values(4), topic="t", num_partitions=2)
    before = sink.contents()
    batch, text = one_bad(kind)
    options: dict[str, Any] = {"max.message.bytes": 2000}
    if topic_by == "option":
        options["topic"] = "t"
    elif "topic" not in batch.schema.names:
        batch = batch.append_column("topic", pa.array(["t"] * 6))
    good = batch.slice(0, 5)
    with pytest.raises((InvalidRowError, UnsafeTargetError), match=text) as raised:
        sink.save([good], [good, good, batch], **options)
    assert str(raised.value).endswith("(task 1)")
    assert sink.contents() == before
    assert sink.staged() == []
    assert type(pickle.loads(pickle.dumps(raised.value))) is type(raised.value)


def test_a_record_too_large_has_a_class_of_its_own(sink: Sink) -> None:
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes is 1000"):
        sink.save(rows(value=[b"x" * 2000]), topic="t", max_message_bytes=1000)
    with pytest.raises(RecordTooLargeError, match=r"segment\.bytes is 1000"):
        sink.save(rows(value=[b"x" * 2000]), topic="t", segment_bytes=1000)


def test_a_partition_that_is_missing_among_others_is_refused(sink: Sink) -> None:
    sink.save(values(3), topic="t", num_partitions=3)
    for path in (sink.path / "t-1").iterdir():
        path.unlink()
    (sink.path / "t-1").rmdir()
    with pytest.raises(InvalidRowError, match=r"column partition, row 1: partition t-1 is in none"):
        sink.save(rows(value=[b"a", b"b"], partition=[2, 1]), topic="t")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"topik": "t"}, UnknownOptionError, "no option 'topik'; the nearest one is 'topic'"),
        ({"subscribe": "t"}, UnknownOptionError, "is not one of a write"),
        ({"num.partitions": "0"}, OptionValueError, "num.partitions"),
        ({"compression.type": "brotli"}, OptionValueError, "none, gzip, snappy, lz4"),
        ({"kafka.key.serializer": "x"}, OptionValueError, "not supported"),
        ({"txnAppId": "a"}, OptionValueError, "'txnAppId' and 'txnVersion' are given together"),
        ({"topic": "__consumer_offsets"}, UnsafeTargetError, "the broker's own"),
        ({"topic": "a/b"}, OptionValueError, "topic"),
    ],
)
def test_options_are_checked_before_anything_is_written(
    sink: Sink, options: dict[str, Any], error: type[SegmentLogError], text: str
) -> None:
    with pytest.raises(error, match=text):
        sink.save(values(1), **{"topic": "t", **options})
    assert [path for path in sink.path.glob("*") if path.is_dir()] == []


def test_only_a_log_directory_can_be_written(sink: Sink, tmp_path: Path, monkeypatch: Any) -> None:
    sink.save(values(1), topic="t")
    partition = Sink(monkeypatch, [sink.path / "t-0"])
    with pytest.raises(NotALogDirectoryError, match="is a partition directory"):
        partition.save(values(1), topic="t")
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(NotALogDirectoryError):
        Sink(monkeypatch, [file]).save(values(1), topic="t")
    remote = Sink(monkeypatch, [tmp_path])
    with pytest.raises(NotALogDirectoryError, match="no local path"):
        remote.save(values(1), topic="t", path="mock://bucket/log")


def test_a_file_uri_is_a_path(sink: Sink) -> None:
    sink.save(values(1), topic="t", path=f"file://{sink.path}")
    assert sink.column("value") == [b"v0"]


def test_a_topic_unknown_to_the_cluster_is_refused_before_tasks_start(sink: Sink) -> None:
    sink.path.mkdir()
    (sink.path / META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    with pytest.raises(UnsafeTargetError, match="belongs to a cluster"):
        sink.save(values(1), topic="t")


def test_a_directory_that_a_broker_holds_is_refused_before_tasks_start(sink: Sink) -> None:
    sink.save(values(1), topic="t")
    before = sink.contents()
    program = (
        "import fcntl, sys\n"
        "held = open(sys.argv[1], 'r+b')\n"
        "fcntl.lockf(held, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    broker = subprocess.Popen(
        [sys.executable, "-c", program, str(sink.path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"held\n"
        with pytest.raises(LogLockedError, match="held by a running broker"):
            sink.writer(_value_schema(), {"topic": "t"}, overwrite=False)
        assert sink.contents() == before
    finally:
        broker.communicate()


# All or nothing, once


def test_a_task_that_fails_half_way_leaves_nothing_visible(sink: Sink) -> None:
    sink.save(values(2), topic="t")
    before = sink.contents()

    def failing() -> Iterator[pa.RecordBatch]:
        yield values(1000)
        raise RuntimeError("boom")

    writer = sink.writer(_value_schema(), {"topic": "t"}, overwrite=False)
    done = sink.run_task(writer, 0, [values(5)])
    with pytest.raises(RuntimeError, match="boom"):
        sink.run_task(writer, 1, failing)
    assert len(sink.staged()) == 1
    writer.abort([done, None])
    assert sink.contents() == before


def test_of_a_task_that_was_tried_again_one_attempt_counts(sink: Sink) -> None:
    """The files of an attempt that was killed go with the commit."""
    writer = sink.writer(_value_schema(), {"topic": "t"}, overwrite=False)
    sink.run_task(writer, 0, [values(5)])
    second = sink.run_task(writer, 0, [values(5)])
    assert len(sink.staged()) == 2
    writer.commit([second])
    assert sink.column("value") == [f"v{place}".encode() for place in range(5)]
    assert sink.staged() == []


def test_a_message_that_is_missing_fails_the_commit(sink: Sink) -> None:
    writer = sink.writer(_value_schema(), {"topic": "t"}, overwrite=False)
    done = sink.run_task(writer, 0, [values(5)])
    with pytest.raises(StagingError, match="1 of 2 tasks did not report"):
        writer.commit([done, None])
    writer.abort([done, None])
    assert sink.staged() == []


def test_two_writes_add_up_and_one_with_a_version_lands_once(sink: Sink) -> None:
    for _ in range(2):
        sink.save(values(2), topic="t")
    assert len(sink.read()) == 4
    for version in (7, 7, 3):
        sink.save(values(1, prefix="x"), topic="t", txnAppId="job", txnVersion=version)
    assert sink.column("value")[4:] == [b"x0"]
    assert sink.staged() == []
    sink.save(values(1, prefix="y"), topic="t", txnAppId="job", txnVersion=8)
    sink.save(values(1, prefix="z"), topic="t", txnAppId="other", txnVersion=7)
    assert sink.column("value")[5:] == [b"y0", b"z0"]


def test_a_failed_write_with_a_version_can_be_tried_again(sink: Sink) -> None:
    writer = sink.writer(
        _value_schema(), {"topic": "t", "txnAppId": "a", "txnVersion": 1}, overwrite=False
    )
    sink.run_task(writer, 0, [values(5)])
    assert len(sink.staged()) == 1
    # The driver was killed here; the job runs again and takes the staging of the first along.
    sink.save(values(5), topic="t", txnAppId="a", txnVersion=1)
    assert len(sink.read()) == 5
    assert sink.staged() == []


def test_a_micro_batch_id_around_a_batch_write_means_nothing(sink: Sink) -> None:
    """As in foreachBatch: the second save() of a micro-batch is no replay of the first."""
    properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "1"}
    for _ in range(2):
        writer = sink.writer(_value_schema(), {"topic": "t"}, overwrite=False)
        writer.commit([sink.run_task(writer, 0, [values(2)], properties)])
    assert len(sink.read()) == 4


# Overwrite


def test_overwrite_moves_the_log_start_and_offsets_go_on(sink: Sink) -> None:
    sink.save(values(6), topic="t", num_partitions=2)
    sink.save(values(2), topic="u")
    sink.save(rows(value=[b"new"], partition=[0]), topic="t", overwrite=True)
    assert [(row["topic"], row["partition"], row["offset"]) for row in sink.read()] == [
        ("t", 0, 3),
        ("u", 0, 0),
        ("u", 0, 1),
    ]
    sink.save([], topic="t", overwrite=True)
    assert sink.column("topic") == ["u", "u"]
    sink.save(rows(value=[b"a"], partition=[1]), topic="t")
    assert sink.column("offset", subscribe="t") == [3]


def test_overwrite_touches_only_the_topics_of_its_rows(sink: Sink) -> None:
    sink.save(rows(value=[b"a", b"b"], topic=["t", "u"]))
    sink.save(rows(value=[b"c"], topic=["u"]), overwrite=True)
    assert [(row["topic"], row["value"]) for row in sink.read()] == [("t", b"a"), ("u", b"c")]


# Options


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_producer_options_mean_ours_of_that_name(sink: Sink, codec: str) -> None:
    options: dict[str, Any] = {
        "kafka.compression.type": codec,
        "kafka.batch.size": 1000,
        "kafka.bootstrap.servers": "ignored:9092",
    }
    sink.save(rows(value=[b"v" * 100] * 30), topic="t", **options)
    batches = sink.read(view="batches")
    assert {row["codec"] for row in batches} == {codec}
    assert [row["recordCount"] for row in batches] == [8, 8, 8, 6]
    assert sink.column("value") == [b"v" * 100] * 30


def test_segments_roll_at_their_size(sink: Sink) -> None:
    options: dict[str, Any] = {
        "segment.bytes": 4000,
        "batch.size": 500,
        "index.interval.bytes": 1000,
    }
    sink.save(rows(value=[b"v" * 100] * 100), topic="t", **options)
    segments = sink.read(view="segments")
    assert len(segments) > 2
    assert max(row["sizeBytes"] for row in segments) <= 4000
    assert len(sink.read()) == 100


def test_flushes_can_be_asked_for_between(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    note_calls(monkeypatch, files, "fsync", synced.append)
    writer = sink.writer(_value_schema(), {"topic": "t", "flush.messages": 20}, overwrite=False)
    message = sink.run_task(writer, 0, [values(10, start=10 * place) for place in range(6)])
    assert len(synced) == 3
    writer.commit([message])
    assert sink.column("value") == [f"v{place}".encode() for place in range(60)]
    synced.clear()
    writer = sink.writer(_value_schema(), {"topic": "t", "flush.ms": 0}, overwrite=False)
    sink.run_task(writer, 0, [values(10) for place in range(4)])
    assert len(synced) == 4


# Many partitions


def test_many_tasks_into_many_partitions_stage_a_file_each(sink: Sink) -> None:
    tasks, partitions, row_count = 200, 1000, 100
    draw = np.random.default_rng(20250211)
    writer = sink.writer(
        _value_schema("key"), {"topic": "t", "num.partitions": partitions}, overwrite=False
    )
    messages = []
    for task in range(tasks):
        keys = [b"%d" % key for key in draw.integers(0, 1 << 40, row_count)]
        messages.append(sink.run_task(writer, task, [rows(key=keys, value=keys)]))
    assert len(sink.staged()) == tasks
    writer.commit(messages)
    assert sink.staged() == []
    assert len(list(sink.path.glob("t-*"))) == partitions
    read = sink.read("key", "value", "partition")
    assert len(read) == tasks * row_count
    assert all(row["key"] == row["value"] for row in read)
    assert all(row["partition"] == partition_for_key(row["key"], partitions) for row in read[::97])


def test_a_task_with_rows_for_every_partition_reports_in_few_bytes(sink: Sink) -> None:
    options = {"topic": "t", "num.partitions": 1000}
    writer = sink.writer(_value_schema(), options, overwrite=False)
    message = sink.run_task(writer, 0, [values(10_000)])
    assert len(sink.staged()) == 1
    assert 200 * len(pickle.dumps(message)) < 100_000_000


def _value_schema(*more: str) -> Any:
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType([StructField(name, BinaryType()) for name in (*more, "value")])
