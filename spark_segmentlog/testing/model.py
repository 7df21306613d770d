"""A partition log as a Python list: what any reader of the same appends must return.

Offsets ascend; control records and removed records occupy offsets and are never rows. Nothing is
skipped, indexed or encoded here, so the model is the oracle of property tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

CREATE_TIME = 0
LOG_APPEND_TIME = 1
NO_TIMESTAMP_TYPE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One data record; `headers` is None where it has none, as the rows of a read have it."""

    offset: int
    timestamp_ms: int
    timestamp_type: int = CREATE_TIME
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None


@dataclass(slots=True)
class _Transaction:
    first_offset: int
    is_open: bool = True
    is_aborted: bool = False


@dataclass(slots=True)
class PartitionModel:
    """List-backed partition log.

    Attributes
    ----------
    log_start_offset : int
        Rows below it are hidden.
    log_end_offset : int
        Exclusive: the offset that the next append starts at.
    """

    log_start_offset: int = 0
    log_end_offset: int = 0
    _rows: list[tuple[LogRow, _Transaction | None]] = field(default_factory=list)
    _transactions: list[_Transaction] = field(default_factory=list)
    _open: dict[int, _Transaction] = field(default_factory=dict)

    def append(
        self,
        rows: Sequence[LogRow],
        *,
        next_offset: int | None = None,
        producer_id: int | None = None,
    ) -> None:
        """Append a batch; the rows' offsets count.

        Parameters
        ----------
        rows : sequence of LogRow
            Offsets ascending, none below the log end offset; gaps are possible.
        next_offset : int, optional
            Log end offset afterwards, where records after the last row were removed.
        producer_id : int, optional
            Puts the rows into this producer's transaction and opens it where none is open.
        """
        transaction = None
        if producer_id is not None:
            transaction = self._open.get(producer_id)
            if transaction is None:
                transaction = _Transaction(self.log_end_offset)
                self._open[producer_id] = transaction
                self._transactions.append(transaction)
        for row in rows:
            if row.offset < self.log_end_offset:
                raise ValueError(f"offset {row.offset} below the log end {self.log_end_offset}")
            self._rows.append((row, transaction))
            self.log_end_offset = row.offset + 1
        if next_offset is not None:
            self.log_end_offset = max(self.log_end_offset, next_offset)

    def append_values(self, values: Sequence[LogRow]) -> list[LogRow]:
        """Append rows at the next offsets, whatever offsets they hold; returns them as stored."""
        base = self.log_end_offset
        rows = [replace(row, offset=base + place) for place, row in enumerate(values)]
        self.append(rows)
        return rows

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Append a marker; it ends the producer's open transaction, if there is one."""
        transaction = self._open.pop(producer_id, None)
        if transaction is not None:
            transaction.is_open = False
            transaction.is_aborted = not commit
        self.log_end_offset += 1

    def skip_offsets(self, count: int) -> None:
        """Use up offsets without rows: control records, or what compaction removed."""
        self.log_end_offset += count

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction, else the log end offset; exclusive."""
        first_offsets = [transaction.first_offset for transaction in self._open.values()]
        return min(first_offsets, default=self.log_end_offset)

    def rows(
        self,
        start_offset: int = 0,
        end_offset: int | None = None,
        *,
        min_timestamp_ms: int | None = None,
        max_timestamp_ms: int | None = None,
        read_committed: bool = False,
    ) -> list[LogRow]:
        """Read rows in the order of their offsets.

        Parameters
        ----------
        start_offset, end_offset : int
            Inclusive and exclusive.
        min_timestamp_ms, max_timestamp_ms : int, optional
            Both inclusive.
        read_committed : bool
            Hides aborted rows, and rows from the last stable offset on.
        """
        start = max(start_offset, self.log_start_offset)
        end = self.log_end_offset if end_offset is None else end_offset
        if read_committed:
            end = min(end, self.last_stable_offset)
        return [
            row
            for row, transaction in self._rows
            if start <= row.offset < end
            and (min_timestamp_ms is None or row.timestamp_ms >= min_timestamp_ms)
            and (max_timestamp_ms is None or row.timestamp_ms <= max_timestamp_ms)
            and not (read_committed and transaction is not None and transaction.is_aborted)
        ]

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Find the first row, by offset, whose timestamp is not below; (offset, timestamp)."""
        for row in self.rows():
            if row.timestamp_ms >= timestamp_ms:
                return row.offset, row.timestamp_ms
        return None
