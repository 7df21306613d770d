"""The same rows by Spark's Kafka sink to the broker and by ours to a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support.beside_kafka import refusal_of
from tests.support.broker import Broker
from tests.support.kafka_differences import DIFFERENCES

pytestmark = pytest.mark.interop

PARTITIONS_COUNT = 5


def _to_kafka(frame: DataFrame, broker: Broker, **options: str) -> None:
    writer = frame.write.format("kafka").options(**options)
    writer = writer.option("kafka.max.block.ms", "2000")
    writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).save()


def _to_folder(frame: DataFrame, path: Path, **options: str) -> None:
    writer = frame.write.format("segmentlog").options(**options).mode("append")
    writer.option("num.partitions", str(PARTITIONS_COUNT)).save(str(path))


def _read(spark: SparkSession, paths: list[Path], topic: str) -> list[Row]:
    reader = spark.read.format("segmentlog").option("subscribe", topic)
    frame = reader.option("includeHeaders", "true").load(list(map(str, paths)))
    return frame.select("partition", "key", "value", "headers", "timestamp").collect()


def _written(
    spark: SparkSession, broker: Broker, path: Path, frame: DataFrame, topic: str
) -> tuple[list[Row], list[Row]]:
    """Write by both sinks, and give the rows as they are then in either log."""
    broker.create_topic(topic, partitions=PARTITIONS_COUNT)
    _to_kafka(frame, broker, topic=topic)
    _to_folder(frame, path, topic=topic)
    return _read(spark, broker.log_directories, topic), _read(spark, [path], topic)


def _content(row: Row) -> tuple[object, ...]:
    """Give what a row holds, in a form that counts."""
    headers = row.headers and tuple((header.key, _bytes(header.value)) for header in row.headers)
    return _bytes(row.key), _bytes(row.value), headers


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def test_rows_headers_and_the_partition_of_every_key_are_those_of_the_kafka_sink(
    spark: SparkSession, broker_at_rest: Broker, tmp_path: Path
) -> None:
    frame = spark.range(600).selectExpr(
        "case when id % 7 = 0 then null when id % 7 = 1 then "
        "substring(unhex(sha2(string(id), 256)), 1, int(id % 13)) else "
        "encode(concat('k\u00f6nig-', id), 'utf-8') end as key",
        "case when id % 5 = 0 then null when id % 5 = 1 then '' else concat('v', id) end as value",
        "case when id % 3 = 0 then null when id % 3 = 1 then array() else array("
        "struct('a' as key, cast(null as binary) as value), struct('' as key, binary('') as value)"
        ") end as headers",
    )
    theirs, ours = _written(spark, broker_at_rest, tmp_path, frame, "sink.keys")
    assert Counter(map(_content, ours)) == Counter(map(_content, theirs))
    by_key = [
        {_bytes(row.key): row.partition for row in rows if row.key} for rows in (theirs, ours)
    ]
    assert by_key[0] == by_key[1]
    assert set(by_key[1].values()) == set(range(PARTITIONS_COUNT))


def test_the_column_partition_chooses(
    spark: SparkSession, broker_at_rest: Broker, tmp_path: Path
) -> None:
    frame = spark.range(100).selectExpr(
        "string(id) as key", "'v' as value", "int(id % 4) as partition"
    )
    theirs, ours = _written(spark, broker_at_rest, tmp_path, frame, "sink.partitions")
    assert Counter((row.partition, _bytes(row.key)) for row in ours) == Counter(
        (row.partition, _bytes(row.key)) for row in theirs
    )


@pytest.fixture(scope="module")
def refused(broker_at_rest: Broker) -> None:
    """A topic that rows may go to, so that what is refused is not the topic."""
    broker_at_rest.create_topic("sink.refused", partitions=PARTITIONS_COUNT)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(["'k' as key", "'sink.refused' as topic"], id="no value"),
        pytest.param(["'v' as value"], id="no topic"),
        pytest.param(["'v' as value", "cast(null as string) as topic"], id="null topic"),
        pytest.param(["1 as value", "'sink.refused' as topic"], id="value of numbers"),
        pytest.param(["'v' as value", "1 as topic"], id="topic of numbers"),
        pytest.param(
            ["'v' as value", "2.5 as key", "'sink.refused' as topic"], id="key of numbers"
        ),
        pytest.param(
            ["'v' as value", "'x' as headers", "'sink.refused' as topic"], id="headers of text"
        ),
        pytest.param(
            ["'v' as value", "'0' as partition", "'sink.refused' as topic"], id="partition of text"
        ),
        pytest.param(
            ["'v' as value", "-1 as partition", "'sink.refused' as topic"], id="partition below 0"
        ),
        pytest.param(
            [
                "'v' as value",
                "array(struct(cast(null as string) as key, binary('') as value)) as headers",
                "'sink.refused' as topic",
            ],
            id="header without key",
        ),
    ],
)
def test_what_the_kafka_sink_refuses_is_refused(
    spark: SparkSession, broker_at_rest: Broker, refused: None, tmp_path: Path, columns: list[str]
) -> None:
    frame = spark.range(1).selectExpr(*columns)
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - it raises what it has at hand
        _to_kafka(frame, broker_at_rest)
    with pytest.raises(Exception, match=r"spark_segmentlog\.errors") as ours:
        _to_folder(frame, tmp_path)
    condition = refusal_of(spark, theirs.value).condition
    if condition is not None and not condition.startswith("_LEGACY_ERROR_TEMP"):
        assert refusal_of(spark, ours.value).condition == condition
    assert list(tmp_path.glob("*-*/*")) == []


def _refuses(write: Callable[[], None]) -> bool:
    try:
        write()
    except Exception:  # noqa: BLE001 - the Kafka sink raises what it has at hand
        return True
    return False


@pytest.mark.parametrize(
    ("name", "topic", "is_refused"),
    [("unknown column", "sink.refused", (False, True)), ("new topic", "absent", (True, False))],
)
def test_what_is_meant_to_differ_does(
    spark: SparkSession,
    broker_at_rest: Broker,
    refused: None,
    tmp_path: Path,
    name: str,
    topic: str,
    is_refused: tuple[bool, bool],
) -> None:
    column = "1 as weight" if name == "unknown column" else "2 as partition"
    frame = spark.range(1).selectExpr("'v' as value", column)
    found = (
        _refuses(lambda: _to_kafka(frame, broker_at_rest, topic=topic)),
        _refuses(lambda: _to_folder(frame, tmp_path, topic=topic)),
    )
    assert found == is_refused, DIFFERENCES[name]


def test_only_overwriting_and_appending_are_told_apart_by_a_mode(
    spark: SparkSession, broker_at_rest: Broker, refused: None, tmp_path: Path
) -> None:
    frame = spark.range(1).selectExpr("'v' as value", "'sink.refused' as topic")
    servers = {"kafka.bootstrap.servers": broker_at_rest.bootstrap_servers}

    def write(source: str, mode: str | None, **place: str) -> bool:
        writer = frame.write.format(source).options(**place)
        return _refuses((writer.mode(mode) if mode else writer).save)

    found = {
        mode: (write("kafka", mode, **servers), write("segmentlog", mode, path=str(tmp_path)))
        for mode in ("append", None, "overwrite", "ignore")
    }
    assert found == {
        "append": (False, False),
        None: (False, True),
        "overwrite": (True, False),
        "ignore": (True, True),
    }, (DIFFERENCES["no mode"], DIFFERENCES["overwrite"])
    assert len(_read(spark, [tmp_path], "sink.refused")) == 1


def test_the_time_of_a_row_is_that_of_its_record(
    spark: SparkSession, broker_at_rest: Broker, tmp_path: Path
) -> None:
    frame = spark.range(1).selectExpr("'v' as value", "timestamp_millis(5000) as timestamp")
    theirs, ours = _written(spark, broker_at_rest, tmp_path, frame, "sink.times")
    found = [row.timestamp.timestamp() for row in (*theirs, *ours)]
    assert found[0] > 5, DIFFERENCES["timestamps"]
    assert found[1] == 5
