"""Read a log into Arrow without Spark: a stream of record batches, then a table."""

import pyarrow.compute as pc
from sample_log import log_directories

from spark_segmentlog import read_arrow

reader = read_arrow(log_directories(), subscribe="table", include_headers=True)
print(reader.schema)

table = reader.read_all()
print(f"{table.num_rows} records, {table.nbytes} bytes of Arrow")
tombstones = table.filter(pc.is_null(table["value"]))
print(f"{tombstones.num_rows} of them tombstones; the last keys deleted:")
print(tombstones.slice(max(0, tombstones.num_rows - 3)).select(["key", "offset"]).to_pylist())
