"""Reads beside a broker that rolls, cleans and deletes: every row each time, no false loss."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from spark_segmentlog import read_arrow
from tests.support.broker import Broker
from tests.support.kafka_jars import KafkaJars
from tests.support.running import objects, run
from tests.support.stream import Stream

pytestmark = pytest.mark.interop

READS = int(os.environ.get("BESIDE_BROKER_READS", "1000"))
# Runs of what takes longer: verbs and views, one after the other in turn.
RUNS = int(os.environ.get("BESIDE_BROKER_RUNS", "1000"))
# Writes for each round, so that the log grows with the rounds and not with how long they last.
WRITES = 2
# Of so many records the last has a key of its own, so that what compaction keeps stays small.
KEPT_ONE_IN = 10
CLEANED, AGED = "cleaned.v1", "aged.v1"
PROPERTIES = {
    "log.cleaner.backoff.ms": 100,
    "log.retention.check.interval.ms": 300,
    "log.segment.delete.delay.ms": 500,
    "log.initial.task.delay.ms": 100,
}
ROLLED = {"internal.segment.bytes": 2_000, "index.interval.bytes": 500}


class Traffic:
    """Writes to a broker, and makes and deletes topics, until it is told to stop.

    `kept` holds the offsets of records that compaction must keep, as far as they are acknowledged.
    """

    def __init__(self, broker: Broker, seed: int) -> None:
        self._broker = broker
        self._draw = random.Random(seed)
        self._is_over = threading.Event()
        self._allowed = threading.Semaphore(8 * WRITES)
        self._threads = [
            threading.Thread(target=self._run, args=(work,)) for work in (self._write, self._turn)
        ]
        self.kept: list[int] = []
        self.ends = {CLEANED: 0, AGED: 0}
        self.errors: list[BaseException] = []

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def go_on(self) -> None:
        """Allow the writes of one more round."""
        self._allowed.release(WRITES)

    def stop(self) -> None:
        """End what is written, made and deleted, and wait for it."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, work: Any) -> None:
        try:
            while not self._is_over.is_set():
                work()
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)

    def _write(self) -> None:
        if not self._allowed.acquire(timeout=0.2):
            return
        producer = self._broker.producer(batch_num_messages=5)

        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None
            topic, offset = message.topic(), message.offset()
            assert topic is not None
            assert offset is not None
            if topic == CLEANED and (message.key() or b"").startswith(b"only"):
                self.kept.append(offset)
            self.ends[topic] = offset + 1

        for number in range(20):
            name = b"only%d" % self._draw.randrange(2**60)
            is_kept = number % KEPT_ONE_IN == KEPT_ONE_IN - 1
            key = name if is_kept else b"k%d" % self._draw.randrange(5)
            producer.produce(CLEANED, key=key, value=b"v" * 60, on_delivery=note)
            producer.produce(AGED, value=b"v" * 60, on_delivery=note)
        producer.flush()
        time.sleep(0.1)

    def _turn(self) -> None:
        """Make a topic and delete it again."""
        topic = f"short.{self._draw.randrange(10**9)}"
        self._broker.create_topic(topic, partitions=2)
        time.sleep(0.5)
        admin = self._broker.admin()
        admin.delete_topics([topic], operation_timeout=30)[topic].result(30)


class Reads:
    """Reads of all kinds over the log directories of a broker at work."""

    def __init__(self, paths: list[Path], traffic: Traffic) -> None:
        self._paths = paths
        self._traffic = traffic
        self._stream = Stream(paths, subscribe=CLEANED, startingOffsets="earliest")
        self._streamed: list[int] = []

    def rows(self) -> None:
        kept, end = set(self._traffic.kept), self._traffic.ends[CLEANED]
        table = read_arrow(self._paths, subscribe=CLEANED, columns=["offset"]).read_all()
        offsets = table["offset"].to_pylist()
        assert offsets == sorted(set(offsets))
        assert kept <= set(offsets)
        assert offsets[-1] >= end - 1

    def rows_that_age(self) -> None:
        """Read what retention takes meanwhile; what it never took is there."""
        end = self._traffic.ends[AGED]
        table = read_arrow(self._paths, subscribe=AGED, fail_on_data_loss=False).read_all()
        offsets = table["offset"].to_pylist()
        start = self._start(AGED)
        assert offsets == sorted(set(offsets))
        assert [offset for offset in offsets if start <= offset < end] == list(range(start, end))

    def stream(self) -> None:
        kept = set(self._traffic.kept)
        for batch in self._stream.trigger_batches() or []:
            self._streamed += batch["offset"].to_pylist()
        if self._stream.committed is not None:
            assert self._streamed == sorted(set(self._streamed))
            end = self._stream.committed[CLEANED]["0"]
            assert {offset for offset in kept if offset < end} <= set(self._streamed)

    def batches(self) -> None:
        end = self._traffic.ends[CLEANED]
        view = read_arrow(self._paths, subscribe=CLEANED, view="batches").read_all().to_pylist()
        lasts = [row["lastOffset"] for row in view]
        assert [row["baseOffset"] for row in view[1:]] == [
            max(row["baseOffset"], last + 1) for row, last in zip(view[1:], lasts, strict=False)
        ]
        assert lasts[-1] >= end - 1

    def segments(self) -> None:
        view = read_arrow(self._paths, subscribe=CLEANED, view="segments").read_all().to_pylist()
        _check_chain(view)

    def ls(self) -> None:
        (row,) = objects("ls", *self._paths, "--topic", CLEANED, "--partitions")
        assert row["logStartOffset"] == 0
        ran = run("ls", *self._paths, "--segments", "--format", "json")
        assert ran.exit_code == 0, ran.stderr
        _check_chain([row for row in ran.objects if row["topic"] == CLEANED])

    def dump(self) -> None:
        kept = set(self._traffic.kept)
        assert run("dump", *self._paths, "--indexes").exit_code == 0
        ran = run("dump", *self._paths, "--topic", CLEANED, "--records", "--format", "json")
        assert ran.exit_code == 0, ran.stderr
        offsets = [row["offset"] for row in ran.objects if row["type"] == "record"]
        assert offsets == sorted(set(offsets))
        assert kept <= set(offsets)

    def verify(self) -> None:
        ran = run("verify", *self._paths, "--deep")
        assert ran.stdout.splitlines()[-1].startswith("0 wrong"), ran.stdout

    def recover(self) -> None:
        ran = run("recover", *self._paths, "--topic", CLEANED)
        assert ran.stdout == "0 done, 0 left\n", ran.stdout + ran.stderr

    def _start(self, topic: str) -> int:
        (row,) = objects("ls", *self._paths, "--topic", topic, "--fast", "--partitions")
        return int(row["logStartOffset"])


def _check_chain(rows: list[dict[str, Any]]) -> None:
    assert rows[0]["baseOffset"] == 0
    assert [row["baseOffset"] for row in rows[1:]] == [row["endOffset"] for row in rows[:-1]]
    assert not any(row["isActive"] for row in rows[:-1])


@pytest.fixture
def traffic(jars: KafkaJars, tmp_path: Path) -> Iterator[tuple[Broker, Traffic]]:
    seed = int(os.environ.get("SEGMENTLOG_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    with Broker(tmp_path / "broker", jars, properties=PROPERTIES) as broker:
        compacted = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": 0.001,
            "min.compaction.lag.ms": 0,
        }
        broker.create_topic(CLEANED, config=ROLLED | compacted)
        broker.create_topic(AGED, config=ROLLED | {"retention.bytes": 20_000})
        with Traffic(broker, seed) as running:
            while min(running.ends.values()) < 200:
                assert not running.errors
                time.sleep(0.1)
            yield broker, running


@pytest.mark.timeout(3600)
def test_every_read_beside_a_broker_is_whole(traffic: tuple[Broker, Traffic]) -> None:
    broker, running = traffic
    reads = Reads(broker.log_directories, running)
    turns = (reads.ls, reads.dump, reads.verify, reads.batches, reads.segments, reads.recover)
    for number in range(max(READS, RUNS)):
        running.go_on()
        if number < READS:
            reads.rows()
            reads.rows_that_age()
            reads.stream()
        if number < RUNS:
            turns[number % len(turns)]()
        assert not running.errors
        if number % 100 == 99:
            print(f"{number + 1} rounds", flush=True)
    # A consumer that runs after a producer sees no end.
    running.stop()
    directory = broker.partition_directory(CLEANED)
    consumed = {record.offset for record in broker.consume([CLEANED])}
    assert len(consumed) < running.ends[CLEANED]
    starts = [int(path.stem) for path in directory.glob("*.log")]
    print(f"{running.ends[CLEANED]} records, segments start at {sorted(starts)}")
    assert len(starts) > 3
    assert max(starts) > running.ends[CLEANED] // 2
