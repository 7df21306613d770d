"""What producers write to the broker of these tests: every shape of log that a reader meets."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Producer, TopicPartition

from tests.support.broker import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP_MS = 1_600_000_000_000
# Small enough that every topic rolls; a record batch of these tests stays below it.
SEGMENT_BYTES = 16_000
ROLLED: dict[str, object] = {"internal.segment.bytes": SEGMENT_BYTES}

TOPICS = (
    *(f"codec.{codec}" for codec in CODECS),
    "appended",
    "bank",
    "large",
    "ledger",
    "rolled.by.time",
    "table",
    "trimmed",
)


def create_topics(broker: Broker) -> None:
    for codec in CODECS:
        broker.create_topic(f"codec.{codec}", partitions=2, config=ROLLED)
    append_time: dict[str, object] = {"message.timestamp.type": "LogAppendTime"}
    broker.create_topic("appended", config=ROLLED | append_time)
    broker.create_topic("bank", partitions=3, config={"internal.segment.bytes": 3_000})
    broker.create_topic("large")
    broker.create_topic("ledger", partitions=2, config={"internal.segment.bytes": 4_000})
    broker.create_topic("rolled.by.time", config={"segment.ms": 60_000})
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0.01,
        "internal.segment.bytes": 4_000,
        "segment.ms": 3_600_000,
    }
    broker.create_topic("table", partitions=2, config=compacted)
    broker.create_topic("trimmed", config=ROLLED)


def write_first_wave(broker: Broker, seed: int) -> None:
    """Write to every topic; one transaction of each kind of client stays open."""
    draw = random.Random(seed)
    for codec in CODECS:
        _write_codec(broker, codec, draw)
    _write_appended(broker, draw)
    _write_large(broker, draw)
    _write_out_of_order(broker, draw)
    _write_ledger(broker, draw)
    broker.run_java_source("TransactionalWriter", broker.bootstrap_servers, "bank", "3", "40", "11")
    _write_table(broker, draw)
    _write_codec(broker, "lz4", draw, topic="trimmed", partitions=1)
    _trim(broker)


def write_second_wave(broker: Broker, seed: int) -> None:
    """Write after a restart, so under another leader epoch."""
    draw = random.Random(seed)
    _write_codec(broker, "zstd", draw)
    _write_appended(broker, draw)
    _write_table(broker, draw)


def _text(draw: random.Random, most: int) -> bytes:
    words = ("alpha", "beta", "gamma", "Gr\u00fc\u00dfe", "\u4e2d\u6587", "")
    return " ".join(draw.choices(words, k=draw.randrange(most))).encode()


def _maybe(draw: random.Random, value: bytes) -> bytes | None:
    return draw.choice((None, b"", value, value, value))


def _headers(draw: random.Random) -> list[tuple[str, bytes | None]] | None:
    if draw.random() < 0.6:
        return None
    names = draw.choices(("trace", "x", "k\u00f6nig", ""), k=draw.randrange(1, 4))
    return [(name, _maybe(draw, draw.randbytes(3))) for name in names]


def _send(producer: Producer, topic: str, **record: Any) -> None:
    producer.produce(topic, **record)
    producer.poll(0)


def _batch_sizes(draw: random.Random) -> Iterator[int]:
    """Sizes of the batches to flush one by one, single records among them."""
    for _ in range(12):
        yield draw.choice((1, 1, 3, 20, 60))


def _write_codec(
    broker: Broker,
    codec: str,
    draw: random.Random,
    *,
    topic: str | None = None,
    partitions: int = 2,
) -> None:
    producer = broker.producer(compression_type=codec, batch_num_messages=60)
    for size in _batch_sizes(draw):
        for _ in range(size):
            headers = _headers(draw)
            _send(
                producer,
                topic or f"codec.{codec}",
                partition=draw.randrange(partitions),
                key=_maybe(draw, _text(draw, 4)),
                value=_maybe(draw, _text(draw, 30)),
                timestamp=FIRST_TIMESTAMP_MS + draw.randrange(100_000),
                **({} if headers is None else {"headers": headers}),
            )
        producer.flush()


def _write_appended(broker: Broker, draw: random.Random) -> None:
    producer = broker.producer(compression_type="snappy", batch_num_messages=50)
    for _ in range(400):
        _send(producer, "appended", value=_text(draw, 20), timestamp=FIRST_TIMESTAMP_MS)
    producer.flush()


def _write_large(broker: Broker, draw: random.Random) -> None:
    for codec in CODECS:
        producer = broker.producer(compression_type=codec)
        for size in (100_000, 400_000):
            _send(producer, "large", key=codec.encode(), value=draw.randbytes(100) * (size // 100))
        producer.flush()


def _write_out_of_order(broker: Broker, draw: random.Random) -> None:
    producer = broker.producer(compression_type="gzip", batch_num_messages=10)
    for minute in range(8):
        for _ in range(25):
            moment = FIRST_TIMESTAMP_MS + minute * 60_000 + draw.randrange(-90_000, 30_000)
            _send(producer, "rolled.by.time", value=b"m%d" % minute, timestamp=moment)
        producer.flush()


def _write_ledger(broker: Broker, draw: random.Random) -> None:
    """Interleave two transactional librdkafka producers; leave the last transaction open."""
    producers = [
        broker.producer(
            transactional_id=f"ledger-{index}",
            transaction_timeout_ms=3_600_000,
            compression_type=codec,
        )
        for index, codec in enumerate(("none", "zstd"))
    ]
    for producer in producers:
        producer.init_transactions(30)
    for number in range(16):
        for producer in producers:
            producer.begin_transaction()
        for _ in range(draw.randrange(1, 5)):
            for index, producer in enumerate(producers):
                value = f"t{number}-{index} {draw.random()}".encode()
                _send(producer, "ledger", partition=draw.randrange(2), value=value * 4)
                producer.flush()
        for producer in producers:
            _end(producer, draw)
    producers[0].begin_transaction()
    _send(producers[0], "ledger", partition=0, value=b"open")
    producers[0].flush()
    plain = broker.producer()
    _send(plain, "ledger", partition=0, value=b"after the open one")
    plain.flush()
    _OPEN_TRANSACTIONS.append(producers[0])


# A producer that is garbage collected aborts its open transaction.
_OPEN_TRANSACTIONS: list[Producer] = []


def _end(producer: Producer, draw: random.Random) -> None:
    if draw.random() < 0.5:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def _write_table(broker: Broker, draw: random.Random) -> None:
    producer = broker.producer(compression_type="lz4", batch_num_messages=20)
    for number in range(900):
        key = b"k%d" % draw.randrange(40)
        value = None if draw.random() < 0.1 else b"v%d" % number
        _send(producer, "table", partition=draw.randrange(2), key=key, value=value)
        if number % 20 == 19:
            producer.flush()
    producer.flush()


def _trim(broker: Broker) -> None:
    admin = broker.admin()
    for future in admin.delete_records([TopicPartition("trimmed", 0, 13)]).values():
        future.result(30)
    log_directory = broker.partition_directory("trimmed").parent
    wait_until(
        lambda: "trimmed 0 13" in (log_directory / "log-start-offset-checkpoint").read_text(),
        "the log start offset is checkpointed",
    )


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = 60) -> None:
    """Poll a condition; fail when it does not come to hold."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so after {timeout_s} s: {what}")
        time.sleep(0.2)


def wait_until_cleaned(broker: Broker) -> None:
    """Wait until the cleaner has nothing left to do: two looks at the table agree."""
    seen = [broker.consume(["table"])]

    def is_at_rest() -> bool:
        time.sleep(3)
        seen.append(broker.consume(["table"]))
        return seen[-1] == seen[-2]

    wait_until(is_at_rest, "the cleaner is at rest")
