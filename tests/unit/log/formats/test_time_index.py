"""Time indexes: lookups, preallocated zeros, entries that do not rise."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog.log.formats.time_index import TimeEntry, TimeIndex, read_last_entry
from spark_segmentlog.log.io.reading import LOCAL

BASE = 1000


def _time_index(path: Path, entries: Sequence[tuple[int, int]], zeros: int = 0) -> TimeIndex:
    file = path / "x.timeindex"
    file.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(zeros))
    return TimeIndex(LOCAL.open_input(str(file)), BASE)


def _last_entry(path: Path) -> TimeEntry | None:
    return read_last_entry(LOCAL, str(path / "x.timeindex"), BASE)


def test_time_lookup_gives_the_last_entry_below(tmp_path: Path) -> None:
    with _time_index(tmp_path, [(100, 3), (200, 7)]) as index:
        assert [index.lookup(ms) for ms in (100, 101, 200, 201)] == [
            None,
            TimeEntry(timestamp=100, offset=BASE + 3),
            TimeEntry(timestamp=100, offset=BASE + 3),
            TimeEntry(timestamp=200, offset=BASE + 7),
        ]
        assert index.last_entry() == TimeEntry(timestamp=200, offset=BASE + 7)


def test_zeros_after_the_last_time_entry_are_no_entries(tmp_path: Path) -> None:
    """A roll can leave the preallocated rest in the file."""
    with _time_index(tmp_path, [(100, 3), (200, 7), (300, 8)], zeros=12_000) as index:
        assert index.last_entry() == TimeEntry(timestamp=300, offset=BASE + 8)
    assert _last_entry(tmp_path) == TimeEntry(timestamp=300, offset=BASE + 8)
    with _time_index(tmp_path, [], zeros=12_000) as index:
        assert index.last_entry() is None
    assert _last_entry(tmp_path) is None


def test_a_timestamp_whose_low_bytes_are_zero_is_an_entry(tmp_path: Path) -> None:
    with _time_index(tmp_path, [(1 << 32, 0)], zeros=24) as index:
        assert index.last_entry() == TimeEntry(timestamp=1 << 32, offset=BASE)
    assert _last_entry(tmp_path) == TimeEntry(timestamp=1 << 32, offset=BASE)


@pytest.mark.parametrize("entries", [[(200, 3), (100, 7)], [(100, 7), (200, 3)], [(100, -3)]])
def test_an_unsorted_time_index_tells_nothing(
    tmp_path: Path, entries: Sequence[tuple[int, int]]
) -> None:
    with _time_index(tmp_path, entries) as index:
        assert index.last_entry() is None
        assert index.lookup(150) is None
    assert _last_entry(tmp_path) is None


def test_a_large_time_index_reads_as_a_small_one(tmp_path: Path) -> None:
    entries = [(10 * place, place) for place in range(1, 3000)]
    with _time_index(tmp_path, entries, zeros=1200) as index:
        assert index.last_entry() == TimeEntry(timestamp=29_990, offset=BASE + 2999)
        assert index.lookup(15_005) == TimeEntry(timestamp=15_000, offset=BASE + 1500)
        assert np.array_equal(index.entries()["timestamp"], [ms for ms, _ in entries])
    assert _last_entry(tmp_path) == TimeEntry(timestamp=29_990, offset=BASE + 2999)
    assert _last_entry(tmp_path / "missing") is None


def test_a_missing_index_has_no_entries() -> None:
    index = TimeIndex(None, BASE)
    assert index.last_entry() is None
    assert index.lookup(5) is None
