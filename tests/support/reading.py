"""Rows of a log as plain tuples, for tests of the reading side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.segment.walk_options import CorruptRange
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    segment_file_name,
    v2_batch,
)


def open_one(path: Path, **options: Any) -> PartitionLog:
    """Open a path that holds one partition."""
    (log,) = LogManager.open(path, **options).topic_partitions.values()
    return log


def build_log(
    path: Path,
    *segments: SegmentSpec | Sequence[bytes],
    clean: bool = True,
    recovery_point: int | None = None,
    **partition: Any,
) -> PartitionLog:
    """Build a log directory with one partition, and open that."""
    builder = LogBuilder(path)
    builder.partition("t", 0, segments, **partition)
    if clean:
        builder.clean_shutdown()
    if recovery_point is not None:
        builder.recovery_points({("t", 0): recovery_point})
    return open_one(path)


def lost_ranges(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Give the ranges of offsets that a scan has told to be gone."""
    told = [text for text in caplog.messages if text.startswith("could not read records")]
    return [found for text in told for found in re.findall(r"\[\d+, \d+\)", text)]


def scan_options(
    *,
    columns: tuple[str, ...] = ("offset",),
    start: int = 0,
    end: int = 2**63 - 1,
    min_ms: int | None = None,
    max_ms: int | None = None,
    committed: bool = False,
    **options: Any,
) -> ScanOptions:
    """Make scan options out of short words."""
    return ScanOptions(
        columns=columns,
        record_filter=RecordFilter(
            start_offset=start, end_offset=end, min_timestamp_ms=min_ms, max_timestamp_ms=max_ms
        ),
        isolation_level="read_committed" if committed else "read_uncommitted",
        **options,
    )


def offsets(log: PartitionLog, **options: Any) -> list[int]:
    """Offsets of the rows that a scan gives, in its order."""
    return column(log.scan(options=scan_options(**options)), "offset")


def skipping(log: PartitionLog, **options: Any) -> tuple[list[int], list[CorruptRange]]:
    """Offsets of a scan that steps over bad bytes, and what it stepped over."""
    skipped: list[CorruptRange] = []
    log.skip_corrupt = True
    wanted = scan_options(skip_corrupt=True, **options)
    return column(log.scan(options=wanted, on_corrupt=skipped.append), "offset"), skipped


def column(batches: Iterable[pa.RecordBatch], name: str) -> list[Any]:
    """Values of one column of all batches."""
    return [value for batch in batches for value in batch.column(name).to_pylist()]


def batch(base_offset: int, count: int = 1, **fields: Any) -> bytes:
    """Build a batch of `count` small records."""
    records = [RecordSpec(value=b"v%d" % (base_offset + place)) for place in range(count)]
    return v2_batch(records, base_offset=base_offset, **fields)


def timed(base_offset: int, *timestamps_ms: int, **fields: Any) -> bytes:
    """Build a batch of records with these timestamps."""
    records = [RecordSpec(value=b"v", timestamp_ms=timestamp) for timestamp in timestamps_ms]
    return v2_batch(records, base_offset=base_offset, **fields)


def log_file(log: PartitionLog, base_offset: int = 0) -> str:
    return log.directory + "/" + segment_file_name(base_offset)


def flip_bit(path: str, position: int, bit: int = 1) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ bit]))


def read_offsets(path: Path, **options: Any) -> list[int]:
    return list(read_arrow(path, **options).read_all()["offset"].to_pylist())
