"""Write a DataFrame into a log directory that is made for it, and read it back.

Keys choose partitions as a Java producer's do. A write shows whole or not at all; what it appends
to is told by the offsets.
"""

import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.functions import count, max

spark = (
    SparkSession.builder.master("local[2]")
    .appName("write-and-read-back")
    .config("spark.ui.showConsoleProgress", False)
    .getOrCreate()
)
log = tempfile.mkdtemp(prefix="written-log-")

payments = spark.sql(
    """
    select 'customer-' || id % 7 as key,
           to_json(named_struct('payment', id, 'cents', id * 137 % 10000)) as value,
           timestamp'2025-02-11 08:00:00' + make_interval(0, 0, 0, 0, 0, id) as timestamp,
           array(named_struct('key', 'source', 'value', cast('example' as binary))) as headers
    from range(1000)
    """
)
for _ in range(2):
    (
        payments.write.format("segmentlog")
        .mode("append")
        .option("topic", "payments")
        .option("num.partitions", 3)
        .option("compression.type", "lz4")
        .save(log)
    )

rows = spark.read.format("segmentlog").option("includeHeaders", True).load(log)
rows.selectExpr(
    "partition", "offset", "timestamp", "string(key)", "string(value)", "headers[0].key as header"
).orderBy("partition", "offset").show(8, truncate=50)
counted = rows.groupBy("partition").agg(count("*").alias("rows"), max("offset").alias("last"))
counted.orderBy("partition").show()
print(f"written to {log}")
spark.stop()
