"""DataFrames that we write into a broker's log directories, as its clients then see them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.broker import Broker, ConsumedRecord, running_broker
from tests.support.kafka_jars import KafkaJars

pytestmark = pytest.mark.interop

PARTITIONS_COUNT = 5
ROWS_COUNT = 3_000
FIRST_TIMESTAMP_MS = 1_660_000_000_000
COLUMNS = "key binary, value string, headers array<struct<key string, value binary>>"


def _key(number: int) -> bytes | None:
    return None if number % 11 == 0 else f"k\u00f6nig-{number}".encode()


def _value(number: int) -> str | None:
    return None if number % 13 == 0 else f"value {number} " * (number % 9)


def _headers(number: int) -> list[tuple[str, str | bytes | None]] | None:
    headers: list[tuple[str, str | bytes | None]] = [("a", None), ("b", b"")]
    return headers[: number % 3] or None


def _frame(spark: SparkSession, numbers: range) -> DataFrame:
    rows = [(_key(number), _value(number), _headers(number), number) for number in numbers]
    frame = spark.createDataFrame(rows, f"{COLUMNS}, number int").repartition(3)
    timestamp = f"timestamp_millis({FIRST_TIMESTAMP_MS} + number) as timestamp"
    return frame.selectExpr("key", "value", "headers", timestamp)


def _write(frame: DataFrame, broker: Broker, **options: str) -> None:
    paths = "[" + ",".join(f'"{path}"' for path in broker.log_directories) + "]"
    writer = frame.write.format("segmentlog").option("paths", paths).options(**options)
    writer.mode("append").save()


def _content(record: ConsumedRecord) -> tuple[object, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers


def _expected(number: int) -> tuple[object, ...]:
    value = _value(number)
    headers = _headers(number)
    return (
        FIRST_TIMESTAMP_MS + number,
        _key(number),
        None if value is None else value.encode(),
        None if headers is None else tuple(headers),
    )


def _partitions_by_key(records: list[ConsumedRecord]) -> dict[bytes, int]:
    return {record.key: record.partition for record in records if record.key is not None}


def test_a_consumer_gets_the_rows_appended_to_a_stopped_broker(
    spark: SparkSession, jars: KafkaJars, tmp_path: Path
) -> None:
    numbers = range(ROWS_COUNT)
    with running_broker(tmp_path / "broker", jars) as broker:
        for topic in ("ours", "theirs"):
            broker.create_topic(
                topic, partitions=PARTITIONS_COUNT, config={"internal.segment.bytes": 30_000}
            )
        producer = broker.producer(partitioner="murmur2_random")
        for number in numbers:
            producer.produce("theirs", key=_key(number), value=b"")
        producer.flush()
        broker.stop()

        options = {"topic": "ours", "compression.type": "zstd", "segment.bytes": "30000"}
        _write(_frame(spark, numbers), broker, **options)

        broker.start()
        ours = broker.consume(["ours"])
        theirs = broker.consume(["theirs"])
        assert broker.problems() == []
    assert sorted(map(_content, ours), key=str) == sorted(map(_expected, numbers), key=str)
    assert _partitions_by_key(ours) == _partitions_by_key(theirs)
    for partition in range(PARTITIONS_COUNT):
        offsets = [record.offset for record in ours if record.partition == partition]
        assert offsets == list(range(len(offsets)))


def test_rows_of_the_kafka_source_go_through_our_sink_unchanged(
    spark: SparkSession, jars: KafkaJars, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker", jars) as broker:
        broker.create_topic("from", partitions=2)
        producer = broker.producer(compression_type="lz4")
        for number in range(200):
            headers = _headers(number)
            producer.produce(
                "from",
                key=_key(number),
                value=(_value(number) or "").encode(),
                timestamp=FIRST_TIMESTAMP_MS + number,
                partition=number % 2,
                headers=headers or [],
            )
        producer.flush()
        reader = spark.read.format("kafka").option("subscribe", "from")
        reader = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
        source = reader.option("includeHeaders", "true").load()
        written = tmp_path / "written"
        sink = source.write.format("segmentlog").option("num.partitions", "2")
        sink.mode("append").save(str(written))

        copy = spark.read.format("segmentlog").option("includeHeaders", "true").load(str(written))
        copied = sorted(copy.collect(), key=lambda row: (row.partition, row.offset))
        theirs = sorted(source.collect(), key=lambda row: (row.partition, row.offset))
    assert copied == theirs
