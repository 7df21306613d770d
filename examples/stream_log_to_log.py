"""Stream from one log to another with a transformation on the way, each row exactly once.

The query is stopped half way and started again from its checkpoint: micro-batches that the sink
holds already are known by query and batch id. It ends once it has read what is there.
"""

import json
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from sample_log import log_directories

TOPIC = "orders"

spark = (
    SparkSession.builder.master("local[2]")
    .appName("stream-log-to-log")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
sink = tempfile.mkdtemp(prefix="sink-log-")
checkpoint = tempfile.mkdtemp(prefix="checkpoint-")


def start() -> StreamingQuery:
    orders = (
        spark.readStream.format("segmentlog")
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .option("paths", json.dumps(log_directories()))
        .load()
    )
    upper = orders.selectExpr(
        "key", "upper(string(value)) as value", "timestamp", "'orders-upper' as topic"
    )
    return (
        upper.writeStream.format("segmentlog")
        .option("num.partitions", 2)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(sink)
    )


query = start()
while query.isActive and len(query.recentProgress) < 3:
    query.awaitTermination(1)
query.stop()
print(f"stopped after micro-batch {query.lastProgress.batchId if query.lastProgress else None}")

query = start()
query.awaitTermination()
for progress in query.recentProgress:
    print(f"micro-batch {progress.batchId}: {progress.numInputRows} rows")

source = spark.read.format("segmentlog").option("subscribe", TOPIC).load(log_directories())
written = spark.read.format("segmentlog").load(sink)
print(f"{source.count()} rows in the source, {written.count()} in the sink")
written.selectExpr("partition", "offset", "string(key)", "string(value)").orderBy(
    "partition", "offset"
).show(5, truncate=60)
spark.stop()
