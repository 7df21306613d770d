"""Batch read and write, a stream and its sink: on every version of Spark from 4.0 on.

`make compatibility` runs this with each.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, functions

FORMAT = "segmentlog"


def test_rows_are_written_read_and_streamed_from_log_to_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target, checkpoint = (str(tmp_path / name) for name in ("source", "target", "state"))
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
        frame = spark.read.format(FORMAT).option("includeHeaders", "true").load(path)
        frame = frame.select("key", "value", "topic", "timestamp", "headers")
        return sorted(map(tuple, frame.collect()), key=lambda row: int(bytes(row[0])))

    def run() -> None:
        query = (
            spark.readStream.format(FORMAT)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .load(source)
            .writeStream.format(FORMAT)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start(target)
        )
        query.awaitTermination()

    rows.where("id < 40").write.format(FORMAT).mode("append").save(source)
    run()
    assert read(target) == read(source)
    assert len(read(target)) == 40
    rows.where("id >= 40").write.format(FORMAT).mode("append").save(source)
    run()
    run()
    assert read(target) == read(source)
    assert len(read(target)) == 50

    frame = spark.read.format(FORMAT).option("pushdown", "true").load(source)
    assert frame.where("offset >= 3 and offset < 5").count() == 2
    assert frame.where("timestamp >= timestamp'2100-01-01'").count() == 0
