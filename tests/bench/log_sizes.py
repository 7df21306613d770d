"""Queries through Spark on logs of one to a thousand segments of a gigabyte, and planning of more.

Where a log has more than five segments its partitions are hard links to the same five: what is read
lies in the page cache, as it would on a machine with memory enough, and the disk holds five
gigabytes. Segments that are only planned are sparse files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tests.bench.harness import Figure, Measurement, Settings, seconds, take_turns
from tests.bench.log_files import (
    FIRST_TIMESTAMP_MS,
    LogShape,
    generate_partition,
    write_clean_shutdown,
)
from tests.bench.planning import (
    PARTITIONS_COUNT,
    late_options,
    plan,
    sparse_log_directory,
    walk_names,
)
from tests.bench.spark_read import PUSHDOWN_CONF, between
from tests.bench.spark_session import drain, spark_session

RECORDS_PER_BATCH = 100
VALUE_BYTES = 1000
SEGMENT_RECORDS = 1_000_000
SEGMENTS_PER_PARTITION = 5
SEGMENTS_COUNTS = (1, 10, 100, 1000)
# A scan of a terabyte takes a quarter of an hour, and says no more than one of a tenth of that.
MOST_SCANNED_SEGMENTS = 100
WANTED_MS = 10
REPETITIONS = 3

# The last has a million files: a log and two indexes for each segment.
PLANNED_SEGMENTS_COUNTS = (1_000, 10_000, 100_000, 333_400)


def query_sizes_figures(settings: Settings) -> Iterator[Figure]:
    """Measure a scan, `count()`, a point and a range of times on logs of each size."""
    with spark_session({PUSHDOWN_CONF: "true"}) as spark:
        # What a session does once is done, and all data read, before the first size.
        _queried(spark, settings, 2 * SEGMENTS_PER_PARTITION)
        for segments_count in _counts_at_scale(settings):
            yield _queried(spark, settings, segments_count)


def planning_sizes_figures(settings: Settings) -> Iterator[Figure]:
    """Measure planning by an offset and by a time, and a bare walk, on directories of each size."""
    for segments_count in PLANNED_SEGMENTS_COUNTS:
        per_partition = max(2, settings.sized(segments_count) // PARTITIONS_COUNT)
        directory = sparse_log_directory(settings.cache, PARTITIONS_COUNT, per_partition)
        by_offset, by_time = late_options(PARTITIONS_COUNT, per_partition)
        sides = {
            "by offset": seconds(partial(plan, directory, by_offset)),
            "by time": seconds(partial(plan, directory, by_time)),
            "a bare walk": seconds(partial(walk_names, directory)),
        }
        yield _figure(f"planned_{segments_count}", segments_count, _best(sides, settings))


def _counts_at_scale(settings: Settings) -> list[int]:
    """Give the sizes up to the largest one's share, since it is tasks that take the time."""
    return [count for count in SEGMENTS_COUNTS if count <= settings.sized(SEGMENTS_COUNTS[-1])]


def _queried(spark: SparkSession, settings: Settings, segments_count: int) -> Figure:
    directory, rows_count = linked_log_directory(settings, segments_count)
    first_ms = FIRST_TIMESTAMP_MS + settings.sized(SEGMENT_RECORDS) // 2
    partitions_count = -(-segments_count // SEGMENTS_PER_PARTITION)

    def frame(**options: str) -> DataFrame:
        return spark.read.format("segmentlog").options(**options).load(str(directory))

    def point() -> None:
        pushed = frame(pushdown="true").where(
            (col("partition") == 0) & (col("offset") == WANTED_MS)
        )
        assert len(pushed.collect()) == 1

    def times() -> None:
        pushed = between(frame(pushdown="true"), first_ms, first_ms + WANTED_MS)
        assert len(pushed.collect()) == WANTED_MS * partitions_count

    def count() -> None:
        assert frame().count() == rows_count

    found = _best(
        {"one record": seconds(point), "10 ms of each partition": seconds(times)}, settings
    )
    if segments_count <= MOST_SCANNED_SEGMENTS:
        # A scan of so much needs no second round.
        found["all records"] = seconds(lambda: drain(frame()))()
        found["count()"] = seconds(count)()
    return _figure(f"queried_{segments_count}", segments_count, found)


def linked_log_directory(settings: Settings, segments_count: int) -> tuple[Path, int]:
    """Return a log directory of so many segments, and its records."""
    shape = LogShape(
        records_count=SEGMENTS_PER_PARTITION
        * settings.sized(SEGMENT_RECORDS, multiple_of=RECORDS_PER_BATCH),
        records_per_batch=RECORDS_PER_BATCH,
        segment_records=settings.sized(SEGMENT_RECORDS, multiple_of=RECORDS_PER_BATCH),
        value_bytes=VALUE_BYTES,
    )
    made = generate_partition(settings.cache, shape) / f"{shape.topic}-0"
    stems = sorted(path.stem for path in made.glob("*.log"))[:segments_count]
    directory = settings.cache / f"linked-{shape.name}-{segments_count}"
    shutil.rmtree(directory, ignore_errors=True)
    for number in range(-(-segments_count // SEGMENTS_PER_PARTITION)):
        partition = directory / f"{shape.topic}-{number}"
        partition.mkdir(parents=True)
        for path in made.iterdir():
            if path.stem in stems:
                os.link(path, partition / path.name)
    write_clean_shutdown(directory)
    return directory, segments_count * shape.segment_records


def _best(sides: Mapping[str, Measurement], settings: Settings) -> dict[str, float]:
    rounds = take_turns(list(sides.values()), min(settings.repetitions, REPETITIONS))
    return {name: timings.best for name, timings in zip(sides, rounds, strict=True)}


def _figure(name: str, segments_count: int, measured: Mapping[str, float]) -> Figure:
    return Figure(
        name=name,
        value=max(measured.values()),
        detail="; ".join(f"{side} {elapsed:.3f} s" for side, elapsed in measured.items()),
        sides={f"{segments_count}: {side}": elapsed for side, elapsed in measured.items()},
    )
