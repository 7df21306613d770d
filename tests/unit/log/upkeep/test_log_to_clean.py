"""Which part of a log is cleaned, and when that is worth a pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_segmentlog.log.upkeep import log_to_clean
from spark_segmentlog.testing.builder import (
    LogBuilder,
)
from tests.support.cleaning import (
    NOW_MS,
    build,
    kept,
    plain_batches,
)
from tests.support.compacting import CONFIG, active, data, run


def test_a_log_of_one_segment_stays(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")])])
    result = run(directory)
    assert result.passes == 0
    assert len(kept(directory)) == 2


def test_a_second_pass_without_anything_new_changes_nothing(tmp_path: Path) -> None:
    directory = build(
        tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2"), (b"b", None)]), active(3)]
    )
    run(directory)
    before = last_writes(directory)
    result = run(directory, now_ms=NOW_MS + 5)
    assert result.passes == 0
    assert last_writes(directory) == before


def test_a_cleaner_checkpoint_beyond_the_end_is_that_of_another_log(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")]), active(2)])
    LogBuilder(tmp_path)._offset_checkpoint("cleaner-offset-checkpoint", {("t", 0): 1000})
    assert run(directory).first_dirty_offset == 0
    assert kept(directory)[:-1] == [(1, b"a", b"2")]


def test_segments_with_a_young_record_stay_and_all_after_them(tmp_path: Path) -> None:
    segments = [
        plain_batches([(b"a", b"%d" % base)], base_offset=base, timestamp_ms=NOW_MS - age)
        for base, age in enumerate((5000, 4000, 500, 3000))
    ]
    directory = build(tmp_path, [*segments, active(4)])
    result = run(directory, replace(CONFIG, min_compaction_lag_ms=1000))
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4]
    assert result.cleaned_up_to == 2


def test_too_small_a_part_of_new_bytes_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = build(
        tmp_path,
        [
            plain_batches([(b"%d" % index, b"v" * 100) for index in range(20)]),
            plain_batches([(b"0", b"new")], base_offset=20),
            active(21),
        ],
    )
    LogBuilder(tmp_path)._offset_checkpoint("cleaner-offset-checkpoint", {("t", 0): 20})
    with monkeypatch.context() as patch:
        # It is told by the files' sizes alone.
        patch.setattr(log_to_clean, "survey_producers", None)
        assert run(directory, replace(CONFIG, min_cleanable_ratio=0.5)).passes == 0
    assert run(directory, CONFIG).passes == 1


def test_an_open_transaction_bounds_what_is_cleaned(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            plain_batches([(b"a", b"1"), (b"a", b"2")]),
            [data(7, 2, (b"a", b"open")), *plain_batches([(b"a", b"3")], base_offset=3)],
            plain_batches([(b"a", b"4")], base_offset=4),
            active(5),
        ],
    )
    result = run(directory)
    assert result.cleaned_up_to == 2
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4, 5]


def last_writes(directory: Path) -> dict[str, tuple[int, int]]:
    """Tell which file each name is, and when it was last written."""
    stats = {path.name: path.stat() for path in directory.iterdir()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}
