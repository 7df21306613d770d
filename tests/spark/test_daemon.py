from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch

PRELOAD_AND_FORK = """
import os
import sys
from pathlib import Path

import numpy

def threads():
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 1

before = threads()
from spark_segmentlog import daemon
daemon.preload()
assert "numba" in sys.modules and "spark_segmentlog.record.kernels" in sys.modules
assert not {"pyarrow", "pandas"} & set(sys.modules)
assert threads() == before, (threads(), before)
child = os.fork()
if child == 0:
    from spark_segmentlog import read_arrow
    os._exit(0 if read_arrow(sys.argv[1]).read_all().num_rows == 3 else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_preload_starts_no_thread_and_what_it_loads_works_after_a_fork(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[v2_batch([RecordSpec(value=b"v")] * 3)]])
    subprocess.run([sys.executable, "-c", PRELOAD_AND_FORK, str(tmp_path)], check=True, timeout=240)


def test_workers_of_the_daemon_start_with_the_kernels(spark: SparkSession) -> None:
    def is_loaded(rows: object) -> list[bool]:
        return ["spark_segmentlog.record.kernels" in sys.modules]

    assert spark.sparkContext.parallelize([1], 1).mapPartitions(is_loaded).collect() == [True]
