"""Objects of a store as files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.tier.objects import (
    BytesFile,
    EndOfFile,
    SegmentFiles,
    list_objects,
    read_whole,
    segment_name,
)

PATTERN = re.compile(r"(?P<base>\d{20})-(?P<id>[a-z]+)(?P<suffix>\..+)")
DATA = bytes(range(100))


def test_bytes_are_read_as_a_file_is() -> None:
    with BytesFile("here", DATA) as file:
        buffer = np.zeros(10, np.uint8)
        assert file.size() == 100
        assert file.read_at(95, 10) == DATA[95:]
        assert file.pread_into(buffer, 98, 10) == 2
        assert bytes(buffer) == DATA[98:] + bytes(8)
        assert (file.next_data_position(99), file.next_data_position(100)) == (99, None)


def test_the_end_of_a_file_has_positions_of_its_own() -> None:
    with EndOfFile(BytesFile("here", DATA), 40) as file:
        buffer = np.zeros(3, np.uint8)
        assert (file.path, file.size()) == ("here", 60)
        assert file.read_at(0, 5) == DATA[40:45]
        assert file.pread_into(buffer, 1, 3) == 3
        assert bytes(buffer) == DATA[41:44]
        assert (file.next_data_position(5), file.next_data_position(60)) == (5, None)
    assert EndOfFile(BytesFile("here", DATA), 200).size() == 0


def test_an_object_larger_than_it_can_be_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_bytes(DATA)
    assert read_whole(LOCAL, str(path), 100) == DATA
    with pytest.raises(RemoteStorageError, match="has 100 bytes, allowed are 99"):
        read_whole(LOCAL, str(path), 99)


def test_objects_are_listed_by_segment_and_other_names_left_out(tmp_path: Path) -> None:
    names = [
        f"{segment_name(20, 'b')}.log",
        f"{segment_name(3, 'a')}.log",
        f"{segment_name(3, 'a')}.index",
        "9" * 20 + "-a.log",
        "other",
    ]
    for name in names:
        (tmp_path / name).touch()
    found = list_objects(LOCAL, str(tmp_path), PATTERN)
    assert list(found.items()) == [
        ((3, "a"), {".log": None, ".index": None}),
        ((20, "b"), {".log": None}),
    ]
    assert list_objects(LOCAL, str(tmp_path / "gone"), PATTERN) == {}


def test_a_copy_is_found_under_the_name_of_a_segments_file(tmp_path: Path) -> None:
    copy = tmp_path / segment_name(7, "id")
    Path(f"{copy}.log").write_bytes(DATA)
    files = SegmentFiles(LOCAL, str(copy))
    name = f"/anywhere/{7:020d}.log"
    assert files.exists(name)
    assert files.size(name) == 100
    assert files.read_file(name) == DATA
    assert not files.exists(f"/anywhere/{7:020d}.index")
    assert files.read_file(f"/anywhere/{7:020d}.index") is None
