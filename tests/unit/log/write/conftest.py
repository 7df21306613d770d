"""A folder to write into, and the log directory of a stopped broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.metadata_log import metadata_log, partition, topic
from tests.support.refusals import rows, text_of


@pytest.fixture
def directory(tmp_path: Path) -> str:
    path = tmp_path / "log"
    path.mkdir()
    return str(path)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The log directory of a stopped broker, node 1, with t-0, and t-1 that it has not made yet."""
    path = tmp_path / "d0"
    metadata_log(path, topic("t", 1), partition(0, 1, 1), partition(1, 1, 1))
    LogBuilder(path).partition("t", 0, [rows(0)], topic_id=text_of(1))
    LogBuilder(path).clean_shutdown()
    return path
