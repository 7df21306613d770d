"""The `.txnindex` file of a segment: one 34-byte entry for each abort marker in it, in their order.

It exists only for a segment with an abort. A broker believes it; our reads take what was aborted
from the markers themselves (see `transactions`). `last_offset` is that of the marker, and entries
are sorted by it, not by `first_offset`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

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
    rows = [
        (
            VERSION,
            transaction.producer_id,
            transaction.first_offset,
            transaction.last_offset,
            transaction.last_stable_offset,
        )
        for transaction in transactions
    ]
    return np.array(rows, ENTRY).tobytes()


class AbortedTransactions:
    """A set of aborted transactions, asked for many record batches at once."""

    __slots__ = ("_first_offsets", "_keys", "_last_offsets", "_producer_ids", "transactions")

    def __init__(self, transactions: tuple[AbortedTransaction, ...] = ()) -> None:
        self.transactions = tuple(
            sorted(
                transactions,
                key=lambda transaction: (transaction.producer_id, transaction.first_offset),
            )
        )
        producer_ids = np.array(
            [transaction.producer_id for transaction in self.transactions], np.int64
        )
        first_offsets = np.array(
            [transaction.first_offset for transaction in self.transactions], np.int64
        )
        self._producer_ids = np.unique(producer_ids)
        self._first_offsets = np.unique(first_offsets)
        self._keys = self._key(producer_ids, first_offsets)
        self._last_offsets = _running_maxima(
            producer_ids,
            np.array([transaction.last_offset for transaction in self.transactions], np.int64),
        )

    def __len__(self) -> int:
        return len(self.transactions)

    def __bool__(self) -> bool:
        return bool(self.transactions)

    def contain(
        self, producer_ids: npt.NDArray[np.int64], base_offsets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Tell for each record batch whether it lies in an aborted transaction of its producer.

        The producer's epoch is not compared: a marker of transaction.version 2 carries another than
        the data that it ends.
        """
        if not self.transactions:
            return np.zeros(len(producer_ids), np.bool_)
        slots = np.searchsorted(self._keys, self._key(producer_ids, base_offsets), side="right") - 1
        ranks = np.searchsorted(self._producer_ids, producer_ids)
        known = self._producer_ids[np.minimum(ranks, len(self._producer_ids) - 1)] == producer_ids
        # A slot that belongs to another producer has a smaller rank than the batch's.
        same_producer = self._keys[np.maximum(slots, 0)] // self._stride == ranks
        inside = base_offsets <= self._last_offsets[np.maximum(slots, 0)]
        found: npt.NDArray[np.bool_] = known & (slots >= 0) & same_producer & inside
        return found

    @property
    def _stride(self) -> int:
        return len(self._first_offsets) + 1

    def _key(
        self, producer_ids: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Rank a (producer id, offset) among the transactions, as one small number."""
        ranks = np.searchsorted(self._producer_ids, producer_ids)
        return ranks * self._stride + np.searchsorted(self._first_offsets, offsets, side="right")


def _running_maxima(
    groups: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Take the running maximum of each group of neighbours."""
    cuts = np.flatnonzero(np.diff(groups)) + 1
    return np.concatenate([np.maximum.accumulate(part) for part in np.split(values, cuts)])
