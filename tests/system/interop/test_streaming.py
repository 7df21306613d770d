"""Streams over a broker's own folders, against a consumer of it and Spark's Kafka source."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.broker import Broker, ConsumedRecord
from tests.support.kafka_jars import KafkaJars
from tests.support.rows import Rows, _records, by_topic
from tests.support.stream import Stream
from tests.support.stream_job import Job
from tests.support.traffic import (
    TOPICS,
    create_topics,
    wait_until_cleaned,
    write_first_wave,
    write_second_wave,
)

pytestmark = pytest.mark.interop

SEED = 1709
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
# Rows of these may be gone before a stream, or a consumer, comes to read them.
CLEANED = ("table", "trimmed")


@dataclass(slots=True)
class Tail:
    """A stream that is triggered over and over while the broker lives."""

    stream: Stream
    batches: list[pa.RecordBatch] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def follow(self, until: threading.Event) -> None:
        try:
            while not until.is_set():
                self.batches += self.stream.trigger_batches() or []
                time.sleep(0.05)
            while (batches := self.stream.trigger_batches()) is not None:
                self.batches += batches
        except Exception as error:  # noqa: BLE001 - the test raises it where it can be seen
            self.errors.append(error)

    def rows(self) -> Rows:
        if self.errors:
            raise self.errors[0]
        return by_topic(record for each in self.batches for record in _records(each))


def _open_tail(paths: Sequence[Path], isolation_level: str) -> Tail:
    options: dict[str, Any] = {
        "subscribe": ",".join(TOPICS),
        "startingOffsets": "earliest",
        "includeHeaders": True,
        "failOnDataLoss": False,
        "kafka.isolation.level": isolation_level,
    }
    return Tail(Stream(list(paths), **options))


@pytest.fixture(scope="module")
def life(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Rows, Rows]]:
    """Tail a broker through rolls, transactions, compaction, a kill and a restart."""
    print(f"seed {SEED}")
    ended = threading.Event()
    with Broker(tmp_path_factory.mktemp("life") / "broker", jars) as broker:
        create_topics(broker)
        tails = {level: _open_tail(broker.log_directories, level) for level in ISOLATION_LEVELS}
        threads = [
            threading.Thread(target=reader.follow, args=(ended,)) for reader in tails.values()
        ]
        for thread in threads:
            thread.start()
        try:
            write_first_wave(broker, SEED)
            wait_until_cleaned(broker)
            broker.kill()
            broker.start()
            write_second_wave(broker, SEED + 1)
            wait_until_cleaned(broker)
            consumed = {
                level: by_topic(broker.consume(TOPICS, isolation_level=level))
                for level in ISOLATION_LEVELS
            }
            time.sleep(1)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    return {level: (tails[level].rows(), consumed[level]) for level in ISOLATION_LEVELS}


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
def test_a_stream_delivers_what_a_consumer_gets(
    life: dict[str, tuple[Rows, Rows]], isolation_level: str
) -> None:
    ours, theirs = life[isolation_level]
    assert sorted(ours) == sorted(theirs)
    for topic in theirs:
        if topic not in CLEANED:
            assert ours[topic] == theirs[topic], topic


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
def test_a_stream_reads_what_is_cleaned_once_and_as_it_was(
    life: dict[str, tuple[Rows, Rows]], isolation_level: str
) -> None:
    ours, theirs = life[isolation_level]
    for topic in CLEANED:
        places = [(row.partition, row.offset) for row in ours[topic]]
        assert len(places) == len(set(places))
        assert set(theirs[topic]) <= set(ours[topic])
    assert _last_values(ours["table"]) == _last_values(theirs["table"])


def _last_values(rows: Sequence[ConsumedRecord]) -> dict[tuple[int, bytes | None], bytes]:
    """Fold a compacted topic; a tombstone may be gone by the time a consumer reads."""
    last = {(row.partition, row.key): row.value for row in rows}
    return {place: value for place, value in last.items() if value is not None}


# Beside the Kafka source


@pytest.fixture(scope="module")
def written(broker: Broker) -> Broker:
    for topic, counts in {"shares": (1010, 110, 10, 0), "other": (333,)}.items():
        broker.create_topic(topic, partitions=len(counts))
        _send(broker, topic, counts)
    return broker


def _send(broker: Broker, topic: str, counts: Sequence[int]) -> None:
    producer = broker.producer()
    for partition, count in enumerate(counts):
        for number in range(count):
            producer.produce(topic, partition=partition, value=b"%d" % number)
    producer.flush()


@pytest.mark.parametrize("limit", [1, 7, 100, 451, 100_000])
def test_shares_and_checkpoints_equal_those_of_the_kafka_source(
    spark: SparkSession, written: Broker, tmp_path: Path, limit: int
) -> None:
    options: dict[str, Any] = {
        "subscribe": "shares,other",
        # So that a small limit needs no thousand micro-batches.
        "startingOffsets": json.dumps(
            {"shares": {"0": 1002, "1": 105, "2": 8, "3": 0}, "other": {"0": 330}}
            if limit < 100
            else {"shares": {"0": -2, "1": -2, "2": -2, "3": -2}, "other": {"0": -2}}
        ),
        "maxOffsetsPerTrigger": limit,
    }
    theirs = Job(spark, written, tmp_path / "kafka")
    ours = Job(spark, written, tmp_path / "segmentlog")
    theirs.run("kafka", **options)
    ours.run("segmentlog", **options)
    assert ours.offsets()[1:] == theirs.offsets()
    assert sorted(ours.read) == sorted(theirs.read)


def test_a_checkpoint_of_the_kafka_source_is_taken_over_and_given_back(
    spark: SparkSession, written: Broker, tmp_path: Path
) -> None:
    options = {"subscribe": "moved", "startingOffsets": "earliest"}
    written.create_topic("moved", partitions=2)
    job = Job(spark, written, tmp_path / "checkpoint")
    _send(written, "moved", (30, 10))
    job.run("kafka", **options)
    assert len(job.read) == 40
    _send(written, "moved", (5, 5))
    job.run("segmentlog", **options)
    assert sorted(job.read) == [
        ("moved", partition, offset)
        for partition, start in ((0, 30), (1, 10))
        for offset in range(start, start + 5)
    ]
    _send(written, "moved", (1, 0))
    job.run("kafka", **options)
    assert job.read == [("moved", 0, 35)]
