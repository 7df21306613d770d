"""By what a changed file or folder is told from one that has not changed, and listings believed.

One listing of a folder is not as of one moment: a file that is renamed while it runs may be seen
under both names, or under neither. What a folder held can be told all the same: a rename moves the
folder's modification time, so a listing during which that did not move is whole. A folder that
changed a moment ago may change again within one tick of the file system's clock; there, two
listings that agree are believed. File systems other than the local one have no such times, and are
listed once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.io.reading import LOCAL, Storage

SETTLED_NS: Final = 2_000_000_000
LISTING_ATTEMPTS: Final = 100
_MAX_PAUSE_SECONDS: Final = 0.02

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FileSignature:
    """Identity, size and times of a file or folder on the local disk.

    The change time tells a file from one that came after it under the same name, with the same
    number, size and modification time: a cleaner sets that to the old file's.
    """

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def from_path(cls, path: str) -> FileSignature:
        """Measure a file or folder.

        Raises
        ------
        FileNotFoundError
        """
        status = os.stat(path)
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )

    def is_same_file(self, other: FileSignature) -> bool:
        """Whether both are of one file, whatever was written to it."""
        return (self.device, self.inode) == (other.device, other.inode)

    def is_settled(self) -> bool:
        """Whether a later change is sure to show in the modification time."""
        return time.time_ns() - self.modified_ns > SETTLED_NS


def signature_of(storage: Storage, path: str) -> FileSignature | None:
    """Measure a file or folder; None on file systems other than the local one."""
    return FileSignature.from_path(path) if storage == LOCAL else None


def list_whole(
    storage: Storage, path: str, list_once: Callable[[], _T], agree: Callable[[_T, _T, int], bool]
) -> _T:
    """List a folder until a listing can be believed.

    Parameters
    ----------
    list_once : callable
        Lists the folder.
    agree : callable
        Tells whether a listing and the one before it show the same; its last argument counts the
        listings so far.

    Raises
    ------
    FileNotFoundError
        The folder is gone.
    SegmentLogError
        No two listings agreed.
    """
    earlier: _T | None = None
    for attempt in range(LISTING_ATTEMPTS):
        before = signature_of(storage, path)
        is_settled = before is None or before.is_settled()
        found = list_once()
        if is_settled and signature_of(storage, path) == before:
            return found
        if earlier is not None and agree(earlier, found, attempt):
            return found
        earlier = found
        if attempt:
            time.sleep(min(0.001 * attempt, _MAX_PAUSE_SECONDS))
    raise SegmentLogError(
        f"{path} changed during each of {LISTING_ATTEMPTS} listings: files in it are renamed "
        "faster than it can be listed"
    )
