"""Streaming: how long a commit waits for its micro-batch, and what a trigger with nothing costs.

The writer of the latency benchmark is no part of the library: it appends one record batch to the
active segment at a time, as a broker does, or adds bytes to the counter of the API's own floor.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import max as largest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from tests.bench.harness import Figure, Settings, seconds, take_turns
from tests.bench.log_files import LogShape, batch, batch_templates, generate_partition
from tests.bench.spark_session import spark_session

COMMITS_COUNT = 60
COMMIT_INTERVAL_S = 0.2
RECORDS_PER_COMMIT = 10
LATENCY_REPETITIONS = 5
# A JVM runs triggers at their full speed only after some hundreds of them.
WARM_UP_ROUNDS = 2
# A stream is under way once it has handed over this many commits; those before do not count.
WARM_UP_COMMITS = 10
DRAIN_TIMEOUT_S = 60

# A broker gives the indexes of an active segment their full size at once.
LIVE_INDEX_BYTES = 10 << 20

MANY_SEGMENTS = 10_000
FEW_SEGMENTS = 10
TRIGGERS_COUNT = 50


def spark_stream_figures(settings: Settings) -> Iterator[Figure]:
    """Measure the latency of micro-batches and the cost of a trigger without data."""
    with spark_session() as spark:
        yield _latency(spark, settings)
    yield _no_data_trigger(settings)


class Commits:
    """Rows committed at a steady pace, and when each commit became visible and was handed over."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.latencies_s: list[float] = []
        self._visible_at: list[float] = []

    def write_all(self, commit: Callable[[int], None]) -> None:
        """Make one commit after another, each told its first offset."""
        start = time.monotonic()
        for number in range(self.count):
            time.sleep(max(0.0, start + number * COMMIT_INTERVAL_S - time.monotonic()))
            commit(number * RECORDS_PER_COMMIT)
            self._visible_at.append(time.monotonic())

    def hand_over(self, micro_batch: DataFrame, _: int) -> None:
        """Take a micro-batch, as foreachBatch does."""
        now = time.monotonic()
        last_offset = micro_batch.agg(largest("offset")).collect()[0][0]
        if last_offset is None:
            return
        arrived = (last_offset + 1) // RECORDS_PER_COMMIT
        for number in range(len(self.latencies_s), arrived):
            self.latencies_s.append(now - self._visible_at[number])

    def p95_s(self) -> float:
        counted = self.latencies_s[min(WARM_UP_COMMITS, self.count // 2) :]
        return statistics.quantiles(counted, n=20)[-1]


def _latency(spark: SparkSession, settings: Settings) -> Figure:
    """Compare medians of the p95: the best of a tail is luck."""
    commits_count = max(4, settings.sized(COMMITS_COUNT))
    sides = [lambda: _our_p95(spark, commits_count), lambda: _floor_p95(spark, commits_count)]
    repetitions = min(settings.repetitions, LATENCY_REPETITIONS)
    if repetitions > 1:
        take_turns(sides, WARM_UP_ROUNDS - 1)
    ours, floor = take_turns(sides, repetitions)
    detail = f"p95 {ours.median * 1e3:.0f} ms; ready-made rows {floor.median * 1e3:.0f} ms"
    return Figure(name="stream_latency", value=ours.median / floor.median, detail=detail)


def _our_p95(spark: SparkSession, commits_count: int) -> float:
    (records, *_) = batch_templates(RECORDS_PER_COMMIT, "none")
    with tempfile.TemporaryDirectory() as folder:
        partition = Path(folder) / "log" / "bench-0"
        partition.mkdir(parents=True)
        for suffix in (".index", ".timeindex"):
            with open(partition / f"{0:020d}{suffix}", "wb") as index:
                index.truncate(LIVE_INDEX_BYTES)
        with open(partition / f"{0:020d}.log", "wb", buffering=0) as log:
            source = spark.readStream.format("segmentlog").option("startingOffsets", "earliest")
            stream = source.load(str(partition.parent))

            def commit(base_offset: int) -> None:
                log.write(batch(records, base_offset, RECORDS_PER_COMMIT, "none"))

            return _p95(stream, commit, commits_count, Path(folder))


def _floor_p95(spark: SparkSession, commits_count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        counter = Path(folder) / "counter"
        with open(counter, "wb", buffering=0) as rows:
            stream = spark.readStream.format("ticking").option("counter", str(counter)).load()

            def commit(_: int) -> None:
                rows.write(b"." * RECORDS_PER_COMMIT)

            return _p95(stream, commit, commits_count, Path(folder))


def _p95(
    stream: DataFrame, commit: Callable[[int], None], commits_count: int, folder: Path
) -> float:
    commits = Commits(commits_count)
    writer = stream.writeStream.foreachBatch(commits.hand_over)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        thread = threading.Thread(target=commits.write_all, args=(commit,))
        thread.start()
        thread.join()
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while len(commits.latencies_s) < commits_count:
            if query.exception() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"stream got {len(commits.latencies_s)}: {query.exception()}")
            time.sleep(0.05)
    finally:
        query.stop()
    return commits.p95_s()


def _no_data_trigger(settings: Settings) -> Figure:
    many, few = take_turns(
        [
            _triggers(settings, settings.sized(MANY_SEGMENTS)),
            _triggers(settings, FEW_SEGMENTS),
        ],
        settings.repetitions,
    )
    detail = (
        f"{many.best / TRIGGERS_COUNT * 1e6:.0f} us over {settings.sized(MANY_SEGMENTS)} segments; "
        f"{few.best / TRIGGERS_COUNT * 1e6:.0f} us over {FEW_SEGMENTS}"
    )
    return Figure(name="no_data_trigger", value=many.best / few.best, detail=detail)


def _triggers(settings: Settings, segments_count: int) -> Callable[[], float]:
    """Ask a stream reader at the end of a log again and again for the latest offset."""
    from spark_segmentlog.spark.datasource import SegmentLogDataSource

    shape = LogShape(
        records_count=segments_count * RECORDS_PER_COMMIT,
        records_per_batch=RECORDS_PER_COMMIT,
        segment_records=RECORDS_PER_COMMIT,
    )
    log_directory = generate_partition(settings.cache, shape)
    source = SegmentLogDataSource({"path": str(log_directory), "startingoffsets": "latest"})
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader: Any = source.streamReader(schema)
    start = reader.initialOffset()

    def trigger() -> None:
        for _ in range(TRIGGERS_COUNT):
            assert reader.latestOffset(start, ReadAllAvailable()) == start

    return seconds(trigger)
