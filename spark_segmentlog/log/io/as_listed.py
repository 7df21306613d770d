"""A far storage as of its listings: what one has told, or was read, is asked for no more."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Final

from spark_segmentlog.log.io.far_storage import Child, FarStorage
from spark_segmentlog.log.io.kept_files import KeptFiles
from spark_segmentlog.log.io.reading import LOCAL, LogFile, Storage, StorageOver, not_there
from spark_segmentlog.log.io.remote_file import PEEK_BYTES, RemoteFile
from spark_segmentlog.log.io.threads import FAR_THREADS

_UNKNOWN: Final = -1


class StorageAsListed(StorageOver):
    """A far storage whose folders are listed once for what is asked of their files.

    The names of a folder are listed again each time but the first. Small files are read once from
    one listing to the next.

    Parameters
    ----------
    folders : dict of str to dict of str to int or None, optional
        Sizes of files, None for folders, by folder and name.
    asked : frozenset of str, optional
        Names of all that `folders` tells of, those included that are not there; None for all names.
    kept : KeptFiles, optional
        Small files that were read, by another one that knows the same listings too.
    """

    storage: FarStorage

    def __init__(
        self,
        storage: FarStorage,
        folders: Mapping[str, Mapping[str, int | None]] | None = None,
        asked: frozenset[str] | None = None,
        kept: KeptFiles | None = None,
    ) -> None:
        self.storage = storage
        self._kept = KeptFiles() if kept is None else kept
        self._folders = dict(folders or {})
        self._asked = asked
        self._signatures: dict[str, Hashable] = {}
        self._named: set[str] = set()
        self._opening: dict[str, Future[LogFile]] = {}
        self._at_end: dict[str, Callable[[], object]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # A whole listing is too much to send to each task.
        folders = None if self._asked is None else self._folders
        return StorageAsListed, (self.storage, folders, self._asked, self._kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageAsListed) and other.storage == self.storage

    def __hash__(self) -> int:
        return hash(StorageAsListed)

    def narrowed(self, folder: str, names: Iterable[str]) -> StorageAsListed:
        """Give the same storage for a task that asks for some files of a folder, which travel."""
        sizes = self._folders.get(_folder(folder))
        asked = frozenset(names)
        if sizes is None or not (self._asked is None or asked <= self._asked):
            return StorageAsListed(self.storage)
        known = {name: sizes[name] for name in asked if name in sizes}
        return StorageAsListed(self.storage, {_folder(folder): known}, asked, self._kept)

    def signature(self, path: str) -> Hashable | None:
        """Give what is another one wherever the names or the files in a folder are others.

        As of its listing; None where that does not tell.
        """
        self._sizes(path)
        return self._signatures.get(_folder(path))

    def open_soon(self, path: str) -> None:
        """Open a file that is read from its start next but a few, and have that fetched."""
        if self._known(path) is not None:
            self._opening[path] = _opening_pool().submit(self._open_and_begin, path)

    def call_at_end(self, path: str, action: Callable[[], object]) -> None:
        """Have something done once all of a file is asked for by who opens it next."""
        self._at_end[path] = action

    # What a Storage does

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        """Open a file for reading; one that was listed, with the size that it had then."""
        opening = self._opening.pop(path, None)
        if opening is not None:
            file = opening.result()
        else:
            file = self._open(path, reads_blocks=reads_blocks, size=size)
        action = self._at_end.pop(path, None)
        if action is not None:
            assert isinstance(file, RemoteFile)
            file.call_at_end(action)
        return file

    def _open(self, path: str, *, reads_blocks: bool = True, size: int | None = None) -> LogFile:
        known = self._known(path)
        if known is not None and known[1] is None:
            raise not_there(path)
        listed = None if known is None or known[1] == _UNKNOWN else known[1]
        if listed is not None and listed <= PEEK_BYTES:
            source = self._kept.source(path, listed, lambda: self.storage.ranges(path))
            return RemoteFile(path, source, size=listed, reads_blocks=reads_blocks)
        size = size if listed is None else listed
        return self.storage.open_input(path, reads_blocks=reads_blocks, size=size)

    def read_file(self, path: str) -> bytes | None:
        return None if self._is_missing(path) else self.storage.read_file(path)

    def read_start(self, path: str, length: int) -> bytes | None:
        return None if self._is_missing(path) else super().read_start(path, length)

    def size(self, path: str) -> int:
        known = self._known(path)
        if known is None or known[1] == _UNKNOWN:
            return self.storage.size(path)
        if known[1] is None:
            raise not_there(path)
        return known[1]

    def exists(self, path: str) -> bool:
        known = self._known(path)
        return self.storage.exists(path) if known is None else known[0]

    def is_directory(self, path: str) -> bool:
        """Tell whether a path is a folder, by listing it."""
        known = self._known(path)
        if known is not None:
            return known[0] and known[1] is None
        try:
            if self._sizes(path):
                return True
        except (FileNotFoundError, NotADirectoryError):
            return False
        # Some list a file as a folder of nothing.
        is_folder = self.storage.is_directory(path)
        if not is_folder:
            del self._folders[_folder(path)]
        return is_folder

    def list_names(self, path: str) -> list[str]:
        """List the names of all that is in a folder; again each time but the first."""
        return list(self.list_sizes(path))

    def list_sizes(self, path: str) -> Mapping[str, int | None]:
        """List the sizes of all that is in a folder; again each time but the first."""
        folder = _folder(path)
        if folder in self._named:
            self._folders.pop(folder, None)
        self._named.add(folder)
        return self._sizes(path)

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        sizes = self._sizes(path)
        return (
            [name for name, size in sizes.items() if size is None],
            [name for name, size in sizes.items() if size is not None],
        )

    def _sizes(self, path: str) -> Mapping[str, int | None]:
        if self._asked is not None:
            # Some names are no listing.
            self._folders.clear()
            self._asked = None
        folder = _folder(path)
        if folder not in self._folders:
            children = self.storage.children(path)
            self._kept.forget(folder)
            self._folders[folder] = {child.name: _size_of(child) for child in children}
            is_told = all(child.is_directory or child.version for child in children)
            self._signatures[folder] = frozenset(children) if is_told else None
        return self._folders[folder]

    def _known(self, path: str) -> tuple[bool, int | None] | None:
        """Tell whether a path is there, and the size of a file; None where no listing tells."""
        folder = _folder(path)
        if folder in self._folders:
            return True, None
        above, _, name = folder.rpartition("/")
        siblings = self._folders.get(above)
        if siblings is None or not (self._asked is None or name in self._asked):
            return None
        return name in siblings, siblings.get(name)

    def _is_missing(self, path: str) -> bool:
        known = self._known(path)
        return known is not None and not known[0]

    def _open_and_begin(self, path: str) -> LogFile:
        file = self._open(path)
        assert isinstance(file, RemoteFile)
        file.begin()
        return file


def _size_of(child: Child) -> int | None:
    if child.is_directory:
        return None
    return _UNKNOWN if child.size is None else child.size


def waiting_threads(storage: Storage) -> int:
    """Say how many threads have work where each of them waits for the storage."""
    return 1 if storage == LOCAL else FAR_THREADS


def as_listed(storage: Storage) -> Storage:
    """Have a far storage list a folder once; others are as they are."""
    return StorageAsListed(storage) if isinstance(storage, FarStorage) else storage


def _folder(path: str) -> str:
    return path.rstrip("/")


@cache
def _opening_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(FAR_THREADS, thread_name_prefix="segmentlog-opening")
