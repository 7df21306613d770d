from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.formats.time_index import TimeEntry, TimeIndex, read_largest_timestamp
from spark_segmentlog.log.io.reading import LOCAL, LogFile
from tests.support.noting import note_calls

BASE = 1000


def _offset_index(
    path: Path, entries: Sequence[tuple[int, int]], zeros: int = 0, base: int = BASE
) -> OffsetIndex:
    file = path / "x.index"
    file.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(zeros))
    return OffsetIndex(LOCAL.open_input(str(file)), base)


def _time_index(path: Path, entries: Sequence[tuple[int, int]], zeros: int = 0) -> TimeIndex:
    file = path / "x.timeindex"
    file.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(zeros))
    return TimeIndex(LOCAL.open_input(str(file)), BASE)


def _position(index: OffsetIndex, offset: int, **limits: int) -> int:
    entry = index.lookup(offset, **limits)
    return 0 if entry is None else entry.position


def test_lookup_gives_the_last_entry_at_or_below(tmp_path: Path) -> None:
    with _offset_index(tmp_path, [(10, 100), (20, 200), (30, 300)]) as index:
        found = [_position(index, BASE + offset) for offset in (0, 9, 10, 19, 20, 35, 2**40)]
    assert found == [0, 0, 100, 100, 200, 300, 300]


def test_entries_past_the_end_of_the_log_are_left_out(tmp_path: Path) -> None:
    with _offset_index(tmp_path, [(10, 100), (20, 200), (30, 300)]) as index:
        assert _position(index, BASE + 35, below_position=300) == 200
        assert _position(index, BASE + 35, below_position=100) == 0


def test_an_index_of_zeros_and_one_with_a_single_zero_entry_find_the_start(tmp_path: Path) -> None:
    with _offset_index(tmp_path, [], zeros=10_485_760) as index:
        assert index.entries_count == 0
        assert _position(index, BASE) == _position(index, BASE + 500) == 0
        assert index.is_well_formed()
    with _offset_index(tmp_path, [(0, 0)]) as index:
        assert _position(index, BASE + 500) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 682, 1023, 1024, 1025, 5000, 40_000])
def test_lookup_agrees_with_a_list_whatever_the_size_and_padding(
    tmp_path: Path, count: int
) -> None:
    entries = [(7 * place + 7, 50 * place + 50) for place in range(count)]
    for zeros in (0, 8, 1_000_000):
        with _offset_index(tmp_path, entries, zeros) as index:
            assert index.entries_count == count
            for slot in {0, 1, count // 2, count - 1} & set(range(count)):
                relative, position = entries[slot]
                assert _position(index, BASE + relative) == position
                assert _position(index, BASE + relative - 1) == position - 50


def test_a_preallocated_index_is_never_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [(7 * place + 7, 50 * place + 50) for place in range(20_000)]
    with _offset_index(tmp_path, entries, 10_000_000) as index:
        bytes_read: list[int] = []

        def note(file: LogFile, position: int, length: int) -> None:
            bytes_read.append(length)

        note_calls(monkeypatch, type(index._file), "read_at", note)
        assert _position(index, BASE + 7 * 3 + 7) == 50 * 3 + 50
        assert 0 < sum(bytes_read) < 40_000


def test_half_an_entry_at_the_end_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(struct.pack(">ii", 5, 50) + b"\x00\x00\x00")
    with OffsetIndex(LOCAL.open_input(str(path)), BASE) as index:
        assert index.entries_count == 1


def test_unsorted_or_negative_entries_are_not_well_formed(tmp_path: Path) -> None:
    with _offset_index(tmp_path, [(10, 100), (5, 200)]) as index:
        assert not index.is_well_formed()
    with _offset_index(tmp_path, [(-5, 100), (5, 200)]) as index:
        assert not index.is_well_formed()
    many = [(place + 1, place) for place in range(50_000)]
    many[100], many[101] = many[101], many[100]
    with _offset_index(tmp_path, many) as index:
        assert not index.is_well_formed(whole=True)


def test_a_missing_index_has_no_entries() -> None:
    index = OffsetIndex(None, BASE)
    assert index.lookup(BASE + 5) is None
    assert index.entries_count == 0
    times = TimeIndex(None, BASE)
    assert times.last_entry() is None
    assert times.lookup(5) is None


def test_time_lookup_gives_the_last_entry_below(tmp_path: Path) -> None:
    with _time_index(tmp_path, [(100, 3), (200, 7)]) as index:
        assert [index.lookup(ms) for ms in (100, 101, 200, 201)] == [
            None,
            TimeEntry(timestamp=100, offset=BASE + 3),
            TimeEntry(timestamp=100, offset=BASE + 3),
            TimeEntry(timestamp=200, offset=BASE + 7),
        ]
        assert index.last_entry() == TimeEntry(timestamp=200, offset=BASE + 7)


def test_zeros_behind_the_last_time_entry_are_no_entries(tmp_path: Path) -> None:
    """A roll can leave the preallocated rest in the file."""
    with _time_index(tmp_path, [(100, 3), (200, 7), (300, 8)], zeros=12_000) as index:
        assert index.last_entry() == TimeEntry(timestamp=300, offset=BASE + 8)
    assert read_largest_timestamp(LOCAL, str(tmp_path / "x.timeindex")) == 300
    with _time_index(tmp_path, [], zeros=12_000) as index:
        assert index.last_entry() is None
    assert read_largest_timestamp(LOCAL, str(tmp_path / "x.timeindex")) is None


def test_a_timestamp_whose_low_bytes_are_zero_is_an_entry(tmp_path: Path) -> None:
    with _time_index(tmp_path, [(1 << 32, 0)], zeros=24) as index:
        assert index.last_entry() == TimeEntry(timestamp=1 << 32, offset=BASE)
    assert read_largest_timestamp(LOCAL, str(tmp_path / "x.timeindex")) == 1 << 32


@pytest.mark.parametrize("entries", [[(200, 3), (100, 7)], [(100, 7), (200, 3)], [(100, -3)]])
def test_an_unsorted_time_index_tells_nothing(
    tmp_path: Path, entries: Sequence[tuple[int, int]]
) -> None:
    with _time_index(tmp_path, entries) as index:
        assert index.last_entry() is None
        assert index.lookup(150) is None
    assert read_largest_timestamp(LOCAL, str(tmp_path / "x.timeindex")) is None


def test_a_large_time_index_reads_as_a_small_one(tmp_path: Path) -> None:
    entries = [(10 * place, place) for place in range(1, 3000)]
    with _time_index(tmp_path, entries, zeros=1200) as index:
        assert index.last_entry() == TimeEntry(timestamp=29_990, offset=BASE + 2999)
        assert index.lookup(15_005) == TimeEntry(timestamp=15_000, offset=BASE + 1500)
        assert np.array_equal(index.entries()["timestamp"], [ms for ms, _ in entries])
    path = str(tmp_path / "x.timeindex")
    assert read_largest_timestamp(LOCAL, path) == 29_990
    assert read_largest_timestamp(LOCAL, path + ".missing") is None
