from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from spark_segmentlog.spark.worker_heap import freeze_worker_heap
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch


def test_a_process_that_spark_did_not_fork_is_left_alone() -> None:
    before = gc.get_freeze_count()
    assert not freeze_worker_heap("read")
    assert gc.get_freeze_count() == before


def test_what_a_worker_has_imported_is_out_of_its_collections(
    spark: SparkSession, tmp_path: Path
) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[v2_batch([RecordSpec(value=b"v")] * 3)]])
    assert spark.read.format("segmentlog").load(str(tmp_path)).count() == 3

    def frozen(_: Iterator[int]) -> Iterator[int]:
        yield gc.get_freeze_count()

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(frozen).max() > 1000
