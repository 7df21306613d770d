"""A folder as it will be once files were renamed, seen before they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.io.after_moves import StorageAfterMoves
from spark_segmentlog.log.io.reading import LOCAL

NAMES = {"b.new": None, "b": "b.new", "c": None, "d.new": None, "d": "d.new"}


@pytest.fixture
def moved(tmp_path: Path) -> tuple[str, StorageAfterMoves]:
    """`b.new` in the place of `b`, `d.new` as `d`, `c` gone; `a` stays."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b", "b.new", "c", "d.new"):
        (folder / name).write_text(f"text of {name}")
    return str(folder), StorageAfterMoves(LOCAL, str(folder), NAMES)


def test_files_are_read_under_the_names_that_they_will_have(
    moved: tuple[str, StorageAfterMoves],
) -> None:
    folder, storage = moved
    for name, source in (("a", "a"), ("b", "b.new"), ("d", "d.new")):
        text = f"text of {source}".encode()
        path = f"{folder}/{name}"
        assert storage.read_file(path) == text
        assert storage.read_start(path, 4) == text[:4]
        assert storage.size(path) == len(text)
        assert storage.exists(path)


def test_what_will_not_be_there_is_not(moved: tuple[str, StorageAfterMoves]) -> None:
    folder, storage = moved
    for name in ("b.new", "c", "d.new", "never"):
        path = f"{folder}/{name}"
        assert storage.read_file(path) is None
        assert not storage.exists(path)
        for ask in (storage.size, storage.open_input):
            with pytest.raises(FileNotFoundError, match=name):
                ask(path)


def test_the_folder_is_listed_as_it_will_be(moved: tuple[str, StorageAfterMoves]) -> None:
    folder, storage = moved
    assert sorted(storage.list_names(folder)) == ["a", "b", "d"]
    assert storage.list_sizes(folder) == dict.fromkeys("abd")


def test_other_folders_are_as_they_are(
    tmp_path: Path, moved: tuple[str, StorageAfterMoves]
) -> None:
    _, storage = moved
    for name in ("b", "b.new", "c"):
        (tmp_path / name).write_text(name)
        assert storage.read_file(str(tmp_path / name)) == name.encode()
    assert sorted(storage.list_names(str(tmp_path))) == ["b", "b.new", "c", "folder"]
