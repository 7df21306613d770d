"""Objects of a store as files: bytes in hand, a part of a file, the files of one segment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import LogFile, Storage, StorageOver
from spark_segmentlog.log.names import (
    BASE_OFFSET_DIGITS,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from spark_segmentlog.log.tier.remote_segment import IndexKind

MAX_INDEX_BYTES: Final = 256 << 20
"""Kafka's indexes are preallocated files of ``segment.index.bytes``, 10 MiB by default."""

INDEX_KINDS: Final = {
    OFFSET_INDEX_SUFFIX: IndexKind.OFFSET,
    TIME_INDEX_SUFFIX: IndexKind.TIME,
    TRANSACTION_INDEX_SUFFIX: IndexKind.TRANSACTION,
    SNAPSHOT_SUFFIX: IndexKind.PRODUCER_SNAPSHOT,
}
"""By the suffix under which each lies beside a local log."""


class BytesFile(LogFile):
    """Bytes that were read already, as a file."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


class EndOfFile(LogFile):
    """What follows a position of a file, as a file of its own."""

    def __init__(self, file: LogFile, start_position: int) -> None:
        self.path = file.path
        self._file = file
        self._start = start_position

    def size(self) -> int:
        return max(self._file.size() - self._start, 0)

    def read_at(self, position: int, length: int) -> bytes:
        return self._file.read_at(self._start + position, length)

    def pread_into(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> int:
        return self._file.pread_into(buffer, self._start + position, length)

    def next_data_position(self, position: int) -> int | None:
        found = self._file.next_data_position(self._start + position)
        return None if found is None else found - self._start

    def close(self) -> None:
        self._file.close()


def read_whole(storage: Storage, path: str, max_bytes: int) -> bytes:
    """Read an object whole.

    Raises
    ------
    FileNotFoundError
    RemoteStorageError
        It is larger than it can be.
    """
    with storage.open_input(path) as file:
        size = file.size()
        if size > max_bytes:
            raise RemoteStorageError(f"{path} has {size} bytes, allowed are {max_bytes}")
        return file.read_at(0, size)


def segment_name(base_offset: int, segment_id: str) -> str:
    """Name the objects of a segment, up to their suffixes, as both Kafka and plugins do."""
    return f"{base_offset:0{BASE_OFFSET_DIGITS}d}-{segment_id}"


def list_objects(
    storage: Storage, folder: str, pattern: re.Pattern[str]
) -> dict[tuple[int, str], dict[str, int | None]]:
    """List the objects in a folder by base offset and segment id, ascending.

    Each has its size, where the listing has it, by its suffix.

    Names that the pattern, with its groups ``base``, ``id`` and ``suffix``, does not match are left
    out. A folder that is not there holds nothing.
    """
    try:
        sizes = storage.list_sizes(folder)
    except FileNotFoundError:
        return {}
    found: dict[tuple[int, str], dict[str, int | None]] = {}
    for name, size in sizes.items():
        parts = pattern.fullmatch(name)
        if parts is not None and int(parts["base"]) <= MAX_OFFSET:
            found.setdefault((int(parts["base"]), parts["id"]), {})[parts["suffix"]] = size
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class SegmentFiles(StorageOver):
    """The copies of one segment's files under the names that a `Segment` asks for."""

    storage: Storage
    path: str

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        return self.storage.open_input(self._copy(path), reads_blocks=reads_blocks, size=size)

    def size(self, path: str) -> int:
        return self.storage.size(self._copy(path))

    def exists(self, path: str) -> bool:
        return self.storage.exists(self._copy(path))

    def _copy(self, path: str) -> str:
        return self.path + path.rpartition("/")[2][BASE_OFFSET_DIGITS:]
