"""A bucket through obstore, kept in memory."""

from __future__ import annotations

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from spark_segmentlog.errors import LogPermissionError
from spark_segmentlog.log.io.object_store import ObjectStorage


@pytest.fixture
def storage() -> ObjectStorage:
    store = MemoryStore()
    for key in ("logs/t-0/a.log", "logs/t-0/empty", "logs/mark", "logs/bucket/x"):
        obstore.put(store, key, b"" if key.endswith("empty") else b"0123456789")
    return ObjectStorage(store, "bucket")


def test_folders_and_objects_are_told_apart(storage: ObjectStorage) -> None:
    assert storage.list_sizes("bucket") == {"logs": None}
    assert storage.list_sizes("bucket/logs/") == {"t-0": None, "bucket": None, "mark": 10}
    assert storage.list_sizes("bucket/logs/bucket") == {"x": 10}
    assert storage.list_directories("bucket/logs")[1] == ["mark"]
    assert storage.list_sizes("bucket/logs/t-0") == {"a.log": 10, "empty": 0}
    assert storage.is_directory("bucket/logs/t-0")
    assert not storage.is_directory("bucket/logs/mark")
    assert [storage.exists(f"bucket/logs/{name}") for name in ("t-0", "mark", "none")] == [
        True,
        True,
        False,
    ]
    with pytest.raises(FileNotFoundError):
        storage.list_sizes("bucket/none")


def test_objects_are_read_at_positions(storage: ObjectStorage) -> None:
    path = "bucket/logs/t-0/a.log"
    for size in (None, 10):
        with storage.open_input(path, size=size) as file:
            assert (file.size(), file.read_at(3, 4), file.read_at(8, 9)) == (10, b"3456", b"89")
    assert storage.read_file(path) == storage.read_start(path, 100) == b"0123456789"
    assert storage.read_start(path, 4) == b"0123"
    assert storage.read_file("bucket/logs/t-0/empty") == b""
    assert storage.read_start("bucket/logs/t-0/empty", 4) == b""


def test_an_object_that_is_not_there_is_none_or_file_not_found(storage: ObjectStorage) -> None:
    path = "bucket/logs/none"
    assert storage.read_file(path) is None
    assert storage.read_start(path, 4) is None
    for ask in (storage.size, storage.open_input):
        with pytest.raises(FileNotFoundError):
            ask(path)
    with storage.open_input(path, size=10) as file, pytest.raises(FileNotFoundError):
        file.read_at(0, 10)


def test_a_request_that_fails_names_the_path_in_one_line(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(error: Exception) -> None:
        def head(*_: object) -> None:
            raise error

        monkeypatch.setattr(obstore, "head", head)

    fail(GenericError("Generic S3 error: 503 Slow Down\nDebug source:\nmuch more"))
    with pytest.raises(OSError, match=r"^bucket/logs/mark: Generic S3 error: 503 Slow Down$"):
        storage.size("bucket/logs/mark")
    fail(GenericError("Server returned 404: <Code>NoSuchBucket</Code>"))
    with pytest.raises(FileNotFoundError):
        storage.size("bucket/logs/mark")
    fail(PermissionError("Access denied"))
    with pytest.raises(LogPermissionError, match="no permission to read bucket/logs/mark"):
        storage.size("bucket/logs/mark")
