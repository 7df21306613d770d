"""The `.index` file of a segment: 8-byte entries of (relative offset, position), both ascending.

An entry says that the batches which were appended at `position` end with offset
``base + relative offset``. Entries follow each other without a header; a live or crashed file is
preallocated, with zeros after its last entry. An index is a hint: what it says is looked up, then
checked against the batch header at that position by whoever reads the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_segmentlog.log.formats.index_file import IndexFile

ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
MAX_POSITION: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """One entry: batches that were appended at `position` end with `offset`."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Lookups in one `.index`."""

    entry = ENTRY

    def lookup(self, offset: int, *, below_position: int = MAX_POSITION) -> OffsetEntry | None:
        """Find the last entry at or below an offset; None where there is none.

        Entries at or after `below_position`, the size of the log, are left out.
        """
        relative_offset = min(offset - self.base_offset, MAX_RELATIVE_OFFSET)
        slot = min(
            self._last_slot("relative_offset", relative_offset),
            self._last_slot("position", below_position - 1),
        )
        return None if slot < 0 else self._entry(slot)

    def entry_below(self, end_position: int) -> OffsetEntry | None:
        """Find the last entry whose batch ends at or before a position; None where there is none.

        The batch at the last entry at or below it may reach beyond; the one before it does not.
        """
        slot = self._last_slot("position", end_position) - 1
        return None if slot < 0 else self._entry(slot)

    def last_entry(self) -> OffsetEntry | None:
        """Read the last entry of a well-formed index; None where there is none."""
        if self.entries_count == 0 or not self.is_well_formed(whole=True):
            return None
        return self._entry(self.entries_count - 1)

    def _entry(self, slot: int) -> OffsetEntry:
        entry = self._read(slot, 1)
        return OffsetEntry(
            offset=self.base_offset + int(entry["relative_offset"][0]),
            position=int(entry["position"][0]),
        )
