"""What older versions of Spark take another way through, on whichever version is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.spark import versions
from spark_segmentlog.spark.stream_reader import SegmentLogStreamReader
from tests.support.stream import GrowingLog, batch, request_of


@pytest.fixture(autouse=True)
def _each_lack_is_said_anew() -> Iterator[None]:
    versions.warn_of_lack.cache_clear()
    yield
    versions.warn_of_lack.cache_clear()


def rows_between(reader: SegmentLogStreamReader, start: Any, end: Any) -> list[int]:
    return [
        offset
        for share in reader.partitions(start, end)
        for arrow_batch in reader.read(share)
        for offset in arrow_batch.column("offset").to_pylist()
    ]


def test_a_reader_that_is_told_no_start_takes_all_there_is_and_goes_on(tmp_path: Path) -> None:
    """As Spark 4.0 and 4.1 drive it: the end first, then the start of a new query."""
    log = GrowingLog(tmp_path)
    log.append(batch(0, 3))
    request = request_of(tmp_path, startingOffsets="earliest")
    reader = SegmentLogStreamReader(request)
    end = reader.latestOffset()
    assert rows_between(reader, reader.initialOffset(), end) == [0, 1, 2]
    log.append(batch(3, 2))
    following = reader.latestOffset()
    assert rows_between(reader, end, following) == [3, 4]
    assert reader.latestOffset() == following

    restarted = SegmentLogStreamReader(request)
    assert restarted.latestOffset() == following
    log.append(batch(5))
    assert rows_between(restarted, following, restarted.latestOffset()) == [5]


def test_a_new_query_from_the_latest_offset_neither_misses_nor_repeats_rows(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path)
    log.append(batch(0, 3))
    reader = SegmentLogStreamReader(request_of(tmp_path, startingOffsets="latest"))
    end = reader.latestOffset()
    log.append(batch(3, 2))
    assert rows_between(reader, reader.initialOffset(), end) == []
    assert rows_between(reader, end, reader.latestOffset()) == [3, 4]
