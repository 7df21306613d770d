"""A log of three segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.reading import batch, open_one


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(base, 5), batch(base + 5, 5)] for base in (0, 10, 20)])
    builder.clean_shutdown()
    log = open_one(tmp_path)
    assert log.log_end_offset == 30
    return log
