"""Logs of which a header is changed, and what is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_segmentlog import read_arrow
from spark_segmentlog.log.findings import Finding
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import (
    LogBuilder,
    SegmentSpec,
)

SEGMENT = "00000000000000000000"


def build(path: Path, batches: list[bytes], **checkpoints: int) -> Path:
    """Write one segment of a log that was shut cleanly; gives its `.log`."""
    builder = LogBuilder(path)
    builder.partition("t", 0, [SegmentSpec(batches, base_offset=0)], snapshots=True)
    if "recovery_point" in checkpoints:
        builder.recovery_points({("t", 0): checkpoints["recovery_point"]})
    if "high_watermark" in checkpoints:
        builder.high_watermarks({("t", 0): checkpoints["high_watermark"]})
    builder.clean_shutdown()
    return path / "t-0" / f"{SEGMENT}.log"


def flip(path: Path, position: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def permissive(path: Path, **options: Any) -> tuple[list[int], list[dict[str, object]]]:
    """Read the offsets, and what is told of bad bytes."""
    columns = ["offset", "_corrupt_record"]
    table = read_arrow(
        path, columns=columns, mode="PERMISSIVE", fail_on_data_loss=False, **options
    ).read_all()
    rows = table.to_pylist()
    bad = [row["_corrupt_record"] for row in rows if row["_corrupt_record"] is not None]
    return [row["offset"] for row in rows if row["offset"] is not None], bad


def findings(path: Path) -> list[Finding]:
    return list(verify(str(path), deep=True))
