"""Tail a broker's disk: rows arrive while the query runs, which ends once it has caught up.

The "broker" is a thread that plays the sample log back into an empty directory, 4,000 bytes at a
time. So the query meets what it would meet on a live disk: partitions and segments that appear, and
a last record batch of which only a part is there.
"""

import shutil
import tempfile
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, max, min
from sample_log import log_directories

from spark_segmentlog import lag

TOPIC = "orders"
STEP_BYTES = 4_000


def play_back(target: Path) -> None:
    for directory in log_directories():
        for source in sorted(Path(directory).glob(f"{TOPIC}-*")):
            partition = target / source.name
            partition.mkdir()
            shutil.copy(source / "partition.metadata", partition)
            for segment in sorted(source.glob("*.log")):
                data = segment.read_bytes()
                with open(partition / segment.name, "ab", buffering=0) as log:
                    for start in range(0, len(data), STEP_BYTES):
                        log.write(data[start : start + STEP_BYTES])
                        time.sleep(0.1)


def show(micro_batch: DataFrame, batch_id: int) -> None:
    print(f"micro-batch {batch_id}")
    micro_batch.groupBy("partition").agg(
        count("*").alias("rows"), min("offset").alias("first"), max("offset").alias("last")
    ).orderBy("partition").show()


spark = (
    SparkSession.builder.master("local[2]")
    .appName("tail-a-broker")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
live = Path(tempfile.mkdtemp(prefix="live-log-"))
broker = threading.Thread(target=play_back, args=(live,))
query = (
    spark.readStream.format("segmentlog")
    .option("startingOffsets", "earliest")
    .load(str(live))
    .writeStream.foreachBatch(show)
    .option("checkpointLocation", tempfile.mkdtemp(prefix="checkpoint-"))
    .trigger(processingTime="500 milliseconds")
    .start()
)
broker.start()
broker.join()
query.processAllAvailable()

progress = query.recentProgress[-1]
behind = lag(progress)
print(f"reached {progress.sources[0].endOffset}")
print(f"behind  {behind.partitions}, at most {behind.max_offsets_behind_latest}")
query.stop()
spark.stop()
