"""Memory that reading one large segment or batch takes, above that of an idle process.

Peaks are the kernel's own (``VmHWM``), each of a fresh process: once of `read_arrow`, once of the
Python worker that Spark starts. Linux alone tells them.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import cramjam

from spark_segmentlog.testing.builder import CODECS, LogBuilder, RecordSpec, v2_batch, v2_record
from tests.bench.harness import Figure, Settings
from tests.bench.log_files import FIRST_TIMESTAMP_MS, LogShape, generate_partition
from tests.support.project import PROJECT

SEGMENT_BYTES = 1 << 30
LARGE_BATCH_RECORDS = 4821
LARGE_BATCH_VALUE_BYTES = 500_000
RECORDS_PER_BATCH = 100
# Records that fill a segment of 1 GiB: a little more than this many bytes each on disk.
_BYTES_PER_RECORD = {"none": 126, "zstd": 55}
_MIB = 1 << 20


def memory_figures(settings: Settings) -> Iterator[Figure]:
    """Measure one segment uncompressed, one of zstd, and one of a single large batch."""
    for codec, record_bytes in _BYTES_PER_RECORD.items():
        records_count = settings.sized(SEGMENT_BYTES // record_bytes, multiple_of=RECORDS_PER_BATCH)
        shape = LogShape(
            records_count=records_count, records_per_batch=RECORDS_PER_BATCH, codec=codec
        )
        log_directory = generate_partition(settings.cache, shape)
        segment_bytes = max(path.stat().st_size for path in log_directory.glob("*/*.log"))
        yield from _figures(codec, log_directory, f"segment {segment_bytes / _MIB:.0f} MiB")
    count = settings.sized(LARGE_BATCH_RECORDS)
    decompressed_bytes = count * LARGE_BATCH_VALUE_BYTES
    yield from _figures(
        "large_batch",
        generate_large_batch(settings.cache, count),
        f"batch of {decompressed_bytes / _MIB:.0f} MiB decompressed",
    )


def _figures(suffix: str, log_directory: Path, what: str) -> Iterator[Figure]:
    for name, program in (("memory_arrow", "read_arrow"), ("memory_spark_worker", "spark")):
        idle_bytes, peak_bytes = _measured(program, log_directory)
        detail = f"{what}; idle {idle_bytes / _MIB:.0f} MiB, peak {peak_bytes / _MIB:.0f} MiB"
        yield Figure(name=f"{name}_{suffix}", value=(peak_bytes - idle_bytes) / 1e6, detail=detail)


def generate_large_batch(cache: Path, records_count: int) -> Path:
    """Make a log directory of one zstd batch of equal values, or find it in the cache."""
    log_directory = cache / f"large-batch-{records_count}"
    if log_directory.exists():
        return log_directory
    value = random.Random(1).randbytes(LARGE_BATCH_VALUE_BYTES)
    compressor = cramjam.zstd.Compressor()
    for at in range(records_count):
        compressor.compress(v2_record(RecordSpec(value=value), offset_delta=at))
    batch = v2_batch(
        payload=bytes(compressor.finish()),
        count=records_count,
        attributes=CODECS["zstd"],
        last_offset_delta=records_count - 1,
        base_timestamp=FIRST_TIMESTAMP_MS,
    )
    LogBuilder(log_directory).partition("bench", 0, [[batch]])
    return log_directory


def _measured(program: str, log_directory: Path) -> tuple[int, int]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench.memory", program, str(log_directory)],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        check=False,
    )
    if run.returncode != 0:
        raise RuntimeError(f"memory of {program} was not measured: {run.stderr[-2000:]}")
    idle_bytes, peak_bytes = run.stdout.split()[-2:]
    return int(idle_bytes), int(peak_bytes)


def peak_bytes(process_id: int | str) -> int:
    """Return the largest resident size a process has had."""
    status = Path(f"/proc/{process_id}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def _read_arrow(log_directory: Path) -> tuple[int, int]:
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401

    import spark_segmentlog

    idle = peak_bytes("self")
    for arrow_batch in spark_segmentlog.read_arrow(str(log_directory)):
        del arrow_batch
    return idle, peak_bytes("self")


def _read_by_spark(log_directory: Path) -> tuple[int, int]:
    from tests.bench.spark_session import drain, spark_session

    with spark_session() as spark:
        drain(spark.read.format("readymade").option("rows", 0).option("partitions", 2).load())
        idle = max(map(peak_bytes, _python_workers()))
        drain(spark.read.format("segmentlog").load(str(log_directory)))
        return idle, max(map(peak_bytes, _python_workers()))


def _python_workers() -> list[int]:
    """Return the processes forked from Spark's Python daemon, which stay after a query."""
    import psutil

    workers = []
    for process in psutil.Process().children(recursive=True):
        # A worker that has just ended is still listed.
        with suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if _is_daemon(process.cmdline()) and parent and _is_daemon(parent.cmdline()):
                workers.append(process.pid)
    return workers


def _is_daemon(command: list[str]) -> bool:
    return any("daemon" in argument for argument in command)


_PROGRAMS = {"read_arrow": _read_arrow, "spark": _read_by_spark}

if __name__ == "__main__":
    print(*_PROGRAMS[sys.argv[1]](Path(sys.argv[2])))
