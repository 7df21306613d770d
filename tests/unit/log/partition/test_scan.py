"""The scan of a partition: its rows, its warnings and its memory."""

from __future__ import annotations

import gc
import logging
import weakref
from pathlib import Path

import pytest

from spark_segmentlog.log.segment.scanner import SegmentScanner
from spark_segmentlog.testing.builder import (
    SegmentSpec,
)
from tests.support.noting import note_calls
from tests.support.reading import batch, build_log, offsets, timed

T = 1_700_000_000_000


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_missing_indexes_warn_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    log = build_log(tmp_path, [timed(0, T, T + 1)], [timed(2, T + 2, T + 3)])
    for path in (tmp_path / "t-0").glob(f"*.{kind}"):
        path.unlink()
    with caplog.at_level(logging.WARNING):
        for start in (1, 3):
            assert offsets(log, start=start) == list(range(start, 4))
            assert log.offset_for_timestamp(T + start) == (start, T + start)
            assert offsets(log, min_ms=T + start) == list(range(start, 4))
    expected = f"{log.directory} lacks .{kind} files: lookups there take longer"
    assert [record.getMessage() for record in caplog.records] == [expected]


@pytest.mark.parametrize("rest", [1, 16, 17, 40, 65])
def test_a_torn_tail_warns_with_file_and_position(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rest: int
) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 2)], tail=batch(2)[:rest]))
    with caplog.at_level(logging.WARNING):
        assert log.log_end_offset == 2
    (record,) = caplog.records
    expected = f"{log.segments[0].log_path} ends at position {len(batch(0, 2))}: {rest} bytes"
    assert record.getMessage().startswith(expected)


def test_a_scan_that_is_over_leaves_its_memory_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = build_log(tmp_path, [batch(0, 5)])
    scanners: list[weakref.ref[SegmentScanner]] = []

    def note(scanner: SegmentScanner, *_: object, **__: object) -> None:
        scanners.append(weakref.ref(scanner))

    note_calls(monkeypatch, SegmentScanner, "__init__", note)
    gc.disable()
    try:
        for committed in (False, True):
            assert offsets(log, committed=committed) == [0, 1, 2, 3, 4]
            assert [scanner() for scanner in scanners] == [None] * len(scanners)
    finally:
        gc.enable()
