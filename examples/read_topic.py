"""Read one topic of a broker's disk into a DataFrame, headers included."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from sample_log import log_directories

spark = (
    SparkSession.builder.master("local[2]")
    .appName("read-topic")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)

orders = (
    spark.read.format("segmentlog")
    .option("subscribe", "orders")
    .option("includeHeaders", True)
    .load(log_directories())
)
orders.printSchema()
orders.select(
    col("partition"),
    col("offset"),
    col("timestamp"),
    col("key").cast("string"),
    col("value").cast("string"),
    col("headers"),
).orderBy("partition", "offset").show(10, truncate=40)
orders.groupBy("partition").count().orderBy("partition").show()
spark.stop()
