"""What the model of a disk says of each call, beside what the system promises of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import LOCAL
from tests.support.fault_layer import FAILING, OPENING, Disk, Faults, Killed

OLD, NEW = b"old" * 700, b"new" * 900
SEEDS = range(30)


@contextmanager
def watched(folder: Path) -> Iterator[tuple[Disk, int]]:
    """Watch a folder that holds one synced file; gives its disk, and the file open for writing."""
    root, links = folder / "root", folder / "links"
    for made in (root, links):
        made.mkdir(parents=True)
    (root / "file").write_bytes(OLD)
    disk = Disk(root, links)
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, disk=disk)
        descriptor = files.open_for_update(str(root / "file"))
        try:
            yield disk, descriptor
        finally:
            os.close(descriptor)


def names_and_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "root").iterdir()}


def bytes_after(folder: Path, change: Callable[[int], None], data: str) -> set[bytes]:
    """Give all that a power cut may leave of a change to the file."""
    found = set()
    for seed in SEEDS:
        with watched(folder / str(seed)) as (disk, descriptor):
            change(descriptor)
        disk.lose_power(seed, names="kept", data=data)
        found.add(names_and_bytes(folder / str(seed))["file"])
    return found


def append_new(descriptor: int) -> None:
    files.write_all(descriptor, NEW, len(OLD))


def cut_to_ten(descriptor: int) -> None:
    files.truncate(descriptor, 10)


def reserve(descriptor: int) -> None:
    files.allocate(descriptor, 3 * len(OLD))


def copy_itself(descriptor: int) -> None:
    files.copy_range(
        descriptor, descriptor, source_position=0, target_position=len(OLD), length=len(OLD)
    )


def begin_writeback(descriptor: int) -> None:
    append_new(descriptor)
    files.start_writeback(descriptor, 0, len(OLD) + len(NEW))


CHANGES = [append_new, cut_to_ten, reserve, copy_itself, begin_writeback]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_synced_is_undone_or_half_done(
    tmp_path: Path, change: Callable[[int], None]
) -> None:
    assert bytes_after(tmp_path / "lost", change, "lost") == {OLD}
    (done,) = bytes_after(tmp_path / "kept", change, "kept")
    assert done != OLD
    half = bytes_after(tmp_path / "torn", change, "torn")
    assert any(
        min(len(OLD), len(done)) < len(content) < max(len(OLD), len(done)) for content in half
    )


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("data", ["lost", "torn"])
def test_what_is_synced_lasts(tmp_path: Path, change: Callable[[int], None], data: str) -> None:
    def synced(descriptor: int) -> None:
        change(descriptor)
        files.fsync(descriptor)

    assert bytes_after(tmp_path / "synced", synced, data) == bytes_after(
        tmp_path / "kept", change, "kept"
    )


def test_a_folder_has_its_new_name_once_the_one_above_is_synced(tmp_path: Path) -> None:
    for is_synced in (False, True):
        folder = tmp_path / str(is_synced)
        with watched(folder) as (disk, _):
            root = folder / "root"
            for name in ("new", "made"):
                files.mkdir(str(root / name))
            descriptor = files.create_exclusive(str(root / "made" / "inside"))
            os.close(descriptor)
            for synced in (root / "made", root / "new", root):
                files.fsync_directory(str(synced))
            files.rename(str(root / "made"), str(root / "new"))
            if is_synced:
                files.fsync_directory(str(root))
        disk.lose_power(0, names="lost", data="kept")
        found = {str(path.relative_to(root)) for path in root.rglob("*")}
        whole = {"file", "new", "new/inside"}
        assert found == (whole if is_synced else {"file", "new", "made", "made/inside"})


def test_a_rename_is_undone_until_its_folder_is_synced(tmp_path: Path) -> None:
    for is_synced in (False, True):
        folder = tmp_path / str(is_synced)
        with watched(folder) as (disk, _):
            files.rename(str(folder / "root" / "file"), str(folder / "root" / "renamed"))
            if is_synced:
                files.fsync_directory(str(folder / "root"))
        disk.lose_power(0, names="lost", data="kept")
        assert names_and_bytes(folder) == {"renamed" if is_synced else "file": OLD}


def test_names_may_last_up_to_a_point_in_time_and_none_after_it(tmp_path: Path) -> None:
    seen = set()
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        with watched(folder) as (disk, _):
            for name in ("one", "two", "three"):
                os.close(files.create_exclusive(str(folder / "root" / name)))
            files.unlink(str(folder / "root" / "file"))
        disk.lose_power(seed, names="cut", data="kept")
        seen.add(tuple(sorted(names_and_bytes(folder))))
    assert seen == {
        ("file",),
        ("file", "one"),
        ("file", "one", "two"),
        ("file", "one", "three", "two"),
        ("one", "three", "two"),
    }


def test_what_went_last_comes_back_with_its_bytes(tmp_path: Path) -> None:
    with watched(tmp_path) as (disk, _):
        files.unlink(str(tmp_path / "root" / "file"))
    disk.lose_power(0, names="lost", data="lost")
    assert names_and_bytes(tmp_path) == {"file": OLD}


def test_a_process_that_dies_does_an_operation_by_half(tmp_path: Path) -> None:
    for change, size_bytes in (
        (append_new, len(OLD) + len(NEW) // 2),
        (reserve, 3 * len(OLD) // 2),
    ):
        path = tmp_path / change.__name__
        path.write_bytes(OLD)
        descriptor = os.open(path, os.O_RDWR)
        with pytest.MonkeyPatch.context() as patch:
            Faults(patch, kill_at=0, tear=True)
            with pytest.raises(Killed):
                change(descriptor)
        os.close(descriptor)
        assert path.stat().st_size == size_bytes


def test_an_error_comes_once_or_from_then_on_and_only_where_it_can(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    for is_lasting, failures in ((False, 1), (True, 2)):
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, fail_at=0, error_code=errno.EMFILE, is_lasting=is_lasting)
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                files.open_for_update(path, create=True)
            files.unlink(path, missing_ok=True)
            with suppress(OSError):
                assert LOCAL.read_file(path) is None
        assert faults.failed == failures
    assert "unlink" in FAILING
    assert "unlink" not in OPENING
