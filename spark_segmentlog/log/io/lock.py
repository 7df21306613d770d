"""One writer a log directory: the broker's own ``.lock``, and ``.segmentlog-writer`` before it.

A broker locks ``.lock`` through a Java FileChannel, which is a POSIX record lock over the whole
file. This takes an open-file-description lock of the same range (``F_OFD_SETLK``), which record
locks respect and which respects them. A record lock would be dropped as soon as anything in this
process opens the file and closes it again, be it a copy or an archive of the folder; this one goes
with its own descriptor alone. Where a system has no such locks, record locks take their place, and
nothing else in the process may open the files.

A forked child has the descriptors of its parent, and with them a share in the locks. It closes them
at once, which takes nothing from the parent: a child holds no lock, and what it inherits of an open
log is not its own (`is_of_this_process`).

A broker deletes ``.lock`` on a clean stop: what was locked is compared with what the path names,
and locked again where they differ. We never unlink it.

Who holds it is told by a second lock. A writer of this library first locks the plain file
``.segmentlog-writer``, for which it waits, since another of our writers will be done soon. Whoever
has that and still finds ``.lock`` taken knows that the holder is no writer of this library but a
broker, which does not let go while it runs: refused at once. Both locks go with their process, also
after ``kill -9``; the files stay, and mean nothing without a lock on them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from spark_segmentlog.errors import (
    LogLockedError,
    LogPathNotFoundError,
    LogPermissionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.io import files

BROKER_LOCK_FILE_NAME: Final = ".lock"
WRITER_LOCK_FILE_NAME: Final = ".segmentlog-writer"
DEFAULT_LOCK_TIMEOUT_MS: Final = 60_000
POLL_SECONDS: Final = 0.02
HELD_BY_ANOTHER: Final = frozenset((errno.EACCES, errno.EAGAIN))
# What file systems answer that know no locks: some network and user-space ones.
WITHOUT_LOCKS: Final = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))
# struct flock of Linux: type, whence, start, length (0: to the end), pid (0: of no process).
_FLOCK: Final = struct.Struct("hhqqi4x")


@dataclass(frozen=True, slots=True, kw_only=True)
class _HeldLock:
    writer_descriptor: int
    broker_descriptor: int


class _LockTable:
    """The log directories that this process has locked, or is about to lock."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owners: dict[str, int] = {}
        self._held: dict[str, _HeldLock] = {}
        os.register_at_fork(after_in_child=self._forget)

    def acquire(self, log_directory: str, deadline: float) -> _HeldLock:
        self._reserve(log_directory, deadline)
        try:
            held = _lock_files(log_directory, deadline)
        except BaseException:
            self._release_reservation(log_directory)
            raise
        with self._changed:
            self._held[log_directory] = held
        return held

    def release(self, log_directory: str, held: _HeldLock) -> None:
        """Let go of a lock; one that was taken before a fork is the parent's, and stays."""
        with self._changed:
            if self._held.get(log_directory) is not held:
                return
            del self._held[log_directory]
            for descriptor in (held.broker_descriptor, held.writer_descriptor):
                _unlock(descriptor)
                files.close(descriptor)
            del self._owners[log_directory]
            self._changed.notify_all()

    def _reserve(self, log_directory: str, deadline: float) -> None:
        this_thread = threading.get_ident()
        with self._changed:
            if self._owners.get(log_directory) == this_thread:
                raise LogLockedError(
                    f"{log_directory} is already open for writing in this thread: close that "
                    "log before another writer of it is opened"
                )
            free = self._changed.wait_for(
                lambda: log_directory not in self._owners, max(deadline - time.monotonic(), 0)
            )
            if not free:
                raise LogLockedError(
                    f"{log_directory} is open for writing in another thread of this process; "
                    "waited until lock.timeout.ms was over"
                )
            self._owners[log_directory] = this_thread

    def _release_reservation(self, log_directory: str) -> None:
        with self._changed:
            del self._owners[log_directory]
            self._changed.notify_all()

    def _forget(self) -> None:
        """Close a parent's locks in its forked child, without unlocking what both share."""
        for held in self._held.values():
            files.close(held.broker_descriptor)
            files.close(held.writer_descriptor)
        self._changed = threading.Condition()
        self._owners = {}
        self._held = {}


_table = _LockTable()


@contextmanager
def locked(
    log_directories: Sequence[str], *, timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS
) -> Iterator[tuple[str, ...]]:
    """Hold the locks of log directories, taken in the order of their real paths.

    Parameters
    ----------
    timeout_ms : int
        How long to wait, in all, for other writers of this library; a broker is not waited for.

    Yields
    ------
    tuple of str
        The real paths, sorted.

    Raises
    ------
    LogLockedError
        A broker holds one of them, or another writer did for too long. None is held then.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    paths = tuple(sorted({os.path.realpath(path) for path in log_directories}))
    taken: list[tuple[str, _HeldLock]] = []
    try:
        for path in paths:
            taken.append((path, _table.acquire(path, deadline)))
        yield paths
    finally:
        for path, held in reversed(taken):
            _table.release(path, held)


def is_locked(log_directory: str) -> bool | None:
    """Tell whether a broker, or a writer, has a log directory at this moment; nothing is written.

    Returns
    -------
    bool or None
        None where the system does not tell, or not this user: whoever writes finds out.
    """
    command = getattr(fcntl, "F_OFD_GETLK", None)
    if command is None:
        return None
    try:
        descriptor = files.open_plain_file(os.path.join(log_directory, BROKER_LOCK_FILE_NAME))
    except FileNotFoundError:
        return False
    except (PermissionError, UnsafeTargetError):
        return None
    with files.closed_after(descriptor):
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            kind = _FLOCK.unpack(fcntl.fcntl(descriptor, command, wanted))[0]
        except OSError as error:
            if error.errno == errno.EINVAL or error.errno in WITHOUT_LOCKS:
                return None
            raise
        return bool(kind != fcntl.F_UNLCK)


def is_of_this_process(process_id: int) -> bool:
    """Tell whether what a process opened is this process's own, or came to it by a fork."""
    return process_id == os.getpid()


def _lock_files(log_directory: str, deadline: float) -> _HeldLock:
    writer = _lock_writer_file(os.path.join(log_directory, WRITER_LOCK_FILE_NAME), deadline)
    try:
        broker = _lock_broker_file(os.path.join(log_directory, BROKER_LOCK_FILE_NAME))
    except BaseException:
        files.close(writer)
        raise
    return _HeldLock(writer_descriptor=writer, broker_descriptor=broker)


def _lock_writer_file(path: str, deadline: float) -> int:
    while True:
        descriptor = _try_lock(path)
        if descriptor is not None:
            try:
                _sign(descriptor)
            except BaseException:
                files.close(descriptor)
                raise
            return descriptor
        if time.monotonic() >= deadline:
            raise LogLockedError(
                f"{os.path.dirname(path)} is being written by {_read_signature(path)}; waited "
                f"until lock.timeout.ms was over (file {path})"
            )
        time.sleep(POLL_SECONDS)


def _lock_broker_file(path: str) -> int:
    descriptor = _try_lock(path)
    if descriptor is None:
        raise LogLockedError(
            f"{os.path.dirname(path)} is held by a running broker: stop it before this "
            f"directory is written (file {path})"
        )
    return descriptor


def _try_lock(path: str) -> int | None:
    """Lock a file; None where another process has it."""
    while True:
        descriptor = _open(path)
        try:
            _set_lock(descriptor)
        except OSError as error:
            files.close(descriptor)
            if error.errno in HELD_BY_ANOTHER:
                return None
            if error.errno in WITHOUT_LOCKS:
                raise LogLockedError(
                    f"{os.path.dirname(path)} lies on a file system without file locks "
                    f"({error.strerror}): nothing would keep a second writer away (file {path})"
                ) from error
            raise
        if _is_named(descriptor, path):
            return descriptor
        files.close(descriptor)


def _set_lock(descriptor: int, kind: int = fcntl.F_WRLCK) -> None:
    """Lock all of a file for this descriptor; a record lock where there is no other."""
    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is not None:
        try:
            fcntl.fcntl(descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            # A kernel that does not know the command, which Python was built to know.
            if error.errno != errno.EINVAL:
                raise
        else:
            return
    fcntl.lockf(
        descriptor, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
    )


def _unlock(descriptor: int) -> None:
    """Unlock before closing: a child that native code forked may share the descriptor still."""
    with suppress(OSError):
        _set_lock(descriptor, fcntl.F_UNLCK)


def _open(path: str) -> int:
    try:
        return files.open_for_update(path, create=True)
    except PermissionError as error:
        raise LogPermissionError(f"cannot lock {os.path.dirname(path)}: {error}") from error
    except FileNotFoundError as error:
        raise LogPathNotFoundError(f"no log directory at {os.path.dirname(path)}") from error


def _is_named(descriptor: int, path: str) -> bool:
    """Tell whether the path still names the file that was opened: a broker may have deleted it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    """Leave in the file who holds it, for the message that another writer will show."""
    signature = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
    files.truncate(descriptor, 0)
    files.write_all(descriptor, signature, 0)


def _read_signature(path: str) -> str:
    """Read who holds the lock; only where this process does not, for the sake of record locks."""
    try:
        text = files.read_plain_file(path)[:200].decode(errors="replace")
        return text.strip() or "another writer"
    except (OSError, UnsafeTargetError):
        return "another writer"
