"""What offset and time indexes share: sorted big-endian entries, after them perhaps zeros.

Lookups read the last 8 KiB first, the part that a broker keeps in memory and that most lookups
need, then search by halves; a file of 10 MiB that is zeros but for its start is never read whole.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.io.closing import Closing
from spark_segmentlog.log.io.reading import LogFile, is_zero_from

WARM_BYTES: Final = 8192
WHOLE_CHECK_BYTES: Final = 65536


class IndexFile(Closing):
    """Entries of one index file, which is read as far as lookups need it.

    Parameters
    ----------
    file : LogFile or None
        None where the file is missing: every lookup then finds nothing.
    base_offset : int
        That of the segment.
    """

    entry: ClassVar[np.dtype[np.void]]

    def __init__(self, file: LogFile | None, base_offset: int) -> None:
        self._file = file
        self.base_offset = base_offset

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    @cached_property
    def entries_count(self) -> int:
        """Entries before the zeros of preallocation; part of an entry at the end is none."""
        if self._file is None:
            return 0
        slots = self._file.size() // self.entry.itemsize
        if slots == 0 or self._is_used(slots - 1):
            return slots
        used, unused = 0, slots - 1
        while used < unused:
            middle = (used + unused) // 2
            if self._is_used(middle):
                used = middle + 1
            else:
                unused = middle
        return used

    def size_fault(self) -> str:
        """Tell why a file of this size, or of these zeros, is no index; an empty text if it is."""
        if self._file is None:
            return ""
        size, entry_bytes = self._file.size(), self.entry.itemsize
        if size % entry_bytes:
            return f"{size % entry_bytes} bytes after the last whole entry"
        used = self.entries_count * entry_bytes
        if not is_zero_from(self._file, used):
            return f"{size} bytes, and not only zeros after the last entry, at {used}"
        return ""

    def entries(self) -> npt.NDArray[np.void]:
        """Read all entries, without the zeros after them; fields as in the file."""
        return self._read(0, self.entries_count)

    def is_well_formed(self, *, whole: bool = False) -> bool:
        """Tell whether the entries ascend and lie at or above the base offset.

        A large index is checked in its first entry and its last 8 KiB, unless `whole` is true.
        """
        count = self.entries_count
        if count * self.entry.itemsize <= WHOLE_CHECK_BYTES or whole:
            return ascends(self._read(0, count))
        warm = self._warm_entries
        return ascends(np.concatenate([self._read(0, 1), warm]))

    def _is_used(self, slot: int) -> bool:
        return any(self._read_bytes(slot, 1))

    @cached_property
    def _warm_entries(self) -> npt.NDArray[np.void]:
        warm = min(self.entries_count, WARM_BYTES // self.entry.itemsize)
        return self._read(self.entries_count - warm, warm)

    def _last_slot(self, field: str, value: int) -> int:
        """Find the last slot whose field is at or below a value; -1 where there is none."""
        if self.entries_count == 0:
            return -1
        warm = self._warm_entries
        first_warm = self.entries_count - len(warm)
        if first_warm == 0 or int(warm[field][0]) <= value:
            return first_warm + _last_at_or_below(warm, field, value)
        low, high = 0, first_warm
        while high - low > len(warm):
            middle = (low + high) // 2
            if int(self._read(middle, 1)[field][0]) <= value:
                low = middle
            else:
                high = middle
        return low + _last_at_or_below(self._read(low, high - low), field, value)

    def _read(self, slot: int, count: int) -> npt.NDArray[np.void]:
        data = self._read_bytes(slot, count)
        return np.frombuffer(data, self.entry, len(data) // self.entry.itemsize)

    def _read_bytes(self, slot: int, count: int) -> bytes:
        if self._file is None:
            return b""
        size = self.entry.itemsize
        return self._file.read_at(slot * size, count * size)


def _last_at_or_below(entries: npt.NDArray[np.void], field: str, value: int) -> int:
    return int(np.searchsorted(entries[field], value, side="right")) - 1


def ascends(entries: npt.NDArray[np.void]) -> bool:
    """Tell whether all fields of index entries ascend, from relative offset 0 or above."""
    if len(entries) == 0:
        return True
    return bool(
        entries["relative_offset"][0] >= 0
        and all(
            bool((np.diff(entries[name].astype(np.int64)) >= 0).all())
            for name in entries.dtype.fields or ()
        )
    )
