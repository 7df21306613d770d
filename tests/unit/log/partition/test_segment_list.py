"""Segments of a partition as arrays, each made only when it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.segment.scanner import SegmentScanner
from spark_segmentlog.log.segment.segment import Segment
from tests.support.noting import note_calls
from tests.support.reading import batch, build_log, offsets, timed

T = 1_700_000_000_000


def test_segments_without_late_records_are_not_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = [[timed(base, T + base)] for base in range(10)]
    log = build_log(tmp_path, *segments)
    scanned: list[int] = []

    def note(scanner: SegmentScanner, segment: Segment, **_: object) -> None:
        scanned.append(segment.base_offset)

    note_calls(monkeypatch, SegmentScanner, "scan", note)
    assert offsets(log, min_ms=T + 8, end=10) == [8, 9]
    assert scanned == [8, 9]


def test_the_arrays_of_many_segments_tell_what_the_segments_do(tmp_path: Path) -> None:
    log = build_log(tmp_path, *[[batch(base, 10)] for base in range(0, 100, 10)])
    some = log.segments_between(25, 61)
    assert [segment.base_offset for segment in some] == some.base_offsets.tolist()
    assert some.base_offsets.tolist() == [20, 30, 40, 50, 60]
    assert some.end_offset_bounds.tolist() == [30, 40, 50, 60, 70]
    assert some.sizes_bytes().tolist() == [segment.size_bytes() for segment in some]
    assert log.segments[-1].end_offset_bound is None
    assert log.segments.end_offset_bounds[-1] == 2**63 - 1
    assert len(some[1:3]) == 2
    assert len(log.segments_between(10, 10)) == 0
    assert len(log.segments_between(1000, 2000)) == 1
