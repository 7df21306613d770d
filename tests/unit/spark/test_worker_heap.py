from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark_segmentlog.spark import batch_reader, stream_reader
from spark_segmentlog.spark.datasource import SegmentLogDataSource
from spark_segmentlog.spark.worker_heap import freeze_worker_heap
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch


@pytest.fixture(autouse=True)
def heap() -> Iterator[None]:
    freeze_worker_heap.cache_clear()
    yield
    freeze_worker_heap.cache_clear()
    gc.unfreeze()


def is_collected(thing: object) -> bool:
    """Tell whether the garbage collector looks at a thing, as it does at none that is frozen."""
    return any(known is thing for known in gc.get_objects())


def test_a_process_that_spark_did_not_fork_is_left_alone() -> None:
    before = gc.get_freeze_count()
    assert not freeze_worker_heap("read")
    assert gc.get_freeze_count() == before


def test_a_worker_is_frozen_once_for_each_kind_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    first = [0]
    assert is_collected(first)
    assert freeze_worker_heap("plan")
    assert not is_collected(first)
    second = [1]
    freeze_worker_heap("plan")
    assert is_collected(second)
    freeze_worker_heap("read")
    assert not is_collected(second)


def test_workers_of_the_daemon_start_with_a_frozen_heap(spark: SparkSession) -> None:
    def frozen(_: Iterable[int]) -> Iterable[int]:
        yield gc.get_freeze_count()

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(frozen).max() > 1000


def test_tasks_of_batches_and_streams_freeze_their_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[v2_batch([RecordSpec(value=b"v")] * 3)]])
    work: list[str] = []
    for module in (batch_reader, stream_reader):
        monkeypatch.setattr(module, "freeze_worker_heap", work.append)
    source = SegmentLogDataSource({"path": str(tmp_path), "startingoffsets": "earliest"})
    schema = source.schema()
    batch: Any = source.reader(schema)
    stream: Any = source.streamReader(schema)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    shares = [(batch, partition) for partition in batch.partitions()]
    shares += [(stream, partition) for partition in stream.partitions({"t": {"0": 0}}, end)]
    rows = [arrow_batch.num_rows for reader, share in shares for arrow_batch in reader.read(share)]
    assert sum(rows) == 3 + (end["t"]["0"])
    assert work == ["read"] * len(shares)
