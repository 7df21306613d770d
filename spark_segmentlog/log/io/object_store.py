"""Buckets by obstore: a range is one GET, a folder one LIST a thousand objects, nothing else.

Paths are ``bucket/key``, as pyarrow has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from spark_segmentlog.errors import LogPermissionError
from spark_segmentlog.log.io.far_storage import Child, FarStorage
from spark_segmentlog.log.io.reading import not_there
from spark_segmentlog.log.io.remote_file import RangeSource

_NO_BUCKET: Final = "NoSuchBucket"
_CAUSE: Final = "\n"


@dataclass(frozen=True, slots=True)
class ObjectStorage(FarStorage):
    """One bucket."""

    store: Any
    bucket: str

    def read_start(self, path: str, length: int) -> bytes | None:
        import obstore

        try:
            with _request(path):
                found = obstore.get(self.store, self._key(path))
                if found.meta["size"] <= length:
                    return bytes(found.bytes())
        except FileNotFoundError:
            return None
        return self.ranges(path).read(0, length)

    def read_file(self, path: str) -> bytes | None:
        import obstore

        try:
            with _request(path):
                return bytes(obstore.get(self.store, self._key(path)).bytes())
        except FileNotFoundError:
            return None

    def children(self, path: str) -> list[Child]:
        """List all that is in a folder.

        Raises
        ------
        FileNotFoundError
            No object's key begins with the folder's.
        """
        import obstore

        with _request(path):
            found = obstore.list_with_delimiter(self.store, self._key(path) or None)
        folders = [Child(_name(prefix), True, None) for prefix in found["common_prefixes"]]
        objects = [
            Child(_name(entry["path"]), False, entry["size"], entry["e_tag"])
            for entry in found["objects"]
        ]
        if not folders and not objects:
            raise not_there(path)
        return [*folders, *objects]

    def size(self, path: str) -> int:
        return self.ranges(path).size()

    def exists(self, path: str) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return self.is_directory(path)
        return True

    def is_directory(self, path: str) -> bool:
        """Tell whether objects lie below a path."""
        import obstore

        try:
            with _request(path):
                pages = obstore.list(self.store, self._key(path) or None, chunk_size=1)
                return next(iter(pages), None) is not None
        except FileNotFoundError:
            return False

    def ranges(self, path: str) -> RangeSource:
        return _ObjectSource(self.store, self._key(path), path)

    def _key(self, path: str) -> str:
        return path.strip("/").removeprefix(self.bucket).strip("/")


@dataclass(frozen=True, slots=True)
class _ObjectSource:
    """The ranges of one object."""

    store: Any
    key: str
    path: str

    def read(self, position: int, length: int) -> bytes:
        import obstore

        with _request(self.path):
            return bytes(obstore.get_range(self.store, self.key, start=position, length=length))

    def size(self) -> int:
        import obstore

        with _request(self.path):
            return int(obstore.head(self.store, self.key)["size"])

    def close(self) -> None:
        """Do nothing: no connection is held."""


@contextmanager
def _request(path: str) -> Iterator[None]:
    """Tell the errors of a request in our words, or as the operating system would."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        raise not_there(path) from error
    except PermissionError as error:
        raise LogPermissionError(f"no permission to read {path}") from error
    except BaseError as error:
        if _NO_BUCKET in str(error):
            raise not_there(path) from error
        raise OSError(f"{path}: {str(error).partition(_CAUSE)[0]}") from error


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
