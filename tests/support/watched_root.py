"""Tells what of a disk outside of a folder this process opens, lists or changes.

By Python's audit events, which every such call raises, whoever makes it. Links count for where they
lead, unless they are opened as what they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Which of them touch a disk, and which of their arguments are paths.
EVENTS = {
    "open": slice(0, 1),
    "os.chmod": slice(0, 1),
    "os.chown": slice(0, 1),
    "os.link": slice(0, 2),
    "os.listdir": slice(0, 1),
    "os.mkdir": slice(0, 1),
    "os.remove": slice(0, 1),
    "os.rename": slice(0, 2),
    "os.rmdir": slice(0, 1),
    "os.scandir": slice(0, 1),
    "os.symlink": slice(1, 2),
    "os.truncate": slice(0, 1),
    "os.utime": slice(0, 1),
}
OPEN_FLAGS = 2
# The program itself, which is loaded when it is first needed.
PROGRAM = (".py", ".pyc", ".so", ".nbi", ".nbc")


class WatchedRoot:
    """A folder beside which nothing may be touched while it is `watching`.

    Attributes
    ----------
    touched : set of (str, str)
        Events, each with the path outside that it was about.
    """

    def __init__(self, root: Path) -> None:
        self.touched: set[tuple[str, str]] = set()
        self._root = os.path.realpath(root)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take note of what is touched."""
        global _watched
        _install_hook()
        _watched = self
        try:
            yield
        finally:
            _watched = None

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take note of one event."""
        for path in arguments[EVENTS[event]]:
            if isinstance(path, int):
                continue
            place = self._place(os.fsdecode(path or "."), event, arguments)
            is_inside = place == self._root or place.startswith(self._root + os.sep)
            if not is_inside and not place.endswith(PROGRAM):
                self.touched.add((event, place))

    @staticmethod
    def _place(path: str, event: str, arguments: tuple[Any, ...]) -> str:
        if event in ("os.listdir", "os.scandir"):
            return os.path.realpath(path)
        if event == "open" and not arguments[OPEN_FLAGS] & os.O_NOFOLLOW:
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        return os.path.join(os.path.realpath(folder), name)


_watched: WatchedRoot | None = None
_is_installed = False


def _install_hook() -> None:
    """Put the hook in, once: nobody can take it out again."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and event in EVENTS:
        _watched.look(event, arguments)
