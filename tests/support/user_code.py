"""A job with a function of a user's that makes garbage in many tasks, and what it sees."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.project import PROJECT

TASKS: Final = int(os.environ.get("USER_CODE_TASKS", "1000"))
LEFT: Final = 100
"""How much garbage a task leaves; it makes as much again, and collects that itself."""

PAYLOAD_BYTES: Final = 10_000

_SEES: Final = "process long, made long, alive long, memory long, collections long"
_SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_OURS: Final = {"spark.python.daemon.module": "spark_segmentlog.daemon"}

Saw = dict[str, int]


class Garbage:
    """Something that only the garbage collector ends, as it refers to itself."""

    made: ClassVar = 0
    alive: ClassVar = 0

    def __init__(self) -> None:
        self.itself = self
        self.payload = os.urandom(PAYLOAD_BYTES)
        Garbage.made += 1
        Garbage.alive += 1

    def __del__(self) -> None:
        Garbage.alive -= 1


def allocate(_: int) -> tuple[int, int, int, int, int]:
    """Make garbage and collect it, tell what is left of all so far, and leave as much again."""
    _make_garbage()
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    collections = gc.get_stats()[2]["collections"]
    saw = (os.getpid(), Garbage.made, Garbage.alive, memory, collections)
    _make_garbage()
    return saw


def _make_garbage() -> None:
    for _ in range(LEFT):
        Garbage()


def run_user_code(folder: Path, *, is_ours: bool) -> list[Saw]:
    """List what each task saw, in a session of its own: Spark's alone, or with all that is ours."""
    log = folder / "log"
    _write_log(log)
    settings = _SETTINGS | _OURS if is_ours else _SETTINGS
    program = "import sys; from tests.support.user_code import main; main(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(settings), str(log) if is_ours else ""],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _write_log(path: Path) -> None:
    batches = [v2_batch([RecordSpec(value=b"v")], base_offset=offset) for offset in range(TASKS)]
    LogBuilder(path).partition("t", 0, [batches])


def main(settings: str, log: str) -> None:
    """Print what each task saw, of rows of the log or of Spark's own."""
    builder = SparkSession.builder
    for name, value in json.loads(settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = _one_a_task(spark, log) if log else spark.range(0, TASKS, numPartitions=TASKS)
    saw = udf(allocate, _SEES, useArrow=False)
    for row in rows.select(saw(rows.columns[0]).alias("saw")).select("saw.*").collect():
        print(json.dumps(row.asDict()))
    spark.stop()


def _one_a_task(spark: SparkSession, log: str) -> DataFrame:
    frame = spark.read.format("segmentlog").option("maxRecordsPerPartition", 1).load(log)
    return frame.select("offset")
