"""A handful of real streaming queries: what Spark does with the reader and its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_segmentlog import lag
from tests.support.stream import GrowingLog, batch


@pytest.fixture
def log(tmp_path: Path) -> GrowingLog:
    return GrowingLog(tmp_path / "log")


class Query:
    """A query over a log, its checkpoint, and the offsets that each micro-batch gave."""

    def __init__(self, spark: SparkSession, log: GrowingLog) -> None:
        self._spark = spark
        self._log = log
        self.checkpoint = log.path.parent / "checkpoint"
        self.read: dict[int, list[tuple[str, int, int]]] = {}
        self._running: StreamingQuery | None = None

    def start(
        self, sink: Callable[[DataFrame, int], None] | None = None, **options: Any
    ) -> StreamingQuery:
        available_now = options.pop("available_now", False)
        stream = self._spark.readStream.format("segmentlog").options(**options)
        trigger: dict[str, Any] = (
            {"availableNow": True} if available_now else {"processingTime": "50 milliseconds"}
        )
        self._running = (
            stream.load(str(self._log.path))
            .writeStream.foreachBatch(sink or self._collect)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .start()
        )
        return self._running

    def run_available(self, **options: Any) -> StreamingQuery:
        query = self.start(available_now=True, **options)
        query.awaitTermination()
        return query

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()

    def offsets(self, batch_id: int) -> str:
        """Read the offset of the one source from the checkpoint, as text."""
        return (self.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[2]

    def forget_commit(self, batch_id: int) -> None:
        (self.checkpoint / "commits" / str(batch_id)).unlink()
        (self.checkpoint / "commits" / f".{batch_id}.crc").unlink()

    def _collect(self, frame: DataFrame, batch_id: int) -> None:
        rows = frame.select("topic", "partition", "offset").collect()
        self.read[batch_id] = sorted((row.topic, row.partition, row.offset) for row in rows)


@pytest.fixture
def query(spark: SparkSession, log: GrowingLog) -> Iterator[Query]:
    query = Query(spark, log)
    yield query
    query.stop()


def rows(partition: int, offsets: range) -> list[tuple[str, int, int]]:
    return [("t", partition, offset) for offset in offsets]


def test_micro_batches_follow_a_growing_log(query: Query, log: GrowingLog) -> None:
    log.append(batch(0, 5))
    running = query.start(startingOffsets="earliest")
    running.processAllAvailable()
    assert query.read == {0: [], 1: rows(0, range(5))}
    log.append(batch(5, 5))
    log.append(batch(0, 2), partition=1)
    running.processAllAvailable()
    assert query.read[2] == rows(0, range(5, 10)) + rows(1, range(2))
    assert query.offsets(0) == '{"t": {"0": 0}}'
    assert query.offsets(2) == '{"t": {"0": 10, "1": 2}}'
    progress = running.recentProgress[-1]
    assert json.loads(progress["sources"][0]["endOffset"]) == {"t": {"0": 10, "1": 2}}
    behind = lag(progress)
    assert behind == lag(progress.json)
    assert behind.partitions == {"t": {0: 0, 1: 0}}
    assert behind.max_offsets_behind_latest == 0


def test_a_query_that_crashes_in_micro_batch_0_loses_no_row(query: Query, log: GrowingLog) -> None:
    log.append(batch(0, 5))

    def crash(frame: DataFrame, batch_id: int) -> None:
        log.append(batch(5, 3))
        raise RuntimeError(f"crash in micro-batch {batch_id}")

    with pytest.raises(StreamingQueryException, match="crash in micro-batch 0"):
        query.start(crash).awaitTermination()
    log.append(batch(8, 2))
    query.run_available()
    assert query.read == {0: [], 1: rows(0, range(5, 10))}


def test_available_now_replays_and_then_reads_a_new_partition(
    query: Query, log: GrowingLog
) -> None:
    log.append(batch(0, 5))
    options = {
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": 100,
        "maxOffsetsPerTrigger": 1000,
    }
    query.run_available(**options)
    assert query.read == {0: [], 1: rows(0, range(5))}
    query.read.clear()
    query.forget_commit(1)
    log.append(batch(5, 1))
    log.append(batch(0, 3), partition=3)
    query.run_available(**options)
    assert query.read == {1: rows(0, range(5)), 2: rows(0, range(5, 6)) + rows(3, range(3))}


def test_a_topic_made_again_fails_the_query_until_loss_is_allowed(
    query: Query, log: GrowingLog
) -> None:
    log.append(batch(0, 50))
    query.run_available(startingOffsets="earliest")
    log.cut(0)
    log.append(batch(0, 20))
    with pytest.raises(StreamingQueryException, match=r"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"):
        query.run_available()
    query.read.clear()
    query.run_available(failOnDataLoss=False)
    assert query.read == {2: [], 3: rows(0, range(20))}
    assert query.offsets(2) == '{"t": {"0": 0}}'


def test_limits_lag_and_a_schema_of_fewer_columns(
    spark: SparkSession, log: GrowingLog, tmp_path: Path
) -> None:
    log.append(batch(0, 7))
    running = (
        spark.readStream.format("segmentlog")
        .schema("offset BIGINT, key BINARY")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=3)
        .load(str(log.path))
        .writeStream.format("memory")
        .queryName("limited")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    found = spark.table("limited").collect()
    assert sorted((row.offset, bytes(row.key)) for row in found) == [
        (offset, b"%06d" % offset) for offset in range(7)
    ]
    progress = [report for report in running.recentProgress if report["numInputRows"]]
    assert [report["numInputRows"] for report in progress] == [3, 3, 1]
    assert [lag(report).max_offsets_behind_latest for report in progress] == [4, 1, 0]
