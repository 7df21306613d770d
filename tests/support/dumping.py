"""Logs that are dumped, and entries of dumps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from tests.support.running import objects


def of_type(entries: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["type"] == kind]


def one_partition(path: Path, *segments: SegmentSpec | list[bytes], **options: Any) -> Path:
    return LogBuilder(path).partition("t", 0, list(segments), **options)


START_MS = (24 + 8) * 3_600_000


def timed(count: int) -> list[bytes]:
    """Batches of two records, a key each; record n is of 08:00 and n minutes on 1970-01-02."""
    return [
        v2_batch(
            [
                RecordSpec(key=b"k%d" % (at % 3), value=b"v", timestamp_ms=START_MS + at * 60_000)
                for at in (base, base + 1)
            ],
            base_offset=base,
            producer_id=base % 4,
        )
        for base in range(0, 2 * count, 2)
    ]


def offsets_of(*arguments: object) -> list[int]:
    return [entry["offset"] for entry in of_type(objects("dump", *arguments), "record")]
