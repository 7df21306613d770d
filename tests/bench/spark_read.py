"""Reading through Spark, against the ceiling of its Python API."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, lit, timestamp_millis

from tests.bench.harness import (
    Figure,
    Settings,
    Timings,
    ns_a_record,
    seconds,
    take_turns,
)
from tests.bench.log_files import FIRST_TIMESTAMP_MS, LogShape, generate_partition
from tests.bench.spark_session import drain, spark_session

BIG_RECORDS_COUNT = 4_000_000
SMALLER_RECORDS_COUNT = 2_000_000
SEGMENT_BYTES = 64 << 20
SMALL_SEGMENTS_COUNT = 10_000
FEWER_SEGMENTS_COUNT = 1_000
RECORDS_PER_SMALL_SEGMENT = 10
# A thousand input partitions take a quarter of a minute.
SMALL_SEGMENTS_REPETITIONS = 1
WANTED_ROWS = 10
LIMIT_REPETITIONS_FACTOR = 2

LIBRARY = "spark-segmentlog"
DAEMON_MODULE = "spark_segmentlog.daemon"
PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True, slots=True)
class Log:
    """A generated log and what it holds."""

    path: Path
    records_count: int
    segments_count: int
    records_per_batch: int


def spark_read_figures(settings: Settings) -> Iterator[Figure]:
    """Measure rows a second, and ten rows of many."""
    hundred = _log(settings, BIG_RECORDS_COUNT, 100)
    thousand = _log(settings, SMALLER_RECORDS_COUNT, 1000)
    single = _log(settings, SMALLER_RECORDS_COUNT, 1)
    with spark_session({PUSHDOWN_CONF: "true"}) as spark:
        for suffix, log in (("100", hundred), ("1000", thousand), ("1", single)):
            yield from _rows(spark, settings, suffix, log)
        yield _against_parquet(spark, settings, thousand)
        yield _offset_only(spark, settings, hundred)
        yield from _ten_rows(spark, settings, hundred)


def small_segments_figures(settings: Settings) -> Iterator[Figure]:
    """Measure a log of very many small segments."""
    with spark_session() as spark:
        yield from _small_segments(spark, settings)


def limit_figures(settings: Settings) -> Iterator[Figure]:
    """Measure queries that stop early, with stock workers and with our daemon."""
    log = _log(settings, BIG_RECORDS_COUNT, 100)
    with spark_session() as spark:
        yield _limit(spark, settings, log, "limit_stock_worker")
    with spark_session({"spark.python.daemon.module": DAEMON_MODULE}) as spark:
        yield _limit(spark, settings, log, "limit_with_daemon")


def _log(settings: Settings, records_count: int, records_per_batch: int) -> Log:
    shape = LogShape(
        records_count=settings.sized(records_count, multiple_of=records_per_batch),
        records_per_batch=records_per_batch,
        segment_bytes=settings.sized(SEGMENT_BYTES, multiple_of=1 << 16),
    )
    return _generated(settings, shape)


def _generated(settings: Settings, shape: LogShape) -> Log:
    path = generate_partition(settings.cache, shape)
    segments_count = sum(1 for _ in path.glob("*/*.log"))
    return Log(path, shape.records_count, segments_count, shape.records_per_batch)


def _ours(spark: SparkSession, log: Log, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("segmentlog").options(**options)
    return (reader.schema(schema) if schema else reader).load(str(log.path))


def _ready_made(
    spark: SparkSession, log: Log, schema: str | None = None, *, name: str = "readymade"
) -> DataFrame:
    reader = spark.read.format(name)
    reader = reader.option("rows", log.records_count).option("partitions", log.segments_count)
    return (reader.schema(schema) if schema else reader).load()


def _nothing(spark: SparkSession) -> DataFrame:
    return spark.read.format("readymade").option("rows", 0).option("partitions", 1).load()


def _rows(spark: SparkSession, settings: Settings, suffix: str, log: Log) -> Iterator[Figure]:
    """Compare with ready-made Arrow, in workers of its own and in those that the library has."""
    ours, own, shared = take_turns(
        [
            seconds(lambda: drain(_ours(spark, log))),
            seconds(lambda: drain(_ready_made(spark, log))),
            seconds(lambda: drain(_ready_made(spark, log, name="readymade-shared"))),
        ],
        settings.repetitions,
    )
    yield _rows_figure(f"spark_rows_{suffix}", log, ours, "ready-made Arrow", own)
    yield _rows_figure(
        f"spark_rows_{suffix}_shared", log, ours, "ready-made Arrow, shared workers", shared
    )


def _against_parquet(spark: SparkSession, settings: Settings, log: Log) -> Figure:
    with tempfile.TemporaryDirectory(dir=settings.cache) as folder:
        written = f"{folder}/parquet"
        _ours(spark, log).write.option("compression", "none").parquet(written)
        ours, parquet = take_turns(
            [
                seconds(lambda: drain(_ours(spark, log))),
                seconds(lambda: drain(spark.read.parquet(written))),
            ],
            settings.repetitions,
        )
    return _rows_figure("spark_rows_parquet", log, ours, "Parquet", parquet)


def _offset_only(spark: SparkSession, settings: Settings, log: Log) -> Figure:
    schema = "offset bigint"
    ours, ceiling = take_turns(
        [
            seconds(lambda: drain(_ours(spark, log, schema))),
            seconds(lambda: drain(_ready_made(spark, log, schema))),
        ],
        settings.repetitions,
    )
    return _rows_figure("spark_offset_only", log, ours, "ready-made Arrow", ceiling)


def _rows_figure(name: str, log: Log, ours: Timings, peer: str, theirs: Timings) -> Figure:
    count = log.records_count
    return Figure(
        name=name,
        value=theirs.best / ours.best,
        detail=f"{ns_a_record(ours, count)}; {peer} {ns_a_record(theirs, count)}",
        sides={
            f"{log.records_per_batch}: {side}": count / timings.best
            for side, timings in ((LIBRARY, ours), (peer, theirs))
        },
    )


def _ten_rows(spark: SparkSession, settings: Settings, log: Log) -> Iterator[Figure]:
    first_ms = FIRST_TIMESTAMP_MS + log.records_count * 5 // 8
    until_ms = first_ms + WANTED_ROWS

    def by_options() -> None:
        bounds = {"startingTimestamp": str(first_ms), "endingTimestamp": str(until_ms)}
        assert len(_ours(spark, log, None, **bounds).collect()) == WANTED_ROWS

    def wanted(frame: DataFrame) -> DataFrame:
        return between(frame, first_ms, until_ms)

    def by_pushdown() -> None:
        assert len(wanted(_ours(spark, log, pushdown="true")).collect()) == WANTED_ROWS

    options, floor = take_turns(
        [seconds(by_options), seconds(lambda: _nothing(spark).collect())], settings.repetitions
    )
    yield _against_floor("ten_rows_by_options", options, floor)
    pushed, floor = take_turns(
        [seconds(by_pushdown), seconds(lambda: wanted(_nothing(spark)).collect())],
        settings.repetitions,
    )
    yield _against_floor("ten_rows_by_pushdown", pushed, floor)


def between(frame: DataFrame, first_ms: int, until_ms: int) -> DataFrame:
    """Keep the rows of a range of timestamps, its end exclusive."""
    is_late = col("timestamp") >= _moment(first_ms)
    return frame.where(is_late & (col("timestamp") < _moment(until_ms)))


def _moment(timestamp_ms: int) -> Column:
    """Return a timestamp that Spark folds into a literal, as it must be to be pushed."""
    return timestamp_millis(lit(timestamp_ms))


def _against_floor(name: str, timings: Timings, floor: Timings) -> Figure:
    detail = f"{timings.best:.3f} s; a query that reads nothing {floor.best:.3f} s"
    return Figure(name=name, value=timings.best / floor.best, detail=detail)


def _small_segments(spark: SparkSession, settings: Settings) -> Iterator[Figure]:
    records_count = settings.sized(SMALL_SEGMENTS_COUNT) * RECORDS_PER_SMALL_SEGMENT
    small, fewer = (
        _generated(
            settings,
            LogShape(
                records_count=records_count,
                records_per_batch=RECORDS_PER_SMALL_SEGMENT,
                segment_records=RECORDS_PER_SMALL_SEGMENT * factor,
            ),
        )
        for factor in (1, SMALL_SEGMENTS_COUNT // FEWER_SEGMENTS_COUNT)
    )
    planned = _ours(spark, small).rdd.getNumPartitions()
    yield Figure(
        name="small_segments_planned",
        value=planned,
        detail=f"{small.segments_count} segments of {RECORDS_PER_SMALL_SEGMENT} records",
    )
    many, few = take_turns(
        [seconds(lambda: drain(_ours(spark, small))), seconds(lambda: drain(_ours(spark, fewer)))],
        min(settings.repetitions, SMALL_SEGMENTS_REPETITIONS),
    )
    yield Figure(
        name="small_segments_read",
        value=many.best / few.best,
        detail=f"{many.best:.2f} s; {fewer.segments_count} segments {few.best:.2f} s",
    )


def _limit(spark: SparkSession, settings: Settings, log: Log, name: str) -> Figure:
    frames = [_ours(spark, log), _ready_made(spark, log)]
    ours, ceiling = take_turns(
        [seconds(frame.limit(5).collect) for frame in frames],
        settings.repetitions * LIMIT_REPETITIONS_FACTOR,
    )
    detail = (
        f"{ours.best:.2f} s (median {ours.median:.2f}); "
        f"ready-made Arrow {ceiling.best:.2f} s (median {ceiling.median:.2f})"
    )
    return Figure(name=name, value=ours.best - ceiling.best, detail=detail)
