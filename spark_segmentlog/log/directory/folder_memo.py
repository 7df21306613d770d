"""What was read of folders, kept for as long as they do not change.

A folder whose modification time has not moved holds the same names. What changed a moment ago may
change again within one tick of the file system's clock, and is read again until it has settled. A
folder of a far file system is listed each time: where names, sizes and versions of its files are
the same, so are the files; where nothing tells the versions, all is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from spark_segmentlog.errors import LogPermissionError
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.io.as_listed import StorageAsListed
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.io.signature import FileSignature, list_whole

_T = TypeVar("_T")


@dataclass(slots=True)
class FolderMemo:
    """What was read of folders, for as long as they have not changed."""

    _entries: dict[tuple[str, str], tuple[Hashable, bool, Any]] = field(default_factory=dict)
    _used: set[tuple[str, str]] = field(default_factory=set)

    def get(self, storage: Storage, path: str, kind: str, read: Callable[[], _T]) -> _T:
        """Give what `read` gives for a folder; as it was given before, where that still holds."""
        key = (path, kind)
        self._used.add(key)
        signature = _signature_of(storage, path)
        if signature is None:
            return read()
        entry = self._entries.get(key)
        if entry is not None and entry[1] and entry[0] == signature:
            value: _T = entry[2]
            return value
        is_settled = not isinstance(signature, FileSignature) or signature.is_settled()
        value = read()
        self._entries[key] = (signature, is_settled, value)
        return value

    def forget_unused(self) -> None:
        """Drop what no look since the last call has asked for."""
        for key in self._entries.keys() - self._used:
            del self._entries[key]
        self._used.clear()


def _signature_of(storage: Storage, path: str) -> Hashable | None:
    """Tell a folder from what it was; None where nothing does."""
    if storage == LOCAL:
        return FileSignature.from_path(path)
    if not isinstance(storage, StorageAsListed):
        return None
    try:
        return storage.signature(path)
    except (FileNotFoundError, NotADirectoryError, LogPermissionError):
        # The folder above a partition, whose files are looked for one by one then.
        return None


class RememberingReader:
    """Reads of folders only what changed.

    Parameters
    ----------
    log_directories : collection of str
        Those that are known for log directories, whatever they hold now.
    is_patient : bool
        Whether to wait for partitions where there is none yet; else that is an error.
    """

    def __init__(
        self, memo: FolderMemo, log_directories: Collection[str] = (), *, is_patient: bool = False
    ) -> None:
        self._memo = memo
        self._log_directories = log_directories
        self.is_patient = is_patient

    def list_directories(self, storage: Storage, path: str) -> tuple[list[str], list[str]]:
        """List the names of the folders and of the other files in a folder, until believed."""

        def read() -> tuple[list[str], list[str]]:
            return list_whole(storage, path, lambda: storage.list_directories(path), _agree)

        return self._memo.get(storage, path, "names", read)

    def read_state(self, log_directory: str, storage: Storage) -> LogDirectoryState:
        """Read the state of a log directory."""
        read = LogDirectoryState.read_checkpoints
        state = self._memo.get(
            storage, log_directory, "state", lambda: read(log_directory, storage)
        )
        return state.with_commits(storage)

    def is_known(self, path: str) -> bool:
        """Tell whether a folder was a log directory before."""
        return path in self._log_directories


def _agree(
    earlier: tuple[list[str], list[str]], later: tuple[list[str], list[str]], attempt: int
) -> bool:
    """Tell whether two listings show the same folders; plain files come and go at the top."""
    return set(earlier[0]) == set(later[0])
