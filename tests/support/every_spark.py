"""What every version of Spark from 4.0 on must be able to do: write, read and stream.

As a program it does that in a session of its own, below the folder that it is given. It needs
nothing but Spark and the library, so that it runs where no more than these is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession, functions

_FORMAT: Final = "segmentlog"
_SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def go_from_log_to_log(spark: SparkSession, folder: Path) -> None:
    """Write a log in two parts, and hold each to what a stream has copied of it so far."""
    source, target, checkpoint = (str(folder / name) for name in ("source", "target", "state"))
    headers = functions.array(
        functions.struct(functions.lit("h").alias("key"), functions.lit(b"x").alias("value"))
    )
    rows = spark.range(50).select(
        functions.col("id").cast("string").alias("key"),
        functions.col("id").cast("string").alias("value"),
        functions.lit("t").alias("topic"),
        functions.timestamp_millis(functions.lit(1_700_000_000_123) + functions.col("id")).alias(
            "timestamp"
        ),
        headers.alias("headers"),
    )

    def read(path: str) -> list[tuple[object, ...]]:
        frame = spark.read.format(_FORMAT).option("includeHeaders", "true").load(path)
        frame = frame.select("key", "value", "topic", "timestamp", "headers")
        return sorted(map(tuple, frame.collect()), key=lambda row: int(bytes(row[0])))

    def run() -> None:
        query = (
            spark.readStream.format(_FORMAT)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", "30")
            .load(source)
            .writeStream.format(_FORMAT)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start(target)
        )
        query.awaitTermination()

    rows.where("id < 40").write.format(_FORMAT).mode("append").save(source)
    run()
    assert read(target) == read(source)
    assert len(read(target)) == 40
    rows.where("id >= 40").write.format(_FORMAT).mode("append").save(source)
    run()
    run()
    assert read(target) == read(source)
    assert len(read(target)) == 50

    frame = spark.read.format(_FORMAT).option("pushdown", "true").load(source)
    assert frame.where("offset >= 3 and offset < 5").count() == 2
    assert frame.where("timestamp >= timestamp'2100-01-01'").count() == 0


def _main(folder: str) -> None:
    builder = SparkSession.builder
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    go_from_log_to_log(spark, Path(folder))
    spark.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])
