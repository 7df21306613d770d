"""Log directories that several rooms read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.reading import batch


@pytest.fixture
def two_directories(tmp_path: Path) -> Path:
    first, second = LogBuilder(tmp_path / "d0"), LogBuilder(tmp_path / "d1")
    first.partition("a", 0, [[batch(0, 3)], [batch(3, 2)]])
    first.partition("my-topic-2", 10, [[batch(0)]])
    second.partition("a", 1, [[batch(0, 4)]])
    return tmp_path
