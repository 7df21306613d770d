"""None"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def test_workers_of_the_daemon_start_with_the_kernels(spark: SparkSession) -> None:
    def is_loaded(rows: object) -> list[bool]:
        return ["spark_segmentlog.record.kernels.decode" in sys.modules]

    assert spark.sparkContext.parallelize([1], 1).mapPartitions(is_loaded).collect() == [True]
