"""Every operation on local files that changes them or locks them, one function each.

They are always called as ``files.<name>``, so that a test can put itself in their place to fail,
tear or reorder them. A file that is not there is a `FileNotFoundError`, since only the caller knows
what that means.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_int, c_int64, c_uint
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import UnsafeTargetError

FILE_MODE: Final = 0o644
ROOT: Final = 0
TEMPORARY_SUFFIX: Final = ".tmp"
COPY_CHUNK_BYTES: Final = 1024 * 1024
# What copy_file_range answers across file systems, on old kernels and on special ones.
CANNOT_COPY_INSIDE: Final = frozenset((errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))
# What posix_fallocate answers on file systems that cannot reserve.
CANNOT_RESERVE: Final = frozenset((errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))
_SYNC_FILE_RANGE_WRITE: Final = 2
_FALLOC_FL_KEEP_SIZE: Final = 1

_log = logging.getLogger(__name__)


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
    with closed_after(open_plain_file(path)) as descriptor:
        return read_exactly(descriptor, 0, os.fstat(descriptor).st_size)


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


@contextmanager
def closed_after(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end of a ``with`` block."""
    try:
        yield descriptor
    finally:
        close(descriptor)


def write_all(descriptor: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all the bytes at a position; the system may take them in several short writes."""
    rest = memoryview(data).cast("B")
    while len(rest):
        written = os.pwrite(descriptor, rest, position)
        if written <= 0:
            raise OSError(
                errno.EIO, f"the disk took none of {len(rest)} bytes at position {position}"
            )
        position += written
        rest = rest[written:]


def start_writeback(descriptor: int, position: int, length: int) -> None:
    """Have the system begin to write out what was written, where it can be told to.

    A hint: the sync that follows has less to wait for, and alone tells of errors.
    """
    sync_file_range = _find_call("sync_file_range", (c_int, c_int64, c_int64, c_uint))
    if sync_file_range is not None:
        sync_file_range(descriptor, position, length, _SYNC_FILE_RANGE_WRITE)


def lay_out(descriptor: int, position: int, length: int) -> None:
    """Have the system find blocks for bytes to come, where it can be told to; the size stays.

    A hint: they are written with less work. To truncate the file gives back what was not needed.
    """
    fallocate = _find_call("fallocate", (c_int, c_int, c_int64, c_int64))
    if fallocate is not None:
        fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, position, length)


@cache
def _find_call(name: str, argument_types: tuple[Any, ...]) -> Any:
    """Find a system call that only Linux has, and Python has no name for."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = argument_types
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
            raise OSError(errno.EIO, f"the source ends at {source_position}, {length} bytes early")
        source_position += copied
        target_position += copied
        length -= copied


def copy_file(source: str, target: str) -> None:
    """Copy a file to a new name and sync its bytes; the name lasts once the folder is synced."""
    with (
        closed_after(open_plain_file(source)) as reading,
        closed_after(create_exclusive(target)) as writing,
    ):
        size_bytes = os.fstat(reading).st_size
        copy_range(reading, writing, source_position=0, target_position=0, length=size_bytes)
        fsync(writing)


def cut(path: str, size_bytes: int, *, create: bool = False) -> None:
    """Cut a file off at a size, and make that last."""
    with closed_after(open_for_update(path, create=create)) as descriptor:
        truncate(descriptor, size_bytes)
        fsync(descriptor)


def write_atomically(path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace a file as a whole: a temporary name, the bytes, an fsync, a rename.

    The rename itself lasts once the folder is synced, which is left to the caller. Without
    `durable` the bytes are not synced either: for files that may be lost with the power.
    """
    temporary = path + TEMPORARY_SUFFIX
    with closed_after(open_for_update(temporary, create=True)) as descriptor:
        truncate(descriptor, 0)
        write_all(descriptor, data, 0)
        if durable:
            fsync(descriptor)
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
