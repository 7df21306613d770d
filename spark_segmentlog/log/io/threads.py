"""A few threads for what waits for the disk or for a network, and what they may share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, Self, TypeVar, overload

THREADS: Final = 8
FAR_THREADS: Final = 16

_T = TypeVar("_T")
_R = TypeVar("_R")


def in_parallel(
    function: Callable[[_T], _R], items: Sequence[_T], threads: int = THREADS
) -> list[_R]:
    """Call a function on each item, by a few threads; without, where one would do."""
    threads = min(threads, len(items))
    if threads <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


class FoundOnce(Generic[_T, _R]):
    """A property that is kept once it was found, as `functools.cached_property` does it.

    Before Python 3.12 that has a lock for all objects of a class, so that threads which ask several
    objects at once wait for each other.
    """

    def __init__(self, find: Callable[[_T], _R]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    @overload
    def __get__(self, owner: None, kind: type[_T]) -> Self: ...

    @overload
    def __get__(self, owner: _T, kind: type[_T]) -> _R: ...

    def __get__(self, owner: Any, kind: Any) -> Any:
        if owner is None:
            return self
        found = owner.__dict__[self._name] = self._find(owner)
        return found
