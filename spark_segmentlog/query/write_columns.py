"""Where the columns stand that are written, in every Arrow batch of a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

ENCODED: Final = ("key", "value", "timestamp", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteColumns:
    """Where the columns stand in every Arrow batch; travels to tasks.

    Attributes
    ----------
    encoded : tuple of (str, int)
        What goes into records, by the encoder's names.
    topic, partition : int or None
        None where the frame has none; `topic` also where an option names it for every row.
    """

    encoded: tuple[tuple[str, int], ...]
    topic: int | None
    partition: int | None

    @property
    def key(self) -> int | None:
        """Where the key stands, None where the frame has none."""
        return dict(self.encoded).get("key")

    def to_encode(self, arrow_batch: pa.RecordBatch) -> pa.RecordBatch:
        """Pick the columns that go into records; nothing is copied."""
        return pa.RecordBatch.from_arrays(
            [arrow_batch.column(index) for _, index in self.encoded],
            names=[name for name, _ in self.encoded],
        )
