"""Pieces of a segment on their way from a scan to whoever decodes them, and what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa

from spark_segmentlog.log.io.reading import LogFile

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ScannedPiece:
    """Rows of a scan that are yet to be decoded.

    Attributes
    ----------
    held : ExitStack, optional
        Memory and file of a piece that may be decoded apart from the scan, in any thread; to be
        closed after that, or where nobody decodes it. Without it the rows must be used up before
        the scan goes on.
    """

    decode: Callable[[], Iterator[pa.RecordBatch]]
    held: ExitStack | None = None


class SharedFile:
    """A file that is closed when nobody holds it any more; the first who does is its maker."""

    def __init__(self, file: LogFile) -> None:
        self.file = file
        self._holders = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        with self._lock:
            self._holders += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._holders -= 1
            is_held = self._holders > 0
        if not is_held:
            self.file.close()


class Spares(Generic[_T]):
    """Things that are used again, each by one thread at a time."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._spares: list[_T] = []

    def borrow(self) -> _T:
        """Give a spare one, or a new one."""
        try:
            return self._spares.pop()
        except IndexError:
            return self._make()

    def give_back(self, spare: _T) -> None:
        """Have it used again."""
        self._spares.append(spare)
