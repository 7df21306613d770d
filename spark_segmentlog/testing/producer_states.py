"""Producers and transactions as a broker follows them while it appends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spark_segmentlog.testing.batches import (
    ABORT,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    COMMIT,
    BatchSummary,
)
from spark_segmentlog.testing.side_files import AbortedTransactionSpec, ProducerStateSpec


@dataclass(slots=True)
class ProducerStates:
    """The producers of one partition, batch by batch."""

    next_offset: int = 0
    _entries: dict[int, ProducerStateSpec] = field(default_factory=dict)

    def entries(self) -> list[ProducerStateSpec]:
        """Give the entries of a snapshot that is taken now."""
        return list(self._entries.values())

    def append(self, data: bytes, summary: BatchSummary) -> AbortedTransactionSpec | None:
        """Take one batch; an abort marker that ends an open transaction gives its index entry."""
        self.next_offset = summary.last_offset + 1
        if summary.producer_id < 0:
            return None
        old = self._entries.get(
            summary.producer_id, ProducerStateSpec(producer_id=summary.producer_id)
        )
        if summary.attributes & ATTRIBUTE_CONTROL:
            return self._end_transaction(old, data, summary)
        delta = summary.last_offset - summary.base_offset
        first = old.current_txn_first_offset
        if summary.attributes & ATTRIBUTE_TRANSACTIONAL and first < 0:
            first = summary.base_offset
        self._entries[summary.producer_id] = replace(
            old,
            producer_epoch=summary.producer_epoch,
            last_sequence=-1 if summary.base_sequence < 0 else summary.base_sequence + delta,
            last_offset=summary.last_offset,
            offset_delta=delta,
            timestamp_ms=summary.max_timestamp,
            current_txn_first_offset=first,
        )
        return None

    def _end_transaction(
        self, old: ProducerStateSpec, data: bytes, summary: BatchSummary
    ) -> AbortedTransactionSpec | None:
        # Markers are never compressed: the kind is the second number of the key, which starts
        # after length, attributes, two deltas and the key's length, a byte each.
        kind = int.from_bytes(data[61 + 5 + 2 : 61 + 5 + 4])
        is_emptied = int.from_bytes(data[57:61]) == 0
        if is_emptied or kind not in (ABORT, COMMIT):
            return None
        first = old.current_txn_first_offset
        if old.producer_epoch != summary.producer_epoch:
            # A new epoch starts its sequence numbers again, so the last batch is forgotten.
            old = replace(old, last_sequence=-1, last_offset=-1, offset_delta=0)
        self._entries[summary.producer_id] = replace(
            old,
            producer_epoch=summary.producer_epoch,
            timestamp_ms=summary.max_timestamp,
            coordinator_epoch=int.from_bytes(data[-5:-1]),
            current_txn_first_offset=-1,
        )
        if kind != ABORT or first < 0:
            return None
        still_open = [
            entry.current_txn_first_offset
            for entry in self._entries.values()
            if entry.current_txn_first_offset >= 0
        ]
        return AbortedTransactionSpec(
            producer_id=summary.producer_id,
            first_offset=first,
            last_offset=summary.last_offset,
            last_stable_offset=min(still_open, default=summary.last_offset + 1),
        )
