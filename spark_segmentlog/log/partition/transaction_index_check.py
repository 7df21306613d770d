"""Compares the `.txnindex` of a segment with the markers in its log.

Reads do not ask these files, but a broker believes them. In a log that was never cleaned the
entries are those of the ABORT markers, one for each of which data is there. Where compaction or
retention took batches away, a broker's entries still speak of them: an entry may be there though
all data of its transaction is gone, and may name an offset that no batch covers any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.formats.transaction_index import (
    ENTRY,
    ENTRY_BYTES,
    VERSION,
    AbortedTransaction,
    parse_transaction_index,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import QUIET
from spark_segmentlog.log.transactions.markers import ABORT, read_markers


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAborts:
    """What the batches of a segment tell of aborts.

    Attributes
    ----------
    aborted : sequence of AbortedTransaction or None
        By their markers, up to the first bad bytes; None where nothing tells what was open before.
    next_offset : int
        After its good batches.
    is_damaged : bool
        Whether other markers stand, or stood, among or after bad or lost bytes.
    """

    aborted: Sequence[AbortedTransaction] | None
    next_offset: int
    is_damaged: bool


def find_transaction_index_fault(
    log: PartitionLog, segment: Segment, known: KnownAborts
) -> str | None:
    """Tell what is wrong with the transaction index of a segment; None where nothing is."""
    data = segment.transaction_index_bytes() or b""
    check = _Check(log, segment, known)
    faults = list(check.faults(data))
    if not faults:
        return None
    more = f", and {len(faults) - 1} more differences" if len(faults) > 1 else ""
    return faults[0] + more


@dataclass(frozen=True, slots=True)
class _Check:
    log: PartitionLog
    segment: Segment
    known: KnownAborts

    def faults(self, data: bytes) -> Iterator[str]:
        if len(data) % ENTRY_BYTES:
            yield f"{len(data)} bytes, not a multiple of the {ENTRY_BYTES} of an entry"
        entries = parse_transaction_index(data)
        versions = np.frombuffer(data, ENTRY, len(entries))["version"].tolist()
        expected = {
            transaction.last_offset: transaction for transaction in self.known.aborted or ()
        }
        last_offset = self.segment.base_offset - 1
        for entry, version in zip(entries, versions, strict=True):
            fault = self._entry_fault(entry, version, last_offset, expected)
            if fault:
                yield f"entry ({_text(entry)}) {fault}"
            last_offset = max(last_offset, entry.last_offset)
        named = {(entry.producer_id, entry.last_offset) for entry in entries}
        for transaction in expected.values():
            if (transaction.producer_id, transaction.last_offset) not in named:
                yield f"lacks the aborted transaction ({_text(transaction)})"

    def _entry_fault(
        self,
        entry: AbortedTransaction,
        version: int,
        before: int,
        expected: dict[int, AbortedTransaction],
    ) -> str:
        if version != VERSION:
            return f"has version {version}, allowed is {VERSION}"
        if entry.last_offset <= before:
            return f"lies at or below offset {before}, where entries ascend from"
        told = expected.get(entry.last_offset)
        if told is None and self._is_unsure(entry):
            return ""
        if told is None and not self._is_abort_marker(entry):
            return "names no ABORT marker of its producer"
        if told is not None and told.producer_id != entry.producer_id:
            return f"names a marker of producer {told.producer_id}"
        return self._offsets_fault(entry, told)

    def _is_unsure(self, entry: AbortedTransaction) -> bool:
        if self.known.aborted is None or self.known.is_damaged:
            return True
        # What a broker has appended since the batches were looked at is not known.
        is_after = entry.last_offset >= self.known.next_offset
        return is_after and self.segment.end_offset_bound is None and self._has_grown()

    def _has_grown(self) -> bool:
        return self.segment.next_offset(skip_corrupt=True) > self.known.next_offset

    def _offsets_fault(self, entry: AbortedTransaction, told: AbortedTransaction | None) -> str:
        first = entry.last_offset if told is None else told.first_offset
        stable = entry.last_offset + 1 if told is None else told.last_stable_offset
        if entry.first_offset != first and not self._may_be_gone(entry.first_offset, first):
            begin = f"first offset {first}" if told is not None else "no data"
            return f"is of a transaction with {begin} in the log"
        is_stable = entry.last_stable_offset == stable
        if not is_stable and not self._may_be_gone(entry.last_stable_offset, stable):
            return f"should have last stable offset {stable}"
        return ""

    def _may_be_gone(self, offset: int, below: int) -> bool:
        """Tell whether a batch that began at an offset, below what is there, may be gone."""
        return 0 <= offset < below and batch_at(self.log, offset) is None

    def _is_abort_marker(self, entry: AbortedTransaction) -> bool:
        try:
            found = batch_at(self.log, entry.last_offset)
            if found is None:
                return False
            piece, row = found
            table = piece.table
            if not table.is_control[row] or int(table.producer_id[row]) != entry.producer_id:
                return False
            markers = read_markers(piece, np.array([row]), source=self.segment.log_path)
        except CorruptRecordError:
            return False
        return row in markers and markers[row].type_id == ABORT


def batch_at(log: PartitionLog, offset: int) -> tuple[Piece, int] | None:
    """Find the batch that covers an offset: its row in a piece."""
    for segment in log.segments_between(offset, offset + 1):
        with segment.walk(QUIET, start_offset=offset) as walk:
            for piece in walk.pieces():
                rows = np.flatnonzero(piece.table.last_offset >= offset)
                if len(rows):
                    row = int(rows[0])
                    return (piece, row) if int(piece.table.base_offset[row]) <= offset else None
    return None


def _text(entry: AbortedTransaction) -> str:
    return (
        f"producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}, "
        f"last stable offset {entry.last_stable_offset}"
    )
