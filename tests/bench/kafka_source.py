"""Queries by Spark's Kafka source from a broker on the same machine, and by ours from its folder.

The broker serves files that were put into its log directory while it was stopped. A topic has a
partition, of one segment, for each core, so that both sides run as many tasks.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from tests.bench.harness import Figure, Settings, ns_a_record, seconds, take_turns
from tests.bench.log_files import FIRST_TIMESTAMP_MS, LogShape, generate_partition
from tests.bench.spark_read import LIBRARY, PUSHDOWN_CONF, WANTED_ROWS, between
from tests.bench.spark_session import drain, spark_session
from tests.support.kafka_jars import KafkaJars

if TYPE_CHECKING:
    from tests.support.broker import Broker

RECORDS_COUNT = 2_000_000
PARTITIONS_COUNT = 2
# A round of the Kafka source takes seconds.
REPETITIONS = 3
SMALL, LZ4, LARGE = "small", "lz4", "large"
# The queries that a plot shows, and how it calls them.
SCANS = {"scan": "broker", "lz4": "broker, lz4", "1kb": "broker, 1 kB"}

Query = Callable[[], object]


def kafka_source_figures(settings: Settings, jars: KafkaJars | None) -> Iterator[Figure]:
    """Measure every query; without jars there is no peer, so that gives no figure."""
    if jars is None:
        return
    # librdkafka is needed here alone.
    from tests.support.broker import SERVER_JVM, Broker

    with tempfile.TemporaryDirectory(dir=settings.cache) as folder:
        node = Path(folder) / "broker"
        broker = Broker(node, jars, log_directory_names=("d0",), heap="1g", jvm=SERVER_JVM)
        with broker, spark_session({PUSHDOWN_CONF: "true"}) as spark:
            shapes = _shapes(settings)
            _serve(broker, shapes, settings.cache)
            for name, (topic, theirs, ours) in _queries(Sources(spark, broker), shapes).items():
                rows_count = shapes[topic].records_count * PARTITIONS_COUNT
                yield _figure(name, ours, theirs, rows_count, settings)


@dataclass(frozen=True, slots=True)
class Sources:
    """Both ways to a topic."""

    spark: SparkSession
    broker: Broker

    def theirs(self, topic: str, **options: str) -> DataFrame:
        """Read by the Kafka source."""
        reader = self.spark.read.format("kafka").options(subscribe=topic, **options)
        return reader.option("kafka.bootstrap.servers", self.broker.bootstrap_servers).load()

    def ours(self, topic: str, schema: str | None = None, **options: str) -> DataFrame:
        """Read by ours."""
        reader = self.spark.read.format("segmentlog").options(subscribe=topic, **options)
        (log_directory,) = self.broker.log_directories
        return (reader.schema(schema) if schema else reader).load(str(log_directory))


def _shapes(settings: Settings) -> dict[str, LogShape]:
    """Give what a partition of each topic holds; batches are about as large as a producer's."""

    def shape(records_per_batch: int, **others: Any) -> LogShape:
        count = settings.sized(
            RECORDS_COUNT // PARTITIONS_COUNT, multiple_of=records_per_batch * WANTED_ROWS
        )
        return LogShape(records_count=count, records_per_batch=records_per_batch, **others)

    return {SMALL: shape(100), LZ4: shape(100, codec="lz4"), LARGE: shape(16, value_bytes=1000)}


def _serve(broker: Broker, shapes: Mapping[str, LogShape], cache: Path) -> None:
    """Put the partitions into the broker's log directory."""
    for topic in shapes:
        broker.create_topic(topic, partitions=PARTITIONS_COUNT)
    broker.stop()
    for topic, shape in shapes.items():
        made = generate_partition(cache, shape) / f"{shape.topic}-0"
        for number in range(PARTITIONS_COUNT):
            partition = broker.partition_directory(topic, number)
            for empty in partition.glob(f"{0:020d}.*"):
                empty.unlink()
            for path in made.iterdir():
                # A broker maps indexes of an active segment, and makes them larger.
                copy = os.link if path.suffix == ".log" else shutil.copyfile
                copy(path, partition / path.name)
    broker.start()


def _queries(
    sources: Sources, shapes: Mapping[str, LogShape]
) -> dict[str, tuple[str, Query, Query]]:
    """Name the queries, each with its topic, theirs first."""
    theirs, ours = sources.theirs, sources.ours
    rows_count = shapes[SMALL].records_count * PARTITIONS_COUNT
    first_ms = FIRST_TIMESTAMP_MS + shapes[SMALL].records_count * 5 // 8
    until_ms = first_ms + WANTED_ROWS // PARTITIONS_COUNT
    times = {"startingTimestamp": str(first_ms), "endingTimestamp": str(until_ms)}

    def scan(topic: str) -> tuple[str, Query, Query]:
        return topic, lambda: drain(theirs(topic)), lambda: drain(ours(topic))

    def count(frame: DataFrame) -> None:
        assert frame.count() == rows_count

    def ten(frame: DataFrame) -> None:
        assert len(frame.collect()) == WANTED_ROWS

    return {
        "scan": scan(SMALL),
        "lz4": scan(LZ4),
        "1kb": scan(LARGE),
        "count": (SMALL, lambda: count(theirs(SMALL)), lambda: count(ours(SMALL))),
        "offset": (
            SMALL,
            lambda: drain(theirs(SMALL).select("offset")),
            lambda: drain(ours(SMALL, "offset bigint")),
        ),
        "pushdown": (
            SMALL,
            lambda: ten(between(theirs(SMALL), first_ms, until_ms)),
            lambda: ten(between(ours(SMALL, pushdown="true"), first_ms, until_ms)),
        ),
        "options": (
            SMALL,
            lambda: ten(theirs(SMALL, **times)),
            lambda: ten(ours(SMALL, **times)),
        ),
    }


def _figure(name: str, ours: Query, theirs: Query, rows_count: int, settings: Settings) -> Figure:
    our_times, their_times = take_turns(
        [seconds(ours), seconds(theirs)], min(settings.repetitions, REPETITIONS)
    )
    rates = {
        f"{SCANS.get(name)}: {LIBRARY}": rows_count / our_times.best,
        f"{SCANS.get(name)}: Kafka source": rows_count / their_times.best,
    }
    return Figure(
        name=f"kafka_source_{name}",
        value=their_times.best / our_times.best,
        detail=(
            f"{our_times.best:.2f} s, {ns_a_record(our_times, rows_count)}; "
            f"Kafka source {their_times.best:.2f} s, {ns_a_record(their_times, rows_count)}"
        ),
        sides=rates if name in SCANS else {},
    )
