"""Storages that know from listings what they would have to ask a store of objects for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from spark_segmentlog.log.io.reading import LogFile, Storage, StorageOver, not_there
from spark_segmentlog.log.tier.remote_segment import SegmentPlace


@dataclass(frozen=True, slots=True)
class ListedObjects(StorageOver):
    """The objects of one segment, with the sizes that a listing told: they never change."""

    storage: Storage
    place: SegmentPlace

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        known = self._known_size(path)
        size = size if known is None else known
        return self.storage.open_input(path, reads_blocks=reads_blocks, size=size)

    def size(self, path: str) -> int:
        known = self._known_size(path)
        return self.storage.size(path) if known is None else known

    def exists(self, path: str) -> bool:
        return self._known_size(path) is not None or self.storage.exists(path)

    def _known_size(self, path: str) -> int | None:
        beginning = self.place.path
        return self.place.sizes.get(path[len(beginning) :]) if path.startswith(beginning) else None


@dataclass(frozen=True, slots=True)
class ListedFolders(StorageOver):
    """Folders that are listed once at most, while a store is looked for in them."""

    storage: Storage
    _listed: dict[str, tuple[list[str], list[str]] | None] = field(default_factory=dict)

    def know(self, path: str, directories: Iterable[str]) -> None:
        """Take over which folders a listing has shown in a folder."""
        self._listed[_name(path)] = list(directories), []

    def is_directory(self, path: str) -> bool:
        above, _, name = _name(path).rpartition("/")
        if _name(path) not in self._listed and (known := self._listed.get(above)) is not None:
            return name in known[0]
        return self._list(path) is not None

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        found = self._list(path)
        if found is None:
            raise not_there(path)
        return found

    def _list(self, path: str) -> tuple[list[str], list[str]] | None:
        name = _name(path)
        if name not in self._listed:
            try:
                self._listed[name] = self.storage.list_directories(path)
            except (FileNotFoundError, NotADirectoryError):
                self._listed[name] = None
        return self._listed[name]


def _name(path: str) -> str:
    return path.rstrip("/")
