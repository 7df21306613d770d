"""A storage as it is once files were renamed, removed, made or joined, while none of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_segmentlog.log.io.reading import LogFile, Storage, StorageOver, not_there


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a file as it is now, from a position on; to its end where no length is given."""

    path: str
    position: int = 0
    length: int | None = None


# What a file will hold, one part after the other.
Parts = Sequence[Stretch | bytes]


@dataclass(frozen=True, slots=True)
class StorageAfterChanges(StorageOver):
    """Another storage, with the files of some folders as they will be.

    Parameters
    ----------
    folders : mapping of str to mapping of str to parts or None
        By folder, as it stands before the names in paths that are asked for, and by name, what a
        file will hold; None for one that will not be there. A folder that is not there yet will be.
    """

    storage: Storage
    folders: Mapping[str, Mapping[str, Parts | None]]

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        if not self._is_changed(path):
            return self.storage.open_input(path, reads_blocks=reads_blocks, size=size)
        return _JoinedFile(path, self.storage, self._parts(path))

    def size(self, path: str) -> int:
        if not self._is_changed(path):
            return self.storage.size(path)
        return sum(_size_of(self.storage, part) for part in self._parts(path))

    def exists(self, path: str) -> bool:
        if self._is_changed(path):
            return self._find_parts(path) is not None
        return path in self.folders or self.storage.exists(path)

    def is_directory(self, path: str) -> bool:
        return path in self.folders or self.storage.is_directory(path)

    def list_names(self, path: str) -> list[str]:
        is_new = path in self.folders and not self.storage.is_directory(path)
        return self._changed_names(path, [] if is_new else self.storage.list_names(path))

    def list_sizes(self, path: str) -> Mapping[str, int | None]:
        return dict.fromkeys(self.list_names(path))

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        directories, others = self.storage.list_directories(path)
        folder = self.storage.real_path(path)
        parents = (known.rpartition("/") for known in self.folders)
        below = [name for parent, _, name in parents if parent == folder]
        return list({*directories, *below}), self._changed_names(folder, others)

    def _changed_names(self, folder: str, present: Sequence[str]) -> list[str]:
        changed = self.folders.get(folder, {})
        made = [name for name, parts in changed.items() if parts is not None]
        return [*made, *(name for name in present if name not in changed)]

    def _is_changed(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in self.folders.get(folder, ())

    def _find_parts(self, path: str) -> Parts | None:
        folder, _, name = path.rpartition("/")
        return self.folders[folder][name]

    def _parts(self, path: str) -> Parts:
        """Give what a changed file will hold.

        Raises
        ------
        FileNotFoundError
            It will not be there.
        """
        parts = self._find_parts(path)
        if parts is None:
            raise not_there(path)
        return parts


class _JoinedFile(LogFile):
    """A file that is not there yet; those that it is made of are open only while they are read."""

    def __init__(self, path: str, storage: Storage, parts: Parts) -> None:
        self.path = path
        self._storage = storage
        self._parts = parts
        self._sizes = [_size_of(storage, part) for part in parts]

    def size(self) -> int:
        return sum(self._sizes)

    def read_at(self, position: int, length: int) -> bytes:
        return b"".join(self._read(position, position + length))

    def close(self) -> None:
        """Do nothing: nothing is open between reads."""

    def _read(self, position: int, end: int) -> Iterator[bytes]:
        part_end = 0
        for part, size in zip(self._parts, self._sizes, strict=True):
            part_start, part_end = part_end, part_end + size
            first, last = max(position, part_start), min(end, part_end)
            if first < last:
                yield _read_part(self._storage, part, first - part_start, last - first)


def _size_of(storage: Storage, part: Stretch | bytes) -> int:
    if isinstance(part, bytes):
        return len(part)
    return storage.size(part.path) - part.position if part.length is None else part.length


def _read_part(storage: Storage, part: Stretch | bytes, position: int, length: int) -> bytes:
    if isinstance(part, bytes):
        return part[position : position + length]
    with storage.open_input(part.path) as file:
        return file.read_at(part.position + position, length)
