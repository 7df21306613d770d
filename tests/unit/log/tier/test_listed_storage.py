"""What a listing told is not asked for again."""

from __future__ import annotations

import pytest

from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.tier.listed_storage import ListedFolders, ListedObjects
from spark_segmentlog.log.tier.remote_segment import SegmentPlace
from tests.support.object_store import ObjectStore


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore({"bucket/t/0/1.log": b"abcdef", "bucket/t/0/1.index": b"", "bucket/x": b""})


def test_objects_of_a_listed_size_are_read_without_asking_for_it(store: ObjectStore) -> None:
    inner, _ = resolve_storage("bucket", store.fsspec_filesystem())
    place = SegmentPlace(0, "bucket/t/0/1", {".log": 6, ".index": 0})
    storage = ListedObjects(inner, place)
    with storage.open_input("bucket/t/0/1.log", reads_blocks=False) as file:
        assert file.size() == 6
        assert file.read_at(4, 10) == b"ef"
    assert storage.read_file("bucket/t/0/1.index") == b""
    assert (storage.size("bucket/t/0/1.log"), storage.exists("bucket/t/0/1.log")) == (6, True)
    assert store.requests == {"get": 1}


def test_of_other_objects_the_storage_is_asked(store: ObjectStore) -> None:
    inner, _ = resolve_storage("bucket", store.fsspec_filesystem())
    storage = ListedObjects(inner, SegmentPlace(0, "bucket/t/0/1", {".log": 6}))
    assert storage.size("bucket/x") == 0
    assert not storage.exists("bucket/t/0/1.snapshot")
    with pytest.raises(FileNotFoundError):
        storage.open_input("bucket/t/0/1.snapshot")


def test_folders_are_listed_once(store: ObjectStore) -> None:
    inner, _ = resolve_storage("bucket", store.fsspec_filesystem())
    folders = ListedFolders(inner)
    for _ in range(2):
        assert folders.list_directories("bucket/") == (["t"], ["x"])
        assert folders.is_directory("bucket/t")
        assert not folders.is_directory("bucket/x")
        assert not folders.is_directory("bucket/kafka-tiered-storage")
        with pytest.raises(FileNotFoundError):
            folders.list_directories("bucket/u")
    assert store.requests == {"list": 2}


def test_what_was_listed_before_is_taken_over(store: ObjectStore) -> None:
    inner, _ = resolve_storage("bucket", store.fsspec_filesystem())
    folders = ListedFolders(inner)
    folders.know("bucket", ["t"])
    assert folders.is_directory("bucket/")
    assert folders.list_directories("bucket")[0] == ["t"]
    assert store.requests == {}
