"""A query from one log to another, run as a program of its own, so that it can be killed.

Arguments: source log directory, sink log directory, checkpoint, offsets a micro-batch. It ends once
it has written what the source held when it started, and prints a line a step.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col


def main(source: str, sink: str, checkpoint: str, max_offsets: str) -> None:
    spark = (
        # Tasks are tried again, as they are on a cluster.
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(Path(checkpoint).parent / "scratch"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    rows = (
        spark.readStream.format("segmentlog")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_offsets)
        .load(source)
    )
    query = (
        rows.select("partition", col("key"), col("offset").cast("string").alias("value"))
        .writeStream.format("segmentlog")
        .option("topic", "copy")
        .option("num.partitions", 3)
        .option("segment.bytes", 20_000)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(sink)
    )
    print("started", flush=True)
    query.awaitTermination()
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
