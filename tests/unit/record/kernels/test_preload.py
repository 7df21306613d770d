"""Kernels that are loaded before anything is asked of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
assert "numba" in sys.modules and "spark_segmentlog.record.kernels.decode" in sys.modules
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


KEEP_ONE_KERNEL = """
import numpy
from spark_segmentlog.record.kernels import checksum as kernels
assert kernels.crc32c_of(numpy.zeros(9, numpy.uint8), 0, 9) == 0xBBE568A3
"""


COMPILE_AN_OTHER = """
import sys
from spark_segmentlog import daemon
daemon.preload()
import pyarrow
from spark_segmentlog.log.write.local_log import open_log
with open_log(sys.argv[1]) as log:
    log.append("t", pyarrow.table({"value": [b"v"]}))
"""


def test_a_kernel_that_is_not_kept_yet_calls_those_that_are_preloaded(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    for program in (KEEP_ONE_KERNEL, COMPILE_AN_OTHER):
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "log")],
            check=True,
            timeout=240,
            env=environment,
        )
