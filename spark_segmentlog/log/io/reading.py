"""Reading: files at any position, and the local disk as a place of files.

Files are read with pread into buffers that are used again, never mapped: a broker truncates files
that we have open, and a mapped one then kills Python with SIGBUS. A reader never writes, and never
opens a directory's ``.lock``: where there are record locks only, closing any descriptor of it would
drop the lock of this process.

A file that is not there is a `FileNotFoundError`, since only the caller knows what that means.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_segmentlog.errors import LogPermissionError, NotAFileError, NotALogDirectoryError
from spark_segmentlog.log.io.closing import Closing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


FIRST_ZERO_CHECK_BYTES: Final = 4 * 1024
ZERO_CHECK_BYTES: Final = 1024 * 1024
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SECRET: Final = re.compile(r"(?<=://)[^/@?]*@|\?.*")
_LOCAL_URI: Final = re.compile(r"file:(?:/|///+|//localhost/+)(?!/)")


class LogFile(Closing):
    """A file that is open for reading at any position."""

    __slots__ = ()
    path: str

    @abstractmethod
    def size(self) -> int:
        """Measure the file, in bytes, as it is now."""

    @abstractmethod
    def read_at(self, position: int, length: int) -> bytes:
        """Read bytes at a position; fewer only at the end of the file."""

    def pread_into(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> int:
        """Read bytes at a position to the start of a buffer; fewer only at the end of the file."""
        data = self.read_at(position, length)
        buffer.data[: len(data)] = data
        return len(data)

    def next_data_position(self, position: int) -> int | None:
        """Find where bytes that may not be zero begin, from a position on; None for nowhere."""
        return position if position < self.size() else None


class Storage(ABC):
    """Where files are: the local disk, or a file system of pyarrow. Pickles."""

    __slots__ = ()

    @abstractmethod
    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        """Open a file for reading.

        Parameters
        ----------
        reads_blocks : bool
            Whether a file that is not local is read in blocks, the next one ahead; else each read
            is one request for the bytes that it asks for.
        size : int, optional
            Bytes of a file that never changes, as a listing told. Who has it from there need not
            ask; that the file is not there may then show at the first read.
        """

    @abstractmethod
    def size(self, path: str) -> int:
        """Measure a file, in bytes."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """Tell whether a path is a folder."""

    @abstractmethod
    def list_names(self, path: str) -> list[str]:
        """List the names of all that is in a folder, in no order."""

    @abstractmethod
    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        """List the names of the folders, then of all else, in a folder."""

    @abstractmethod
    def real_path(self, path: str) -> str:
        """Name the same file in one way only."""

    @abstractmethod
    def glob(self, pattern: str) -> list[str]:
        """List the paths that a pattern matches, in no order."""

    def list_sizes(self, path: str) -> Mapping[str, int | None]:
        """List the names of all that is in a folder, with sizes where a listing has them."""
        return dict.fromkeys(self.list_names(path))

    def read_file(self, path: str) -> bytes | None:
        """Read a small file whole; None where it is not there."""
        try:
            with self.open_input(path) as file:
                return file.read_at(0, file.size())
        except FileNotFoundError:
            return None

    def read_start(self, path: str, length: int) -> bytes | None:
        """Read the first bytes of a file; None where it is not there."""
        try:
            with self.open_input(path) as file:
                return file.read_at(0, min(length, file.size()))
        except FileNotFoundError:
            return None


class StorageOver(Storage):
    """A storage that asks another one."""

    __slots__ = ()
    storage: Storage

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        return self.storage.open_input(path, reads_blocks=reads_blocks, size=size)

    def size(self, path: str) -> int:
        return self.storage.size(path)

    def exists(self, path: str) -> bool:
        return self.storage.exists(path)

    def is_directory(self, path: str) -> bool:
        return self.storage.is_directory(path)

    def list_names(self, path: str) -> list[str]:
        return self.storage.list_names(path)

    def list_sizes(self, path: str) -> Mapping[str, int | None]:
        return self.storage.list_sizes(path)

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        return self.storage.list_directories(path)

    def real_path(self, path: str) -> str:
        return self.storage.real_path(path)

    def glob(self, pattern: str) -> list[str]:
        return self.storage.glob(pattern)


class _LocalFile(LogFile):
    """A file on the local disk."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = _open_for_reading(path)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread_into(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> int:
        view = buffer.data[:length]
        done = 0
        while done < length:
            count = os.preadv(self._descriptor, [view[done:]], position + done)
            if count == 0:
                break
            done += count
        return done

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        while len(data) < length:
            more = os.pread(self._descriptor, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def next_data_position(self, position: int) -> int | None:
        if not hasattr(os, "SEEK_DATA"):
            return super().next_data_position(position)
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            return position

    def is_replaced(self) -> bool:
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(named, os.fstat(self._descriptor))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _open_for_reading(path: str) -> int:
    """Open a file; what is none, such as a pipe that nobody writes to, must hold nobody up."""
    with permission_checked(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise _not_a_file(path) from error
            raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_a_file(path)
    return descriptor


def _not_a_file(path: str) -> NotAFileError:
    return NotAFileError(f"a folder, a pipe or a device in the place of a file (file {path})")


@dataclass(frozen=True, slots=True)
class _LocalStorage(Storage):
    """The local disk."""

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        return _LocalFile(path)

    def read_start(self, path: str, length: int) -> bytes | None:
        try:
            descriptor = _open_for_reading(path)
        except FileNotFoundError:
            return None
        try:
            return os.read(descriptor, length)
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def exists(self, path: str) -> bool:
        with permission_checked(path):
            try:
                os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_names(self, path: str) -> list[str]:
        with permission_checked(path):
            return os.listdir(path)

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        directories: list[str] = []
        others: list[str] = []
        with permission_checked(path), os.scandir(path) as entries:
            for entry in entries:
                (directories if entry.is_dir() else others).append(entry.name)
        return directories, others

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def glob(self, pattern: str) -> list[str]:
        return glob.glob(pattern)


LOCAL: Final = _LocalStorage()


def local_path(path: str) -> str:
    """Give the path on the local disk of what is to be written; a ``file:`` URI is one.

    Raises
    ------
    NotALogDirectoryError
        Any other URI.
    """
    if not is_local(path):
        raise NotALogDirectoryError(
            f"{without_secrets(path)} is no local path: what is written lies in a POSIX file "
            "system that all who write it share"
        )
    return without_file_scheme(path)


def is_local(path: str) -> bool:
    """Tell whether a path is on the local disk, without asking any other file system."""
    return _URI.match(path) is None or _LOCAL_URI.match(path) is not None


def without_secrets(text: str) -> str:
    """Leave out of a URI, or of a text with some, what may hold credentials, for messages."""
    is_harmless = "://" not in text or _LOCAL_URI.match(text) is not None
    return text if is_harmless else _SECRET.sub("", text)


def without_file_scheme(path: str) -> str:
    """Leave out the scheme of a ``file:`` URI."""
    local = _LOCAL_URI.match(path)
    return path if local is None else "/" + path[local.end() :]


def is_replaced(file: LogFile) -> bool:
    """Tell whether the name of an open file is another's by now, or nobody's; of local ones."""
    return isinstance(file, _LocalFile) and file.is_replaced()


def is_zero_from(file: LogFile, position: int) -> bool:
    """Tell whether a file holds only zeros from a position to its end; holes are not read."""
    import numpy as np

    view = np.empty(FIRST_ZERO_CHECK_BYTES, np.uint8)
    while (data_position := file.next_data_position(position)) is not None:
        count = file.pread_into(view, data_position, len(view))
        if view[:count].any():
            return False
        if count < len(view):
            return True
        position = data_position + count
        view = np.empty(ZERO_CHECK_BYTES, np.uint8)
    return True


def not_there(path: str) -> FileNotFoundError:
    """Make the error for what is not there."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


@contextmanager
def permission_checked(path: str) -> Iterator[None]:
    """Tell a missing permission as our own error, with the path."""
    try:
        yield
    except PermissionError as error:
        raise LogPermissionError(f"no permission to read {path}") from error
