"""An incremental job: each run reads what was added since the last one, then ends.

Three runs over one checkpoint. The log grows between them (here by the next third of the sample's
segments); what a run finds at its start is what it reads, 500 offsets a micro-batch.
"""

import shutil
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from sample_log import log_directories

TOPIC = "orders"
RUNS = 3

spark = (
    SparkSession.builder.master("local[2]")
    .appName("incremental-job")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
log = Path(tempfile.mkdtemp(prefix="growing-log-"))
checkpoint = tempfile.mkdtemp(prefix="checkpoint-")


def grow(run: int) -> None:
    for directory in log_directories():
        for source in sorted(Path(directory).glob(f"{TOPIC}-*")):
            partition = log / source.name
            partition.mkdir(exist_ok=True)
            segments = sorted(source.glob("*.log"))
            for segment in segments[
                len(segments) * run // RUNS : len(segments) * (run + 1) // RUNS
            ]:
                shutil.copy(segment, partition)


def count_rows(micro_batch: DataFrame, batch_id: int) -> None:
    rows = micro_batch.select("partition", "offset").collect()
    reached = {f"partition {row.partition}": row.offset for row in rows}
    print(f"  micro-batch {batch_id}: {len(rows)} rows, up to {reached}")


for run in range(RUNS):
    grow(run)
    print(f"run {run}")
    query = (
        spark.readStream.format("segmentlog")
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load(str(log))
        .writeStream.foreachBatch(count_rows)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = sum(progress.numInputRows for progress in query.recentProgress)
    end = query.recentProgress[-1].sources[0].endOffset
    print(f"  {rows} rows in all; the next run starts at {end}")
spark.stop()
