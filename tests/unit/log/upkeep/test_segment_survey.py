"""What one segment tells when all of it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import InvalidBatchError
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.reading import batch, offsets, open_one
from tests.support.verifying import build, change, found, spec

SEGMENT = "00000000000000000000"


def test_neighbouring_batches_of_another_segment(tmp_path: Path) -> None:
    first = [batch(0, 2), batch(2, 2)]
    second = [batch(4, 2), batch(6, 2), batch(8, 2)]
    directory = build(tmp_path, spec(first), SegmentSpec(second, base_offset=4), recovery_point=10)
    (directory / f"{SEGMENT}.log").write_bytes(b"".join(second))
    bad = [finding for finding in found(tmp_path) if finding.kind is FindingKind.CORRUPT_BATCH]
    assert [(finding.position, finding.start_offset, finding.end_offset) for finding in bad] == [
        (0, 0, 4)
    ]


def test_batches_below_the_name_of_their_segment_are_bad(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    segments = [spec([batch(0, 3)]), SegmentSpec([batch(0, 3), batch(3, 2)], base_offset=3)]
    builder.partition("t", 0, segments)
    with pytest.raises(InvalidBatchError, match="offsets 0 to 2, the segment starts at 3"):
        offsets(open_one(tmp_path))


def test_bad_bytes_up_to_the_zeros_of_a_closed_segment_end_where_the_next_starts(
    tmp_path: Path,
) -> None:
    batches = [batch(0, 2), batch(2, 2)]
    padded = SegmentSpec(batches, base_offset=0, tail=bytes(4096))
    directory = build(tmp_path, padded, SegmentSpec([batch(4, 1)], base_offset=4), recovery_point=5)
    change(directory / f"{SEGMENT}.log", len(batches[0]) + 62, b"\xff")
    (one,) = found(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.CORRUPT_BATCH, 2, 4)
