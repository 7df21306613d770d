"""Sorted entries, after them perhaps zeros."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.io.reading import LOCAL


def index(path: Path, data: bytes) -> OffsetIndex:
    (path / "index").write_bytes(data)
    return OffsetIndex(LOCAL.open_input(str(path / "index")), 0)


def entries(count: int) -> bytes:
    return b"".join(struct.pack(">ii", 10 * at, 100 * at) for at in range(1, count + 1))


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 5000])
@pytest.mark.parametrize("zeros", [0, 8, 80_000])
def test_entries_are_counted_without_the_zeros_after_them(
    tmp_path: Path, count: int, zeros: int
) -> None:
    with index(tmp_path, entries(count) + bytes(zeros)) as opened:
        assert opened.entries_count == count
        assert len(opened.entries()) == count
        assert opened.size_fault() == ""
        assert opened.is_well_formed(whole=True)


def test_a_size_that_is_no_index_is_told(tmp_path: Path) -> None:
    with index(tmp_path, entries(2) + b"\0\0\0") as opened:
        assert opened.size_fault() == "3 bytes after the last whole entry"
    with index(tmp_path, entries(1) + bytes(16) + entries(1)) as opened:
        # The last entry is one, so the zeros before it are entries, which do not ascend.
        assert not opened.is_well_formed()


def test_a_large_index_is_looked_at_in_its_warm_part_unless_asked_for_more(tmp_path: Path) -> None:
    data = bytearray(entries(20_000))
    data[8 * 5_000 : 8 * 5_000 + 8] = struct.pack(">ii", 1, 1)
    with index(tmp_path, bytes(data)) as opened:
        assert opened.is_well_formed()
        assert not opened.is_well_formed(whole=True)


def test_a_missing_file_has_no_entries_and_no_fault() -> None:
    with OffsetIndex(None, 0) as opened:
        assert opened.entries_count == 0
        assert opened.size_fault() == ""
