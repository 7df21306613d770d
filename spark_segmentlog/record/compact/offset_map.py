"""The latest offset of every key, in memory of a fixed size: what compaction decides by.

A key stands in it as its 128-bit SipHash under a secret that is new in every run, beside an offset:
24 bytes a slot, as in Kafka's SkimpyOffsetMap, whatever the length of the keys. Two keys of the
same hash would be taken for one, and the older lost; for a million keys the odds are one in
10**26, and since nobody knows the secret, nobody can make such keys. When three slots in four are
taken, the map is full: compaction then cleans up to the offset it has reached, and comes again.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np

from spark_segmentlog.record.compact.batch_records import BatchRecords
from spark_segmentlog.record.kernels import filter as kernels
from spark_segmentlog.record.types import Bools, Int64s, Uint64s

SLOT_BYTES: Final = kernels.ENTRY_WORDS * 8
_MIN_SLOTS_BITS: Final = 4


class OffsetMap:
    """Latest offsets by key.

    Parameters
    ----------
    max_bytes : int
        Memory that it may take; at least 16 slots are taken.
    expected_records : int
        How many records will be put at most, so that a small log takes little memory.

    Attributes
    ----------
    latest_offset : int
        All records up to it have been put, or have no key.
    """

    def __init__(self, max_bytes: int, *, expected_records: int) -> None:
        largest_bits = max((max_bytes // SLOT_BYTES).bit_length() - 1, _MIN_SLOTS_BITS)
        wanted_bits = max((expected_records * 4 // 3 + 1).bit_length(), _MIN_SLOTS_BITS)
        slots = 1 << min(largest_bits, wanted_bits)
        self._table: Uint64s = np.zeros(slots * kernels.ENTRY_WORDS, np.uint64)
        self._secret: Uint64s = np.frombuffer(secrets.token_bytes(16), np.uint64).copy()
        self.max_keys = slots * 3 // 4
        self.keys_count = 0
        self.latest_offset = -1

    def put(self, records: BatchRecords, wanted: Bools) -> bool:
        """Put records, in the order of their offsets; False where the map is full.

        Then `latest_offset` is the one before the first record that found no room.
        """
        low, high = self._hash(records)
        self.keys_count, done = kernels.put_offsets(
            self._table, low, high, records.offset, wanted, self.keys_count, self.max_keys
        )
        if done < len(records):
            self.latest_offset = int(records.offset[done]) - 1
            return False
        return True

    def find(self, records: BatchRecords) -> Int64s:
        """Look up the latest offset of each record's key; -1 where it has none."""
        low, high = self._hash(records)
        found = np.empty(len(records), np.int64)
        kernels.find_offsets(self._table, low, high, found)
        found[records.key_length < 0] = -1
        return found

    def _hash(self, records: BatchRecords) -> tuple[Uint64s, Uint64s]:
        low = np.empty(len(records), np.uint64)
        high = np.empty(len(records), np.uint64)
        kernels.hash_keys(
            records.buffer, records.key_position, records.key_length, self._secret, low, high
        )
        return low, high
