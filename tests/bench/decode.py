"""Log to Arrow in one process, against code that only checks and visits the same records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import spark_segmentlog
from tests.bench.harness import Figure, Settings, Timings, ns_a_record, seconds, take_turns
from tests.bench.java_loop import FileRecordsLoop
from tests.bench.log_files import VALUE_BYTES, LogShape, generate_partition
from tests.support.kafka_jars import KafkaJars

RECORDS_COUNT = 1_000_000
LARGE_VALUE_BYTES = 1000
_WITH_AIOKAFKA = ("100", "1")
_WITH_THREADS = ("zstd",)
# (suffix of the target's name, records a batch, batches a transaction)
_TRANSACTION_CASES = (("100", 100, 10), ("1", 1, 100))


def decode_figures(settings: Settings, jars: KafkaJars | None) -> Iterator[Figure]:
    """Measure every case; without jars only the sides that need no Java."""
    for suffix, shape in _cases(settings).items():
        log_path = next((generate_partition(settings.cache, shape) / "bench-0").glob("*.log"))
        if jars is not None:
            yield _against_java(suffix, log_path, shape, settings, jars)
        if suffix in _WITH_AIOKAFKA:
            yield _against_aiokafka(suffix, log_path, shape, settings)
        if suffix in _WITH_THREADS:
            yield _threads_against_one(suffix, log_path, shape, settings)
    for suffix, records_per_batch, transaction_batches in _TRANSACTION_CASES:
        yield _committed_against_uncommitted(
            suffix, records_per_batch, transaction_batches, settings
        )


def _cases(settings: Settings) -> dict[str, LogShape]:
    """Name the shapes of logs, as the targets' names end."""

    def shape(records_per_batch: int, codec: str = "none", *, large: bool = False) -> LogShape:
        return LogShape(
            records_count=settings.sized(
                RECORDS_COUNT // 5 if large else RECORDS_COUNT, multiple_of=records_per_batch
            ),
            records_per_batch=records_per_batch,
            codec=codec,
            value_bytes=LARGE_VALUE_BYTES if large else VALUE_BYTES,
        )

    return {
        "100": shape(100),
        "1": shape(1),
        "1000": shape(1000),
        "1kb": shape(100, large=True),
        "lz4": shape(100, "lz4"),
        "zstd": shape(100, "zstd"),
    }


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


def visit_with_aiokafka(data: bytes, records_count: int) -> None:
    """Check and visit every record with aiokafka's C extension."""
    from aiokafka.record._crecords import MemoryRecords

    batches = MemoryRecords(data)
    visited = 0
    size_bytes = 0
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        for record in batch:
            size_bytes += len(record.key) + len(record.value)
            visited += 1
    assert visited == records_count


def _against_java(
    suffix: str, log_path: Path, shape: LogShape, settings: Settings, jars: KafkaJars
) -> Figure:
    with FileRecordsLoop(jars) as loop:
        loop.warm_up(log_path)

        def java() -> float:
            elapsed, records = loop.visit(log_path)
            assert records == shape.records_count
            return elapsed

        ours, theirs = take_turns(
            [seconds(lambda: read_all(log_path, shape.records_count)), java], settings.repetitions
        )
    detail = (
        f"{ns_a_record(ours, shape.records_count)}; Java {ns_a_record(theirs, shape.records_count)}"
    )
    return Figure(
        name=f"arrow_against_java_{suffix}",
        value=ours.best / theirs.best,
        detail=detail,
        sides=_rates(suffix, shape, {"one thread": ours, "FileRecords": theirs}),
    )


def _rates(suffix: str, shape: LogShape, sides: dict[str, Timings]) -> dict[str, float]:
    return {f"{suffix}: {side}": shape.records_count / it.best for side, it in sides.items()}


def _threads_against_one(
    suffix: str, log_path: Path, shape: LogShape, settings: Settings
) -> Figure:
    count = shape.records_count
    one, several = take_turns(
        [
            seconds(lambda: read_all(log_path, count)),
            seconds(lambda: read_all(log_path, count, use_threads=True)),
        ],
        settings.repetitions,
    )
    return Figure(
        name=f"threads_against_one_{suffix}",
        value=one.best / several.best,
        detail=f"{ns_a_record(several, count)}; one thread {ns_a_record(one, count)}",
        sides=_rates(suffix, shape, {"threads": several}),
    )


def _against_aiokafka(suffix: str, log_path: Path, shape: LogShape, settings: Settings) -> Figure:
    data = log_path.read_bytes()
    ours, theirs = take_turns(
        [
            seconds(lambda: read_all(log_path, shape.records_count)),
            seconds(lambda: visit_with_aiokafka(data, shape.records_count)),
        ],
        settings.repetitions,
    )
    detail = (
        f"{ns_a_record(ours, shape.records_count)}; "
        f"aiokafka {ns_a_record(theirs, shape.records_count)}"
    )
    return Figure(
        name=f"arrow_against_aiokafka_{suffix}",
        value=ours.best / theirs.best,
        detail=detail,
        sides=_rates(suffix, shape, {"aiokafka": theirs}),
    )
