"""Memory that one writing task takes above an idle worker, measured in a process of its own.

Arguments: log directory, rows, partitions, bytes of a value, codec. Prints the kernel's own peak
(``VmHWM``) before the first row and after the last, and the size of what was staged.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_segmentlog.query.options import parse_write_options
from spark_segmentlog.query.row_stager import RowStager
from spark_segmentlog.spark.writer import plan_write

ROWS_A_BATCH = 10_000
BYTES_A_BATCH = 64 << 20


def peak_bytes() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def arrow_batches(row_count: int, value_bytes: int) -> Iterator[pa.RecordBatch]:
    draw = np.random.default_rng(20250211)
    rows = min(ROWS_A_BATCH, BYTES_A_BATCH // value_bytes)
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * value_bytes)
    for _ in range(row_count // rows):
        data = pa.py_buffer(draw.integers(0, 64, rows * value_bytes, np.uint8))
        values = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, data])
        yield pa.RecordBatch.from_arrays([values], names=["value"])


def main(path: str, row_count: int, partitions: int, value_bytes: int, codec: str) -> None:
    options = parse_write_options(
        {"path": path, "topic": "t", "num.partitions": str(partitions), "compression.type": codec}
    )
    plan = plan_write(options, StructType([StructField("value", BinaryType())]))
    warm = RowStager(plan, write_id="warm", task_id=0, attempt_id=0)
    warm.abort()
    idle = peak_bytes()
    stager = RowStager(plan, write_id="measured", task_id=0, attempt_id=1)
    for arrow_batch in arrow_batches(row_count, value_bytes):
        stager.write(arrow_batch)
    staged = stager.finish()
    print(idle, peak_bytes(), sum(file.size_bytes for file in staged.files))


if __name__ == "__main__":
    _, path, row_count, partitions, value_bytes, codec = sys.argv
    main(path, int(row_count), int(partitions), int(value_bytes), codec)
