"""Files of other file systems, by obstore, pyarrow or fsspec."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from spark_segmentlog.errors import LogPathNotFoundError
from spark_segmentlog.log.io.far_storage import Child, FarStorage
from spark_segmentlog.log.io.reading import (
    LOCAL,
    Storage,
    is_local,
    not_there,
    permission_checked,
    without_file_scheme,
    without_secrets,
)
from spark_segmentlog.log.io.remote_file import RangeSource
from spark_segmentlog.log.io.s3 import SCHEMES as S3_SCHEMES
from spark_segmentlog.log.io.s3 import open_bucket
from spark_segmentlog.log.io.signature import SETTLED_NS
from spark_segmentlog.log.io.storage_options import NO_STORAGE_OPTIONS, StorageOptions


class _ArrowRanges:
    """A file of a pyarrow file system, which asks for its size where that opens it."""

    def __init__(self, filesystem: Any, path: str) -> None:
        with permission_checked(path):
            self._file = filesystem.open_input_file(path)

    def size(self) -> int:
        return int(self._file.size())

    def read(self, position: int, length: int) -> bytes:
        return bytes(self._file.read_at(length, position))

    def close(self) -> None:
        self._file.close()


class _FsspecRanges:
    """A file of an fsspec file system: nothing is asked but for the ranges that are read."""

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path

    def size(self) -> int:
        with permission_checked(self._path):
            info = self._filesystem.info(self._path)
        if info["type"] == "directory":
            raise not_there(self._path)
        return int(info["size"])

    def read(self, position: int, length: int) -> bytes:
        with permission_checked(self._path):
            return bytes(self._filesystem.cat_file(self._path, position, position + length))

    def close(self) -> None:
        """Do nothing: no request leaves anything open."""


@dataclass(frozen=True, slots=True)
class _ArrowStorage(FarStorage):
    """A pyarrow file system."""

    filesystem: Any

    def size(self, path: str) -> int:
        info = self._info(path)
        if info.size is None:
            raise not_there(path)
        return int(info.size)

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type.name != "NotFound")

    def is_directory(self, path: str) -> bool:
        return bool(self._info(path).type.name == "Directory")

    def ranges(self, path: str) -> RangeSource:
        return _ArrowRanges(self.filesystem, path)

    def _info(self, path: str) -> Any:
        with permission_checked(path):
            return self.filesystem.get_file_info([path])[0]

    def children(self, path: str) -> list[Child]:
        from pyarrow.fs import FileSelector

        with permission_checked(path):
            infos = self.filesystem.get_file_info(FileSelector(path))
        return [
            Child(
                info.base_name,
                info.type.name == "Directory",
                info.size,
                _settled_version(info.mtime_ns),
            )
            for info in infos
        ]


@dataclass(frozen=True, slots=True)
class _FsspecStorage(FarStorage):
    """An fsspec file system."""

    filesystem: Any

    def read_file(self, path: str) -> bytes | None:
        try:
            with permission_checked(path):
                return bytes(self.filesystem.cat_file(path))
        except (FileNotFoundError, IsADirectoryError):
            return None

    def size(self, path: str) -> int:
        return self.ranges(path).size()

    def exists(self, path: str) -> bool:
        with permission_checked(path):
            return bool(self.filesystem.exists(path))

    def is_directory(self, path: str) -> bool:
        with permission_checked(path):
            return bool(self.filesystem.isdir(path))

    def ranges(self, path: str) -> RangeSource:
        return _FsspecRanges(self.filesystem, path)

    def children(self, path: str) -> list[Child]:
        # Some keep what they have listed, however old it is.
        self.filesystem.invalidate_cache(path)
        with permission_checked(path):
            infos = self.filesystem.ls(path, detail=True)
        folder = self.filesystem._strip_protocol(path).strip("/")
        named = [(info["name"].strip("/"), info) for info in infos]
        return [
            Child(
                name.rpartition("/")[2],
                entry["type"] == "directory",
                entry["size"],
                entry.get("ETag") or entry.get("etag"),
            )
            for name, entry in named
            if name != folder
        ]


def resolve_storage(path: str, filesystem: Any = None) -> tuple[Storage, str]:
    """Find the storage of a path, and the path within it.

    Parameters
    ----------
    path : str
        A local path, or a URI: ``file:``, or whatever pyarrow knows (``s3:``, ``gs:``, ``hdfs:``),
        or a registered fsspec scheme.
    filesystem : pyarrow.fs.FileSystem, fsspec.AbstractFileSystem, Storage or StorageOptions
        Options say how the file system of the URI is reached; any other takes the path as it is.
    """
    if isinstance(filesystem, Storage):
        return filesystem, path
    if filesystem is not None and not isinstance(filesystem, StorageOptions):
        return _storage_of(filesystem), path
    if is_local(path):
        return LOCAL, without_file_scheme(path)
    return _far_storage(path, filesystem or NO_STORAGE_OPTIONS)


def _settled_version(modified_ns: int | None) -> str | None:
    """Tell a file by its modification time, where a later change is sure to show in that."""
    is_settled = modified_ns is not None and time.time_ns() - modified_ns > SETTLED_NS
    return str(modified_ns) if is_settled else None


def _far_storage(uri: str, options: StorageOptions) -> tuple[Storage, str]:
    from pyarrow.fs import FileSystem

    if uri.lower().partition("://")[0] in S3_SCHEMES:
        found, path = open_bucket(uri, options)
        return found if isinstance(found, FarStorage) else _ArrowStorage(found), path
    if uri.lower().startswith("file:"):
        # fsspec would take what stands in the place of a host for a folder.
        raise LogPathNotFoundError(f"{uri} is no path of this host: file:///folder would be one")
    if options.settings:
        # pyarrow would take none of them.
        filesystem, path = _fsspec_filesystem(uri, options)
        return _storage_of(filesystem), path
    try:
        filesystem, path = FileSystem.from_uri(uri)
    except (ValueError, NotImplementedError):
        filesystem, path = _fsspec_filesystem(uri, options)
    return _storage_of(filesystem), path


def _fsspec_filesystem(uri: str, options: StorageOptions) -> tuple[Any, str]:
    try:
        import fsspec

        if "://" not in uri:
            raise ValueError("'//' is missing after the scheme")
        filesystem, path = fsspec.core.url_to_fs(uri, **dict(options.settings))
    except (ImportError, ValueError) as error:
        raise LogPathNotFoundError(
            f"{without_secrets(uri)} is no local path, and no file system is known for its scheme: "
            f"{error}"
        ) from error
    return filesystem, path


def _storage_of(filesystem: Any) -> Storage:
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    if isinstance(filesystem, PyFileSystem) and isinstance(filesystem.handler, FSSpecHandler):
        return _FsspecStorage(filesystem.handler.fs)
    is_arrow = isinstance(filesystem, FileSystem)
    return _ArrowStorage(filesystem) if is_arrow else _FsspecStorage(filesystem)
