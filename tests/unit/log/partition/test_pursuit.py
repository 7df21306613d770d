"""Segments that others replace while they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import DataLossError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.pursuit import SegmentPursuit
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.segment.scanner import SegmentScanner
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.testing.builder import LogBuilder, segment_file_name
from tests.support.reading import batch, column, lost_ranges, open_one, scan_options

BASES = (0, 10, 20)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(base, 5), batch(base + 5, 5)] for base in BASES])
    builder.clean_shutdown()
    return open_one(tmp_path)


class Replacer:
    """Has a segment hold its first half while it is read once, and all of it before and after."""

    def __init__(self, log: PartitionLog, base_offset: int) -> None:
        self._path = Path(log.directory, segment_file_name(base_offset))
        self._base_offset = base_offset
        self._whole = self._path.read_bytes()
        self.times = 0

    def split(self, segment: Segment) -> None:
        if segment.base_offset == self._base_offset and self.times == 0:
            self._put(batch(self._base_offset, 5))

    def merge(self, segment: Segment) -> None:
        if segment.base_offset == self._base_offset:
            self.times += 1
            self._put(self._whole)

    def _put(self, data: bytes) -> None:
        new = self._path.with_suffix(".swap")
        new.write_bytes(data)
        os.utime(new, (1, 1))
        new.rename(self._path)


def _lost(start_offset: int, end_offset: int) -> None:
    raise AssertionError(f"{start_offset} to {end_offset} are not lost")


@pytest.mark.parametrize("base_offset", BASES)
def test_a_segment_split_and_merged_during_a_visit_is_visited_again(
    log: PartitionLog, base_offset: int
) -> None:
    replacer = Replacer(log, base_offset)

    def visit(segment: Segment, start_offset: int) -> Iterator[tuple[int, int]]:
        replacer.split(segment)
        for table in segment.headers():
            for first, last in zip(table.base_offset, table.last_offset, strict=True):
                if first >= start_offset:
                    yield int(first), int(last) + 1
        replacer.merge(segment)

    pursuit = SegmentPursuit(log.segments, 30, _lost)
    assert list(pursuit.visit(0, visit)) == list(range(0, 30, 5))
    assert replacer.times == 2


@pytest.mark.parametrize("base_offset", BASES)
def test_a_segment_split_and_merged_during_a_scan_is_read_whole(
    log: PartitionLog, base_offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacer = Replacer(log, base_offset)
    scan = SegmentScanner.scan

    def scan_half(
        self: SegmentScanner, segment: Segment, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        replacer.split(segment)
        yield from scan(self, segment, **options)
        replacer.merge(segment)

    monkeypatch.setattr(SegmentScanner, "scan", scan_half)
    rows = scan_segments(log.segments, scan_options(end=30))
    assert column(rows, "offset") == list(range(30))
    assert replacer.times == 2


def test_a_segment_that_compaction_left_short_is_read_once(log: PartitionLog) -> None:
    Path(log.directory, segment_file_name(10)).write_bytes(batch(10, 5))
    pursuit = SegmentPursuit(log.segments, 30, _lost)
    visited = []

    def visit(segment: Segment, start_offset: int) -> Iterator[tuple[int, int]]:
        visited.append((segment.base_offset, start_offset))
        yield segment.base_offset, segment.next_offset()

    assert list(pursuit.visit(0, visit)) == list(BASES)
    assert visited == [(0, 0), (10, 10), (20, 20)]


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_was_truncated_since_the_end_was_known_is_data_loss(
    log: PartitionLog, caplog: pytest.LogCaptureFixture, is_gone: bool
) -> None:
    segments, path = list(log.segments), Path(log.directory, segment_file_name(20))
    if is_gone:
        path.unlink()
    else:
        path.write_bytes(batch(20, 5))
    lost_from = 20 if is_gone else 25
    for first in (0, 2):
        start = segments[first].base_offset
        with pytest.raises(DataLossError, match=rf"offset \[{lost_from}, 30\)"):
            list(scan_segments(segments[first:], scan_options(start=start, end=30)))
        caplog.clear()
        options = scan_options(start=start, end=30, fail_on_data_loss=False)
        rows = scan_segments(segments[first:], options)
        assert column(rows, "offset") == list(range(start, lost_from))
        assert lost_ranges(caplog) == [f"[{lost_from}, 30)"]


def test_a_view_tells_what_was_truncated_since_it_was_planned(log: PartitionLog) -> None:
    reader = read_arrow(log.directory, view="batches")
    Path(log.directory, segment_file_name(20)).write_bytes(batch(20, 5))
    with pytest.raises(DataLossError, match=r"offset \[25, 30\)"):
        reader.read_all()
