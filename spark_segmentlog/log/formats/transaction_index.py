"""The `.txnindex` file of a segment: one 34-byte entry for each abort marker in it, in their order.

It exists only for a segment with an abort. A broker believes it; our reads take what was aborted
from the markers themselves (see `transactions`). `last_offset` is that of the marker, and entries
are sorted by it, not by `first_offset`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np

ENTRY: Final = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
ENTRY_BYTES: Final = 34
VERSION: Final = 0
assert ENTRY.itemsize == ENTRY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """Offsets of one producer that an abort marker ended; both ends are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def parse_transaction_index(data: bytes) -> list[AbortedTransaction]:
    """Read the entries of a `.txnindex`; part of an entry at the end is a torn write, and none."""
    entries = np.frombuffer(data, ENTRY, len(data) // ENTRY_BYTES)
    return [
        AbortedTransaction(
            producer_id=producer_id,
            first_offset=first_offset,
            last_offset=last_offset,
            last_stable_offset=last_stable_offset,
        )
        for _, producer_id, first_offset, last_offset, last_stable_offset in entries.tolist()
    ]


def format_transaction_index(transactions: Sequence[AbortedTransaction]) -> bytes:
    """Write the entries of a `.txnindex`."""
    rows = [(VERSION, *astuple(transaction)) for transaction in transactions]
    return np.array(rows, ENTRY).tobytes()
