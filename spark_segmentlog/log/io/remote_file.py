"""A file that is read by ranges over a network, in blocks that are fetched ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Final, Protocol

from spark_segmentlog.log.io.reading import LogFile, not_there

READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
BLOCKS_AHEAD: Final = 8
MOST_AHEAD_BYTES: Final = BLOCKS_AHEAD * READ_AHEAD_BYTES
_READ_AHEAD_THREADS: Final = 2 * BLOCKS_AHEAD
_BLOCKS_KEPT: Final = 3
PEEK_BYTES: Final = 128 * 1024
_BLOCK_GROWTH: Final = 4


class RangeSource(Protocol):
    """What gives ranges of a file; by several threads at once."""

    def read(self, position: int, length: int) -> bytes:
        """Read bytes at a position, all of them within the file."""

    def size(self) -> int:
        """Measure the file, in bytes."""

    def close(self) -> None:
        """Give back what is held."""


class RemoteFile(LogFile):
    """A file that is read in blocks where one read goes on from the other, the next ones ahead.

    Blocks grow to some MiB; they have that size at once where it was said that all of the file is
    read. Elsewhere a read is one request for little more than what it asks for. A file of
    `PEEK_BYTES` at most is fetched whole.

    Parameters
    ----------
    size : int, optional
        Of the file, where a listing has told; else it is asked for when it is needed.
    reads_blocks : bool
        Whether more is read than is asked for.
    """

    def __init__(
        self, path: str, source: RangeSource, *, size: int | None = None, reads_blocks: bool = True
    ) -> None:
        self.path = path
        self._source = source
        self._size = size
        self._reads_blocks = reads_blocks
        # A scan's thread reads on while others look around a bad batch.
        self._lock = Lock()
        self._blocks: deque[tuple[int, bytes]] = deque(maxlen=_BLOCKS_KEPT)
        self._reached = 0
        self._block_bytes = PEEK_BYTES
        self._ahead: deque[tuple[int, Future[bytes]]] = deque()
        self._at_end: Callable[[], object] | None = None

    def begin(self) -> None:
        """Say that all of the file is read, so that blocks are fetched before they are wanted."""
        with self._lock:
            self._block_bytes = READ_AHEAD_BYTES
            self._fetch_ahead()

    def call_at_end(self, action: Callable[[], object]) -> None:
        """Have something done as soon as the last block of a read up to the end is asked for."""
        with self._lock:
            self._at_end = action
            self._ask_up_to(self._reached + len(self._ahead) * READ_AHEAD_BYTES)

    def size(self) -> int:
        if self._size is None:
            self._size = int(self._source.size())
        return self._size

    def read_at(self, position: int, length: int) -> bytes:
        end = min(position + length, self.size())
        if position >= end:
            return b""
        if not self._reads_blocks:
            return self._fetch(position, end - position)
        parts = []
        while position < end:
            with self._lock:
                start, block = self._block_at(position, end - position)
            parts.append(block[position - start : end - start])
            position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the file, once nothing is fetched of it any more."""
        self._forget_ahead()
        self._source.close()

    def _block_at(self, position: int, wanted: int) -> tuple[int, bytes]:
        for start, block in self._blocks:
            if start <= position < start + len(block):
                return start, block
        goes_on = position == self._reached
        if self._ahead and self._ahead[0][0] == position:
            data = self._ahead.popleft()[1].result()
        else:
            self._forget_ahead()
            if not goes_on:
                self._block_bytes = PEEK_BYTES
            if self.size() <= PEEK_BYTES:
                position = 0
            most = READ_AHEAD_BYTES if goes_on else wanted
            length = max(min(wanted, most), self._block_bytes)
            self._ask_up_to(position + length)
            data = self._fetch(position, length)
        self._blocks.append((position, data))
        self._reached = position + len(data)
        if goes_on and self._block_bytes == READ_AHEAD_BYTES:
            self._fetch_ahead()
        self._block_bytes = min(self._block_bytes * _BLOCK_GROWTH, READ_AHEAD_BYTES)
        return position, data

    def _fetch_ahead(self) -> None:
        """Have blocks fetched after those that are in hand."""
        first = self._reached + len(self._ahead) * READ_AHEAD_BYTES
        last = self._reached + MOST_AHEAD_BYTES
        for position in range(first, min(last, self.size()), READ_AHEAD_BYTES):
            pool = _read_ahead_pool()
            self._ahead.append((position, pool.submit(self._fetch, position, READ_AHEAD_BYTES)))
        self._ask_up_to(last)

    def _ask_up_to(self, position: int) -> None:
        """Note how far the file is asked for."""
        action = self._at_end
        if action is not None and position >= self.size():
            self._at_end = None
            action()

    def _forget_ahead(self) -> None:
        for _, future in self._ahead:
            future.cancel() or future.exception()
        self._ahead.clear()

    def _fetch(self, position: int, length: int) -> bytes:
        """Read bytes from the source, as far as the file goes.

        Raises
        ------
        FileNotFoundError
            The file ends before the size that it was listed with: it is another one by now.
        """
        wanted = min(length, self.size() - position)
        data = bytes(self._source.read(position, wanted))
        if len(data) < wanted:
            raise not_there(self.path)
        return data


def is_far(file: LogFile) -> bool:
    """Tell whether each read of a file may be a request, whose bytes are to be few."""
    return isinstance(file, RemoteFile)


def expect_whole(file: LogFile) -> None:
    """Say of a file that is read from its start that all of it is read; matters to far ones."""
    if isinstance(file, RemoteFile):
        file.begin()


@cache
def _read_ahead_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_READ_AHEAD_THREADS, thread_name_prefix="segmentlog-read-ahead")
