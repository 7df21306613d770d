"""A log that is open for appending: rolls, flushes, threads, failing disks, and torn tails."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.errors import (
    InvalidRowError,
    LogLockedError,
    NotALogDirectoryError,
    OffsetOutOfRangeError,
    OptionValueError,
    RecordTooLargeError,
    SchemaError,
    SegmentLogError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from tests.support.appending import T0, records, values_of
from tests.support.broker_data import unpack
from tests.support.plain_partitioner import partition_for_key
from tests.support.scenarios import MARK, read_rows

SMALL: dict[str, Any] = {"segment_bytes": 2000, "batch_size": 300, "index_interval_bytes": 200}


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "made" / "log")


def test_what_is_appended_is_read_back_with_its_offsets(directory: str) -> None:
    headers = pa.array(
        [[{"key": "h", "value": None}], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    with open_log(directory) as log:
        first = log.append(
            "t",
            records(
                b"a",
                b"",
                key=pa.array([None, b"k"], pa.binary()),
                timestamp=pa.array([5, -1]),
                headers=headers,
            ),
        )
        assert first == [OffsetRange(T0, 0, 2)]
        assert log.append("t", pa.table({"value": ["text"], "timestamp": [6]})) == [
            OffsetRange(T0, 2, 3)
        ]
        table = log.read("t", 0)
        assert table.column("value").to_pylist() == [b"a", b"", b"text"]
        assert table.column("key").to_pylist() == [None, b"k", None]
        assert table.column("offset").to_pylist() == [0, 1, 2]
        assert table.column("headers").to_pylist() == [[{"key": "h", "value": None}], None, None]
        assert (log.log_start_offset("t", 0), log.log_end_offset("t", 0)) == (0, 3)
        assert log.topics == ["t"]
    assert list(verify(directory, deep=True)) == []


def test_reading_gives_about_the_bytes_asked_for_and_one_batch_at_least(directory: str) -> None:
    with open_log(directory, **SMALL) as log:
        for number in range(50):
            log.append("t", records(b"%03d" % number * 30))
        assert log.read("t", 0, 10, max_bytes=1).column("offset").to_pylist() == [10]
        assert log.read("t", 0, 10, max_bytes=1 << 20).num_rows > 1
        assert log.read("t", 0, 50).num_rows == 0
        for offset in (-1, 51):
            with pytest.raises(OffsetOutOfRangeError):
                log.read("t", 0, offset)
        with pytest.raises(UnknownTopicOrPartitionError):
            log.read("t", 1)


def test_keys_choose_their_partition_and_rows_without_are_dealt_out(directory: str) -> None:
    keys = [f"key {number}".encode() for number in range(200)]
    with open_log(directory, num_partitions=5) as log:
        log.append("t", records(*keys, key=pa.array(keys, pa.binary())))
        ranges = log.append("u", records(*keys))
    for partition in range(5):
        found = values_of(directory, TopicPartition("t", partition))
        assert found == [key for key in keys if partition_for_key(key, 5) == partition]
    assert [found.end_offset for found in ranges] == [40] * 5


def test_topics_are_made_where_fewest_partitions_are(tmp_path: Path) -> None:
    directories = [str(tmp_path / name) for name in "abc"]
    with open_log(directories) as log:
        log.create_topic("t", 3)
        log.create_topic("u", 4)
        log.create_topic("u", 5)
        with pytest.raises(SegmentLogError, match="5 partitions"):
            log.create_topic("u", 2)
        for topic in INTERNAL_TOPICS:
            with pytest.raises(UnsafeTargetError):
                log.create_topic(topic, 1)
            with pytest.raises(UnsafeTargetError):
                log.append(topic, records(b"row"))
    counts = sorted(len(list(Path(path).glob("*-*/"))) for path in directories)
    assert counts == [2, 3, 3]
    ids = {path.read_text() for path in tmp_path.glob("*/u-*/partition.metadata")}
    assert len(ids) == 1


def test_a_brokers_own_topic_is_read_as_it_is(tmp_path: Path) -> None:
    for topic in INTERNAL_TOPICS:
        specs = RecordSpec(value=b"good"), RecordSpec(value=b"torn")
        batches = [v2_batch([spec], base_offset=at) for at, spec in enumerate(specs)]
        partition = LogBuilder(tmp_path).partition(topic, 0, [SegmentSpec(batches, cut_bytes=3)])
        before = {path.name: path.read_bytes() for path in partition.iterdir()}
        with open_log(tmp_path) as log:
            assert log.read(topic, 0).column("value").to_pylist() == [b"good"]
            assert log.log_end_offset(topic, 0) == 1
        assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def test_many_threads_append_to_the_same_partitions(directory: str) -> None:
    def append(number: int) -> None:
        for row in range(30):
            log.append("t", records(b"%d/%d" % (number, row)), partition=row % 2)

    with open_log(directory, num_partitions=2, **SMALL) as log:
        threads = [threading.Thread(target=append, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = read_rows([directory])
    for partition in range(2):
        found = rows[TopicPartition("t", partition)]
        assert [offset for offset, _, _ in found] == list(range(90))
        for number in range(6):
            prefix = b"%d/" % number
            own = [int(v[len(prefix) :]) for _, _, v in found if v and v.startswith(prefix)]
            assert own == list(range(partition, 30, 2))
    assert list(verify(directory)) == []


def test_the_clean_shutdown_mark_is_away_while_the_log_is_open(directory: str) -> None:
    with open_log(directory) as log:
        log.append("t", records(b"v"))
    mark = Path(directory) / ".kafka_cleanshutdown"
    mark.write_bytes(MARK)
    with open_log(directory) as log:
        assert not mark.exists()
        log.append("t", records(b"w"))
        assert not mark.exists()
    assert mark.read_bytes() == MARK


@pytest.mark.parametrize("state", ["clean", "crashed"])
def test_a_brokers_log_is_gone_on_with(state: str, tmp_path: Path) -> None:
    directories = list(unpack("kafka-4.3.1", state, tmp_path).log_directories)
    before = read_rows(directories)
    with open_log(directories) as log:
        for topic in ("orders", "ledger", "trimmed", "single"):
            log.append(topic, records(*[b"new"] * 20))
        with pytest.raises(UnsafeTargetError, match="create the topic first"):
            log.append("unknown", records(b"v"))
    after = read_rows(directories)
    added = {key.topic: 0 for key in after}
    for key, rows in before.items():
        assert after[key][: len(rows)] == rows
        added[key.topic] += len(after[key]) - len(rows)
    assert {topic: count for topic, count in added.items() if count} == dict.fromkeys(
        ("orders", "ledger", "trimmed", "single"), 20
    )
    assert [finding for finding in verify(directories) if not finding.is_harmless] == []


def test_a_second_writer_is_refused(directory: str) -> None:
    with open_log(directory), pytest.raises(LogLockedError):
        open_log(directory)
    open_log(directory).close()


def test_bad_records_leave_the_log_as_it_was(directory: str) -> None:
    with open_log(directory, num_partitions=2, max_message_bytes=1000) as log:
        log.append("t", records(b"v"), partition=0)
        bad = [
            (SchemaError, pa.record_batch({"key": [b"k"]}), {}),
            (SchemaError, records(b"v", other=pa.array([1])), {}),
            (RecordTooLargeError, records(b"v", b"x" * 2000), {}),
            (InvalidRowError, records(b"v"), {"partition": 2}),
        ]
        for kind, rows, options in bad:
            with pytest.raises(kind):
                log.append("t", rows, **options)
        assert log.append("t", records()) == []
        assert log.log_end_offset("t", 0) + log.log_end_offset("t", 1) == 1


def test_a_closed_log_takes_no_more(directory: str) -> None:
    log = open_log(directory)
    log.append("t", records(b"v"))
    log.close()
    log.close()
    with pytest.raises(SegmentLogError, match="closed"):
        log.append("t", records(b"v"))


def test_options_are_checked(directory: str) -> None:
    with pytest.raises(OptionValueError, match="message_timestamp_type"):
        open_log(directory, message_timestamp_type="Whenever")
    with pytest.raises(OptionValueError, match="brotli"):
        open_log(directory, compression_type="brotli")


def test_log_append_time_stamps_all_records(directory: str) -> None:
    before = time.time_ns() // 1_000_000
    with open_log(directory, message_timestamp_type="LogAppendTime", compression_type="lz4") as log:
        log.append("t", records(b"a", b"b", timestamp=pa.array([1, 2])))
        table = log.read("t", 0)
    assert set(table.column("timestampType").to_pylist()) == {1}
    stamps_us = np.array(table.column("timestamp").cast(pa.int64()))
    assert (stamps_us >= before * 1000).all()


@pytest.mark.parametrize("uri", ["s3://bucket/x", "s3:/bucket/x", "hdfs://host/x"])
def test_what_looks_like_a_uri_is_never_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotALogDirectoryError, match="is no local path"):
        open_log(uri)
    assert os.listdir(tmp_path) == []
    os.makedirs(tmp_path / uri)
    with pytest.raises(NotALogDirectoryError, match="is no local path"):
        open_log(uri)


def test_a_file_uri_is_its_local_path(directory: str) -> None:
    with open_log(f"file://{directory}") as log:
        log.append("t", records(b"a"))
    assert values_of(directory) == [b"a"]


def test_a_mark_stays_away_when_a_failed_append_could_not_be_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.record_batch({"value": pa.array([b"v" * 100], pa.binary())})
    with open_log(str(tmp_path)) as log:
        log.append("t", rows)
    mark = tmp_path / ".kafka_cleanshutdown"
    mark.write_bytes(b"mark")
    log = open_log(str(tmp_path))
    log.append("t", rows)
    write_all = files.write_all

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    def fail_half_way(descriptor: int, data: Any, position: int) -> None:
        write_all(descriptor, memoryview(data)[:50], position)
        fail()

    monkeypatch.setattr(files, "write_all", fail_half_way)
    monkeypatch.setattr(files, "truncate", fail)
    with pytest.raises(OSError, match="broken"):
        log.append("t", rows)
    monkeypatch.undo()
    log.close()
    assert not mark.exists()
    with open_log(str(tmp_path)) as log:
        assert log.log_end_offset("t", 0) == 2


def test_a_mark_stays_away_when_the_last_sync_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"mark")
    log = open_log(str(tmp_path))
    log.append("t", pa.record_batch({"value": pa.array([b"v"], pa.binary())}))

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(files, "fsync", fail)
    with pytest.raises(OSError, match="broken"):
        log.close()
    monkeypatch.undo()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_forked_child_neither_writes_nor_closes_its_parents_log(tmp_path: Path) -> None:
    rows = pa.record_batch({"value": pa.array([b"v"], pa.binary())})
    mark = tmp_path / ".kafka_cleanshutdown"
    mark.write_bytes(b"mark")
    with open_log(str(tmp_path)) as log:
        log.append("t", rows)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            answer = b"appended"
            try:
                log.append("t", rows)
            except SegmentLogError as error:
                answer = str(error).encode()
            log.close()
            os.write(writing, answer)
            os._exit(0)
        os.waitpid(child, 0)
        assert b"was opened in process" in os.read(reading, 1000)
        os.close(reading)
        os.close(writing)
        assert not mark.exists()
        log.append("t", rows)
    assert mark.read_bytes() == b"mark"
