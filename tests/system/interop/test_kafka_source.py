"""The same query by Spark's Kafka source from the broker and by ours from its folders.

``KAFKA_PARITY_SETS`` says how many drawn option sets are compared.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.beside_kafka import Answer, Refusal, answer, ours, theirs
from tests.support.broker import Broker
from tests.support.kafka_differences import DIFFERENCES
from tests.support.option_sets import (
    Choices,
    Facts,
    option_sets,
    options_of,
    pairs_of,
    pairs_of_factors,
)
from tests.support.traffic import FIRST_TIMESTAMP_MS

pytestmark = pytest.mark.interop

SEED = 977
SETS_COUNT = int(os.environ.get("KAFKA_PARITY_SETS", "80"))


def _options(choices: Choices, facts: dict[str, Facts]) -> dict[str, str]:
    is_committed = choices["kafka.isolation.level"] == "read_committed"
    return options_of(choices, facts["read_committed" if is_committed else "read_uncommitted"])


def _both(
    spark: SparkSession, broker: Broker, options: dict[str, str]
) -> tuple[Answer | Refusal, Answer | Refusal]:
    their_answer = answer(spark, lambda: theirs(spark, broker, options))
    return their_answer, answer(spark, lambda: ours(spark, broker, options))


def test_eighty_sets_hold_every_pair_of_choices() -> None:
    left = pairs_of_factors()
    for choices in option_sets(SEED, 80):
        left -= pairs_of(choices)
    assert left == set()


@pytest.mark.parametrize("choices", option_sets(SEED, SETS_COUNT), ids=range(SETS_COUNT))
def test_rows_tasks_and_refusals_are_those_of_the_kafka_source(
    spark: SparkSession, broker_at_rest: Broker, facts: dict[str, Facts], choices: Choices
) -> None:
    options = _options(choices, facts)

    expected, found = _both(spark, broker_at_rest, options)

    if isinstance(expected, Refusal):
        assert isinstance(found, Refusal), (options, expected.text)
        assert found.condition == expected.condition, options
    else:
        assert isinstance(found, Answer), (options, found)
        assert found.rows.schema == expected.rows.schema
        assert found.rows.equals(expected.rows), options
        if _cuts_alike(choices, len(facts["read_uncommitted"])):
            assert found.tasks == expected.tasks, options


def _cuts_alike(choices: Choices, partitions_count: int) -> bool:
    """Tell whether the Kafka source cuts by all the options that say how."""
    wanted = choices["minPartitions"]
    is_capped = choices["maxRecordsPerPartition"] != "default"
    return wanted != "default" and (not is_capped or int(wanted) > partitions_count)


_LZ4 = "codec.lz4"
# How long the Kafka source waits for what is not there.
_WAIT = {"kafkaConsumer.pollTimeoutMs": "2000"}
_LATE_MS = str(FIRST_TIMESTAMP_MS + 10**9)


def _by_partition(*numbers: int, topic: str = _LZ4) -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


_REFUSED: dict[str, dict[str, str]] = {
    "latest start": {"startingOffsets": "latest"},
    "latest start of a partition": {"startingOffsets": _by_partition(-1, 5)},
    "earliest end": {"endingOffsets": "earliest"},
    "earliest end of a partition": {"endingOffsets": _by_partition(-2, 5)},
    "two ways to choose topics": {"subscribePattern": "codec.*"},
    "topic missing": {"subscribe": "codec.lz4,absent"},
    "partition missing": {"startingOffsets": _by_partition(5)},
    "partition missing at the end": {"endingOffsets": _by_partition(5)},
    "partition too many": {"startingOffsets": _by_partition(5, 5, 5)},
    "time missing": {"startingOffsetsByTimestamp": _by_partition(5)},
    "time missing at the end": {"endingOffsetsByTimestamp": _by_partition(5)},
    "other partitions": {
        "startingOffsets": _by_partition(5, 5),
        "endingOffsets": _by_partition(5),
    },
    "other partitions by time": {
        "startingOffsetsByTimestamp": _by_partition(5, 5),
        "endingOffsetsByTimestamp": _by_partition(5),
    },
    "start above end": {
        "startingOffsets": _by_partition(5, 5),
        "endingOffsets": _by_partition(4, 8),
    },
    "start above end by time": {
        "startingOffsetsByTimestamp": _by_partition(5, 5),
        "endingOffsetsByTimestamp": _by_partition(4, 8),
    },
    "start above end as found": {
        "startingTimestamp": str(FIRST_TIMESTAMP_MS + 50_000),
        "endingTimestamp": str(FIRST_TIMESTAMP_MS + 40_000),
    },
    "late start": {"subscribe": "rolled.by.time", "startingTimestamp": _LATE_MS},
    "no topics": {"subscribe": " , "},
    "bad pattern": {"subscribe": "", "subscribePattern": "codec("},
    "bad assignment": {"subscribe": "", "assign": '{"codec.lz4":"0"}'},
    "bad number": {"minPartitions": "many"},
    "no tasks": {"minPartitions": "0"},
    "no records": {"maxRecordsPerPartition": "0"},
    "bad offsets": {"startingOffsets": '{"codec.lz4"'},
    "bad offset": {"startingOffsets": '{"codec.lz4":{"0":"5","1":5}}'},
    "offset below all": {"startingOffsets": _by_partition(-3, 5)},
    "bad time": {"startingTimestamp": "yesterday"},
    "bad strategy": {"startingOffsetsByTimestampStrategy": "nearest"},
    "bad level": {"kafka.isolation.level": "serializable"},
    "bad truth": {"includeHeaders": "maybe"},
    "lost start": {"subscribe": "trimmed", "startingOffsets": '{"trimmed":{"0":3}}'},
    "end past the end": {"endingOffsets": _by_partition(10**6, 10**6), **_WAIT},
    "reset": {"kafka.auto.offset.reset": "latest"},
    "deserializer": {"kafka.key.deserializer": "x"},
    "commit": {"kafka.enable.auto.commit": "true"},
    "interceptors": {"kafka.interceptor.classes": "x"},
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_the_kafka_source_refuses_is_refused_under_its_condition(
    spark: SparkSession, broker_at_rest: Broker, name: str
) -> None:
    chosen = {"subscribe": _LZ4, **_REFUSED[name]}
    options = {name: value for name, value in chosen.items() if value}
    expected, found = _both(spark, broker_at_rest, options)
    assert isinstance(expected, Refusal)
    assert isinstance(found, Refusal)
    assert found.condition == expected.condition


def test_a_start_above_the_last_stable_offset_is_refused(
    spark: SparkSession, broker_at_rest: Broker, facts: dict[str, Facts]
) -> None:
    options = {
        "assign": '{"ledger":[0]}',
        "startingOffsets": _by_partition(
            facts["read_uncommitted"]["ledger", 0].offset_at("after"), topic="ledger"
        ),
        "kafka.isolation.level": "read_committed",
    }
    expected, found = _both(spark, broker_at_rest, options)
    assert isinstance(expected, Refusal)
    assert isinstance(found, Refusal)
    assert found.condition == expected.condition == "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"


# What differs by intent


def _kind(found: Answer | Refusal) -> str:
    if isinstance(found, Refusal):
        return "refused"
    return "rows" if found.rows.num_rows else "no rows"


_DIFFERENT: dict[str, tuple[dict[str, str], str, str]] = {
    "no selection": ({"subscribe": ""}, "refused", "rows"),
    "internal topic": ({"subscribe": "__transaction_state"}, "no rows", "rows"),
    "unknown option": ({"strtingOffsets": "earliest"}, "rows", "refused"),
    "absent partition": ({"subscribe": "", "assign": '{"codec.lz4":[7]}'}, "no rows", "refused"),
    "nothing assigned": ({"subscribe": "", "assign": "{}"}, "no rows", "refused"),
    "start past the end": (
        {"startingOffsets": _by_partition(10**6, 10**6), "failOnDataLoss": "false"},
        "refused",
        "no rows",
    ),
    "times of the protocol": ({"startingTimestamp": "-3"}, "rows", "refused"),
    "case of a level": ({"kafka.isolation.level": "READ_COMMITTED"}, "refused", "rows"),
    "space in a number": ({"minPartitions": " 3 "}, "refused", "rows"),
    "text after JSON": ({"startingOffsets": '{"codec.lz4":{"0":5.0,"1":5}} x'}, "rows", "refused"),
}


@pytest.mark.parametrize("name", _DIFFERENT)
def test_what_is_meant_to_differ_does(
    spark: SparkSession, broker_at_rest: Broker, name: str
) -> None:
    options, *expected = _DIFFERENT[name]
    chosen = {"subscribe": _LZ4, **options}
    chosen = {option: value for option, value in chosen.items() if value}
    assert list(map(_kind, _both(spark, broker_at_rest, chosen))) == expected, DIFFERENCES[name]


def test_an_end_above_the_last_stable_offset_is_no_loss(
    spark: SparkSession, broker_at_rest: Broker, facts: dict[str, Facts]
) -> None:
    end = facts["read_uncommitted"]["ledger", 0].offset_at("after")
    options = {
        "assign": '{"ledger":[0]}',
        "endingOffsets": _by_partition(end, topic="ledger"),
        "kafka.isolation.level": "read_committed",
        **_WAIT,
    }
    expected = ["refused", "rows"]
    difference = DIFFERENCES["end above the stable offset"]
    assert list(map(_kind, _both(spark, broker_at_rest, options))) == expected, difference


def test_the_most_records_of_a_task_hold_without_min_partitions(
    spark: SparkSession, broker_at_rest: Broker
) -> None:
    options = {"subscribe": "codec.lz4,codec.gzip", "maxRecordsPerPartition": "40"}
    expected, found = _both(spark, broker_at_rest, options)
    assert isinstance(expected, Answer)
    assert isinstance(found, Answer)
    assert found.rows.equals(expected.rows)
    difference = DIFFERENCES["records of a task"]
    assert max(map(len, found.tasks)) <= 40 < max(map(len, expected.tasks)), difference


def test_a_partition_of_which_nothing_is_read_makes_no_task(
    spark: SparkSession, broker_at_rest: Broker
) -> None:
    options = {
        "subscribe": _LZ4,
        "endingOffsets": _by_partition(0, 9),
        "minPartitions": "1",
    }
    counts = [
        load(spark, broker_at_rest, options).rdd.getNumPartitions() for load in (theirs, ours)
    ]
    assert counts == [2, 1], DIFFERENCES["empty ranges"]


def test_a_schema_of_the_users_names_the_columns(
    spark: SparkSession, broker_at_rest: Broker
) -> None:
    def read(source: str, **place: Any) -> list[str]:
        reader = spark.read.schema("value binary, offset bigint").format(source)
        return reader.option("subscribe", _LZ4).options(**place).load().columns

    with pytest.raises(AnalysisException):
        read("kafka", **{"kafka.bootstrap.servers": broker_at_rest.bootstrap_servers})
    [*columns] = read("segmentlog", path=str(broker_at_rest.log_directories[0]))
    assert columns == ["value", "offset"], DIFFERENCES["schema"]


def test_a_table_of_a_catalog_gives_way_to_a_view(
    spark: SparkSession, broker_at_rest: Broker
) -> None:
    servers = f"subscribe '{_LZ4}', kafka.bootstrap.servers '{broker_at_rest.bootstrap_servers}'"
    path = f"subscribe '{_LZ4}', path '{broker_at_rest.log_directories[0]}'"
    spark.sql(f"CREATE TABLE theirs USING kafka OPTIONS ({servers})")
    spark.sql("DROP TABLE theirs")
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE ours USING segmentlog OPTIONS ({path})")
    spark.sql(f"CREATE TEMPORARY VIEW ours USING segmentlog OPTIONS ({path})")
    assert "offset" in spark.table("ours").columns, DIFFERENCES["catalog table"]
    spark.catalog.dropTempView("ours")


def test_a_load_that_is_used_again_ends_where_it_did(
    spark: SparkSession, broker_at_rest: Broker
) -> None:
    broker_at_rest.create_topic("used.again")
    options = {"subscribe": "used.again"}
    frames = theirs(spark, broker_at_rest, options), ours(spark, broker_at_rest, options)
    seen = []
    for value in (b"first", b"second"):
        producer = broker_at_rest.producer()
        producer.produce("used.again", value=value)
        producer.flush()
        seen.append(tuple(frame.count() for frame in frames))
    assert seen == [(1, 1), (2, 1)], DIFFERENCES["second use"]
    assert ours(spark, broker_at_rest, options).count() == 2
