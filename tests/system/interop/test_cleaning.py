"""A broker starts on what our retention and compaction leave, serves it and goes on after it."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.compaction import PartitionCompaction, compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from tests.support.broker import Broker, ConsumedRecord
from tests.support.kafka_jars import KafkaJars
from tests.support.power_loss import Disk, PowerLoss
from tests.support.traffic import CODECS

pytestmark = pytest.mark.interop

SEED = 20261127
SEGMENT_BYTES = 6_000
TOPIC_CONFIG = {
    "internal.segment.bytes": SEGMENT_BYTES,
    "index.interval.bytes": 500,
    "retention.ms": -1,
}
COMPACTION = CompactionConfig(
    segment=SegmentConfig(segment_bytes=2 * SEGMENT_BYTES, index_interval_bytes=500),
    file_delete_delay_ms=0,
)
KEYED = ("keyed.v1", "ledger.v1")
TOPICS = (*KEYED, "sized.v1")
# An operation in the middle of the renames of a group; found by name when the test runs.
RENAMES = ("cleaned to swap", "old to deleted", "swap to plain")


@pytest.fixture
def broker(jars: KafkaJars, tmp_path: Path) -> Iterator[Broker]:
    """A running broker with overwritten keys, tombstones and ended transactions."""
    print(f"seed {SEED}")
    with Broker(tmp_path / "broker", jars) as running:
        for topic in TOPICS:
            running.create_topic(topic, config=TOPIC_CONFIG)
        draw = random.Random(SEED)
        _write_keys(running, draw)
        _write_transactions(running, draw)
        producer = running.producer(enable_idempotence=True)
        for number in range(300):
            producer.produce("sized.v1", key=b"%d" % number, value=b"v" * 100)
            if number % 10 == 9:
                producer.flush()
        yield running


def _write_keys(broker: Broker, draw: random.Random) -> None:
    for codec in CODECS:
        producer = broker.producer(compression_type=codec, enable_idempotence=True)
        for number in range(200):
            value = None if draw.random() < 0.1 else b"%d" % number * draw.randrange(1, 9)
            producer.produce(
                "keyed.v1", key=b"k%d" % draw.randrange(40), value=value, headers=[("h", b"x")]
            )
            if draw.random() < 0.2:
                producer.flush()
        producer.flush()


def _write_transactions(broker: Broker, draw: random.Random) -> None:
    producer = broker.producer(transactional_id="cleaning")
    producer.init_transactions(30)
    for number in range(40):
        producer.begin_transaction()
        for _ in range(draw.randrange(1, 6)):
            producer.produce(
                "ledger.v1", key=b"k%d" % draw.randrange(10), value=b"%d" % number * 50
            )
        producer.flush()
        if draw.random() < 0.5:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def _compact(broker: Broker) -> tuple[PartitionCompaction, ...]:
    return compact(
        [str(path) for path in broker.log_directories],
        KEYED,
        COMPACTION,
        time.time_ns() // 1_000_000,
    )


def _latest(records: list[ConsumedRecord], ends: dict[str, int]) -> list[ConsumedRecord]:
    latest = {
        (record.topic, record.key): record.offset
        for record in records
        if record.offset < ends.get(record.topic, 0)
    }
    return [
        record
        for record in records
        if record.offset >= ends.get(record.topic, 0)
        or latest[record.topic, record.key] == record.offset
    ]


def _ends(report: tuple[PartitionCompaction, ...]) -> dict[str, int]:
    return {partition.topic_partition.topic: partition.cleaned_up_to for partition in report}


def _problems(broker: Broker) -> list[str]:
    """What Kafka's tools have against the files, but for what they say of its own cleaner's too.

    Gaps are what compaction is for. A batch whose records are all gone keeps its largest timestamp,
    which the time index then has and no record does: the tool gives its "log timestamp" as -1.
    """
    logs = [
        path for topic in TOPICS for path in sorted(broker.partition_directory(topic).glob("*.log"))
    ]
    found = broker.dump_log("--deep-iteration", files=logs).problems
    indexes = [
        path
        for topic in TOPICS
        for kind in ("index", "timeindex")
        for path in sorted(broker.partition_directory(topic).glob(f"*.{kind}"))
        if path.stat().st_size
    ]
    dump = broker.dump_log("--verify-index-only", files=indexes)
    compared = re.findall(r"Index timestamp: (-?\d+), log timestamp: (-?\d+)", dump.text)
    assert all(logged == "-1" for _, logged in compared)
    found += [line for line in dump.problems if "timestamp mismatch" not in line]
    found += broker.dump_log("--index-sanity-check", files=indexes).problems
    return [line for line in found if "is followed by" not in line and "consecutive" not in line]


def _assert_goes_on(broker: Broker) -> None:
    """The same transactional producer, and others, append after it."""
    before = {record.topic: record.offset for record in broker.consume(TOPICS)}
    for topic in TOPICS:
        producer = broker.producer(enable_idempotence=True)
        producer.produce(topic, key=b"after", value=b"1")
        producer.flush()
    producer = broker.producer(transactional_id="cleaning")
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("ledger.v1", key=b"after", value=b"2")
    producer.commit_transaction(30)
    after = [
        record
        for record in broker.consume(TOPICS, isolation_level="read_committed")
        if record.key == b"after"
    ]
    assert len(after) == len(TOPICS) + 1
    assert all(record.offset > before.get(record.topic, -1) for record in after)
    assert broker.problems() == []


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_serves_a_compacted_log(broker: Broker, end: str) -> None:
    committed = broker.consume(KEYED, isolation_level="read_committed")
    getattr(broker, end)()

    report = _compact(broker)

    expected = _latest(committed, _ends(report))
    assert len(expected) < len(committed) / 2
    assert all(partition.segments_after < partition.segments_before for partition in report)
    if end == "stop":
        assert _problems(broker) == []
    broker.start()
    assert broker.consume(KEYED, isolation_level="read_committed") == expected
    _assert_goes_on(broker)
    broker.stop()
    assert _problems(broker) == []


def test_a_broker_serves_what_retention_leaves(broker: Broker) -> None:
    before = broker.consume(["sized.v1"])
    broker.stop()
    config = RetentionConfig(
        retention_ms=-1, retention_bytes=2 * SEGMENT_BYTES, file_delete_delay_ms=0
    )
    paths = [str(path) for path in broker.log_directories]
    report = apply_retention(paths, ["sized.v1"], config, time.time_ns() // 1_000_000)
    start = report[0].log_start_offset
    assert start > 0
    broker.start()
    assert broker.consume(["sized.v1"]) == [record for record in before if record.offset >= start]
    broker.stop()
    # All of it is too old: an empty segment takes its place, offsets go on.
    now_ms = time.time_ns() // 1_000_000 + 1000
    old = replace(config, retention_bytes=-1, retention_ms=0)
    apply_retention(paths, ["sized.v1"], old, now_ms)
    broker.start()
    assert broker.consume(["sized.v1"]) == []
    _assert_goes_on(broker)
    assert broker.consume(["sized.v1"])[0].offset == 300


@pytest.mark.parametrize("stage", RENAMES)
def test_a_broker_ends_a_compaction_that_was_cut_short(
    broker: Broker, stage: str, tmp_path: Path
) -> None:
    committed = broker.consume(KEYED, isolation_level="read_committed")
    broker.stop()
    operation = _operation_at(broker, stage, tmp_path / "copy")
    with pytest.MonkeyPatch.context() as patch:
        Disk(broker.directory, stop_after=operation).watch(patch)
        with pytest.raises(PowerLoss):
            _compact(broker)
    broker.start()
    seen = broker.consume(KEYED, isolation_level="read_committed")
    broker.stop()
    report = _compact(broker)
    expected = _latest(committed, _ends(report))
    assert set(expected) <= set(seen) <= set(committed)
    broker.start()
    assert broker.consume(KEYED, isolation_level="read_committed") == expected
    _assert_goes_on(broker)


def _operation_at(broker: Broker, stage: str, copy: Path) -> int:
    """Find the second operation of a kind of rename, in a run over a copy."""
    shutil.copytree(broker.directory, copy)
    paths = [copy / path.name for path in broker.log_directories]
    suffix = {"cleaned to swap": ".cleaned", "old to deleted": "", "swap to plain": ".swap"}[stage]
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(copy)
        disk.watch(patch)
        compact([str(path) for path in paths], KEYED, COMPACTION, time.time_ns() // 1_000_000)
    found = [
        number
        for number, text in enumerate(disk.operations)
        if text.startswith("rename") and text.endswith((f".log{suffix}", f".index{suffix}"))
    ]
    return found[1]
