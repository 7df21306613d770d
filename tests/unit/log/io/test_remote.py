"""The local disk and other file systems read alike."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem as FsspecLocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry
from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import LogPathNotFoundError
from spark_segmentlog.log.io.after_changes import StorageAfterChanges
from spark_segmentlog.log.io.reading import LOCAL, Storage, is_zero_from
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.io.storage_options import StorageOptions
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from tests.support.reading import batch, column, offsets, scan_options


@pytest.fixture
def remote(tmp_path: Path) -> SubTreeFileSystem:
    """The same folder through pyarrow, which knows nothing of the local paths."""
    return SubTreeFileSystem(str(tmp_path), LocalFileSystem())


def _named(kind: str, path: Path, remote: SubTreeFileSystem, name: str) -> tuple[Storage, str]:
    if kind == "local":
        return LOCAL, str(path / name)
    if kind == "fsspec":
        return resolve_storage(str(path / name), fsspec.filesystem("file"))
    return resolve_storage(name, remote)


@pytest.mark.parametrize("kind", ["local", "remote", "fsspec"])
def test_reads_at_positions_give_fewer_bytes_only_at_the_end(
    tmp_path: Path, remote: SubTreeFileSystem, kind: str
) -> None:
    data = bytes(range(256)) * 40_000
    (tmp_path / "x").write_bytes(data)
    storage, path = _named(kind, tmp_path, remote, "x")
    buffer = np.zeros(100_000, np.uint8)
    with storage.open_input(path) as file:
        assert file.size() == len(data)
        for position in (0, 4_194_304 - 10, 5_000_000, 8_388_608, len(data) - 50):
            assert file.read_at(position, 100) == data[position : position + 100]
            count = file.pread_into(buffer, position, 100_000)
            assert bytes(buffer[:count]) == data[position : position + 100_000]
        assert file.read_at(len(data), 10) == b""
        assert file.pread_into(buffer, len(data) + 5, 10) == 0


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_zeros_to_the_end_are_told_from_data(
    tmp_path: Path, remote: SubTreeFileSystem, kind: str
) -> None:
    (tmp_path / "x").write_bytes(b"a" + bytes(3_000_000) + b"b" + bytes(2_000_000))
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40 if kind == "local" else 1 << 22)
    for name, position, expected in [
        ("x", 0, False),
        ("x", 1, False),
        ("x", 3_000_002, True),
        ("x", 5_000_002, True),
        ("sparse", 0, True),
    ]:
        storage, path = _named(kind, tmp_path, remote, name)
        with storage.open_input(path) as file:
            assert is_zero_from(file, position) is expected, (name, position)


def test_a_missing_file_is_none_or_file_not_found(
    tmp_path: Path, remote: SubTreeFileSystem
) -> None:
    for kind in ("local", "remote", "fsspec"):
        storage, path = _named(kind, tmp_path, remote, "x")
        assert storage.read_file(path) is None
        assert storage.read_start(path, 10) is None
        assert not storage.exists(path)
        assert not storage.is_directory(path)
        with pytest.raises(FileNotFoundError):
            storage.open_input(path)
        with pytest.raises(FileNotFoundError):
            storage.size(path)


def test_a_log_is_read_through_another_file_system(
    tmp_path: Path, remote: SubTreeFileSystem
) -> None:
    builder = LogBuilder(tmp_path / "logs")
    builder.partition("t", 0, [[batch(0, 5)], SegmentSpec([batch(5, 5)], tail=bytes(5000))])
    builder.partition("t", 1, [[batch(0, 2)]])
    builder.log_start_offsets({("t", 0): 3})
    manager = LogManager.open("logs", filesystem=remote)
    logs = list(manager.topic_partitions.values())
    assert [offsets(log) for log in logs] == [[3, 4, 5, 6, 7, 8, 9], [0, 1]]
    assert offsets(logs[0], min_ms=1, committed=True) == [3, 4, 5, 6, 7, 8, 9]
    segment = pickle.loads(pickle.dumps(logs[0].segments[1]))
    assert column(scan_segments([segment], scan_options(start=6, end=9)), "offset") == [6, 7, 8]
    (log,) = LogManager.open("logs/t-0/*.log", filesystem=remote).topic_partitions.values()
    assert offsets(log) == [3, 4, 5, 6, 7, 8, 9]
    names = LogManager.open("l*/t-*", filesystem=remote).topic_partitions
    assert [str(name) for name in names] == ["t-0", "t-1"]
    with pytest.raises(LogPathNotFoundError):
        LogManager.open("nothing", filesystem=remote)


@pytest.mark.parametrize("kind", ["local", "remote", "fsspec"])
def test_folders_are_listed_alike(tmp_path: Path, remote: SubTreeFileSystem, kind: str) -> None:
    (tmp_path / "top" / "inner").mkdir(parents=True)
    (tmp_path / "top" / "file").write_bytes(b"abc")
    storage, path = _named(kind, tmp_path, remote, "top")
    assert sorted(storage.list_names(path)) == ["file", "inner"]
    assert storage.list_directories(path) == (["inner"], ["file"])
    assert storage.list_sizes(path)["file"] == (None if kind == "local" else 3)
    assert storage.is_directory(f"{path}/inner")
    assert not storage.is_directory(f"{path}/file")
    assert storage.exists(f"{path}/file")
    assert storage.size(f"{path}/file") == 3
    assert storage.read_file(f"{path}/file") == b"abc"
    assert storage.read_start(f"{path}/file", 2) == b"ab"
    with pytest.raises(FileNotFoundError):
        storage.list_names(f"{path}/nothing")


def test_what_fsspec_keeps_of_a_folder_is_listed_again(tmp_path: Path) -> None:
    asked = []

    class Keeping(FsspecLocalFileSystem):  # type: ignore[misc]
        cachable = False

        def invalidate_cache(self, path: str | None = None) -> None:
            asked.append(path)

    storage, path = resolve_storage(str(tmp_path), Keeping())
    assert storage.list_names(path) == []
    assert asked == [path]


def test_a_storage_over_another_takes_a_path_as_it_is() -> None:
    storage = StorageAfterChanges(LOCAL, {})
    assert resolve_storage("s3://x", storage) == (storage, "s3://x")


def test_an_fsspec_file_system_within_pyarrow_is_read_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    local = fsspec.filesystem("file")
    wrapped = PyFileSystem(FSSpecHandler(local))
    assert resolve_storage("x", wrapped) == resolve_storage("x", local)


def test_a_scheme_that_nothing_knows_is_our_error() -> None:
    with pytest.raises(LogPathNotFoundError, match="no file system is known for its scheme"):
        LogManager.open("nonsense://bucket/logs")


def test_relative_paths_are_read_from_wherever_the_task_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path / "logs").partition("t", 0, [[batch(0, 3)]])
    monkeypatch.chdir(tmp_path)
    (log,) = LogManager.open("logs").topic_partitions.values()
    segments = list(log.segments)
    monkeypatch.chdir("/")
    assert os.path.isabs(segments[0].log_path)
    assert column(scan_segments(segments, scan_options()), "offset") == [0, 1, 2]


@pytest.mark.parametrize("path", ["memory://logs", "memory:///logs/t-0", "memory://logs/t-*/*.log"])
def test_registered_fsspec_schemes_are_read(path: str, tmp_path: Path) -> None:
    batches = [v2_batch([RecordSpec(value=b"v")] * 3), v2_batch([RecordSpec()], base_offset=3)]
    LogBuilder(tmp_path).partition("t", 0, [[batch] for batch in batches])
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/logs", recursive=True)
    try:
        assert read_arrow(path).read_all()["offset"].to_pylist() == [0, 1, 2, 3]
    finally:
        memory.rm("/logs", recursive=True)


def test_settings_are_for_the_file_system_of_fsspec_where_pyarrow_knows_the_scheme_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Noting(MemoryFileSystem):  # type: ignore[misc]
        given: ClassVar[list[str]] = []

        def __init__(self, token: str, **others: object) -> None:
            super().__init__(**others)
            self.given.append(token)

    monkeypatch.setitem(_registry, "gs", Noting)
    storage, _ = resolve_storage("gs://bucket/logs", StorageOptions(settings=(("token", "anon"),)))
    assert Noting.given == ["anon"]
    assert storage == resolve_storage("/logs", fsspec.filesystem("gs", token="anon"))[0]
