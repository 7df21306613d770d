"""Transaction indexes of a log, to compare and to take away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    parse_transaction_index,
)
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    SegmentSpec,
)
from tests.support.cleaning import TOPIC
from tests.support.transaction_batches import data, marker

Contents = dict[str, bytes]


def transaction_indexes(directories: Sequence[str | Path]) -> Contents:
    return {
        str(path): path.read_bytes()
        for directory in directories
        for path in sorted(Path(directory).rglob("*.txnindex"))
    }


def entries(directory: Path, base_offset: int) -> list[AbortedTransaction]:
    path = directory / f"{base_offset:020d}.txnindex"
    return parse_transaction_index(path.read_bytes()) if path.exists() else []


def remove(directories: Sequence[str | Path], *patterns: str) -> None:
    for directory in directories:
        for pattern in patterns:
            for path in Path(directory).rglob(pattern):
                path.unlink()


def build(path: Path, *segments: SegmentSpec | list[bytes], snapshots: bool = False) -> Path:
    log = LogBuilder(path)
    directory = log.partition(TOPIC, 0, segments, snapshots=snapshots)
    log.clean_shutdown()
    return directory


def spanning() -> list[list[bytes]]:
    """Four transactions, two of which begin segments before their abort markers."""
    return [
        [data(1, 0, 2), data(2, 2), data(3, 3), marker(ABORT, 3, 4)],
        [data(1, 5), marker(ABORT, 2, 6), data(4, 7)],
        [marker(COMMIT, 4, 8), marker(ABORT, 1, 9), data(2, 10)],
    ]
