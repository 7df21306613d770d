"""What all storages over a network share: listings, globs, files of known size."""

from __future__ import annotations

import pytest

from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.io.remote import resolve_storage
from tests.support.object_store import ObjectStore


@pytest.fixture
def store() -> ObjectStore:
    paths = ("b/logs/t-0/a.log", "b/logs/t-0/b.log", "b/logs/t-1/a.log", "b/logs/mark")
    return ObjectStore(objects=dict.fromkeys(paths, b"abc"))


@pytest.fixture
def storage(store: ObjectStore) -> Storage:
    return resolve_storage("b/logs", store.filesystem())[0]


def test_a_listing_tells_kinds_and_sizes(store: ObjectStore, storage: Storage) -> None:
    assert storage.list_sizes("b/logs") == {"t-0": None, "t-1": None, "mark": 3}
    folders, others = storage.list_directories("b/logs")
    assert (sorted(folders), others) == (["t-0", "t-1"], ["mark"])
    assert sorted(storage.list_names("b/logs/t-0")) == ["a.log", "b.log"]
    assert store.requests == {"list": 3}


def test_a_glob_names_what_is_there(storage: Storage) -> None:
    assert sorted(storage.glob("b/l*/t-[0-9]/a.log")) == ["b/logs/t-0/a.log", "b/logs/t-1/a.log"]
    assert storage.glob("b/none/*") == []
    assert storage.real_path("b/logs/") == "b/logs"


def test_a_file_that_is_not_there_shows_when_it_is_opened(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError):
        storage.open_input("b/logs/none")
