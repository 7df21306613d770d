"""Rewrite a topic with another codec, into a log directory of its own.

What was read can be written as it is: keys, values, headers, timestamps and partitions stay, and
rows keep their order. Offsets are counted anew, without the gaps of the old log.
"""

import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, sum
from sample_log import log_directories

TOPICS = "orders,table"
CODEC = "zstd"

spark = (
    SparkSession.builder.master("local[2]")
    .appName("rewrite-codec")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
source = spark.read.format("segmentlog").option("subscribe", TOPICS)
old_paths = log_directories()
new_path = tempfile.mkdtemp(prefix="rewritten-log-")

rows = source.option("includeHeaders", True).load(old_paths)
((partitions,),) = rows.selectExpr("max(partition) + 1").collect()
(
    rows.write.format("segmentlog")
    .mode("append")
    .option("num.partitions", partitions)
    .option("compression.type", CODEC)
    .option("compression.zstd.level", 6)
    .save(new_path)
)


def sizes(paths: str | list[str]) -> DataFrame:
    batches = spark.read.format("segmentlog").option("subscribe", TOPICS).option("view", "batches")
    return (
        batches.load(paths)
        .groupBy("topic", "codec")
        .agg(
            sum("recordCount").alias("records"),
            count("*").alias("batches"),
            sum("sizeBytes").alias("bytes"),
        )
        .orderBy("topic", "codec")
    )


sizes(old_paths).show()
sizes(new_path).show()
print(f"written to {new_path}")
spark.stop()
