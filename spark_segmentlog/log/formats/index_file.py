"""What offset and time indexes share: sorted big-endian entries, after them perhaps zeros.

Lookups read the last 8 KiB first, the part that a broker keeps in memory and that most lookups
need, then a page where the entry would be if all records were of one size, and nearer from there;
a file of 10 MiB that is zeros but for its start is never read whole.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.io.closing import Closing
from spark_segmentlog.log.io.reading import LogFile, is_zero_from
from spark_segmentlog.log.io.threads import FoundOnce

WARM_BYTES: Final = 8192
WHOLE_CHECK_BYTES: Final = 65536
SEARCH_PAGE_BYTES: Final = 131072
_GUESSES: Final = 4
_FROM_ZERO: Final = ("relative_offset", "position")


class IndexFile(Closing):
    """Entries of one index file, which is read as far as lookups need it.

    Parameters
    ----------
    file : LogFile or None
        None where the file is missing: every lookup then finds nothing.
    """

    entry: ClassVar[np.dtype[np.void]]

    def __init__(self, file: LogFile | None, base_offset: int) -> None:
        self._file = file
        self.base_offset = base_offset

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    @FoundOnce
    def entries_count(self) -> int:
        """Entries before the zeros of preallocation; part of an entry at the end is none."""
        if self._file is None:
            return 0
        slots = self._file.size() // self.entry.itemsize
        last = self._read_bytes(max(slots - self._warm_slots, 0), self._warm_slots)
        if any(last[-self.entry.itemsize :]):
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

    @property
    def _warm_slots(self) -> int:
        return WARM_BYTES // self.entry.itemsize

    @FoundOnce
    def _warm_entries(self) -> npt.NDArray[np.void]:
        warm = min(self.entries_count, self._warm_slots)
        return self._read(self.entries_count - warm, warm)

    def _last_slot(self, field: str, value: int) -> int:
        """Find the last slot whose field is at or below a value; -1 where there is none."""
        if self.entries_count == 0:
            return -1
        warm = self._warm_entries
        first_warm = self.entries_count - len(warm)
        if first_warm == 0 or int(warm[field][0]) <= value:
            return first_warm + _last_at_or_below(warm, field, value)
        return self._search(field, value, first_warm, int(warm[field][0]))

    def _search(self, field: str, value: int, high: int, high_value: int) -> int:
        """Find the last slot below `high`, which holds more, whose field is at or below a value."""
        page = SEARCH_PAGE_BYTES // self.entry.itemsize
        low, low_value = 0, 0
        guesses = _GUESSES if field in _FROM_ZERO else 0
        while True:
            # Where values are far from even, halves are sure.
            share = (value - low_value) / max(high_value - low_value, 1) if guesses > 0 else 0.5
            guesses -= 1
            start = low + int((high - low) * min(max(share, 0.0), 1.0)) - page // 2
            start = max(min(start, high - page), low)
            entries = self._read(start, min(page, high - start))
            if len(entries) == 0:
                # The file was cut meanwhile.
                return -1
            if start > low and int(entries[field][0]) > value:
                high, high_value = start, int(entries[field][0])
            elif start + len(entries) < high and int(entries[field][-1]) <= value:
                low, low_value = start + len(entries), int(entries[field][-1])
            else:
                return start + _last_at_or_below(entries, field, value)

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
