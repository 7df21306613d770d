"""A few threads for what waits for the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

THREADS: Final = 8

_T = TypeVar("_T")
_R = TypeVar("_R")


def in_parallel(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Call a function on each item, by a few threads; on a single one without."""
    if len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(THREADS, len(items))) as pool:
        return list(pool.map(function, items))
