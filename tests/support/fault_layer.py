"""Stands in for the file operations of the library: kills, fails, and loses what was not synced.

`Faults` counts every operation that goes through `log.io.files`. At one of them the process "dies":
a `Killed` is raised, there and at every later operation, so that nothing that cleanup code does
on its way out takes place (but closing, which a dying process does too). Or the operation fails
with an error code, once, as a full or broken disk does.

`Disk` remembers, beside that, what a power cut would leave: for each file its bytes at the last
sync, for each folder its names at the last sync and after every change since. It keeps a second
link to every file, so that one whose name is lost, or whose removal is, comes back as the same
file. What a file was cut by, or had reserved, is bytes like any others: it lasts with a sync, and
is else undone or half done. That the system was told to begin writing (`start_writeback`), or to
find blocks for what comes (`lay_out`), makes nothing last.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import LOCAL

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
    "set_modified_time",
    "start_writeback",
    "lay_out",
)
# Each opens a file, which a process with too many of them cannot.
OPENING_READS = ("open_plain_file", "open_input", "read_file", "read_start")
OPENING = ("create_exclusive", "open_for_update", "fsync_directory", *OPENING_READS)
TAKING_ROOM = (
    *("create_exclusive", "open_for_update", "write_all", "fsync", "fsync_directory", "rename"),
    *("mkdir", "allocate", "copy_range"),
)
# Their errors nobody sees.
HINTS = ("start_writeback", "lay_out")
FAILING = tuple(name for name in OPERATIONS if name not in HINTS)
# Where each error of the system comes from.
SOURCES = {
    errno.ENOSPC: TAKING_ROOM,
    errno.EDQUOT: TAKING_ROOM,
    errno.EIO: FAILING,
    errno.EROFS: FAILING,
    errno.EMFILE: OPENING,
    errno.EXDEV: ("rename",),
}
# Which of them change names, and how many of their arguments are paths.
RENAMING = {
    "create_exclusive": 1,
    "open_for_update": 1,
    "rename": 2,
    "unlink": 1,
    "mkdir": 1,
    "rmdir": 1,
}
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
        Number of the operation that fails with `error_code`, or the next that can.
    is_lasting : bool
        Whether all later ones fail too, as on a disk that stays full or was mounted again.
    tear : bool
        Whether the operation at which it dies, if it writes, is done by half.
    disk : Disk, optional
        Is told of all that is done.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        kill_at: int = -1,
        fail_at: int = -1,
        error_code: int = errno.EIO,
        is_lasting: bool = False,
        tear: bool = False,
        disk: Disk | None = None,
    ) -> None:
        self.count = 0
        self.failed = 0
        self.is_dead = False
        self.names: list[str] = []
        self._kill_at = kill_at
        self._fail_at = fail_at
        self._error_code = error_code
        self._sources = SOURCES[error_code]
        self._is_lasting = is_lasting
        self._tear = tear
        self._disk = disk
        for name in OPERATIONS:
            monkeypatch.setattr(files, name, self._wrapped(name, getattr(files, name)))
        if error_code == errno.EMFILE:
            self._wrap_reads(monkeypatch)

    def _wrap_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in OPENING_READS:
            place = files if hasattr(files, name) else type(LOCAL)
            monkeypatch.setattr(place, name, self._wrapped(name, getattr(place, name)))

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
            if self._fails(number, name):
                self.failed += 1
                if self._error_code in (errno.ENOSPC, errno.EDQUOT):
                    _do_by_half(name, operation, arguments, keywords)
                raise OSError(self._error_code, os.strerror(self._error_code), name)
            if self._disk is not None:
                self._disk.before(name, arguments)
            result = operation(*arguments, **keywords)
            if self._disk is not None:
                self._disk.after(name, arguments, result)
            return result

        return stand_in

    def _fails(self, number: int, name: str) -> bool:
        if self._fail_at < 0 or name not in self._sources:
            return False
        return number >= self._fail_at and (self._is_lasting or self.failed == 0)


def _do_by_half(
    name: str, operation: Callable[..., Any], arguments: Any, keywords: dict[str, Any]
) -> None:
    if name == "write_all":
        descriptor, data, position = arguments
        half = memoryview(data).cast("B")
        operation(descriptor, half[: len(half) // 2], position)
    elif name == "copy_range":
        operation(*arguments, **{**keywords, "length": keywords["length"] // 2})
    elif name == "allocate":
        descriptor, size_bytes = arguments
        operation(descriptor, size_bytes // 2)


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
        # Of a folder, each change since its last sync: what it held from which change on.
        self._changes: dict[str, list[tuple[int, dict[str, int]]]] = {}
        # Folders that were renamed since the last sync of the one that they stand in.
        self._moved: dict[str, list[tuple[str, str]]] = {}
        self._change_count = 0
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
            for source, target in self._moved.pop(arguments[0], []):
                self._take_over(source, target)
        if name in RENAMING:
            self._change_count += 1
            for folder in {os.path.dirname(path) for path in arguments[: RENAMING[name]]}:
                changes = self._changes.setdefault(folder, [])
                changes.append((self._change_count, _names_in(folder)))
        if name == "rename" and os.path.isdir(arguments[1]):
            self._moved.setdefault(os.path.dirname(arguments[1]), []).append(arguments[:2])
            for folder, _, _ in os.walk(arguments[1]):
                self._changes[folder] = [(self._change_count, _names_in(folder))]

    def lose_power(self, seed: int, *, names: str, data: str) -> None:
        """Leave the folder as a power cut would.

        Parameters
        ----------
        seed : int
        names : {"lost", "kept", "cut"}
            Whether names that were made, changed or removed without a sync of the folder are lost;
            "cut": those after some point in time are, as of a file system with a journal.
        data : {"lost", "kept", "torn"}
            Whether bytes that were not synced are lost, or some of their sectors, or none.
        """
        chance = random.Random(seed)
        if names == "lost":
            tree = self._synced_names
        elif names == "cut":
            tree = self._names_at(chance.randint(0, self._change_count))
        else:
            tree = {folder: _names_in(folder) for folder, _, _ in os.walk(self._root)}
        contents = {inode: self._contents(inode, data, chance) for inode in self._inodes()}
        self._clear()
        self._restore(str(self._root), tree, contents)

    def _names_at(self, change: int) -> dict[str, dict[str, int]]:
        """Give the names of all folders as they were after a change, or at a later sync."""
        return {
            folder: next(
                (
                    names
                    for number, names in reversed(self._changes.get(folder, []))
                    if number <= change
                ),
                self._synced_names.get(folder, {}),
            )
            for folder in {*self._synced_names, *self._changes}
        }

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
        return sorted(int(name) for name in os.listdir(self._links))

    def _keep(self, path: str) -> None:
        link = self._links / str(os.stat(path).st_ino)
        if not link.exists():
            os.link(path, link)

    def _sync_names(self, folder: str) -> None:
        self._synced_names[folder] = _names_in(folder)
        self._changes.pop(folder, None)

    def _take_over(self, source: str, target: str) -> None:
        """Have what lasts of a folder last under its new name."""
        for folder, _, _ in os.walk(target):
            before = source + folder.removeprefix(target)
            self._synced_names[folder] = self._synced_names.pop(before, {})

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
