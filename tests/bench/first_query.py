"""The first query of a new process, against the same on ready-made Arrow.

Each is a process of its own, with a virtual machine and workers of its own. The session is there
when the clock starts, as in a notebook; what the query imports and starts counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial

from tests.bench.harness import Figure, Settings, take_turns
from tests.bench.log_files import LogShape, generate_partition
from tests.bench.spark_session import spark_session
from tests.support.project import PROJECT

RECORDS_COUNT = 100_000
RECORDS_PER_BATCH = 100
# A process takes some ten seconds to come and go.
REPETITIONS = 3


def first_query_figures(settings: Settings) -> Iterator[Figure]:
    """Compare medians, since a process starts once."""
    shape = LogShape(
        records_count=settings.sized(RECORDS_COUNT, multiple_of=RECORDS_PER_BATCH),
        records_per_batch=RECORDS_PER_BATCH,
    )
    rows = {"rows": str(shape.records_count), "partitions": "1"}
    path = {"path": str(generate_partition(settings.cache, shape))}
    ours, ceiling = take_turns(
        [
            partial(_measured, "segmentlog", path, shape.records_count),
            partial(_measured, "readymade", rows, shape.records_count),
        ],
        min(settings.repetitions, REPETITIONS),
    )
    yield Figure(
        name="first_query",
        value=ours.median - ceiling.median,
        detail=f"{ours.median:.2f} s; ready-made Arrow {ceiling.median:.2f} s",
    )


def _measured(source: str, options: Mapping[str, str], rows_count: int) -> float:
    command = [sys.executable, "-m", __name__, source, json.dumps(options)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    elapsed, found = run.stdout.split()
    assert int(found) == rows_count
    return float(elapsed)


def main(source: str, options: str) -> None:
    """Print the seconds of a first query, and its rows."""
    with spark_session() as spark:
        start = time.perf_counter()
        found = spark.read.format(source).options(**json.loads(options)).load().count()
        print(time.perf_counter() - start, found)


if __name__ == "__main__":
    main(*sys.argv[1:])
