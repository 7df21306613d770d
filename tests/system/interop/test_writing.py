"""What we write, as a broker takes it: its tools, its consumers, and producers after us."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_segmentlog.errors import CommitPendingError, LogLockedError, UnsafeTargetError
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write import open_commits
from tests.support.broker import Broker, BrokerError, ConsumedRecord, running_broker
from tests.support.broker_writing import draw_records, write_records
from tests.support.kafka_jars import KafkaJars
from tests.support.rows import by_topic, read_rows
from tests.support.traffic import CODECS

pytestmark = pytest.mark.interop

SEED = 20250211
PARTITIONS_COUNT = 2
RECORDS_COUNT = 300
CONFIG = SegmentConfig(segment_bytes=12_000, index_interval_bytes=1_000)
TOPIC_CONFIG = {"internal.segment.bytes": 12_000, "index.interval.bytes": 1_000}
TOPICS = tuple(f"to.{codec}" for codec in CODECS)


@pytest.fixture
def written_by_producers(jars: KafkaJars, tmp_path: Path) -> Iterator[Broker]:
    """A running broker with a topic a codec, in which producers have written."""
    print(f"seed {SEED}")
    with running_broker(tmp_path / "broker", jars) as broker:
        for codec, topic in zip(CODECS, TOPICS, strict=True):
            broker.create_topic(topic, partitions=PARTITIONS_COUNT, config=TOPIC_CONFIG)
            _produce(broker, topic, b"before", compression_type=codec)
        yield broker


def _produce(broker: Broker, topic: str, text: bytes, **config: object) -> None:
    producer = broker.producer(batch_num_messages=20, **config)
    for partition in range(PARTITIONS_COUNT):
        for number in range(100):
            producer.produce(topic, partition=partition, key=text, value=b"%d" % number)
    producer.flush()


def _append_everywhere(broker: Broker, first_offset: int) -> list[ConsumedRecord]:
    """Append to every topic in its codec; return what a consumer must get for it."""
    appended = []
    for codec, topic in zip(CODECS, TOPICS, strict=True):
        records = [
            record
            for partition in range(PARTITIONS_COUNT)
            for record in draw_records(
                SEED, RECORDS_COUNT, topic=topic, partition=partition, first_offset=first_offset
            )
        ]
        write_records(broker.log_directories, records, compression=codec, config=CONFIG)
        appended += records
    return sorted(appended)


def _assert_tools_find_nothing(broker: Broker, topics: tuple[str, ...] = TOPICS) -> None:
    folders = [
        broker.partition_directory(topic, partition)
        for topic in topics
        for partition in range(PARTITIONS_COUNT)
    ]
    logs = [path for folder in folders for path in sorted(folder.glob("*.log"))]
    assert len(logs) > len(folders)
    dump = broker.dump_log("--deep-iteration", files=logs)
    assert dump.problems == []
    assert len(dump.batch_lines) > len(logs)
    indexes = [
        path
        for folder in folders
        for suffix in ("index", "timeindex")
        for path in sorted(folder.glob(f"*.{suffix}"))
        if path.stat().st_size
    ]
    assert broker.dump_log("--verify-index-only", files=indexes).problems == []
    assert broker.dump_log("--index-sanity-check", files=indexes).problems == []


def _assert_served(broker: Broker, appended: list[ConsumedRecord]) -> None:
    """Old and new records are there, and producers go on after them."""
    consumed = broker.consume(TOPICS)
    old = [record for record in consumed if record.offset < 100]
    assert {record.key for record in old} == {b"before"}
    assert len(old) == 100 * PARTITIONS_COUNT * len(TOPICS)
    assert [record for record in consumed if record.offset >= 100] == appended
    for topic in TOPICS:
        _produce(broker, topic, b"after")
    after = [record for record in broker.consume(TOPICS) if record.key == b"after"]
    assert {record.offset for record in after} == {100 + RECORDS_COUNT + n for n in range(100)}
    assert broker.problems() == []


def test_a_stopped_broker_serves_what_was_appended(written_by_producers: Broker) -> None:
    broker = written_by_producers
    broker.stop()

    appended = _append_everywhere(broker, first_offset=100)

    _assert_tools_find_nothing(broker)
    broker.start()
    _assert_served(broker, appended)
    broker.stop()
    _assert_tools_find_nothing(broker)


def test_a_killed_broker_serves_what_was_appended(written_by_producers: Broker) -> None:
    broker = written_by_producers
    broker.kill()

    appended = _append_everywhere(broker, first_offset=100)

    broker.start()
    _assert_served(broker, appended)
    broker.stop()
    _assert_tools_find_nothing(broker)


def test_a_directory_of_ours_is_served_in_place_of_the_brokers(
    written_by_producers: Broker, tmp_path: Path
) -> None:
    broker = written_by_producers
    broker.stop()
    ours = tmp_path / "ours"
    ours.mkdir()
    written = []
    for codec, topic in zip(CODECS, TOPICS, strict=True):
        records = [
            record
            for partition in range(PARTITIONS_COUNT)
            for record in draw_records(
                SEED, RECORDS_COUNT, topic=topic, partition=partition, first_offset=0
            )
        ]
        write_records(
            [ours],
            records,
            compression=codec,
            config=CONFIG,
            new_partition_count=PARTITIONS_COUNT,
        )
        written += records
        for partition in range(PARTITIONS_COUNT):
            _put_in_place(
                ours / f"{topic}-{partition}", broker.partition_directory(topic, partition)
            )

    broker.start()

    assert broker.consume(TOPICS) == sorted(written)
    assert broker.problems() == []
    broker.stop()
    _assert_tools_find_nothing(broker)


def _put_in_place(ours: Path, theirs: Path) -> None:
    """Replace a broker's partition directory by ours, which takes over the topic's id."""
    topic_id = (theirs / "partition.metadata").read_bytes()
    shutil.rmtree(theirs)
    shutil.copytree(ours, theirs)
    (theirs / "partition.metadata").write_bytes(topic_id)


def test_a_broker_refuses_an_open_commit_and_serves_it_once_it_is_ended(
    written_by_producers: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = written_by_producers
    before = broker.consume(TOPICS)
    broker.stop()
    records = draw_records(SEED, 50, topic=TOPICS[0], partition=1, first_offset=100)

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "disk failed")

    with monkeypatch.context() as patched:
        patched.setattr(open_commits, "roll_forward", fails)
        with pytest.raises(CommitPendingError):
            write_records(broker.log_directories, records, config=CONFIG)

    with pytest.raises(BrokerError, match="segmentlog-commit"):
        broker.start()
    assert read_rows(broker.log_directories) == by_topic(before)
    with open_commits.locked_for_writing([str(path) for path in broker.log_directories]):
        pass
    broker.start()
    assert broker.consume(TOPICS) == sorted([*before, *records])
    assert read_rows(broker.log_directories) == by_topic([*before, *records])


def test_a_directory_that_a_running_broker_holds_is_refused_and_left_alone(
    written_by_producers: Broker,
) -> None:
    broker = written_by_producers
    before = broker.consume(TOPICS)
    records = draw_records(SEED, 5, topic=TOPICS[0], partition=0, first_offset=100)

    with pytest.raises(LogLockedError):
        write_records(broker.log_directories, records)

    assert broker.consume(TOPICS) == before
    broker.stop()
    assert not [path for path in broker.log_directories[0].iterdir() if "journal" in path.name]


@pytest.mark.parametrize("topic", ["unknown", "__consumer_offsets", "__cluster_metadata"])
def test_topics_that_a_broker_would_set_aside_or_keeps_for_itself_are_refused(
    jars: KafkaJars, tmp_path: Path, topic: str
) -> None:
    with running_broker(tmp_path / "broker", jars) as broker:
        broker.create_topic("known")
        broker.stop()
        records = draw_records(SEED, 5, topic=topic, partition=0, first_offset=0)

        with pytest.raises(UnsafeTargetError, match=topic):
            write_records(broker.log_directories, records)
