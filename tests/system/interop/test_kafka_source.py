"""The same query by Spark's Kafka source from the broker and by ours from its folders."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tests.support.broker import Broker
from tests.support.traffic import (
    FIRST_TIMESTAMP_MS,
    create_topics,
    wait_until_cleaned,
    write_first_wave,
)

pytestmark = pytest.mark.interop

SEED = 977


@pytest.fixture(scope="module")
def written(broker: Broker) -> Broker:
    """A broker at rest with every shape of topic."""
    print(f"seed {SEED}")
    create_topics(broker)
    write_first_wave(broker, SEED)
    wait_until_cleaned(broker)
    return broker


def _theirs(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("kafka").options(**options)
    return reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()


def _ours(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    paths = [str(path) for path in broker.log_directories]
    return spark.read.format("segmentlog").options(**options).load(paths)


def _rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def _everywhere(offset: int) -> str:
    return json.dumps({"codec.lz4": {"0": offset, "1": offset}})


_MIDDLE_MS = FIRST_TIMESTAMP_MS + 60_000
_SAME_ROWS: dict[str, dict[str, str]] = {
    "one topic": {"subscribe": "codec.zstd"},
    "two topics": {"subscribe": "codec.none, appended"},
    "pattern": {"subscribePattern": "codec\\..*"},
    "assign": {"assign": '{"codec.gzip":[1],"bank":[0,2]}'},
    "headers": {"subscribe": "codec.snappy", "includeHeaders": "true"},
    "committed": {"subscribe": "ledger,bank", "kafka.isolation.level": "read_committed"},
    "uncommitted": {"subscribe": "ledger,bank", "kafka.isolation.level": "read_uncommitted"},
    "compacted": {"subscribe": "table"},
    "trimmed": {"subscribe": "trimmed"},
    "large": {"subscribe": "large"},
    "offsets": {
        "subscribe": "codec.lz4",
        "startingOffsets": '{"codec.lz4":{"0":7,"1":-2}}',
        "endingOffsets": '{"codec.lz4":{"0":41,"1":-1}}',
    },
    "nothing between offsets": {
        "subscribe": "codec.lz4",
        "startingOffsets": _everywhere(9),
        "endingOffsets": _everywhere(9),
    },
    "timestamps": {
        "subscribe": "rolled.by.time",
        "startingTimestamp": str(_MIDDLE_MS),
        "endingTimestamp": str(_MIDDLE_MS + 150_000),
    },
    "timestamps by partition": {
        "subscribe": "codec.none",
        "startingOffsetsByTimestamp": json.dumps({"codec.none": {"0": _MIDDLE_MS, "1": 0}}),
        "endingOffsetsByTimestamp": json.dumps(
            {"codec.none": {"0": FIRST_TIMESTAMP_MS + 99_000, "1": _MIDDLE_MS}}
        ),
    },
    "late start, latest": {
        "subscribe": "rolled.by.time",
        "startingTimestamp": str(FIRST_TIMESTAMP_MS + 10**9),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "late end": {
        "subscribe": "rolled.by.time",
        "endingTimestamp": str(FIRST_TIMESTAMP_MS + 10**9),
    },
}


@pytest.mark.parametrize("name", _SAME_ROWS)
def test_rows_equal_those_of_the_kafka_source(
    spark: SparkSession, written: Broker, name: str
) -> None:
    theirs = _theirs(spark, written, _SAME_ROWS[name])
    ours = _ours(spark, written, _SAME_ROWS[name])

    assert ours.schema == theirs.schema
    assert _rows(ours) == _rows(theirs)


@pytest.mark.parametrize(
    "split",
    [
        {"minPartitions": "9"},
        {"minPartitions": "5", "maxRecordsPerPartition": "60"},
    ],
    ids=str,
)
def test_offset_ranges_are_split_as_the_kafka_source_splits_them(
    spark: SparkSession, written: Broker, split: dict[str, str]
) -> None:
    options = {"subscribe": "codec.lz4,codec.gzip", **split}
    theirs = _theirs(spark, written, options)
    ours = _ours(spark, written, options)

    assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()
    assert _rows(ours) == _rows(theirs)


def test_the_most_records_of_an_input_partition_hold_without_min_partitions(
    spark: SparkSession, written: Broker
) -> None:
    """As documented; the Kafka source splits by it in batch only where `minPartitions` does."""
    options = {"subscribe": "codec.lz4,codec.gzip", "maxRecordsPerPartition": "40"}
    ours = _ours(spark, written, options)

    sizes = ours.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()

    assert max(sizes) <= 40
    assert _rows(ours) == _rows(_theirs(spark, written, options))


_BAD_OPTION = "OptionValueError"
_MISMATCH = r"OptionValueError: \[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED\]"
_LOSS = r"DataLossError: \[KAFKA_DATA_LOSS\."
_LATE_MS = str(FIRST_TIMESTAMP_MS + 10**9)
# (name, options that the Kafka source refuses, what our error is)
_REFUSED: tuple[tuple[str, dict[str, str], str], ...] = (
    ("latest start", {"startingOffsets": "latest"}, _BAD_OPTION),
    ("earliest end", {"endingOffsets": "earliest"}, _BAD_OPTION),
    ("two ways to choose topics", {"subscribePattern": "codec.*"}, _BAD_OPTION),
    ("partition missing", {"startingOffsets": '{"codec.lz4":{"0":5}}'}, _MISMATCH),
    ("partition too many", {"startingOffsets": '{"codec.lz4":{"0":5,"1":5,"9":5}}'}, _MISMATCH),
    ("late start", {"subscribe": "rolled.by.time", "startingTimestamp": _LATE_MS}, _BAD_OPTION),
    ("bad assignment", {"subscribe": "", "assign": '{"codec.lz4":"0"}'}, _BAD_OPTION),
    ("bad number", {"minPartitions": "many"}, _BAD_OPTION),
    ("lost start", {"subscribe": "trimmed", "startingOffsets": '{"trimmed":{"0":3}}'}, _LOSS),
    ("unsupported", {"kafka.auto.offset.reset": "latest"}, _BAD_OPTION),
)


@pytest.mark.parametrize(
    ("options", "error"), [each[1:] for each in _REFUSED], ids=[each[0] for each in _REFUSED]
)
def test_what_the_kafka_source_refuses_is_refused(
    spark: SparkSession, written: Broker, options: dict[str, str], error: str
) -> None:
    chosen = {"subscribe": "codec.lz4", **options}
    chosen = {name: value for name, value in chosen.items() if value}
    # The Kafka source raises whatever it has at hand: its own classes, Java's, Scala's.
    with pytest.raises(Exception):  # noqa: B017, PT011
        _theirs(spark, written, chosen).collect()
    with pytest.raises(PySparkException, match=rf"spark_segmentlog\.errors\.{error}"):
        _ours(spark, written, chosen).collect()
