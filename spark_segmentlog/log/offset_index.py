"""The `.index` file of a segment: 8-byte entries of (relative offset, position), both ascending.

An entry says that the batches which were appended at `position` end with offset
``base + relative offset``. Entries follow each other without a header; a live or crashed file is
preallocated, with zeros behind its last entry. An index is a hint: what it says is looked up, then
checked against the batch header at that position by whoever reads the log.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spark_segmentlog.log.index_file import IndexFile

ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
MAX_POSITION: Final = 2**63 - 1


class OffsetIndex(IndexFile):
    """Lookups in one `.index`."""

    entry = ENTRY

    def lookup(self, offset: int, *, below_position: int = MAX_POSITION) -> int:
        """Find the position of the last entry at or below an offset; 0 where there is none.

        Entries at or behind `below_position`, the size of the log, are left out.
        """
        relative_offset = min(offset - self.base_offset, MAX_RELATIVE_OFFSET)
        slot = min(
            self._last_slot("relative_offset", relative_offset),
            self._last_slot("position", below_position - 1),
        )
        return 0 if slot < 0 else max(int(self._read(slot, 1)["position"][0]), 0)
