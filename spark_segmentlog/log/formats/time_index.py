"""The `.timeindex` file of a segment: 12-byte entries of (timestamp, relative offset), ascending.

An entry says that no record up to ``base + relative offset`` has a larger timestamp: timestamps
are running maxima, the offset is that of a record with the maximum (or of the last of its batch).
A roll or a clean shutdown adds the segment's largest timestamp as last entry; a crash leaves the
index without it, and a file that was preallocated may keep zeros after its last entry.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_segmentlog.log.formats.index_file import WARM_BYTES, IndexFile, ascends
from spark_segmentlog.log.io.reading import Storage

ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])


_ZERO_ENTRY: Final = bytes(ENTRY.itemsize)
_LAST_ENTRY: Final = struct.Struct(">qi")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeEntry:
    """One entry: no record up to `offset` has a larger timestamp than `timestamp`, in ms."""

    timestamp: int
    offset: int


def read_last_entry(storage: Storage, path: str, base_offset: int) -> TimeEntry | None:
    """Read the last entry of a `.timeindex`, as `TimeIndex.last_entry` does.

    For planning over very many segments: one read where the file is small.
    """
    data = storage.read_start(path, WARM_BYTES)
    if data is None:
        return None
    if len(data) >= WARM_BYTES:
        with TimeIndex(storage.open_input(path), base_offset) as index:
            return index.last_entry()
    count = len(data) // ENTRY.itemsize
    while count and data.startswith(_ZERO_ENTRY, (count - 1) * ENTRY.itemsize):
        count -= 1
    if count == 0 or (count > 1 and not ascends(np.frombuffer(data, ENTRY, count))):
        return None
    timestamp, relative_offset = _LAST_ENTRY.unpack_from(data, (count - 1) * ENTRY.itemsize)
    if relative_offset < 0:
        return None
    return TimeEntry(timestamp=timestamp, offset=base_offset + relative_offset)


class TimeIndex(IndexFile):
    """Lookups in one `.timeindex`."""

    entry = ENTRY

    def last_entry(self) -> TimeEntry | None:
        """Read the last entry; None where there is none, or the entries do not ascend."""
        if self.entries_count == 0 or not self.is_well_formed():
            return None
        return self._entry(self.entries_count - 1)

    def last_entry_below(self, offset: int) -> TimeEntry | None:
        """Find the last entry whose offset lies below one; None where there is none."""
        if self.entries_count == 0 or not self.is_well_formed():
            return None
        slot = self._last_slot("relative_offset", offset - self.base_offset - 1)
        return None if slot < 0 else self._entry(slot)

    def lookup(self, timestamp_ms: int) -> TimeEntry | None:
        """Find the last entry below a timestamp; None where there is none.

        Records up to its offset all lie below `timestamp_ms`.
        """
        if self.entries_count == 0 or not self.is_well_formed(whole=True):
            return None
        slot = self._last_slot("timestamp", timestamp_ms - 1)
        return None if slot < 0 else self._entry(slot)

    def _entry(self, slot: int) -> TimeEntry:
        entry = self._read(slot, 1)
        return TimeEntry(
            timestamp=int(entry["timestamp"][0]),
            offset=self.base_offset + int(entry["relative_offset"][0]),
        )
