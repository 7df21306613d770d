"""Load rows into the log directories of a broker that is stopped, and see what it will serve.

The directories are copies of the sample broker's; with your own, stop the broker first (one that
runs holds them, and the write is refused). The topic must exist in its cluster, with one replica.
"""

import json
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, max, min
from sample_log import log_directories

TOPIC = "orders"
ROWS = 20_000

spark = (
    SparkSession.builder.master("local[2]")
    .appName("bulk-load-stopped-broker")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
broker = Path(tempfile.mkdtemp(prefix="stopped-broker-"))
directories = []
for number, source in enumerate(log_directories()):
    directories.append(str(shutil.copytree(source, broker / f"d{number}")))


def offsets() -> DataFrame:
    rows = spark.read.format("segmentlog").option("subscribe", TOPIC).load(directories)
    counted = rows.groupBy("partition").agg(
        count("*").alias("rows"), min("offset").alias("first"), max("offset").alias("last")
    )
    return counted.orderBy("partition")


print("before")
offsets().show()
loaded = spark.range(ROWS).selectExpr(
    "'order-' || id as key", "to_json(named_struct('order', id)) as value"
)
(
    loaded.write.format("segmentlog")
    .mode("append")
    .option("paths", json.dumps(directories))
    .option("topic", TOPIC)
    .option("compression.type", "zstd")
    # Written once, however often this job is tried again.
    .option("txnAppId", "bulk-load")
    .option("txnVersion", 1)
    .save()
)
print("after")
offsets().show()
for directory in directories:
    mark = Path(directory, ".kafka_cleanshutdown")
    print(f"{directory}: still marked as cleanly shut: {mark.exists()}")
spark.stop()
