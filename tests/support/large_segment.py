"""A segment of any size that is in no memory: one batch again and again, made as it is read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_segmentlog.log.formats.offset_index import ENTRY
from spark_segmentlog.testing.batches import RecordSpec, v2_batch


@dataclass(frozen=True)
class LargeSegment:
    """The bytes of a `.log` from offset 0 on, by slices, each batch with its own base offset.

    Parameters
    ----------
    records : int
        Of each batch.
    value : bytes
        Of each record.
    batches : int
    """

    records: int
    value: bytes
    batches: int

    @cached_property
    def batch(self) -> bytes:
        """The batch at offset 0."""
        return v2_batch([RecordSpec(value=self.value)] * self.records)

    @property
    def end_offset(self) -> int:
        return self.records * self.batches

    def __len__(self) -> int:
        return len(self.batch) * self.batches

    def __getitem__(self, part: slice) -> bytes:
        start, end, _ = part.indices(len(self))
        size = len(self.batch)
        first, last = start // size, -(-end // size)
        batches = np.tile(np.frombuffer(self.batch, np.uint8), max(last - first, 0))
        offsets = (np.arange(first, last) * self.records).astype(">i8")
        # The checksum does not cover the base offset.
        batches.reshape(-1, size)[:, :8] = offsets.view(np.uint8).reshape(-1, 8)
        return batches[start - first * size : end - first * size].tobytes()

    def index(self, interval_bytes: int = 4096) -> bytes:
        """Give the `.index` that a broker makes: an entry where enough stands before a batch."""
        step = interval_bytes // len(self.batch) + 1
        rows = np.arange(step, self.batches, step)
        entries = np.empty(len(rows), ENTRY)
        entries["relative_offset"] = (rows + 1) * self.records - 1
        entries["position"] = rows * len(self.batch)
        return entries.tobytes()
