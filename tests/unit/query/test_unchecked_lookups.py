"""``kafka.check.crcs`` holds for looking offsets up by time as it does for reading rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CrcMismatchError
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.stream import Stream, batch

LATE: dict[str, Any] = {"startingTimestamp": "2000"}


@pytest.fixture
def wrong_checksum(tmp_path: Path) -> Path:
    """A log whose first late batch has a wrong checksum, and good bytes."""
    late = batch(1, timestamp_ms=2000, crc=1)
    LogBuilder(tmp_path).partition("t", 0, [[batch(0), late, batch(2, timestamp_ms=3000)]])
    return tmp_path


def batch_read(path: Path, **options: Any) -> list[int]:
    names = {"startingTimestamp": "starting_timestamp", "kafka.check.crcs": "kafka_check_crcs"}
    keywords = {names[name]: value for name, value in options.items()}
    offsets: list[int] = read_arrow(path, **keywords).read_all()["offset"].to_pylist()
    return offsets


def stream_read(path: Path, **options: Any) -> list[int]:
    return [offset for offsets in Stream(path, **options).run() for offset in offsets]


@pytest.mark.parametrize("read", [batch_read, stream_read])
def test_a_start_is_found_by_time_without_comparing_checksums(
    wrong_checksum: Path, read: Any
) -> None:
    assert read(wrong_checksum, **LATE, **{"kafka.check.crcs": "false"}) == [1, 2]
    with pytest.raises(CrcMismatchError, match="base offset 1"):
        read(wrong_checksum, **LATE)
