"""Queries by Spark's Kafka source from a broker on the same machine, and by ours from its folder.

Sessions have the settings that users are advised to make, but for one more scan with Spark's own.
Each query is made of ready-made Arrow too, of the same rows, which is the most that a source of
Spark's Python API can reach. The broker serves files that were put into its log directory while it
was stopped. A topic has a partition, of one segment, for each core, so that all sides run as many
tasks.
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
from tests.bench.log_files import FIRST_TIMESTAMP_MS, VALUE_BYTES, LogShape, generate_partition
from tests.bench.measured import CEILING
from tests.bench.spark_read import LIBRARY, PUSHDOWN_CONF, WANTED_ROWS, between
from tests.bench.spark_session import advised_settings, drain, spark_session
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

Action = Callable[[], object]


def kafka_source_figures(settings: Settings, jars: KafkaJars | None) -> Iterator[Figure]:
    """Measure every query; without jars there is no peer, so that gives no figure."""
    if jars is None:
        return
    # librdkafka is needed here alone.
    from tests.support.broker import SERVER_JVM, Broker

    with tempfile.TemporaryDirectory(dir=settings.cache) as folder:
        node = Path(folder) / "broker"
        broker = Broker(node, jars, log_directory_names=("d0",), heap="1g", jvm=SERVER_JVM)
        with broker:
            shapes = _shapes(settings)
            _serve(broker, shapes, settings.cache)
            with spark_session({**advised_settings(), PUSHDOWN_CONF: "true"}) as spark:
                for name, query in _queries(Sources(spark, broker), shapes).items():
                    yield from _figures(name, query, _rows_count(shapes[query.topic]), settings)
            with spark_session() as spark:
                query = _queries(Sources(spark, broker), shapes)["scan"]
                yield from _figures("stock", query, _rows_count(shapes[SMALL]), settings)


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a topic, by each side."""

    topic: str
    theirs: Action
    ours: Action
    ready_made: Action


@dataclass(frozen=True, slots=True)
class Sources:
    """The ways to a topic."""

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

    def ready_made(
        self, rows_count: int, schema: str | None = None, value_bytes: int = VALUE_BYTES
    ) -> DataFrame:
        """Have as many rows, and partitions, of ready-made Arrow."""
        reader = self.spark.read.format("readymade").option("rows", rows_count)
        reader = reader.option("partitions", PARTITIONS_COUNT).option("valueBytes", value_bytes)
        return (reader.schema(schema) if schema else reader).load()


def _rows_count(shape: LogShape) -> int:
    return shape.records_count * PARTITIONS_COUNT


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


def _queries(sources: Sources, shapes: Mapping[str, LogShape]) -> dict[str, Query]:
    """Name the queries."""
    theirs, ours, ready_made = sources.theirs, sources.ours, sources.ready_made
    rows_count = _rows_count(shapes[SMALL])
    first_ms = FIRST_TIMESTAMP_MS + shapes[SMALL].records_count * 5 // 8
    wanted_ms = WANTED_ROWS // PARTITIONS_COUNT
    times = {
        "startingTimestamp": str(first_ms),
        "endingTimestamp": str(first_ms + wanted_ms),
    }

    def scan(topic: str) -> Query:
        shape = shapes[topic]
        return Query(
            topic,
            lambda: drain(theirs(topic)),
            lambda: drain(ours(topic)),
            lambda: drain(ready_made(_rows_count(shape), value_bytes=shape.value_bytes)),
        )

    def count(frame: DataFrame) -> None:
        assert frame.count() == rows_count

    def ten(frame: DataFrame) -> None:
        assert len(frame.collect()) == WANTED_ROWS

    def within(frame: DataFrame, from_ms: int) -> DataFrame:
        return between(frame, from_ms, from_ms + wanted_ms)

    return {
        "scan": scan(SMALL),
        "lz4": scan(LZ4),
        "1kb": scan(LARGE),
        "count": Query(
            SMALL,
            lambda: count(theirs(SMALL)),
            lambda: count(ours(SMALL)),
            lambda: count(ready_made(rows_count)),
        ),
        "offset": Query(
            SMALL,
            lambda: drain(theirs(SMALL).select("offset")),
            lambda: drain(ours(SMALL, "offset bigint")),
            lambda: drain(ready_made(rows_count, "offset bigint")),
        ),
        "pushdown": Query(
            SMALL,
            lambda: ten(within(theirs(SMALL), first_ms)),
            lambda: ten(within(ours(SMALL, pushdown="true"), first_ms)),
            lambda: ten(within(ready_made(WANTED_ROWS), FIRST_TIMESTAMP_MS)),
        ),
        "options": Query(
            SMALL,
            lambda: ten(theirs(SMALL, **times)),
            lambda: ten(ours(SMALL, **times)),
            lambda: ten(ready_made(WANTED_ROWS)),
        ),
    }


def _figures(name: str, query: Query, rows_count: int, settings: Settings) -> Iterator[Figure]:
    ours, theirs, ready_made = take_turns(
        [seconds(query.ours), seconds(query.theirs), seconds(query.ready_made)],
        min(settings.repetitions, REPETITIONS),
    )
    sides = {LIBRARY: ours, "Kafka source": theirs, "ready-made Arrow": ready_made}
    rates = {f"{SCANS.get(name)}: {side}": rows_count / each.best for side, each in sides.items()}
    detail = "; ".join(
        f"{side} {each.best:.2f} s, {ns_a_record(each, rows_count)}" for side, each in sides.items()
    )
    figure = f"kafka_source_{name}"
    yield Figure(
        name=figure,
        value=theirs.best / ours.best,
        detail=detail,
        sides=rates if name in SCANS else {},
    )
    yield Figure(name=f"{figure}_{CEILING}", value=theirs.best / ready_made.best, detail=detail)
