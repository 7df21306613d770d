"""Stands in for the file operations of the library: kills, fails, and loses what was not synced.

`Faults` counts every operation that goes through `log.files`. At one of them the process "dies":
a `Killed` is raised, there and at every later operation, so that nothing that cleanup code does
on its way out takes place (but closing, which a dying process does too). Or the operation fails
with an error code, once, as a full or broken disk does.

`Disk` remembers, beside that, what a power cut would leave: for each file its bytes at the last
sync, for each folder its names at the last sync. It keeps a second link to every file, so that
one whose name is lost, or whose removal is, comes back as the same file.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log import files

OPERATIONS = (
    "create_exclusive",
    "open_for_update",
    "write_all",
    "fsync",
    "fsync_directory",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "truncate",
    "allocate",
    "copy_range",
)
SECTOR_BYTES = 512
FOLDER = -1


class Killed(BaseException):
    """The process is gone."""


class Faults:
    """Counts operations and lets one of them go wrong.

    Parameters
    ----------
    monkeypatch : pytest.MonkeyPatch
    kill_at : int, optional
        Number of the operation before which the process dies; -1 for none.
    fail_at : int, optional
        Number of the operation that fails with `error_code`.
    tear : bool
        Whether the operation at which it dies, if it writes, is done by half.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        kill_at: int = -1,
        fail_at: int = -1,
        error_code: int = errno.EIO,
        tear: bool = False,
        disk: Disk | None = None,
    ) -> None:
        self.count = 0
        self.is_dead = False
        self.names: list[str] = []
        self._kill_at = kill_at
        self._fail_at = fail_at
        self._error_code = error_code
        self._tear = tear
        self._disk = disk
        for name in OPERATIONS:
            monkeypatch.setattr(files, name, self._wrapped(name, getattr(files, name)))

    def _wrapped(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*arguments: Any, **keywords: Any) -> Any:
            number = self.count
            self.count += 1
            self.names.append(name)
            if self.is_dead or number == self._kill_at:
                if not self.is_dead and self._tear:
                    _do_by_half(name, operation, arguments, keywords)
                self.is_dead = True
                raise Killed(f"at operation {number}, {name}")
            if number == self._fail_at:
                if self._error_code == errno.ENOSPC:
                    _do_by_half(name, operation, arguments, keywords)
                raise OSError(self._error_code, os.strerror(self._error_code), name)
            if self._disk is not None:
                self._disk.before(name, arguments)
            result = operation(*arguments, **keywords)
            if self._disk is not None:
                self._disk.after(name, arguments, result)
            return result

        return stand_in


def _do_by_half(
    name: str, operation: Callable[..., Any], arguments: Any, keywords: dict[str, Any]
) -> None:
    if name == "write_all":
        descriptor, data, position = arguments
        half = memoryview(data).cast("B")
        operation(descriptor, half[: len(half) // 2], position)
    elif name == "copy_range":
        operation(*arguments, **{**keywords, "length": keywords["length"] // 2})


class Disk:
    """What of a folder would be there after a power cut.

    Parameters
    ----------
    root : path
        Everything in it counts as synced at first.
    links : path
        An empty folder on the same file system, for second links.
    """

    def __init__(self, root: Path, links: Path) -> None:
        self._root = root
        self._links = links
        self._synced_bytes: dict[int, bytes] = {}
        self._synced_names: dict[str, dict[str, int]] = {}
        for folder, _, names in os.walk(root):
            self._sync_names(folder)
            for name in names:
                path = os.path.join(folder, name)
                self._keep(path)
                self._synced_bytes[os.stat(path).st_ino] = Path(path).read_bytes()

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Look at an operation that is about to be done."""

    def synced_names(self, folder: str) -> dict[str, int]:
        """Give the names of a folder that last."""
        return self._synced_names.get(folder, {})

    def has_synced_bytes(self, path: str) -> bool:
        """Tell whether a file's bytes last."""
        synced = self._synced_bytes.get(os.stat(path).st_ino, b"")
        return synced == Path(path).read_bytes()

    def lasts(self, path: str) -> bool:
        """Tell whether a file lasts under its name, with its bytes."""
        folder, name = os.path.split(path)
        is_named = self.synced_names(folder).get(name) == os.stat(path).st_ino
        return is_named and self.has_synced_bytes(path)

    def after(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Take note of an operation that was done."""
        if name in ("create_exclusive", "open_for_update"):
            self._keep(arguments[0])
        elif name == "fsync":
            inode = os.fstat(arguments[0]).st_ino
            self._synced_bytes[inode] = Path(f"/proc/self/fd/{arguments[0]}").read_bytes()
        elif name == "fsync_directory":
            self._sync_names(arguments[0])

    def lose_power(self, seed: int, *, names: str, data: str) -> None:
        """Leave the folder as a power cut would.

        Parameters
        ----------
        seed : int
        names : {"lost", "kept"}
            Whether names that were made, changed or removed without a sync of the folder are lost.
        data : {"lost", "kept", "torn"}
            Whether bytes that were not synced are lost, or some of their sectors, or none.
        """
        chance = random.Random(seed)
        if names == "lost":
            tree = self._synced_names
        else:
            tree = {folder: _names_in(folder) for folder, _, _ in os.walk(self._root)}
        contents = {inode: self._contents(inode, data, chance) for inode in self._inodes()}
        self._clear()
        self._restore(str(self._root), tree, contents)

    def _restore(
        self, folder: str, tree: dict[str, dict[str, int]], contents: dict[int, bytes]
    ) -> None:
        for name, inode in sorted(tree.get(folder, {}).items()):
            path = os.path.join(folder, name)
            if inode != FOLDER:
                os.link(self._links / str(inode), path)
                Path(path).write_bytes(contents[inode])
            else:
                os.mkdir(path)
                self._restore(path, tree, contents)

    def _contents(self, inode: int, data: str, chance: random.Random) -> bytes:
        current = (self._links / str(inode)).read_bytes()
        synced = self._synced_bytes.get(inode, b"")
        if data == "kept":
            return current
        if data == "lost":
            return synced
        size = chance.randint(min(len(synced), len(current)), max(len(synced), len(current)))
        sectors = []
        for start in range(0, size, SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, size)
            source = chance.choice((current, synced))
            sectors.append(source[start:end].ljust(end - start, b"\0"))
        return b"".join(sectors)

    def _inodes(self) -> list[int]:
        return [int(name) for name in os.listdir(self._links)]

    def _keep(self, path: str) -> None:
        link = self._links / str(os.stat(path).st_ino)
        if not link.exists():
            os.link(path, link)

    def _sync_names(self, folder: str) -> None:
        self._synced_names[folder] = _names_in(folder)

    def _clear(self) -> None:
        for folder, folders, names in os.walk(self._root, topdown=False):
            for name in names:
                os.unlink(os.path.join(folder, name))
            for name in folders:
                os.rmdir(os.path.join(folder, name))


def _names_in(folder: str) -> dict[str, int]:
    """Give the names in a folder, each with its inode, or `FOLDER`."""
    with os.scandir(folder) as entries:
        return {entry.name: FOLDER if entry.is_dir() else entry.inode() for entry in entries}
