"""Where kept batches go: into new segments, as old as the ones they replace."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import (
    SegmentSpec,
)
from tests.support.cleaning import (
    DAY_MS,
    NOW_MS,
    build,
    check_indexes,
    kept,
    plain_batches,
    segment_offsets,
)
from tests.support.compacting import active, run, set_modified


def test_a_cleaned_segment_is_as_old_as_what_it_replaces(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")]), active(2)])
    set_modified(directory, 0, NOW_MS - DAY_MS)
    run(directory)
    assert (directory / f"{0:020d}.log").stat().st_mtime_ns == (NOW_MS - DAY_MS) * 10**6


def test_a_segment_is_split_where_an_offset_does_not_fit_31_bits(tmp_path: Path) -> None:
    far = 3_000_000_000
    batches = [
        *plain_batches([(b"a", b"1"), (b"b", b"1")], batch_size=1),
        *plain_batches([(b"c", b"1"), (b"a", b"2")], base_offset=far, batch_size=1),
    ]
    directory = build(
        tmp_path,
        [SegmentSpec(batches, index=False, time_index=False), active(far + 2)],
    )
    run(directory)
    assert segment_offsets(directory) == [0, far, far + 2]
    assert kept(directory)[:-1] == [(1, b"b", b"1"), (far, b"c", b"1"), (far + 1, b"a", b"2")]
    check_indexes(directory)
