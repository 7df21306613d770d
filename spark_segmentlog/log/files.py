"""Every file operation of the library, so that tests can fail, tear and reorder them.

Reading. Files are read with pread into buffers that are used again, never mapped: a broker
truncates files that we have open, and a mapped one then kills Python with SIGBUS. A file of another
file system comes in ranged reads of some MiB, the next of them fetched ahead. A reader never
writes, and never opens a directory's ``.lock``: where there are record locks only, closing any
descriptor of it would drop the lock of this process.

A file that is not there is a `FileNotFoundError`, since only the caller knows what that means.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import fnmatch
import glob
import logging
import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import (
    LogPathNotFoundError,
    LogPermissionError,
    NotAFileError,
    NotALogDirectoryError,
    UnsafeTargetError,
)
from spark_segmentlog.log.closing import Closing

READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
ZERO_CHECK_BYTES: Final = 1024 * 1024
_READ_AHEAD_THREADS: Final = 4

FILE_MODE: Final = 0o644
ROOT: Final = 0
TEMPORARY_SUFFIX: Final = ".tmp"
COPY_CHUNK_BYTES: Final = 1024 * 1024
# What copy_file_range answers across file systems, on old kernels and on special ones.
CANNOT_COPY_INSIDE: Final = frozenset((errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))
# What posix_fallocate answers on file systems that cannot reserve.
CANNOT_RESERVE: Final = frozenset((errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))
_SYNC_FILE_RANGE_WRITE: Final = 2
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_LOCAL_URI: Final = re.compile(r"file:(?:/|///+|//localhost/+)(?!/)")


_log = logging.getLogger(__name__)


class LogFile(Protocol):
    """A file that is open for reading at any position."""

    path: str

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def size(self) -> int:
        """Measure the file, in bytes, as it is now."""

    def pread_into(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> int:
        """Read bytes at a position to the start of a buffer; fewer only at the end of the file."""

    def read_at(self, position: int, length: int) -> bytes:
        """Read bytes at a position; fewer only at the end of the file."""

    def next_data_position(self, position: int) -> int | None:
        """Find where bytes that may not be zero begin, from a position on; None for nowhere."""

    def close(self) -> None:
        """Close the file."""


class Storage(Protocol):
    """Where files are: the local disk, or a file system of pyarrow. Pickles."""

    def open_input(self, path: str) -> LogFile:
        """Open a file for reading."""

    def read_file(self, path: str) -> bytes | None:
        """Read a small file whole; None where it is not there."""

    def read_start(self, path: str, length: int) -> bytes | None:
        """Read the first bytes of a file; None where it is not there."""

    def size(self, path: str) -> int:
        """Measure a file, in bytes."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""

    def is_directory(self, path: str) -> bool:
        """Tell whether a path is a folder."""

    def list_names(self, path: str) -> list[str]:
        """List the names of all that is in a folder, in no order."""

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        """List the names of the folders, then of all else, in a folder."""

    def real_path(self, path: str) -> str:
        """Name the same file in one way only."""

    def glob(self, pattern: str) -> list[str]:
        """List the paths that a pattern matches, in no order."""


# The local disk


class _LocalFile(Closing):
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
            return position if position < self.size() else None
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            return position

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _open_for_reading(path: str) -> int:
    """Open a file; what is none, such as a pipe that nobody writes to, must not hold a reader up.

    Raises
    ------
    NotAFileError
    """
    with _permission_checked(path):
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
class _LocalStorage:
    """The local disk."""

    def open_input(self, path: str) -> LogFile:
        return _LocalFile(path)

    def read_file(self, path: str) -> bytes | None:
        try:
            with _LocalFile(path) as file:
                return file.read_at(0, file.size())
        except FileNotFoundError:
            return None

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
        with _permission_checked(path):
            try:
                os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_names(self, path: str) -> list[str]:
        with _permission_checked(path):
            return os.listdir(path)

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        directories: list[str] = []
        others: list[str] = []
        with _permission_checked(path), os.scandir(path) as entries:
            for entry in entries:
                (directories if entry.is_dir() else others).append(entry.name)
        return directories, others

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def glob(self, pattern: str) -> list[str]:
        return glob.glob(pattern)


LOCAL: Final = _LocalStorage()


# File systems of pyarrow


class _ArrowFile(Closing):
    """A file of a pyarrow file system, read in blocks of some MiB, the next one ahead."""

    def __init__(self, filesystem: Any, path: str, block_bytes: int = READ_AHEAD_BYTES) -> None:
        self.path = path
        with _permission_checked(path):
            self._file = filesystem.open_input_file(path)
        self._size: int | None = None
        self._block_bytes = block_bytes
        self._block = (0, b"")
        self._ahead: tuple[int, Future[bytes]] | None = None

    def size(self) -> int:
        if self._size is None:
            self._size = int(self._file.size())
        return self._size

    def pread_into(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> int:
        data = self.read_at(position, length)
        buffer[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def read_at(self, position: int, length: int) -> bytes:
        end = min(position + length, self.size())
        parts = []
        while position < end:
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
        self._file.close()

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
        return bytes(self._file.read_at(min(self._block_bytes, self.size() - start), start))


@dataclass(frozen=True, slots=True)
class _ArrowStorage:
    """A pyarrow file system; paths are its own, without a scheme."""

    filesystem: Any

    def open_input(self, path: str) -> LogFile:
        return _ArrowFile(self.filesystem, path)

    def read_file(self, path: str) -> bytes | None:
        try:
            with self.open_input(path) as file:
                return file.read_at(0, file.size())
        except FileNotFoundError:
            return None

    def read_start(self, path: str, length: int) -> bytes | None:
        try:
            with self.open_input(path) as file:
                return file.read_at(0, min(length, file.size()))
        except FileNotFoundError:
            return None

    def size(self, path: str) -> int:
        info = self._info(path)
        if info.size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return int(info.size)

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type.name != "NotFound")

    def is_directory(self, path: str) -> bool:
        return bool(self._info(path).type.name == "Directory")

    def list_names(self, path: str) -> list[str]:
        return [info.base_name for info in self._children(path)]

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        directories: list[str] = []
        others: list[str] = []
        for info in self._children(path):
            is_directory = info.type.name == "Directory"
            (directories if is_directory else others).append(info.base_name)
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

    def _info(self, path: str) -> Any:
        with _permission_checked(path):
            return self.filesystem.get_file_info([path])[0]

    def _children(self, path: str) -> list[Any]:
        from pyarrow.fs import FileSelector

        with _permission_checked(path):
            return list(self.filesystem.get_file_info(FileSelector(path)))


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
        return _ArrowStorage(_arrow_filesystem(filesystem)), path
    if is_local(path):
        return LOCAL, _without_file_scheme(path)
    return _remote_storage(path)


def local_path(path: str) -> str:
    """Give the path on the local disk of what is to be written; a ``file:`` URI is one.

    Raises
    ------
    NotALogDirectoryError
        Any other URI.
    """
    if not is_local(path):
        raise NotALogDirectoryError(
            f"{path} is no local path: what is written lies in a POSIX file system that all who "
            "write it share"
        )
    return _without_file_scheme(path)


def is_local(path: str) -> bool:
    """Tell whether a path is on the local disk, without asking any other file system."""
    return _URI.match(path) is None or _LOCAL_URI.match(path) is not None


def _without_file_scheme(path: str) -> str:
    local = _LOCAL_URI.match(path)
    return path if local is None else "/" + path[local.end() :]


def _remote_storage(uri: str) -> tuple[Storage, str]:
    from pyarrow.fs import FileSystem

    if uri.lower().startswith("file:"):
        # fsspec would take what stands in the place of a host for a folder.
        raise LogPathNotFoundError(f"{uri} is no path of this host: file:///folder would be one")
    try:
        filesystem, path = FileSystem.from_uri(uri)
    except (ValueError, NotImplementedError):
        filesystem, path = _fsspec_filesystem(uri)
    return _ArrowStorage(filesystem), path


def _fsspec_filesystem(uri: str) -> tuple[Any, str]:
    try:
        import fsspec

        if "://" not in uri:
            raise ValueError("'//' is missing behind the scheme")
        filesystem, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError) as error:
        raise LogPathNotFoundError(
            f"{uri} is no local path, and no file system is known for its scheme: {error}"
        ) from error
    return _arrow_filesystem(filesystem), path


def _arrow_filesystem(filesystem: Any) -> Any:
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    if isinstance(filesystem, FileSystem):
        return filesystem
    return PyFileSystem(FSSpecHandler(filesystem))


@cache
def _read_ahead_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_READ_AHEAD_THREADS, thread_name_prefix="segmentlog-read-ahead")


def is_zero_from(file: LogFile, position: int, buffer: npt.NDArray[np.uint8]) -> bool:
    """Tell whether a file holds only zeros from a position to its end; holes are not read."""
    view = buffer[:ZERO_CHECK_BYTES]
    while (data_position := file.next_data_position(position)) is not None:
        count = file.pread_into(view, data_position, len(view))
        if view[:count].any():
            return False
        if count < len(view):
            return True
        position = data_position + count
    return True


@contextmanager
def _permission_checked(path: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise LogPermissionError(f"no permission to read {path}") from error


# Writing. Every operation that must last goes through one of these, always called as
# ``files.<name>``, so that a test can put itself in their place to fail, tear or reorder them.


def create_exclusive(path: str) -> int:
    """Create a file that must not be there yet, and open it for reading and writing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    _give_to_owner(descriptor, path)
    return descriptor


def open_for_update(path: str, *, create: bool = False) -> int:
    """Open a file for reading and writing in place; its bytes stay.

    A link is not followed: whatever came with a directory must not lead a write out of it.

    Raises
    ------
    UnsafeTargetError
        The name is a link, or no file's.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags, FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR):
            raise _is_link(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _is_link(path)
    if create:
        _give_to_owner(descriptor, path)
    return descriptor


def _give_to_owner(created: int | str, path: str) -> None:
    """Give what root created to the owner of the folder that it lies in.

    A broker runs as the owner of its log directories, and takes a directory offline in which it
    may not open a file.
    """
    if os.geteuid() != ROOT:
        return
    folder = os.stat(os.path.dirname(path) or ".")
    status = os.stat(created)
    if status.st_uid != ROOT or folder.st_uid == ROOT:
        return
    try:
        os.chown(created, folder.st_uid, folder.st_gid)
    except OSError as error:
        # A file system that maps root away, or a container: nobody else can be given a file there.
        _log.warning("%s stays with user %d: %s", path, status.st_uid, error)


def read_plain_file(path: str) -> bytes:
    """Read a small file of ours whole; a link or a device, which none of ours is, is refused.

    Raises
    ------
    UnsafeTargetError
    """
    descriptor = open_plain_file(path)
    try:
        return read_exactly(descriptor, 0, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def open_plain_file(path: str) -> int:
    """Open a file for reading; a link or a device is refused.

    Raises
    ------
    UnsafeTargetError
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _is_link(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _is_link(path)
    return descriptor


def _is_link(path: str) -> UnsafeTargetError:
    return UnsafeTargetError(
        f"no plain file, but a link, folder or device: neither followed nor written (file {path})"
    )


def close(descriptor: int) -> None:
    """Close a descriptor."""
    os.close(descriptor)


def write_all(descriptor: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all the bytes at a position; the system may take them in several short writes."""
    rest = memoryview(data).cast("B")
    while len(rest):
        written = os.pwrite(descriptor, rest, position)
        if written <= 0:
            raise OSError(errno.EIO, f"write of {len(rest)} bytes at position {position} took none")
        position += written
        rest = rest[written:]


def start_writeback(descriptor: int, position: int, length: int) -> None:
    """Have the system begin to write out what was written, where it can be told to.

    A hint: the sync that follows has less to wait for, and alone tells of errors.
    """
    sync_file_range = _find_sync_file_range()
    if sync_file_range is not None:
        sync_file_range(descriptor, position, length, _SYNC_FILE_RANGE_WRITE)


@cache
def _find_sync_file_range() -> Any:
    """Find the system call, which only Linux has, and Python has no name for."""
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


def read_exactly(descriptor: int, position: int, length: int) -> bytes:
    """Read bytes of an open file; fewer than asked for only at its end."""
    parts: list[bytes] = []
    while length > 0:
        part = os.pread(descriptor, length, position)
        if not part:
            break
        parts.append(part)
        position += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_into(descriptor: int, buffer: npt.NDArray[np.uint8], position: int) -> int:
    """Read bytes of an open file to a buffer, once; the system may give fewer."""
    return os.preadv(descriptor, [buffer.data], position)


def fsync(descriptor: int) -> None:
    """Make a file's bytes and size last."""
    _sync(descriptor)


def fsync_directory(path: str) -> None:
    """Make the names in a folder last: created, renamed and removed ones."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Sync down to the disk; fsync alone leaves it in the drive's cache on macOS."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            # Of a file system that does not know it; any other error is one of the disk.
            if error.errno not in CANNOT_RESERVE | {errno.ENOTTY}:
                raise
        else:
            return
    os.fsync(descriptor)


def rename(source: str, target: str) -> None:
    """Rename a file, in place of one that has the name already.

    Raises
    ------
    UnsafeTargetError
        A folder has the name.
    """
    try:
        os.rename(source, target)
    except IsADirectoryError as error:
        raise _is_link(target) from error


def unlink(path: str, *, missing_ok: bool = False) -> None:
    """Remove a file's name."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise


def mkdir(path: str, *, exist_ok: bool = False) -> None:
    """Create a folder; its parent must be there."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not exist_ok or not os.path.isdir(path):
            raise
    else:
        _give_to_owner(path, path)


def rmdir(path: str, *, missing_ok: bool = False) -> None:
    """Remove an empty folder."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        if not missing_ok:
            raise


def truncate(descriptor: int, size_bytes: int) -> None:
    """Cut a file at a size."""
    os.ftruncate(descriptor, size_bytes)


def allocate(descriptor: int, size_bytes: int) -> None:
    """Reserve blocks for a file's first bytes; an error says that the disk has no room for them.

    Where the system cannot reserve, the room that is free now is compared.
    """
    if size_bytes <= 0:
        return
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
        except OSError as error:
            if error.errno not in CANNOT_RESERVE:
                raise
        else:
            return
    status = os.fstatvfs(descriptor)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < size_bytes:
        detail = f"{os.strerror(errno.ENOSPC)}: {size_bytes} bytes wanted, {free_bytes} are free"
        raise OSError(errno.ENOSPC, detail)


def set_modified_time(path: str, modified_ns: int) -> None:
    """Set a file's times of access and change, in ns since the epoch."""
    os.utime(path, ns=(modified_ns, modified_ns))


def copy_range(
    source: int, target: int, *, source_position: int, target_position: int, length: int
) -> None:
    """Copy bytes between two open files, inside the file system where it can.

    Raises
    ------
    OSError
        Also where the source ends before `length` bytes.
    """
    while length > 0:
        copied = _copy_some(source, target, source_position, target_position, length)
        if copied == 0:
            raise OSError(errno.EIO, f"source ends {length} bytes early at {source_position}")
        source_position += copied
        target_position += copied
        length -= copied


def copy_file(source: str, target: str) -> None:
    """Copy a file to a new name and sync its bytes; the name lasts once the folder is synced."""
    reading = open_plain_file(source)
    try:
        writing = create_exclusive(target)
        try:
            size_bytes = os.fstat(reading).st_size
            copy_range(reading, writing, source_position=0, target_position=0, length=size_bytes)
            fsync(writing)
        finally:
            close(writing)
    finally:
        os.close(reading)


def write_atomically(path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace a file as a whole: a temporary name, the bytes, an fsync, a rename.

    The rename itself lasts once the folder is synced, which is left to the caller. Without
    `durable` the bytes are not synced either: for files that may be lost with the power.
    """
    temporary = path + TEMPORARY_SUFFIX
    descriptor = open_for_update(temporary, create=True)
    try:
        truncate(descriptor, 0)
        write_all(descriptor, data, 0)
        if durable:
            fsync(descriptor)
    finally:
        close(descriptor)
    rename(temporary, path)


def _copy_some(
    source: int, target: int, source_position: int, target_position: int, length: int
) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, length, source_position, target_position)
        except OSError as error:
            if error.errno not in CANNOT_COPY_INSIDE:
                raise
    data = os.pread(source, min(length, COPY_CHUNK_BYTES), source_position)
    write_all(target, data, target_position)
    return len(data)
