"""Batch read and write, a stream and its sink: on every version of Spark from 4.0 on.

`make compatibility` runs this with each.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.every_spark import go_from_log_to_log


def test_rows_are_written_read_and_streamed_from_log_to_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    go_from_log_to_log(spark, tmp_path)
