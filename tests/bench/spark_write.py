"""Writing through Spark, against the ceiling of its Python API, Parquet and the Kafka sink.

The rows come from memory, so that what is compared is the writing. A broker for the Kafka sink runs
on the same machine, as it would for who has no library; that session has the settings that users
are advised to make.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from tests.bench.harness import (
    Figure,
    Measurement,
    Settings,
    Timings,
    seconds,
    take_turns,
)
from tests.bench.measured import CEILING
from tests.bench.spark_session import advised_settings, spark_session
from tests.support.kafka_jars import KafkaJars

ROWS_COUNT = 2_000_000
TASKS_COUNT = 2
TOPIC = "bench"
CODECS = ("none", "lz4")


def spark_write_figures(settings: Settings, jars: KafkaJars | None) -> Iterator[Figure]:
    """Measure the sink against each of the others; without jars not against Kafka's."""
    rows_count = settings.sized(ROWS_COUNT)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=settings.cache)))
        with spark_session() as spark:
            rows = _rows_in_memory(spark, rows_count)
            yield from _against_local_sinks(rows, folder, settings, rows_count)
        if jars is not None:
            spark = stack.enter_context(spark_session(advised_settings()))
            rows = _rows_in_memory(spark, rows_count)
            yield from _against_kafka(rows, folder, settings, rows_count, jars)


def _rows_in_memory(spark: SparkSession, rows_count: int) -> DataFrame:
    """Make keys of 16 and values of 100 bytes and keep them in the JVM."""
    rows = spark.range(0, rows_count, 1, TASKS_COUNT).selectExpr(
        "cast(lpad(cast(id as string), 16, '0') as binary) as key",
        "cast(substring(concat(sha2(cast(id as string), 256), sha2(cast(id div 7 as string), 256)),"
        " 1, 100) as binary) as value",
    )
    rows = rows.persist(StorageLevel.MEMORY_ONLY)
    assert rows.count() == rows_count
    return rows


def _into_new(folder: Path, write: Callable[[str], None]) -> Measurement:
    """Measure a write into a folder that is not there; its removal is not counted."""

    def measure() -> float:
        target = folder / "written"
        elapsed = seconds(lambda: write(str(target)))()
        shutil.rmtree(target)
        return elapsed

    return measure


def _settled(measurement: Measurement) -> Measurement:
    """Wait for the disk first: what a broker leaves unwritten is not the next round's to write."""

    def measure() -> float:
        os.sync()
        return measurement()

    return measure


def _ours(rows: DataFrame, codec: str) -> Callable[[str], None]:
    writer = rows.write.format("segmentlog").option("topic", TOPIC)
    writer = writer.option("compression.type", codec)
    return lambda path: writer.mode("append").save(path)


def _discarding(rows: DataFrame) -> Callable[[], None]:
    return rows.write.format("discarding").mode("append").save


def _against_local_sinks(
    rows: DataFrame, folder: Path, settings: Settings, rows_count: int
) -> Iterator[Figure]:
    parquet = rows.write.option("compression", "none").mode("overwrite").parquet
    ours, ceiling, as_parquet = take_turns(
        [
            _into_new(folder, _ours(rows, "none")),
            seconds(_discarding(rows)),
            _into_new(folder, parquet),
        ],
        settings.repetitions,
    )
    yield _figure("write_against_discarding", ours, "Python sink", ceiling, rows_count)
    yield _figure("write_against_parquet", ours, "Parquet", as_parquet, rows_count)


def _against_kafka(
    rows: DataFrame, folder: Path, settings: Settings, rows_count: int, jars: KafkaJars
) -> Iterator[Figure]:
    # librdkafka is needed here alone.
    from tests.support.broker import SERVER_JVM, running_broker

    with running_broker(folder / "broker", jars, heap="1g", jvm=SERVER_JVM) as broker:
        broker.create_topic(TOPIC)
        for codec in CODECS:
            kafka = rows.write.format("kafka").option("topic", TOPIC)
            kafka = kafka.option("kafka.bootstrap.servers", broker.bootstrap_servers)
            kafka = kafka.option("kafka.compression.type", codec)
            ours, ceiling, theirs = take_turns(
                [
                    _settled(_into_new(folder, _ours(rows, codec))),
                    _settled(seconds(_discarding(rows))),
                    _settled(seconds(kafka.save)),
                ],
                settings.repetitions,
            )
            name = f"write_against_kafka_{codec}"
            yield _figure(name, ours, "Kafka sink", theirs, rows_count)
            yield _figure(f"{name}_{CEILING}", ceiling, "Kafka sink", theirs, rows_count)


def _figure(name: str, side: Timings, their_name: str, theirs: Timings, rows_count: int) -> Figure:
    """Compare medians: a disk has lucky rounds."""
    side_ns, theirs_ns = (each.median / rows_count * 1e9 for each in (side, theirs))
    detail = f"{side_ns:.0f} ns a record; {their_name} {theirs_ns:.0f} ns a record"
    return Figure(name=name, value=side_ns / theirs_ns, detail=detail)
