"""The main job on a small real log: rows, the query's plan, and what the indexes pruned."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from sample_log import ROOT, log_directories

spark = (
    SparkSession.builder.master("local[2]")
    .appName("segmentlog-demo")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.enabled", False)
    .config("spark.ui.showConsoleProgress", False)
    .config(
        "spark.driver.extraJavaOptions",
        # Spark cuts these options at spaces, which a URI has none of.
        f"-Dlog4j2.configurationFile={(ROOT / 'conf' / 'log4j2.properties').as_uri()}",
    )
    .getOrCreate()
)
paths = log_directories()


def orders(**options: str | int) -> DataFrame:
    return spark.read.format("segmentlog").options(subscribe="orders", **options).load(paths)


def show(title: str, frame: DataFrame) -> None:
    print(f"\n== {title}")
    frame.select(
        "partition",
        "offset",
        "timestamp",
        col("key").cast("string"),
        col("value").cast("string").substr(1, 32).alias("value"),
    ).orderBy("partition", "offset").show(5, truncate=False)


def segments_read(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


whole = orders()
show("topic orders, all of it", whole)

((newest,),) = whole.agg({"timestamp": "max"}).collect()
starting_ms = newest.timestamp() * 1000 - 60_000
recent = orders(startingTimestamp=int(starting_ms), startingOffsetsByTimestampStrategy="latest")
show("the last minute before its newest record", recent)

print("== plan")
recent.where("partition = 1").explain()

print("== pruned by the time index, before any task started")
print(f"segments read: {segments_read(recent)} of {segments_read(whole)}")
print(f"rows read:     {recent.count()} of {whole.count()}")
spark.stop()
