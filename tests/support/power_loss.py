"""A disk that loses what was not synced: what is left of a folder when the power goes.

Every writing operation of `spark_segmentlog.log.io.files` is carried out and written down. After
any of them the folder can be asked for in the states that a power loss may leave: names of a folder
as they were at its last sync or after any later operation on it, in order; bytes of a file as
they were at its last sync, as they are now, or half way.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log.io import files


class PowerLoss(BaseException):
    """The end of the process, which no handler may take for an error."""


@dataclass(slots=True)
class _File:
    content: bytes = b""
    synced: bytes = b""

    @property
    def torn(self) -> bytes:
        """Half of what was not synced, then zeros where the file had grown."""
        if self.content == self.synced:
            return self.content
        pairs = zip(self.content, self.synced, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        middle = same + (len(self.content) - same) // 2
        return self.content[:middle].ljust(len(self.content), b"\0")


@dataclass(slots=True)
class _Folder:
    names: dict[str, _File] = field(default_factory=dict)
    # From the last sync on, after each operation; the first one is what the sync left.
    history: list[dict[str, _File]] = field(default_factory=list)

    def changed(self) -> None:
        self.history.append(dict(self.names))

    def synced(self) -> None:
        self.history = [dict(self.names)]


class Disk:
    """Watches the writing operations under a folder, and stops them after a given number.

    Parameters
    ----------
    root : path
        Everything that is there already counts as synced.
    stop_after : int, optional
        `PowerLoss` is raised after that many operations.
    stop : callable, optional
        Called instead of that.
    """

    def __init__(
        self,
        root: Path,
        stop_after: int | None = None,
        *,
        stop: Callable[[], None] | None = None,
    ) -> None:
        self.root = root
        self.operations: list[str] = []
        self._stop_after = stop_after
        self._stop = stop or _lose_power
        self._folders: dict[str, _Folder] = {}
        self._open: dict[int, _File] = {}
        for folder, _, names in os.walk(root):
            found = _Folder()
            for name in names:
                data = Path(folder, name).read_bytes()
                found.names[name] = _File(data, data)
            found.synced()
            self._folders[folder] = found

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put itself in the place of the operations."""
        for name in (
            "create_exclusive",
            "open_for_update",
            "write_all",
            "truncate",
            "fsync",
            "fsync_directory",
            "rename",
            "unlink",
            "set_modified_time",
        ):
            monkeypatch.setattr(files, name, self._watched(name, getattr(files, name)))

    def _watched(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._stop_after is not None and len(self.operations) >= self._stop_after:
                self._stop()
            result = operation(*args, **kwargs)
            getattr(self, f"_{name}", lambda *_args, **_kwargs: None)(result, *args, **kwargs)
            self.operations.append(f"{name} {args[0] if isinstance(args[0], str) else ''}")
            return result

        return watched

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder, name = os.path.split(path)
        return self._folders.setdefault(folder, _Folder(history=[{}])), name

    def _create_exclusive(self, descriptor: int, path: str) -> None:
        folder, name = self._place(path)
        self._open[descriptor] = folder.names[name] = _File()
        folder.changed()

    def _open_for_update(self, descriptor: int, path: str, *, create: bool = False) -> None:
        folder, name = self._place(path)
        if name not in folder.names:
            folder.names[name] = _File()
            folder.changed()
        self._open[descriptor] = folder.names[name]

    def _write_all(self, _: None, descriptor: int, data: Any, position: int) -> None:
        file = self._open[descriptor]
        before = file.content.ljust(position, b"\0")
        written = bytes(data)
        file.content = before[:position] + written + before[position + len(written) :]

    def _truncate(self, _: None, descriptor: int, size_bytes: int) -> None:
        file = self._open[descriptor]
        file.content = file.content[:size_bytes].ljust(size_bytes, b"\0")

    def _fsync(self, _: None, descriptor: int) -> None:
        file = self._open[descriptor]
        file.synced = file.content

    def _fsync_directory(self, _: None, path: str) -> None:
        self._folders.setdefault(path, _Folder()).synced()

    def _rename(self, _: None, source: str, target: str) -> None:
        folder, name = self._place(source)
        target_folder, target_name = self._place(target)
        target_folder.names[target_name] = folder.names.pop(name)
        folder.changed()
        if target_folder is not folder:
            target_folder.changed()

    def _unlink(self, _: None, path: str, *, missing_ok: bool = False) -> None:
        folder, name = self._place(path)
        if folder.names.pop(name, None) is not None:
            folder.changed()

    def states(self, target: Path, seen: set[bytes]) -> Iterator[Path]:
        """Write the states that a power loss may leave now, each to a folder of its own.

        Parameters
        ----------
        target : path
            Gets a folder for each state.
        seen : set
            Digests of states that were given before, which are left out.
        """
        longest = max(len(folder.history) for folder in self._folders.values())
        for version in range(longest):
            for bytes_of in ("synced", "torn", "content"):
                state = self._state(version, bytes_of)
                digest = hashlib.sha256(repr(sorted(state.items())).encode()).digest()
                if digest in seen:
                    continue
                seen.add(digest)
                yield _write(state, target / digest.hex()[:16])

    def _state(self, version: int, bytes_of: str) -> dict[str, bytes]:
        state = {}
        for path, folder in self._folders.items():
            names = folder.history[min(version, len(folder.history) - 1)]
            for name, file in names.items():
                place = os.path.join(os.path.relpath(path, self.root), name)
                state[place] = getattr(file, bytes_of)
        return state


def _lose_power() -> None:
    raise PowerLoss


def _write(state: dict[str, bytes], root: Path) -> Path:
    for place, data in state.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root
