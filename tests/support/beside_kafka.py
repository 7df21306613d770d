"""The same query by Spark's Kafka source from a broker and by ours from its folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from tests.support.broker import Broker

# How long a fetch at the end of a partition waits, and a look-up of offsets that fails three times.
_QUICK: Final = {"kafka.fetch.max.wait.ms": "10", "fetchOffset.retryIntervalMs": "10"}
_OUR_ERROR: Final = re.compile(
    r"spark_segmentlog\.errors\.(?P<kind>\w+): (\[(?P<condition>[A-Z_.]+)\])?"
)
ORDER: Final = [(name, "ascending") for name in ("topic", "partition", "offset")]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a query failed: Spark's condition where the error has one, and the text."""

    condition: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of a query in order, and which of them each task gave."""

    rows: pa.Table
    tasks: list[list[tuple[str, int, int]]]


def theirs(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    """Read by the Kafka source."""
    reader = spark.read.format("kafka").options(**{**_QUICK, **options})
    return reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()


def ours(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    """Read by ours."""
    paths = [str(path) for path in broker.log_directories]
    return spark.read.format("segmentlog").options(**options).load(paths)


def answer(spark: SparkSession, load: Callable[[], DataFrame]) -> Answer | Refusal:
    """Run a query to its end, whatever that is."""
    try:
        found = load().withColumn("task", spark_partition_id()).toArrow().sort_by(ORDER)
    except Exception as error:  # noqa: BLE001 - the Kafka source raises what it has at hand
        return refusal_of(spark, error)
    by_task: dict[int, list[tuple[str, int, int]]] = {}
    for row in found.select(["topic", "partition", "offset", "task"]).to_pylist():
        place = row["topic"], row["partition"], row["offset"]
        by_task.setdefault(row["task"], []).append(place)
    return Answer(found.drop_columns(["task"]), sorted(by_task.values()))


def refusal_of(spark: SparkSession, error: Exception) -> Refusal:
    """Find the condition of an error of either source."""
    own = _OUR_ERROR.search(str(error))
    if own is not None:
        return Refusal(own["condition"], str(error))
    jvm: Any = spark.sparkContext._jvm
    throwable = jvm.java.lang.Class.forName("org.apache.spark.SparkThrowable")
    conditions = [cause.getCondition() for cause in _causes(error) if throwable.isInstance(cause)]
    told = [condition for condition in conditions if condition not in (None, "STREAM_FAILED")]
    return Refusal(told[-1] if told else None, str(error))


def _causes(error: Any) -> Iterable[Any]:
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield cause
        cause = cause.getCause()
