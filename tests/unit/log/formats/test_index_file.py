"""Sorted entries, after them perhaps zeros."""

from __future__ import annotations

import bisect
import random
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.io.remote_file import PEEK_BYTES
from tests.support.object_store import ObjectStore


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


@given(st.data())
def test_lookups_in_a_large_index_find_what_a_plain_search_does(data: st.DataObject) -> None:
    numbers = random.Random(data.draw(st.integers(0, 1 << 32)))
    # Even steps, steps of very different sizes, and steps of none.
    steps = [data.draw(st.sampled_from([0, 1, 10, 10_000])) for _ in range(4)]
    offset, position, packed, offsets = 0, 0, [], []
    for number in range(data.draw(st.integers(20_000, 60_000))):
        offset += numbers.randint(0, steps[number % 20_000 // 5_000])
        position += 1 + numbers.randrange(100)
        packed.append(struct.pack(">ii", offset, position))
        offsets.append(offset)
    with tempfile.TemporaryDirectory() as folder:
        for zeros in (0, 400_000):
            with index(Path(folder), b"".join(packed) + bytes(zeros)) as opened:
                for wanted in (0, 1, offset // 3, offset // 2, offset, offset + 1, -1):
                    found = opened.lookup(wanted)
                    slot = bisect.bisect_right(offsets, wanted) - 1
                    assert (None if found is None else found.offset) == (
                        None if slot < 0 else offsets[slot]
                    )


@pytest.mark.parametrize("count", [100, 16_000, 1_000_000])
def test_an_even_index_is_read_in_a_page_or_two(count: int) -> None:
    store = ObjectStore({"b/index": entries(count)})
    for wanted in (0, 10 * count // 3, 10 * count - 5, 10 * count):
        store.reset()
        storage, path = resolve_storage("b/index", store.fsspec_filesystem())
        with OffsetIndex(storage.open_input(path), 0) as opened:
            found = opened.lookup(wanted)
            assert (0 if found is None else found.offset) == wanted // 10 * 10
        assert len(store.reads) == 1 if 8 * count <= PEEK_BYTES else 2
        assert sum(length for _, _, length in store.reads) <= 140_000
