"""Splits: what one task of a read is given."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.planning import RowBounds
from spark_segmentlog.query.read_plan import plan_whole_ranges
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.arrow_reading import batch, rows_of, spans, splits_of


def test_one_split_a_segment(three_segments: Path) -> None:
    assert spans(splits_of(three_segments)) == [[(0, 10)], [(10, 20)], [(20, 30)]]
    narrowed = splits_of(three_segments, startingOffsets='{"t":{"0":12}}')
    assert spans(narrowed) == [[(12, 20)], [(20, 30)]]


def test_minimum_and_maximum_replace_segments(three_segments: Path) -> None:
    assert spans(splits_of(three_segments, minPartitions="1")) == [[(0, 30)]]
    assert spans(splits_of(three_segments, minPartitions="2")) == [[(0, 15)], [(15, 30)]]
    by_records = splits_of(three_segments, maxRecordsPerPartition="12", maxPartitionBytes="1")
    assert spans(by_records) == [[(0, 10)], [(10, 20)], [(20, 30)]]
    halves = splits_of(three_segments, minPartitions="2")
    assert rows_of(three_segments, halves) == list(range(30))


def test_bytes_pack_small_segments_and_cut_big_ones(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    segments = [
        SegmentSpec([batch(base + at, 1, 2) for at in range(0, 40, 2)], index_interval_bytes=0)
        for base in (0, 40, 80)
    ]
    log.partition("t", 0, segments)
    size = (tmp_path / "t-0" / f"{0:020}.log").stat().st_size
    one_batch = size // 20
    packed = splits_of(tmp_path, maxPartitionBytes=str(2 * size))
    assert spans(packed) == [[(0, 80)], [(80, 120)]]
    cut = splits_of(tmp_path, maxPartitionBytes=str(size // 2))
    assert rows_of(tmp_path, cut) == list(range(120))
    assert 6 <= len(cut) <= 12
    for ((start, end),) in spans(cut):
        assert (end - start) // 2 * one_batch <= size // 2
    whole = splits_of(tmp_path, maxPartitionBytes="1g", endingOffsets='{"t":{"0":50}}')
    assert spans(whole) == [[(0, 50)]]
    assert rows_of(tmp_path, whole) == list(range(50))


def test_very_many_small_segments_are_packed(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for partition in range(2):
        log.partition("t", partition, [[batch(base, 1)] for base in range(501)])
    splits = splits_of(tmp_path)
    assert 2 <= len(splits) <= 1000
    assert rows_of(tmp_path, splits) == [*range(501), *range(501)]
    batches = read_arrow(tmp_path, columns=["offset"])
    assert sum(1 for _ in batches) <= 4


def test_predicates_narrow_segments(three_segments: Path) -> None:
    def narrowed(**bounds: Any) -> list[list[tuple[int, int]]]:
        return spans(splits_of(three_segments, RowBounds(**bounds)))

    assert narrowed(start_offset=12, end_offset=13) == [[(12, 13)]]
    assert narrowed(topics=frozenset(["u"])) == []
    assert narrowed(partitions=frozenset([1])) == []
    assert narrowed(min_timestamp_ms=1012) == [[(10, 20)], [(20, 30)]]
    assert narrowed(min_timestamp_ms=5000) == []


def test_segments_that_are_looked_through_for_a_time_range_share_tasks(
    three_segments: Path,
) -> None:
    bounds = RowBounds(max_timestamp_ms=1012)
    splits = splits_of(three_segments, bounds)
    assert spans(splits) == [[(0, 30)]]
    assert rows_of(three_segments, splits) == list(range(30))
    later = splits_of(three_segments, RowBounds(min_timestamp_ms=1010, max_timestamp_ms=1012))
    assert spans(later) == [[(10, 30)]]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_missing_indexes_change_neither_plan_nor_rows(three_segments: Path, suffix: str) -> None:
    asked: list[dict[str, Any]] = [
        {},
        {"startingOffsets": '{"t":{"0":12}}', "endingOffsets": '{"t":{"0":23}}'},
        {"startingTimestamp": "1013", "endingTimestamp": "1027"},
        {"minPartitions": "7"},
        {"maxPartitionBytes": "1g"},
    ]
    bounds = RowBounds(min_timestamp_ms=1017)
    planned = [splits_of(three_segments, **options) for options in asked]
    narrowed = splits_of(three_segments, bounds)
    for path in (three_segments / "t-0").glob(f"*.{suffix}"):
        path.unlink()
    for options, splits in zip(asked, planned, strict=True):
        again = splits_of(three_segments, **options)
        assert spans(again) == spans(splits)
        assert rows_of(three_segments, again) == rows_of(three_segments, splits)
    without = rows_of(three_segments, splits_of(three_segments, bounds))
    expected = list(range(17, 30))
    assert [offset for offset in without if offset >= 17] == expected
    assert [offset for offset in rows_of(three_segments, narrowed) if offset >= 17] == expected


def test_splits_are_small_and_travel(three_segments: Path) -> None:
    split = splits_of(three_segments)[0]
    assert pickle.loads(pickle.dumps(split)) == split
    assert len(pickle.dumps(split)) < 1000


def test_whole_ranges_are_one_split_a_partition(three_segments: Path) -> None:
    parsed = parse_read_options({"path": str(three_segments)})
    assert spans(plan_whole_ranges(parsed)) == [[(0, 30)]]
