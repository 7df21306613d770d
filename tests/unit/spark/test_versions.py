"""What older versions of Spark take another way through, on whichever version is installed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.spark import versions
from spark_segmentlog.spark.pushdown import warn_unless_pushed
from spark_segmentlog.spark.stream_reader import SegmentLogStreamReader, make_stream_reader
from spark_segmentlog.spark.writer import make_stream_writer
from tests.support.stream import GrowingLog, batch, request_of


@pytest.fixture(autouse=True)
def _each_lack_is_said_anew() -> Iterator[None]:
    versions.warn_of_lack.cache_clear()
    yield
    versions.warn_of_lack.cache_clear()


def _push(path: Path) -> None:
    warn_unless_pushed(parse_read_options({"path": str(path), "pushdown": "true"}))


def _limit(path: Path) -> None:
    make_stream_reader(request_of(path, maxOffsetsPerTrigger="5"))


def _sink(path: Path) -> None:
    schema = StructType([StructField("value", BinaryType())])
    make_stream_writer({"path": str(path), "topic": "t"}, schema)


@pytest.mark.parametrize(
    ("lack", "use", "since"),
    [
        ("PUSHES_FILTERS", _push, "4.1"),
        ("HANDS_ARROW_TO_STREAM_SINKS", _sink, "4.1"),
        ("LIMITS_MICRO_BATCHES", _limit, "4.2"),
    ],
)
def test_what_a_version_lacks_is_said_once_by_its_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    lack: str,
    use: Callable[[Path], None],
    since: str,
) -> None:
    monkeypatch.setattr(versions, lack, False)
    with caplog.at_level(logging.WARNING):
        use(tmp_path)
        use(tmp_path)
    [told] = caplog.messages
    assert told.startswith(f"Spark {pyspark.__version__}: ")
    assert told.endswith(f"; Spark {since} and later can")


def test_no_other_module_asks_for_the_version_of_spark() -> None:
    asking = re.compile(r"pyspark\.__version__|\bspark\.version\b|hasattr\(datasource")
    modules = Path(versions.__file__).parent.glob("*.py")
    assert [path.name for path in modules if asking.search(path.read_text())] == ["versions.py"]


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
