"""Log to Arrow in one process, against code that only checks and visits the same records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import spark_segmentlog
from spark_segmentlog.record.plain.crc import crc32c
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
COPIED_BYTES = 1024 * 1024
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
        if shape.codec == "none":
            yield _copied_by_threads(suffix, log_path, settings)
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


def _copied_by_threads(suffix: str, log_path: Path, settings: Settings) -> Figure:
    """Compare one thread that reads, checks and copies the bytes with several."""
    alone, shared = take_turns(
        [
            seconds(lambda: copy_all(log_path, 1)),
            seconds(lambda: copy_all(log_path, pa.cpu_count())),
        ],
        settings.repetitions,
    )
    return Figure(
        name=f"threads_against_one_{suffix}_{CEILING}",
        value=alone.best / shared.best,
        detail=f"{alone.best:.3f} s; in threads {shared.best:.3f} s",
    )


def copy_all(path: Path, threads_count: int) -> None:
    """Read a file, each thread its share of the pieces; compute their checksums and copy them."""
    size_bytes = path.stat().st_size
    with path.open("rb", buffering=0) as file, ThreadPoolExecutor(threads_count) as threads:

        def copy_share(thread: int) -> int:
            piece, copy = (np.empty(COPIED_BYTES, np.uint8) for _ in range(2))
            copied = 0
            for at in range(thread * COPIED_BYTES, size_bytes, threads_count * COPIED_BYTES):
                count = os.preadv(file.fileno(), [piece.data], at)
                crc32c(piece[:count])
                np.copyto(copy[:count], piece[:count])
                copied += count
            return copied

        assert sum(threads.map(copy_share, range(threads_count))) == size_bytes


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
