"""Files of other file systems, by pyarrow or fsspec: ranged reads, the next one fetched ahead."""

from __future__ import annotations

import fnmatch
import glob
from abc import abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import LogPathNotFoundError
from spark_segmentlog.log.io.closing import Closing
from spark_segmentlog.log.io.reading import (
    LOCAL,
    LogFile,
    OpeningStorage,
    Storage,
    is_local,
    not_there,
    permission_checked,
    without_file_scheme,
)

READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
_READ_AHEAD_THREADS: Final = 4


class _Ranges(Protocol):
    """An object whose ranges are read, one request each."""

    def size(self) -> int:
        """Measure it, in bytes."""

    def read(self, position: int, length: int) -> bytes:
        """Read bytes that are all within it."""

    def close(self) -> None:
        """Give back what it holds."""


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


class _FarFile(Closing):
    """A file that is not local, read in blocks of some MiB, the next one ahead.

    With blocks of 0 bytes each read is one request for what it asks for.
    """

    def __init__(self, path: str, ranges: _Ranges, size: int | None, block_bytes: int) -> None:
        self.path = path
        self._ranges = ranges
        self._size = size
        self._block_bytes = block_bytes
        # A scan's thread reads on while others look around a bad batch.
        self._lock = Lock()
        self._block = (0, b"")
        self._ahead: tuple[int, Future[bytes]] | None = None

    def size(self) -> int:
        if self._size is None:
            self._size = self._ranges.size()
        return self._size

    def pread_into(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> int:
        data = self.read_at(position, length)
        buffer[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def read_at(self, position: int, length: int) -> bytes:
        end = min(position + length, self.size())
        if self._block_bytes == 0:
            return self._ranges.read(position, end - position) if position < end else b""
        parts = []
        while position < end:
            with self._lock:
                start, block = self._block_at(position)
            part = block[position - start : end - start]
            if not part:
                break
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def next_data_position(self, position: int) -> int | None:
        return position if position < self.size() else None

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead[1].cancel() or self._ahead[1].exception()
            self._ahead = None
        self._ranges.close()

    def _block_at(self, position: int) -> tuple[int, bytes]:
        start = position - position % self._block_bytes
        if start == self._block[0] and self._block[1]:
            return self._block
        follows = start == self._block[0] + self._block_bytes
        if self._ahead is not None and self._ahead[0] == start:
            self._block = (start, self._ahead[1].result())
            self._ahead = None
        else:
            self._block = (start, self._fetch(start))
        if (follows or start == 0) and start + self._block_bytes < self.size():
            ahead = start + self._block_bytes
            self._ahead = (ahead, _read_ahead_pool().submit(self._fetch, ahead))
        return self._block

    def _fetch(self, start: int) -> bytes:
        return self._ranges.read(start, min(self._block_bytes, self.size() - start))


class _FarStorage(OpeningStorage):
    """A file system that is not the local one; paths are its own, without a scheme."""

    __slots__ = ()

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        file = _FarFile(path, self._ranges(path), size, READ_AHEAD_BYTES if reads_blocks else 0)
        if size is None:
            # What is not there must show now.
            file.size()
        return file

    def list_names(self, path: str) -> list[str]:
        return list(self.list_sizes(path))

    def list_sizes(self, path: str) -> dict[str, int | None]:
        return {name: size for name, _, size in self._children(path)}

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        directories: list[str] = []
        others: list[str] = []
        for name, is_directory, _ in self._children(path):
            (directories if is_directory else others).append(name)
        return directories, others

    def real_path(self, path: str) -> str:
        return path.rstrip("/") or path

    def glob(self, pattern: str) -> list[str]:
        found = [""]
        for part in pattern.split("/"):
            found = [path for base in found for path in self._matching(base, part)]
        return found

    def _matching(self, base: str, part: str) -> list[str]:
        prefix = f"{base}/" if base else ""
        if not glob.has_magic(part):
            return [f"{prefix}{part}" if prefix or part else "/"]
        if not self.is_directory(base):
            return []
        return [f"{prefix}{name}" for name in fnmatch.filter(self.list_names(base), part)]

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """Tell whether a path is a folder."""

    @abstractmethod
    def _ranges(self, path: str) -> _Ranges:
        """Open a file for ranged reads."""

    @abstractmethod
    def _children(self, path: str) -> list[tuple[str, bool, int | None]]:
        """List (name, whether it is a folder, size of a file) of all that is in a folder."""


@dataclass(frozen=True, slots=True)
class _ArrowStorage(_FarStorage):
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

    def _ranges(self, path: str) -> _Ranges:
        return _ArrowRanges(self.filesystem, path)

    def _info(self, path: str) -> Any:
        with permission_checked(path):
            return self.filesystem.get_file_info([path])[0]

    def _children(self, path: str) -> list[tuple[str, bool, int | None]]:
        from pyarrow.fs import FileSelector

        with permission_checked(path):
            infos = self.filesystem.get_file_info(FileSelector(path))
        return [(info.base_name, info.type.name == "Directory", info.size) for info in infos]


@dataclass(frozen=True, slots=True)
class _FsspecStorage(_FarStorage):
    """An fsspec file system."""

    filesystem: Any

    def read_file(self, path: str) -> bytes | None:
        try:
            with permission_checked(path):
                return bytes(self.filesystem.cat_file(path))
        except (FileNotFoundError, IsADirectoryError):
            return None

    def size(self, path: str) -> int:
        return self._ranges(path).size()

    def exists(self, path: str) -> bool:
        with permission_checked(path):
            return bool(self.filesystem.exists(path))

    def is_directory(self, path: str) -> bool:
        with permission_checked(path):
            return bool(self.filesystem.isdir(path))

    def _ranges(self, path: str) -> _Ranges:
        return _FsspecRanges(self.filesystem, path)

    def _children(self, path: str) -> list[tuple[str, bool, int | None]]:
        # Some keep what they have listed, however old it is.
        self.filesystem.invalidate_cache(path)
        with permission_checked(path):
            infos = self.filesystem.ls(path, detail=True)
        folder = self.filesystem._strip_protocol(path).strip("/")
        named = [(info["name"].strip("/"), info) for info in infos]
        return [
            (name.rpartition("/")[2], entry["type"] == "directory", entry["size"])
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
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        Takes the path as it is.
    """
    if filesystem is not None:
        return _storage_of(filesystem), path
    if is_local(path):
        return LOCAL, without_file_scheme(path)
    return _remote_storage(path)


def _remote_storage(uri: str) -> tuple[Storage, str]:
    from pyarrow.fs import FileSystem

    if uri.lower().startswith("file:"):
        # fsspec would take what stands in the place of a host for a folder.
        raise LogPathNotFoundError(f"{uri} is no path of this host: file:///folder would be one")
    try:
        filesystem, path = FileSystem.from_uri(uri)
    except (ValueError, NotImplementedError):
        filesystem, path = _fsspec_filesystem(uri)
    return _storage_of(filesystem), path


def _fsspec_filesystem(uri: str) -> tuple[Any, str]:
    try:
        import fsspec

        if "://" not in uri:
            raise ValueError("'//' is missing after the scheme")
        filesystem, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError) as error:
        raise LogPathNotFoundError(
            f"{uri} is no local path, and no file system is known for its scheme: {error}"
        ) from error
    return filesystem, path


def _storage_of(filesystem: Any) -> Storage:
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    if isinstance(filesystem, PyFileSystem) and isinstance(filesystem.handler, FSSpecHandler):
        return _FsspecStorage(filesystem.handler.fs)
    is_arrow = isinstance(filesystem, FileSystem)
    return _ArrowStorage(filesystem) if is_arrow else _FsspecStorage(filesystem)


@cache
def _read_ahead_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_READ_AHEAD_THREADS, thread_name_prefix="segmentlog-read-ahead")
