"""A storage as it will be once files were changed, seen before they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog.log.io.after_changes import Parts, StorageAfterChanges, Stretch
from spark_segmentlog.log.io.reading import LOCAL, is_zero_from

TEXTS = {
    "a": b"text of a",
    "b": b"text of b.new",
    "d": b"text of d.new",
    "made": b"of a!text",
    "new/in it": b"made",
}


@pytest.fixture
def changed(tmp_path: Path) -> tuple[str, StorageAfterChanges]:
    """`b.new` in the place of `b`, `d.new` as `d`, `c` gone, `made` joined; `a` stays."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "below").mkdir()
    for name in ("a", "b", "b.new", "c", "d.new"):
        (folder / name).write_text(f"text of {name}")
    changes: dict[str, Parts | None] = {
        "b.new": None,
        "b": (Stretch(f"{folder}/b.new"),),
        "c": None,
        "d.new": None,
        "d": [Stretch(f"{folder}/d.new")],
        "made": (Stretch(f"{folder}/a", 5), b"!", b"", Stretch(f"{folder}/c", 0, 4)),
    }
    new = {f"{folder}/new": {"in it": (b"made",)}}
    return str(folder), StorageAfterChanges(LOCAL, {str(folder): changes, **new})


def test_files_are_read_as_they_will_be(changed: tuple[str, StorageAfterChanges]) -> None:
    folder, storage = changed
    for name, text in TEXTS.items():
        path = f"{folder}/{name}"
        assert storage.read_file(path) == text
        assert storage.read_start(path, 4) == text[:4]
        assert storage.size(path) == len(text)
        assert storage.exists(path)


def test_a_joined_file_is_read_at_any_position(changed: tuple[str, StorageAfterChanges]) -> None:
    folder, storage = changed
    text = TEXTS["made"]
    with storage.open_input(f"{folder}/made") as file:
        assert (file.path, file.size()) == (f"{folder}/made", len(text))
        for position in range(len(text) + 2):
            for length in range(len(text) + 2):
                wanted = text[position : position + length]
                buffer = np.zeros(length, np.uint8)
                assert file.read_at(position, length) == wanted
                assert file.pread_into(buffer, position, length) == len(wanted)
                assert buffer.tobytes().startswith(wanted)
        assert not is_zero_from(file, len(text) - 1)
        assert is_zero_from(file, len(text))


def test_what_will_not_be_there_is_not(changed: tuple[str, StorageAfterChanges]) -> None:
    folder, storage = changed
    for name in ("b.new", "c", "d.new", "never", "new/never"):
        path = f"{folder}/{name}"
        assert storage.read_file(path) is None
        assert not storage.exists(path)
        for ask in (storage.size, storage.open_input):
            with pytest.raises(FileNotFoundError, match=name):
                ask(path)


def test_folders_are_listed_as_they_will_be(changed: tuple[str, StorageAfterChanges]) -> None:
    folder, storage = changed
    assert sorted(storage.list_names(folder)) == ["a", "b", "below", "d", "made"]
    assert storage.list_sizes(f"{folder}/new") == {"in it": None}
    assert storage.list_names(f"{folder}/below") == []
    for path in (folder, f"{folder}/below/.."):
        directories, others = storage.list_directories(path)
        assert sorted(directories) == ["below", "new"]
        assert sorted(others) == ["a", "b", "d", "made"]
    for name in ("", "/below", "/new"):
        assert storage.exists(f"{folder}{name}")
        assert storage.is_directory(f"{folder}{name}")
    assert not storage.is_directory(f"{folder}/made")


def test_other_folders_are_as_they_are(
    tmp_path: Path, changed: tuple[str, StorageAfterChanges]
) -> None:
    _, storage = changed
    for name in ("b", "b.new", "c"):
        (tmp_path / name).write_text(name)
        assert storage.read_file(str(tmp_path / name)) == name.encode()
    assert sorted(storage.list_names(str(tmp_path))) == ["b", "b.new", "c", "folder"]
