"""What a listing of a far folder told is asked for no more."""

from __future__ import annotations

import pickle

import pytest

from spark_segmentlog.log.io.as_listed import StorageAsListed, as_listed, waiting_threads
from spark_segmentlog.log.io.far_storage import FarStorage
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.io.remote import resolve_storage
from tests.support.object_store import ObjectStore


@pytest.fixture
def store() -> ObjectStore:
    objects = {"b/logs/t-0/a.log": b"abc", "b/logs/t-0/b.log": b"", "b/logs/mark": b"m"}
    return ObjectStore(objects=objects)


@pytest.fixture
def listed(store: ObjectStore) -> StorageAsListed:
    storage = as_listed(resolve_storage("b/logs", store.filesystem())[0])
    assert isinstance(storage, StorageAsListed)
    return storage


def test_only_what_is_far_is_listed_once() -> None:
    assert as_listed(LOCAL) is LOCAL


def test_kinds_and_sizes_come_from_the_listing(store: ObjectStore, listed: StorageAsListed) -> None:
    assert listed.list_directories("b/logs") == (["t-0"], ["mark"])
    assert sorted(listed.list_names("b/logs/t-0")) == ["a.log", "b.log"]
    assert listed.is_directory("b/logs/t-0/")
    assert not listed.is_directory("b/logs/mark")
    assert [listed.exists(f"b/logs/{name}") for name in ("mark", "t-0", "none")] == [
        True,
        True,
        False,
    ]
    assert [listed.size(f"b/logs/t-0/{name}.log") for name in "ab"] == [3, 0]
    assert listed.read_file("b/logs/none") is None
    assert listed.read_start("b/logs/none", 3) is None
    for path in ("b/logs/t-0/c.log", "b/logs/t-0"):
        with pytest.raises(FileNotFoundError):
            listed.size(path)
        with pytest.raises(FileNotFoundError):
            listed.open_input(path)
    assert store.requests == {"list": 2}


def test_what_no_listing_told_is_asked_for(store: ObjectStore, listed: StorageAsListed) -> None:
    assert listed.exists("b/logs/t-0/a.log")
    assert listed.size("b/logs/t-0/a.log") == 3
    assert not listed.is_directory("b/other")
    assert store.requests == {"head": 2, "list": 1}


def test_names_are_listed_again_each_time_but_the_first(
    store: ObjectStore, listed: StorageAsListed
) -> None:
    assert listed.is_directory("b/logs/t-0")
    assert len(listed.list_names("b/logs/t-0")) == 2
    store.objects["b/logs/t-0/c.log"] = b"new"
    assert not listed.exists("b/logs/t-0/c.log")
    assert len(listed.list_names("b/logs/t-0")) == 3
    assert listed.size("b/logs/t-0/c.log") == 3
    assert store.requests == {"list": 2}


def test_sizes_of_some_files_travel_to_a_task() -> None:
    storage, folder = resolve_storage("memory://logs/t-0")
    assert isinstance(storage, FarStorage)
    known = StorageAsListed(storage, {folder: {"a.log": 3, "c.log": 1}})
    narrowed = known.narrowed(folder, ["a.log", "b.log"])
    copy = pickle.loads(pickle.dumps(narrowed))
    assert copy == narrowed
    assert copy.size(f"{folder}/a.log") == 3
    assert not copy.exists(f"{folder}/b.log")
    # Of others nothing is known: the storage, which has nothing, is asked.
    assert not copy.exists(f"{folder}/c.log")
    assert copy.narrowed(folder, ["c.log"]).read_file(f"{folder}/c.log") is None
    with pytest.raises(FileNotFoundError):
        copy.list_names(folder)
    assert not copy.exists(f"{folder}/a.log")


def test_a_file_that_is_opened_soon_is_fetched_before_it_is_read(
    store: ObjectStore, listed: StorageAsListed
) -> None:
    path = "b/logs/t-0/a.log"
    listed.list_names("b/logs/t-0")
    listed.open_soon(path)
    with listed.open_input(path) as file:
        assert file.read_at(0, 10) == b"abc"
    assert store.requests == {"list": 1, "head": 1, "get": 1}
    with listed.open_input(path) as file:
        assert file.read_at(1, 1) == b"b"
    assert store.requests["get"] == 1


def test_the_end_of_a_file_is_told_to_who_waits_for_it(listed: StorageAsListed) -> None:
    path = "b/logs/t-0/a.log"
    listed.list_names("b/logs/t-0")
    told: list[str] = []
    listed.call_at_end(path, lambda: told.append(path))
    for told_before in (0, 1):
        with listed.open_input(path) as file:
            assert len(told) == told_before
            file.read_at(0, 3)
    assert told == [path]


def test_a_small_file_is_read_once_a_listing(store: ObjectStore, listed: StorageAsListed) -> None:
    folder, path = "b/logs/t-0", "b/logs/t-0/a.log"
    listed.list_names(folder)
    for narrowed in (listed, listed.narrowed(folder, ["a.log"])):
        with narrowed.open_input(path) as file:
            assert file.read_at(0, 3) == b"abc"
    assert store.requests["get"] == 1
    store.objects[path] = b"xyz"
    listed.list_names(folder)
    with listed.open_input(path) as file:
        assert file.read_at(0, 3) == b"xyz"


def test_only_far_storages_have_work_for_threads_that_wait(listed: StorageAsListed) -> None:
    assert waiting_threads(LOCAL) == 1
    assert waiting_threads(listed) > 1
