"""Remote stores: where they are, and how they are laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import Storage, without_secrets
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.tier.chunked import ChunkedLayout
from spark_segmentlog.log.tier.listed_storage import ListedFolders
from spark_segmentlog.log.tier.local_tiered import LocalTieredLayout
from spark_segmentlog.log.tier.remote_segment import Layout

LAYOUTS: Final[tuple[Layout, ...]] = (LocalTieredLayout(), ChunkedLayout())
"""Every layout that is known. A new one is a module with a `Layout`, and a line here."""


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """A store: its file system, the path or prefix in it, the name of its layout."""

    storage: Storage
    root: str
    layout_name: str

    @property
    def layout(self) -> Layout:
        """How it names and forms its objects."""
        return next(layout for layout in LAYOUTS if layout.name == self.layout_name)


def layout_names() -> Sequence[str]:
    """Name the layouts."""
    return [layout.name for layout in LAYOUTS]


def open_store(uri: str, layout: str | None = None, filesystem: Any = None) -> RemoteStore:
    """Find a store, and its layout where that is not given.

    Raises
    ------
    RemoteStorageError
        Nothing of a known layout is there.
    """
    storage, path = resolve_storage(uri, filesystem)
    if layout is None:
        store = find_store(ListedFolders(storage), path)
        if store is None:
            raise RemoteStorageError(
                f"{without_secrets(uri)} holds no remote segments of a known layout, "
                f"{', '.join(layout_names())}: a store whose keys have a prefix is named with it, "
                "and that of an empty one by remoteStorage.layout, or --remote-layout"
            )
        return store
    return RemoteStore(storage, store_root(storage, path), layout)


def find_store(folders: ListedFolders, path: str) -> RemoteStore | None:
    """Look which layout a path is of; None where it is of none."""
    root = store_root(folders, path)
    for layout in LAYOUTS:
        if layout.recognises(folders, root):
            return RemoteStore(folders.storage, root, layout.name)
    return None


def is_store(uri: str) -> bool:
    """Tell whether a path holds remote segments of a known layout."""
    storage, path = resolve_storage(uri)
    return find_store(ListedFolders(storage), path) is not None


def store_root(storage: Storage, path: str) -> str:
    """Give a folder with a slash after it, and the beginning of names as it is."""
    return path if path.endswith("/") or not storage.is_directory(path) else f"{path}/"
