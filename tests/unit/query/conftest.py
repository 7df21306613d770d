"""Logs that several of these tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.arrow_reading import batch
from tests.support.stream import GrowingLog


@pytest.fixture
def three_segments(tmp_path: Path) -> Path:
    """Topic t, partition 0: offsets 0 to 29 in segments from 0, 10 and 20, at 1000 + offset ms."""
    log = LogBuilder(tmp_path / "logs")
    log.partition(
        "t",
        0,
        [
            [
                batch(base + 5 * half, *range(1000 + base + 5 * half, 1005 + base + 5 * half))
                for half in range(2)
            ]
            for base in (0, 10, 20)
        ],
    )
    log.clean_shutdown()
    return log.path


@pytest.fixture
def log(tmp_path: Path) -> GrowingLog:
    """A log that a stream reads while it grows."""
    return GrowingLog(tmp_path / "log")
