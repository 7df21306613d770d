"""Log to Arrow in one process, against code that only checks and visits the same records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import spark_segmentlog
from tests.bench.harness import (
    Figure,
    Measurement,
    Settings,
    ns_a_record,
    seconds,
    take_turns,
)
from tests.bench.java_loop import FileRecordsLoop
from tests.bench.log_files import LogShape, generate_partition
from tests.bench.measured import CEILING
from tests.bench.visitors import visit_with_aiokafka, visit_with_kafka_python
from tests.support.kafka_jars import KafkaJars

RECORDS_COUNT = 1_000_000
LARGE_VALUE_BYTES = 1000
# kafka-python needs seconds for more, and as long for each record.
PLAIN_PYTHON_RECORDS_COUNT = 20_000
OURS = "one thread"
THREADS = "all cores"
# How the figures of a peer begin, by the name of its side.
PEERS = {
    "FileRecords": "arrow_against_java",
    "aiokafka": "arrow_against_aiokafka",
    "kafka-python": "arrow_against_kafka_python",
}
# (suffix of the target's name, records a batch, batches a transaction)
_TRANSACTION_CASES = (("100", 100, 10), ("1", 1, 100))


@dataclass(frozen=True, slots=True)
class Side:
    """What one library does with a log, and how many of the records."""

    records_count: int
    measure: Measurement


def decode_figures(settings: Settings, jars: KafkaJars | None) -> Iterator[Figure]:
    """Measure every case; without jars only the sides that need no Java."""
    for suffix, shape in _cases(settings).items():
        log_path = next((generate_partition(settings.cache, shape) / "bench-0").glob("*.log"))
        with ExitStack() as stack:
            sides = _sides(log_path, shape)
            if jars is not None:
                sides["FileRecords"] = _java(stack.enter_context(FileRecordsLoop(jars)), log_path)
            yield from _figures(suffix, sides, settings)
        yield _cores_over_one_thread(suffix, log_path, shape.records_count, settings)
    for suffix, records_per_batch, transaction_batches in _TRANSACTION_CASES:
        yield _committed_against_uncommitted(
            suffix, records_per_batch, transaction_batches, settings
        )


def _cases(settings: Settings) -> dict[str, LogShape]:
    """Name the shapes of logs, as the targets' names end."""

    def shape(records_per_batch: int, **others: Any) -> LogShape:
        count = RECORDS_COUNT // 5 if "value_bytes" in others else RECORDS_COUNT
        return LogShape(
            records_count=settings.sized(count, multiple_of=records_per_batch),
            records_per_batch=records_per_batch,
            **others,
        )

    return {
        "100": shape(100),
        "1": shape(1),
        "1000": shape(1000),
        "1kb": shape(100, value_bytes=LARGE_VALUE_BYTES),
        "lz4": shape(100, codec="lz4"),
        "zstd": shape(100, codec="zstd"),
        "v1": shape(1, magic=1),
        "v1_lz4": shape(100, magic=1, codec="lz4"),
    }


def _sides(log_path: Path, shape: LogShape) -> dict[str, Side]:
    """Give what needs no Java; kafka-python has no codecs where it comes alone."""
    count = shape.records_count
    data = log_path.read_bytes()
    sides = {
        OURS: Side(count, seconds(lambda: read_all(log_path, count))),
        THREADS: Side(count, seconds(lambda: read_all(log_path, count, use_threads=True))),
        "aiokafka": Side(count, seconds(lambda: visit_with_aiokafka(data, count))),
    }
    if shape.codec == "none":
        few = min(count, PLAIN_PYTHON_RECORDS_COUNT)
        sides["kafka-python"] = Side(few, seconds(lambda: visit_with_kafka_python(data, few)))
    return sides


def _java(loop: FileRecordsLoop, log_path: Path) -> Side:
    records_count = loop.warm_up(log_path)

    def visit() -> float:
        elapsed, records = loop.visit(log_path)
        assert records == records_count
        return elapsed

    return Side(records_count, visit)


def _figures(suffix: str, sides: dict[str, Side], settings: Settings) -> Iterator[Figure]:
    rounds = take_turns([side.measure for side in sides.values()], settings.repetitions)
    best_s = {
        name: timings.best / side.records_count
        for (name, side), timings in zip(sides.items(), rounds, strict=True)
    }
    ours = f"{best_s[OURS] * 1e9:.0f} ns a record"
    for peer, prefix in PEERS.items():
        if peer in sides:
            yield Figure(
                name=f"{prefix}_{suffix}",
                value=best_s[OURS] / best_s[peer],
                detail=f"{ours}; {peer} {best_s[peer] * 1e9:.0f} ns a record",
                sides={f"{suffix}: {name}": 1 / best_s[name] for name in (OURS, peer)},
            )
    yield Figure(
        name=f"threads_against_one_{suffix}",
        value=best_s[OURS] / best_s[THREADS],
        detail=f"{best_s[THREADS] * 1e9:.0f} ns a record; one thread {ours}",
        sides={f"{suffix}: {THREADS}": 1 / best_s[THREADS]},
    )


def _cores_over_one_thread(
    suffix: str, log_path: Path, records_count: int, settings: Settings
) -> Figure:
    """Tell how often the cores could do what one thread, and the one that reads ahead, do."""

    def cores_used() -> float:
        start, start_of_all = time.perf_counter(), time.process_time()
        read_all(log_path, records_count)
        return (time.process_time() - start_of_all) / (time.perf_counter() - start)

    (used,) = take_turns([cores_used], settings.repetitions)
    return Figure(
        name=f"threads_against_one_{suffix}_{CEILING}",
        value=pa.cpu_count() / used.median,
        detail=f"one thread, and what reads ahead of it, take {used.median:.2f} cores",
    )


def _committed_against_uncommitted(
    suffix: str, records_per_batch: int, transaction_batches: int, settings: Settings
) -> Figure:
    """Read a log of transactions without transaction indexes and snapshots, both ways."""
    shape = LogShape(
        records_count=settings.sized(RECORDS_COUNT, multiple_of=records_per_batch),
        records_per_batch=records_per_batch,
        transaction_batches=transaction_batches,
    )
    directory = generate_partition(settings.cache, shape)
    committed, uncommitted = take_turns(
        [
            seconds(lambda: _read_level(directory, "read_committed")),
            seconds(lambda: _read_level(directory, "read_uncommitted")),
        ],
        settings.repetitions,
    )
    detail = (
        f"{ns_a_record(committed, shape.records_count)}; "
        f"uncommitted {ns_a_record(uncommitted, shape.records_count)}"
    )
    return Figure(
        name=f"committed_against_uncommitted_{suffix}",
        value=committed.best / uncommitted.best,
        detail=detail,
    )


def _read_level(path: Path, isolation_level: str) -> None:
    rows = 0
    for arrow_batch in spark_segmentlog.read_arrow(
        str(path), kafka_isolation_level=isolation_level
    ):
        rows += arrow_batch.num_rows
    assert rows


def read_all(path: Path, records_count: int, *, use_threads: bool = False) -> None:
    """Read a log file to Arrow, all columns, holding no batch."""
    reader = spark_segmentlog.read_arrow(str(path), use_threads=use_threads)
    assert sum(arrow_batch.num_rows for arrow_batch in reader) == records_count
