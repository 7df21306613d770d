"""The command line against the broker's own tool, each as a process of its own, start included."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

from tests.bench.harness import (
    Figure,
    Settings,
    ns_a_record,
    seconds,
    take_turns,
)
from tests.bench.log_files import LogShape, generate_partition
from tests.support.kafka_jars import KafkaJars
from tests.support.project import PROJECT

RECORDS_COUNT = 3_000_000
RECORDS_PER_BATCH = 100
_TOOL = "org.apache.kafka.tools.DumpLogSegments"


def cli_figures(settings: Settings, jars: KafkaJars | None) -> Iterator[Figure]:
    """Dump the records of one file; without jars there is no peer, so that gives no figure."""
    shape = LogShape(
        records_count=settings.sized(RECORDS_COUNT, multiple_of=RECORDS_PER_BATCH),
        records_per_batch=RECORDS_PER_BATCH,
    )
    log_path = next((generate_partition(settings.cache, shape) / "bench-0").glob("*.log"))
    our_command = [sys.executable, "-m", "spark_segmentlog", "dump", "--records", str(log_path)]
    if jars is None:
        _run(our_command)
        return
    their_command = ["java", "-cp", jars.class_path, _TOOL, "--print-data-log"]
    their_command += ["--files", str(log_path)]
    ours, theirs = take_turns(
        [seconds(lambda: _run(our_command)), seconds(lambda: _run(their_command))],
        settings.repetitions,
    )
    yield Figure(
        name="cli_dump_records",
        value=ours.best / theirs.best,
        detail=(
            f"{ns_a_record(ours, shape.records_count)}; "
            f"kafka-dump-log {ns_a_record(theirs, shape.records_count)}"
        ),
    )


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=PROJECT)
