"""How strict a walk is."""

from __future__ import annotations

from spark_segmentlog.log.segment.walk_options import QUIET, STRICT, TOLERANT, always, never


def test_bad_bytes_are_an_error_unless_a_walk_steps_over_them() -> None:
    assert not STRICT.skip_corrupt
    assert TOLERANT.skip_corrupt
    assert QUIET.skip_corrupt


def test_a_quiet_walk_reports_nothing_and_others_all() -> None:
    for end_offset in (None, 5):
        assert TOLERANT.is_reported(0, end_offset)
        assert always(0, end_offset)
        assert not QUIET.is_reported(0, end_offset)
        assert not never(0, end_offset)
