"""Which neighbouring segments become one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.segment_groups import group_segments
from spark_segmentlog.log.upkeep.swap import SegmentFile
from tests.support.cleaning import (
    build,
    check_indexes,
    kept,
    plain_batches,
    segment_offsets,
)
from tests.support.compacting import CONFIG, active, run


def test_segments_are_merged_up_to_segment_bytes(tmp_path: Path) -> None:
    segments = [plain_batches([(b"k%d" % base, b"v" * 100)], base_offset=base) for base in range(6)]
    size = len(segments[0][0])
    directory = build(tmp_path, [*segments, active(6)])
    config = replace(CONFIG, segment=SegmentConfig(segment_bytes=2 * size))
    result = run(directory, config)
    assert segment_offsets(directory) == [0, 2, 4, 6]
    assert (result.segments_before, result.segments_after) == (7, 4)
    assert len(kept(directory)) == 7
    check_indexes(directory)


def test_groups_never_span_more_offsets_than_an_index_can_say() -> None:
    def segment(base_offset: int, size_bytes: int = 10) -> SegmentFile:
        return SegmentFile(base_offset=base_offset, size_bytes=size_bytes, modified_ns=0)

    def grouped(end_offset: int) -> list[list[int]]:
        groups = group_segments(found, end_offset=end_offset, config=SegmentConfig())
        return [[segment.base_offset for segment in group] for group in groups]

    found = [segment(0), segment(5), segment(2**31), segment(2**31 + 1)]
    assert grouped(2**32) == [[0, 5], [2**31, 2**31 + 1]]
    assert grouped(2**32 + 1) == [[0, 5], [2**31], [2**31 + 1]]
    # A segment without a byte adds no offset.
    found = [segment(0), segment(2**31, 0), segment(2**31 + 9, 0)]
    assert grouped(2**32) == [[0, 2**31, 2**31 + 9]]
