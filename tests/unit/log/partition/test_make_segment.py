"""Segments, by what the listing and the checkpoints of their log tell."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.log.partition.make_segment import make_segment
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from tests.support.reading import open_one


def build(path: Path, *, suffix: str = "") -> LogBuilder:
    batches = [v2_batch([RecordSpec(value=b"v")], base_offset=offset) for offset in range(3)]
    log = LogBuilder(path)
    log.partition("t", 0, [[batches[0]], SegmentSpec([batches[1]], suffix=suffix), [batches[2]]])
    return log


def test_a_segment_ends_where_the_next_begins(tmp_path: Path) -> None:
    build(tmp_path)
    log = open_one(tmp_path)
    segments = [make_segment(log, offset) for offset in range(3)]
    assert [segment.end_offset_bound for segment in segments] == [1, 2, None]
    assert [segment.is_first for segment in segments] == [True, False, False]
    assert segments == list(log.segments)


def test_indexes_below_the_recovery_point_are_trusted(tmp_path: Path) -> None:
    build(tmp_path).recovery_points({("t", 0): 1})
    log = open_one(tmp_path)
    trusted = [make_segment(log, offset).is_index_trusted for offset in range(3)]
    assert trusted == [True, False, False]
    assert log.are_indexes_trusted(log.segments).tolist() == trusted


def test_indexes_after_a_clean_stop_are_trusted(tmp_path: Path) -> None:
    build(tmp_path).clean_shutdown()
    log = open_one(tmp_path)
    assert all(make_segment(log, offset).is_index_trusted for offset in range(3))


def test_a_segment_that_is_renamed_and_the_one_before_it_are_moving(tmp_path: Path) -> None:
    build(tmp_path, suffix=".swap")
    log = open_one(tmp_path)
    segments = [make_segment(log, offset) for offset in range(3)]
    assert [segment.is_moving for segment in segments] == [True, True, False]
    assert [segment.suffix for segment in segments] == ["", ".swap", ""]
