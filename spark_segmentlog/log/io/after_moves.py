"""A storage as it is once files of one folder were renamed or removed, while none of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_segmentlog.log.io.reading import LogFile, Storage, StorageOver, not_there


@dataclass(frozen=True, slots=True)
class StorageAfterMoves(StorageOver):
    """Another storage, with files of one folder under the names that they will have.

    Parameters
    ----------
    folder : str
        As it stands before the names in paths that are asked for.
    names : mapping of str to str or None
        By the name that a file will have, the one that it has; None for those that are in use now
        and will not be.
    """

    storage: Storage
    folder: str
    names: Mapping[str, str | None]

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        return self.storage.open_input(self._present(path), reads_blocks=reads_blocks, size=size)

    def size(self, path: str) -> int:
        return self.storage.size(self._present(path))

    def exists(self, path: str) -> bool:
        present = self._find_present(path)
        return present is not None and self.storage.exists(present)

    def list_names(self, path: str) -> list[str]:
        present = self.storage.list_names(path)
        if path != self.folder:
            return present
        moved = [name for name, source in self.names.items() if source is not None]
        return [*moved, *(name for name in present if name not in self.names)]

    def list_sizes(self, path: str) -> Mapping[str, int | None]:
        return dict.fromkeys(self.list_names(path))

    def _present(self, path: str) -> str:
        """Give the path of a file at present.

        Raises
        ------
        FileNotFoundError
            It will not be there.
        """
        present = self._find_present(path)
        if present is None:
            raise not_there(path)
        return present

    def _find_present(self, path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        if folder != self.folder or name not in self.names:
            return path
        source = self.names[name]
        return None if source is None else f"{folder}/{source}"
