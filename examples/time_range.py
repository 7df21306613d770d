"""Read the records of a time range: by options on any Spark, and by a filter pushed down."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, max, min
from sample_log import log_directories

spark = (
    SparkSession.builder.master("local[2]")
    .appName("time-range")
    .config("spark.sql.python.filterPushdown.enabled", True)
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
paths = log_directories()
topic = spark.read.format("segmentlog").option("subscribe", "appended")
((first, last),) = topic.load(paths).agg(min("timestamp"), max("timestamp")).collect()
middle = first + (last - first) / 2
start_ms = int(middle.timestamp() * 1000) + 1
end_ms = int(last.timestamp() * 1000)
print(f"records from {first} to {last}; asking for those after {middle}")

# The starting and ending options become offsets by the time index, before any task starts.
by_options = (
    topic.option("startingTimestamp", start_ms)
    .option("endingTimestamp", end_ms)
    .option("startingOffsetsByTimestampStrategy", "latest")
    .load(paths)
)
print(f"by options: {by_options.count()} rows")

# pushdown=true promises that this load() is used in one scan (see docs/reading.md).
bounds = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (start_ms, end_ms)]
by_filter = (
    spark.read.format("segmentlog")
    .option("subscribe", "appended")
    .option("pushdown", True)
    .load(paths)
    .where((col("timestamp") >= bounds[0]) & (col("timestamp") < bounds[1]))
)
rows = by_filter.collect()
by_filter.explain()
print(f"by pushdown: {len(rows)} rows")
spark.stop()
