"""Read the last hour of a broker's disk: every topic, only segments that can hold such records."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, lit, max, min, timestamp_millis
from sample_log import log_directories

HOUR_MS = 3_600_000

spark = (
    SparkSession.builder.master("local[2]")
    .appName("last-hour")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
paths = log_directories()

# "Now" is the newest record on the disk, so that the example works on an old copy too.
segments = spark.read.format("segmentlog").option("view", "segments").load(paths)
((newest_ms,),) = segments.agg(max("maxTimestampMs")).collect()

last_hour = (
    spark.read.format("segmentlog")
    .option("startingTimestamp", newest_ms - HOUR_MS)
    .option("startingOffsetsByTimestampStrategy", "latest")
    .load(paths)
    # In a topic with producers' own timestamps, older records may lie after the first recent one.
    .where(col("timestamp") >= timestamp_millis(lit(newest_ms - HOUR_MS)))
)
last_hour.groupBy("topic").agg(
    count("*").alias("records"), min("timestamp").alias("first"), max("timestamp").alias("last")
).orderBy(col("records").desc()).show(truncate=False)
spark.stop()
