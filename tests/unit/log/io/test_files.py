"""The writing half of the file operations: short writes, copies, replacement as a whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.commit import commit_staged_batches
from tests.support.scenarios import Writing, assert_sound, read_rows, stage


def open_new(path: Path) -> int:
    return files.create_exclusive(str(path))


def forget_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no system call that only Linux has."""
    monkeypatch.setattr(files, "_find_call", lambda *arguments: None)


def test_write_all_goes_on_after_short_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:7], at))
    descriptor = open_new(tmp_path / "file")
    files.write_all(descriptor, bytes(range(100)), 3)
    files.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"\0\0\0" + bytes(range(100))


def test_write_all_refuses_a_write_that_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)
    descriptor = open_new(tmp_path / "file")
    with pytest.raises(OSError, match="took none of"):
        files.write_all(descriptor, b"data", 0)
    files.close(descriptor)


def test_create_exclusive_refuses_a_file_that_is_there(tmp_path: Path) -> None:
    files.close(open_new(tmp_path / "file"))
    with pytest.raises(FileExistsError):
        open_new(tmp_path / "file")


@pytest.mark.parametrize("inside", [True, False], ids=["in the file system", "through memory"])
def test_copy_range_copies_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    def short(*arguments: int) -> int:
        if not inside:
            raise OSError(errno.EXDEV, "other file system")
        source, target, length, source_position, target_position = arguments
        return copy(source, target, min(length, 1000), source_position, target_position)

    copy = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", short)
    monkeypatch.setattr(files, "COPY_CHUNK_BYTES", 999)
    data = os.urandom(10_000)
    (tmp_path / "source").write_bytes(data)
    source, target = files.open_for_update(str(tmp_path / "source")), open_new(tmp_path / "target")
    files.write_all(target, b"head", 0)
    files.copy_range(source, target, source_position=50, target_position=4, length=9000)
    assert (tmp_path / "target").read_bytes() == b"head" + data[50:9050]
    with pytest.raises(OSError, match="early"):
        files.copy_range(source, target, source_position=5000, target_position=0, length=5001)
    files.close(source)
    files.close(target)


def test_copy_range_passes_a_full_disk_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "copy_file_range", full)
    (tmp_path / "source").write_bytes(b"data")
    source, target = files.open_for_update(str(tmp_path / "source")), open_new(tmp_path / "target")
    with pytest.raises(OSError, match="full"):
        files.copy_range(source, target, source_position=0, target_position=0, length=4)
    files.close(source)
    files.close(target)


def test_write_atomically_keeps_the_old_file_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    files.write_atomically(str(path), b"old and long")
    files.write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(files, "fsync", broken)
    with pytest.raises(OSError, match="broken"):
        files.write_atomically(str(path), b"newest")
    assert path.read_bytes() == b"new"
    files.write_atomically(str(path), b"newest", durable=False)
    assert path.read_bytes() == b"newest"


def test_missing_names_are_an_error_unless_they_may_be_missing(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for operation in (files.unlink, files.rmdir):
        with pytest.raises(FileNotFoundError):
            operation(missing)
        operation(missing, missing_ok=True)
    files.mkdir(missing)
    with pytest.raises(FileExistsError):
        files.mkdir(missing)
    files.mkdir(missing, exist_ok=True)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        files.mkdir(str(tmp_path / "file"), exist_ok=True)


@pytest.mark.parametrize("has_call", [True, False])
def test_hints_to_the_system_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_call: bool
) -> None:
    if not has_call:
        forget_hints(monkeypatch)
    descriptor = open_new(tmp_path / "file")
    try:
        files.write_all(descriptor, b"12", 0)
        files.lay_out(descriptor, 2, 1 << 20)
        files.lay_out(descriptor, 2, 1 << 62)
        files.write_all(descriptor, b"345", 2)
        files.start_writeback(descriptor, 0, 5)
        files.start_writeback(descriptor, 100, 5)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"12345"


@pytest.mark.parametrize("taken", ["posix_fallocate", "copy_file_range", "SEEK_DATA"])
def test_a_commit_does_without_what_only_some_systems_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    monkeypatch.delattr(os, taken)
    forget_hints(monkeypatch)
    directory = tmp_path / "log"
    directory.mkdir()
    counts = {TopicPartition("t", 0): 40}
    for _ in range(2):
        commit_staged_batches(stage([str(directory)], [Writing(counts), Writing(counts)]))
    assert len(read_rows([str(directory)])[TopicPartition("t", 0)]) == 160
    assert_sound([str(directory)])


def test_without_fallocate_a_full_disk_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    descriptor = files.create_exclusive(str(tmp_path / "file"))
    try:
        files.allocate(descriptor, 4096)
        with pytest.raises(OSError, match="No space left on device"):
            files.allocate(descriptor, 2**62)
    finally:
        files.close(descriptor)


def test_a_descriptor_is_closed_after_a_block_that_fails_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with (
        pytest.raises(ZeroDivisionError),
        files.closed_after(files.create_exclusive(str(path))) as descriptor,
    ):
        raise ZeroDivisionError
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_is_cut_off_or_made_empty(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    files.cut(str(path), 2)
    assert path.read_bytes() == b"12"
    files.cut(str(tmp_path / "new"), 0, create=True)
    assert (tmp_path / "new").read_bytes() == b""
