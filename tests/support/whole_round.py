"""One job that reads, writes, streams and pushes filters down, wherever its session runs.

As a program it takes the settings of its session as JSON, a log of `write_source` and a folder of
its own, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.project import PROJECT

_FORMAT: Final = "segmentlog"
_PARTITIONS: Final = 2
_OFFSETS: Final = 6
_HALF: Final = _OFFSETS // 2

Row = tuple[Any, ...]


def write_source(path: Path) -> None:
    """Make a log with the topic orders, and flawed: whoever reads its second half fails."""
    log = LogBuilder(path)
    for partition in range(_PARTITIONS):
        log.partition("orders", partition, [[half] for half in _halves(partition)])
    good, bad = _halves(0)
    log.partition("flawed", 0, [[good], [bad[:-1] + bytes([bad[-1] ^ 0xFF])]])


def _rows_of_source() -> list[Row]:
    """List what must be read of the topic orders: partition, offset, key, value, time, headers."""
    return [
        (
            partition,
            offset,
            record.key and record.key.decode(),
            record.value and record.value.decode(),
            record.timestamp_ms,
            [(name, value and value.decode()) for name, value in record.headers] or None,
        )
        for partition in range(_PARTITIONS)
        for offset, record in enumerate(_records(partition))
    ]


def run_whole_round(
    settings: Mapping[str, str],
    source: Path,
    folder: Path,
    *,
    python: str = sys.executable,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run the job as a program, begun with `prefix`, that works in `folder`."""
    done = subprocess.run(
        [*prefix, python, "-m", __name__, json.dumps(settings), source, folder],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "PYSPARK_PYTHON": sys.executable,
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def assert_whole(saw: Mapping[str, Any]) -> None:
    """Hold what a job saw to what the source has."""
    for way in ("read", "written", "streamed"):
        assert _as_rows(saw[way]) == _rows_of_source(), way
    assert saw["pushed down"] == list(range(_HALF))


def _as_rows(lists: Sequence[Sequence[Any]]) -> list[Row]:
    """Make of JSON's lists what they were, in the order of the truth."""
    return sorted((*row[:-1], row[-1] and [tuple(header) for header in row[-1]]) for row in lists)


def _halves(partition: int) -> list[bytes]:
    records = _records(partition)
    return [v2_batch(records[:_HALF]), v2_batch(records[_HALF:], base_offset=_HALF)]


def _records(partition: int) -> list[RecordSpec]:
    return [
        RecordSpec(
            key=f"customer-{offset}".encode() if offset % 3 else None,
            value=f"order {offset} of {partition}".encode() if offset % 4 else None,
            timestamp_ms=1_739_260_800_000 + 60_000 * offset + partition,
            headers=[("source", b"web")] if offset % 2 else (),
        )
        for offset in range(_OFFSETS)
    ]


def _main(settings: str, source: str, folder: str) -> None:
    builder = SparkSession.builder
    for name, value in json.loads(settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    orders = _load(spark, source, subscribe="orders")
    orders.write.format(_FORMAT).mode("append").save(f"{folder}/written")
    _stream(spark, source, folder)
    flawed = _load(spark, source, subscribe="flawed", pushdown=True)
    saw = {
        "read": _rows(orders),
        "written": _rows(_load(spark, f"{folder}/written")),
        "streamed": _rows(_load(spark, f"{folder}/streamed")),
        "pushed down": [row["offset"] for row in flawed.where(f"offset < {_HALF}").collect()],
        "tasks": [row.asDict() for row in _tasks(spark).collect()],
    }
    print(json.dumps(saw))
    spark.stop()


def _load(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format(_FORMAT).options(includeHeaders=True, **options).load(path)


def _stream(spark: SparkSession, source: str, folder: str) -> None:
    (
        spark.readStream.format(_FORMAT)
        .options(subscribe="orders", startingOffsets="earliest", includeHeaders=True)
        .load(source)
        .writeStream.format(_FORMAT)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/streamed")
        .awaitTermination()
    )


def _rows(frame: DataFrame) -> list[Row]:
    texts = frame.selectExpr(
        "partition",
        "offset",
        "cast(key AS string)",
        "cast(value AS string)",
        "unix_millis(timestamp)",
        "transform(headers, header -> array(header.key, cast(header.value AS string)))",
    )
    return [tuple(row) for row in texts.collect()]


def _tasks(spark: SparkSession) -> DataFrame:
    """Have tasks tell their user, process, working folder and limit of memory."""

    def tell(_: int) -> tuple[int, int, str, int]:
        return os.geteuid(), os.getpid(), os.getcwd(), resource.getrlimit(resource.RLIMIT_AS)[0]

    told = udf(tell, "user long, process long, folder string, memory long", useArrow=False)
    return spark.range(0, 8, numPartitions=8).select(told("id").alias("told")).select("told.*")


if __name__ == "__main__":
    _main(*sys.argv[1:])
