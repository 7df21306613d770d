"""Logs with a fault, and what verification finds."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec


def build(path: Path, *segments: SegmentSpec, recovery_point: int = 0) -> Path:
    builder = LogBuilder(path)
    directory = builder.partition("t", 0, segments, snapshots=True)
    builder.recovery_points({("t", 0): recovery_point})
    builder.clean_shutdown()
    return directory


def found(path: Path) -> list[Finding]:
    return [
        finding
        for finding in verify(str(path), deep=True)
        if finding.kind is not FindingKind.MISSING_INDEX
    ]


def change(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def spec(batches: list[bytes]) -> SegmentSpec:
    return SegmentSpec(batches, base_offset=0, index_interval_bytes=0)
