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
SINGLE_RECORDS_COUNT = 1_000_000
_TOOL = "org.apache.kafka.tools.DumpLogSegments"
# (name of the figure, our arguments, those of kafka-dump-log)
_DUMP_RECORDS = ("cli_dump_records", ("dump", "--records"), ("--print-data-log",))
_DUMP_JSON = ("cli_dump_json", ("dump", "--records", "--format", "json"), ("--print-data-log",))
_VERIFY_DEEP = ("cli_verify_deep", ("verify", "--deep"), ("--deep-iteration",))
# (end of the figures' names, records, records a batch, codec, what is measured)
_LOGS = (
    ("", RECORDS_COUNT, RECORDS_PER_BATCH, "none", (_DUMP_RECORDS, _DUMP_JSON, _VERIFY_DEEP)),
    ("_lz4", RECORDS_COUNT, RECORDS_PER_BATCH, "lz4", (_VERIFY_DEEP,)),
    ("_zstd", RECORDS_COUNT, RECORDS_PER_BATCH, "zstd", (_VERIFY_DEEP,)),
    ("_1", SINGLE_RECORDS_COUNT, 1, "none", (_VERIFY_DEEP,)),
)


def cli_figures(settings: Settings, jars: KafkaJars | None) -> Iterator[Figure]:
    """Dump and verify files; without jars there is no peer, so that gives no figure."""
    for ending, records_count, records_per_batch, codec, cases in _LOGS:
        shape = LogShape(
            records_count=settings.sized(records_count, multiple_of=records_per_batch),
            records_per_batch=records_per_batch,
            codec=codec,
        )
        log_path = next((generate_partition(settings.cache, shape) / "bench-0").glob("*.log"))
        for name, our_arguments, their_arguments in cases:
            ours = [sys.executable, "-m", "spark_segmentlog", *our_arguments, str(log_path)]
            if jars is None:
                _run(ours)
                continue
            theirs = ["java", "-cp", jars.class_path, _TOOL, *their_arguments]
            theirs += ["--files", str(log_path)]
            yield _against(f"{name}{ending}", ours, theirs, shape, settings)


def _against(
    name: str, ours: Sequence[str], theirs: Sequence[str], shape: LogShape, settings: Settings
) -> Figure:
    our_times, their_times = take_turns(
        [seconds(lambda: _run(ours)), seconds(lambda: _run(theirs))], settings.repetitions
    )
    return Figure(
        name=name,
        value=our_times.best / their_times.best,
        detail=(
            f"{ns_a_record(our_times, shape.records_count)}; "
            f"kafka-dump-log {ns_a_record(their_times, shape.records_count)}"
        ),
    )


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=PROJECT)
