"""Hand a log to DuckDB and Polars through Arrow's C stream, without Spark."""

from sample_log import log_directories

from spark_segmentlog import read_arrow

try:
    import duckdb
    import polars
except ImportError as error:
    raise SystemExit(f"{error}: pip install 'spark-segmentlog[examples]'") from error

records = read_arrow(log_directories(), subscribe="table")
print(
    duckdb.sql(
        "SELECT partition, count(*) AS records, count(value) AS with_value, max(timestamp) AS last"
        " FROM records GROUP BY partition ORDER BY partition"
    )
)

frame = polars.DataFrame(read_arrow(log_directories(), subscribe="table"))
latest = frame.sort("offset").group_by("key").last()
print(f"{len(latest)} keys, the longest values:")
print(latest.sort(polars.col("value").bin.size(), descending=True).head(3).select("key", "offset"))
