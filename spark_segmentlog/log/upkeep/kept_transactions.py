"""Which batches a cleaning discards: data of aborted transactions, markers without data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_segmentlog.log.formats.transaction_index import AbortedTransaction
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.transactions.markers import ABORT, COMMIT, read_markers
from spark_segmentlog.log.transactions.outcomes import batches_within
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.types import Bools


class TransactionTracker:
    """Which batches belong to aborted transactions, and which markers have no data left.

    One is used for a whole pass, since a transaction may begin in one segment and end in another.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._spans = np.array(
            [
                (transaction.producer_id, transaction.first_offset, transaction.last_offset)
                for transaction in aborted
            ],
            np.int64,
        ).reshape(-1, 3)
        self._by_marker = {
            (transaction.producer_id, transaction.last_offset): transaction
            for transaction in aborted
        }
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()
        self.entries: list[AbortedTransaction] = []

    def contain(self, table: HeaderTable) -> Bools:
        """Tell which batches hold data of aborted transactions."""
        return batches_within(table, self._spans) & ~table.is_control

    def mark_discardable(self, piece: Piece, source: str) -> Bools:
        """Tell which batches may go: aborted data, and markers of which no data was seen."""
        table = piece.table
        is_control = table.is_control
        is_aborted = self.contain(table)
        discardable = is_aborted.copy()
        producer_ids = table.producer_id
        markers = read_markers(piece, np.flatnonzero(is_control), source=source)
        for row in np.flatnonzero(is_control | table.is_transactional).tolist():
            producer_id = int(producer_ids[row])
            if is_control[row]:
                marker = markers.get(row)
                kind = None if marker is None else marker.type_id
                discardable[row] = self._end(producer_id, int(table.base_offset[row]), kind)
            elif is_aborted[row]:
                self._seen_aborted.add(producer_id)
            else:
                self._seen_committed.add(producer_id)
        return discardable

    def _end(self, producer_id: int, offset: int, kind: int | None) -> bool:
        if kind is None:
            return True
        if kind == COMMIT:
            was_seen = producer_id in self._seen_committed
            self._seen_committed.discard(producer_id)
            return not was_seen
        if kind == ABORT:
            was_seen = producer_id in self._seen_aborted
            self._seen_aborted.discard(producer_id)
            if was_seen:
                self.entries.append(self._by_marker[producer_id, offset])
            return not was_seen
        return False
