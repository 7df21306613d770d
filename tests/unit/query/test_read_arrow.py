"""None"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import (
    DecompressedSizeError,
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    NotALogDirectoryError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.arrow_reading import batch, offsets, places, spans, splits_of


def test_rows_are_counted_by_records_not_by_offsets(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v", offset_delta=delta) for delta in (1, 3, 7, 9)]
    segment = SegmentSpec([v2_batch(records, base_offset=100, last_offset_delta=9)])
    LogBuilder(tmp_path).partition("t", 0, [segment])
    assert offsets(tmp_path) == [101, 103, 107, 109]
    assert spans(splits_of(tmp_path)) == [[(100, 110)]]
    for columns in (["topic"], ["partition", "timestampType"], ["value"]):
        assert read_arrow(tmp_path, columns=columns).read_all().num_rows == 4


def test_arrow_needs_no_spark_and_no_pandas(three_segments: Path) -> None:
    code = (
        "import sys, spark_segmentlog as s;"
        f"n = s.read_arrow({str(three_segments)!r}, include_headers=True).read_all().num_rows;"
        "assert n == 30 and not {'pyspark', 'pandas'} & set(sys.modules), n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Paths


def test_paths_are_log_directories_partitions_files_and_globs(three_segments: Path) -> None:
    partition = three_segments / "t-0"
    assert offsets(three_segments) == list(range(30))
    assert offsets(partition) == list(range(30))
    assert offsets(partition / "00000000000000000010.log") == list(range(10, 20))
    assert offsets([partition / "00000000000000000020.log", partition / f"{0:020}.log"]) == [
        *range(10),
        *range(20, 30),
    ]
    assert offsets(three_segments / "t-*") == list(range(30))


def test_several_log_directories_are_one_log(tmp_path: Path) -> None:
    for number in range(2):
        LogBuilder(tmp_path / f"d{number}").partition("t", number, [[batch(0, 1, 2)]])
    assert places([tmp_path / "d1", tmp_path / "d0"]) == [
        ("t", partition, offset) for partition in range(2) for offset in range(2)
    ]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path / "nothing", LogPathNotFoundError),
        (lambda path: path / "nothing-*", LogPathNotFoundError),
        (lambda path: path, EmptyLogDirectoryError),
    ],
)
def test_path_without_a_log(tmp_path: Path, make: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=re.escape(str(tmp_path))):
        read_arrow(make(tmp_path))


def test_file_that_is_no_segment(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(NotALogDirectoryError, match=r"notes\.txt"):
        read_arrow(tmp_path / "notes.txt")


# Topics


@pytest.fixture
def many_topics(tmp_path: Path) -> Path:
    log = LogBuilder(tmp_path)
    for topic, partition in [
        ("audit.events", 0),
        ("audit-events", 0),
        ("my-topic-2", 10),
        ("__consumer_offsets", 0),
    ]:
        log.partition(topic, partition, [[batch(0, 1)]])
    return log.path


def test_topics_by_default_by_name_by_pattern_and_assigned(many_topics: Path) -> None:
    assert [place[0] for place in places(many_topics)] == [
        "audit-events",
        "audit.events",
        "my-topic-2",
    ]
    assert places(many_topics, subscribe="audit.events") == [("audit.events", 0, 0)]
    assert [place[0] for place in places(many_topics, subscribe_pattern="audit.events")] == [
        "audit-events",
        "audit.events",
    ]
    assert places(many_topics, subscribe_pattern="audit") == []
    assert places(many_topics, assign={"my-topic-2": [10]}) == [("my-topic-2", 10, 0)]
    assert places(many_topics, subscribe="__consumer_offsets") == [("__consumer_offsets", 0, 0)]
    with pytest.raises(UnknownTopicOrPartitionError, match="not in this log: audit;"):
        read_arrow(many_topics, subscribe="audit")


def test_control_records_of_any_kind_are_no_rows(tmp_path: Path) -> None:
    kinds = [2, 3, 4, 99]
    markers = [
        control_batch(kind, base_offset=offset, key_version=1) for offset, kind in enumerate(kinds)
    ]
    LogBuilder(tmp_path).partition("__cluster_metadata", 0, [[*markers, batch(4, 1)]])
    for level in ("read_uncommitted", "read_committed"):
        read = offsets(tmp_path, subscribe="__cluster_metadata", kafka_isolation_level=level)
        assert read == [4]
    headers = read_arrow(tmp_path, subscribe="__cluster_metadata", view="batches").read_all()
    assert headers["isControl"].to_pylist() == [True] * 4 + [False]


def test_log_of_internal_topics_alone_tells_how_to_read_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    LogBuilder(tmp_path).partition("__consumer_offsets", 0, [[batch(0, 1)]])
    assert offsets(tmp_path) == []
    assert "subscribe" in caplog.text


def test_batch_above_a_limit_of_the_reader_is_a_bad_one(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    large = v2_batch([RecordSpec(value=bytes(5000))], base_offset=1, codec="zstd")
    small = [v2_batch([RecordSpec(value=b"v")], base_offset=at, codec="zstd") for at in (0, 2)]
    log.partition("t", 0, [[small[0], large, small[1]]])
    assert offsets(log.path) == [0, 1, 2]
    assert offsets(log.path, max_decompressed_bytes="5100") == [0, 1, 2]
    with pytest.raises(DecompressedSizeError, match="larger than the 4000 bytes"):
        offsets(log.path, max_decompressed_bytes=4000)
    assert offsets(log.path, max_decompressed_bytes=4000, mode="DROPMALFORMED") == [0, 2]


def test_empty_log_has_no_rows(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[]])
    assert offsets(tmp_path) == []
    assert splits_of(tmp_path) == []
    assert read_arrow(tmp_path).schema.names[0] == "key"


def test_dying_directories_are_not_read(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(0, 1)]])
    for number, suffix in enumerate(("-delete", "-future", "-stray"), 1):
        log.partition("t", number, [[batch(0, 1)]], directory_suffix=f".0123456789abcdef{suffix}")
    assert places(tmp_path) == [("t", 0, 0)]


def test_reader_is_a_record_batch_reader(three_segments: Path) -> None:
    assert isinstance(read_arrow(three_segments), pa.RecordBatchReader)
    assert isinstance(read_arrow(str(three_segments)), pa.RecordBatchReader)
