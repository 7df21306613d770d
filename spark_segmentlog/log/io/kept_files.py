"""Small far files that were read, so that nothing of them is read twice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Any, Final

from spark_segmentlog.log.io.remote_file import PEEK_BYTES, RangeSource

KEPT_BYTES: Final = 8 * 1024 * 1024


class KeptFiles:
    """The bytes of small files by path: those that were asked for last, up to `KEPT_BYTES`.

    Nothing of it travels to another process.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, Future[bytes]]] = {}
        self._bytes = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptFiles, ()

    def source(self, path: str, size: int, open_source: Callable[[], RangeSource]) -> RangeSource:
        """Give what reads a file of `PEEK_BYTES` at most, whole and once."""
        assert size <= PEEK_BYTES
        return _KeptSource(self, path, size, open_source)

    def read(self, path: str, size: int, fetch: Callable[[], bytes]) -> bytes:
        """Give the bytes of a file; they are fetched by the first of all threads that ask."""
        with self._lock:
            _, found = self._files.get(path, (0, None))
            mine: Future[bytes] = Future()
            if found is None:
                self._keep(path, size, mine)
        if found is not None:
            return found.result()
        try:
            data = fetch()
        except BaseException as error:
            with self._lock:
                self._drop(path)
            mine.set_exception(error)
            raise
        mine.set_result(data)
        return data

    def forget(self, folder: str) -> None:
        """Drop the files of a folder: they may be others by now."""
        with self._lock:
            for path in [path for path in self._files if path.rpartition("/")[0] == folder]:
                self._drop(path)

    def _keep(self, path: str, size: int, data: Future[bytes]) -> None:
        self._files[path] = size, data
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            self._drop(next(iter(self._files)))

    def _drop(self, path: str) -> None:
        size, _ = self._files.pop(path, (0, None))
        self._bytes -= size


class _KeptSource:
    """The ranges of a small file, of which all is read at once, when it is read."""

    def __init__(
        self, kept: KeptFiles, path: str, size: int, open_source: Callable[[], RangeSource]
    ) -> None:
        self._kept = kept
        self._path = path
        self._size = size
        self._open_source = open_source

    def size(self) -> int:
        return self._size

    def read(self, position: int, length: int) -> bytes:
        data = self._kept.read(self._path, self._size, self._fetch)
        return data[position : position + length]

    def close(self) -> None:
        """Do nothing: what is read is closed at once."""

    def _fetch(self) -> bytes:
        source = self._open_source()
        try:
            return bytes(source.read(0, self._size))
        finally:
            source.close()
