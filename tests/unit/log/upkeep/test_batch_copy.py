"""Batches are copied as they are; segments begin where those of the source do, or must."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.upkeep import batch_copy
from spark_segmentlog.log.upkeep.batch_copy import NewSegments, WantedOffsets, copy_batches
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, segment_file_name, v2_batch


def batch(base_offset: int, count: int = 1) -> bytes:
    return v2_batch([RecordSpec(value=b"v" * 40)] * count, base_offset=base_offset)


def open_source(path: Path, segments: list[list[bytes]]) -> PartitionLog:
    return PartitionLog.open(str(LogBuilder(path).partition("t", 0, segments)))


def copied(target: NewSegments) -> dict[int, bytes]:
    target.finish()
    return {
        base_offset: Path(target.folder, segment_file_name(base_offset)).read_bytes()
        for base_offset in target.base_offsets
    }


def within(start: int, end: int, *, is_first: bool = False) -> WantedOffsets:
    return WantedOffsets(start_offset=start, end_offset=end, is_first=is_first)


def test_segments_begin_where_those_of_the_source_do(tmp_path: Path) -> None:
    segments = [[batch(0), batch(1)], [batch(2, 3), batch(5)]]
    target = NewSegments(str(tmp_path))
    assert copy_batches(open_source(tmp_path / "a", segments), within(0, 6), target) == []
    assert copied(target) == {0: b"".join(segments[0]), 2: b"".join(segments[1])}
    assert (target.next_offset, target.size_bytes) == (6, sum(map(len, chain(*segments))))


def test_what_fills_a_gap_goes_into_the_segment_that_is_begun(tmp_path: Path) -> None:
    mine = open_source(tmp_path / "a", [[batch(number) for number in range(8)]])
    others = open_source(tmp_path / "b", [[batch(0), batch(1)], [batch(2), batch(3), batch(4)]])
    target = NewSegments(str(tmp_path))
    for log, start, end in ((mine, 0, 1), (others, 1, 4), (mine, 4, 8)):
        assert copy_batches(log, within(start, end), target) == []
    found = copied(target)
    assert list(found) == [0, 2]
    assert b"".join(found.values()) == b"".join(batch(number) for number in range(8))


def test_batches_that_reach_over_an_end_are_left_out_and_told(tmp_path: Path) -> None:
    log = open_source(tmp_path / "a", [[batch(0, 4), batch(4), batch(5, 4)]])
    target = NewSegments(str(tmp_path))
    assert copy_batches(log, within(2, 7), target) == [(2, 4), (5, 7)]
    assert copied(target) == {0: batch(4)}
    first = NewSegments(str(tmp_path / "b"))
    (tmp_path / "b").mkdir()
    assert copy_batches(log, within(2, 5, is_first=True), first) == []
    assert copied(first) == {0: batch(0, 4) + batch(4)}


@pytest.mark.parametrize("limit", ["MAX_SEGMENT_BYTES", "MAX_RELATIVE_OFFSET"])
def test_a_segment_that_would_grow_too_large_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    data = [batch(number) for number in range(10)]
    log = open_source(tmp_path / "a", [data])
    most = {"MAX_SEGMENT_BYTES": 4 * len(data[0]) + 1, "MAX_RELATIVE_OFFSET": 3}[limit]
    monkeypatch.setattr(batch_copy, limit, most)
    target = NewSegments(str(tmp_path))
    copy_batches(log, within(0, 10), target)
    assert copied(target) == {base: b"".join(data[base : base + 4]) for base in (0, 4, 8)}
