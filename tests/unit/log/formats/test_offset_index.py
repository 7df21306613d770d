"""Offset indexes: lookups, preallocated files, entries that do not rise."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_segmentlog.log.formats.index_file import SEARCH_PAGE_BYTES
from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.io.reading import LOCAL, LogFile
from tests.support.noting import note_calls

BASE = 1000


def _offset_index(
    path: Path, entries: Sequence[tuple[int, int]], zeros: int = 0, base: int = BASE
) -> OffsetIndex:
    file = path / "x.index"
    file.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(zeros))
    return OffsetIndex(LOCAL.open_input(str(file)), base)


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
        assert 0 < sum(bytes_read) < 2 * SEARCH_PAGE_BYTES


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
