"""What batch headers and markers tell of producers and transactions: one state machine for all.

The same as a broker's ProducerStateManager learns while it appends or recovers. Who wants to know
what is open, what was aborted, where a log is stable or what a snapshot holds feeds tables of
headers to a `ProducerTracker`, in the order of the log. Transaction indexes and snapshots are not
asked: headers and markers are the truth that those come from.

- A data batch with the transactional bit opens its producer's transaction, the next marker of that
  producer (ABORT or COMMIT) ends it. So whether a batch is committed is told by what follows it
  alone, wherever the walk began.
- Producer epochs are not compared: the marker of a transaction.version=2 producer carries the
  data's epoch plus one.
- A data batch that compaction emptied still opens a transaction, as for a broker, which keeps the
  marker as long as that batch. An emptied marker ends nothing: all of its transaction was cleaned.
  It still tells its producer's epoch, which the broker that cleaned it goes on to know.
- A batch that repeats offsets that were met before says nothing.
- A marker with a wrong checksum is an error, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, CrcMismatchError
from spark_segmentlog.log.formats.producer_snapshot import NO_TRANSACTION, ProducerState
from spark_segmentlog.log.formats.transaction_index import AbortedTransaction
from spark_segmentlog.log.segment.batch_order import WRONG_CHECKSUM
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.transactions.markers import ABORT, Marker, read_marker
from spark_segmentlog.record.kernels import producers as kernels
from spark_segmentlog.record.types import Int64s

assert kernels.NO_OFFSET == NO_TRANSACTION

_MIN_SLOTS: Final = 64
_MIN_ENDED: Final = 256


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction of one producer in one partition, as far as the log holds it.

    Attributes
    ----------
    first_offset, last_offset : int
        Of its data, both inclusive.
    records_count : int
        Records that are still there.
    marker : Marker or None
        What ended it; None while it is open.
    marker_offset : int or None
        Of the marker.
    last_stable_offset : int
        First offset of the oldest transaction that was open when this one ended; after the marker
        where none was.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    records_count: int = 0
    marker: Marker | None = None
    marker_offset: int | None = None
    last_stable_offset: int = kernels.NO_OFFSET

    @classmethod
    def from_row(cls, row: Sequence[int]) -> Self:
        """Give one that has ended, from the fields of `producer_kernels`."""
        return cls(
            producer_id=row[kernels.ENDED_ID],
            producer_epoch=row[kernels.ENDED_EPOCH],
            first_offset=row[kernels.ENDED_FIRST_OFFSET],
            last_offset=row[kernels.ENDED_LAST_OFFSET],
            records_count=row[kernels.ENDED_RECORDS],
            marker=Marker(row[kernels.ENDED_TYPE], row[kernels.ENDED_COORDINATOR_EPOCH]),
            marker_offset=row[kernels.ENDED_MARKER_OFFSET],
            last_stable_offset=row[kernels.ENDED_STABLE_OFFSET],
        )

    @property
    def state(self) -> str:
        """How it ended: ``open``, ``committed`` or ``aborted``."""
        if self.marker is None:
            return "open"
        return "aborted" if self.is_aborted else "committed"

    @property
    def is_aborted(self) -> bool:
        """Whether an ABORT marker ended it."""
        return self.marker is not None and self.marker.type_id == ABORT

    def as_fields(self) -> dict[str, int | str | None]:
        """Give it by the names that views and dumps have for what it holds."""
        return {
            "producerId": self.producer_id,
            "producerEpoch": self.producer_epoch,
            "state": self.state,
            "firstOffset": self.first_offset,
            "lastOffset": self.last_offset,
            "recordCount": self.records_count,
            "markerOffset": self.marker_offset,
        }

    def as_aborted(self) -> AbortedTransaction:
        """Give the entry of a transaction index; only for one that was aborted."""
        assert self.is_aborted
        assert self.marker_offset is not None
        return AbortedTransaction(
            producer_id=self.producer_id,
            first_offset=self.first_offset,
            last_offset=self.marker_offset,
            last_stable_offset=self.last_stable_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The batch of a producer that must not go: its last data, or else its last marker's epoch.

    Attributes
    ----------
    last_data_offset : int
        Last offset of its last data batch of the present epoch; -1 where it has only a marker.
    """

    producer_epoch: int
    last_data_offset: int


class ProducerTracker:
    """Producers and their transactions while a log is walked.

    Parameters
    ----------
    check_crcs : bool
        Whether the checksums of markers are compared, and of what one flipped bit may have made of
        a marker.
    skip_corrupt : bool
        Whether a marker that is bad is left out, or is an error. Then data batches with a wrong
        checksum are left out too, since their headers open transactions.
    transactions_only : bool
        Whether all other batches of producers are left out, and the producers' states.
    uncommitted_only : bool
        Whether only transactions are told that were aborted; what an ended one says of others, its
        `last_stable_offset`, is not known then. Only with `transactions_only`.
    """

    def __init__(
        self,
        *,
        check_crcs: bool = True,
        skip_corrupt: bool = False,
        transactions_only: bool = False,
        uncommitted_only: bool = False,
    ) -> None:
        assert transactions_only or not uncommitted_only
        self.next_offset = 0
        self._check_crcs = check_crcs
        self._skip_corrupt = skip_corrupt
        self._transactions_only = transactions_only
        settings = np.zeros(kernels.SETTINGS, np.bool_)
        settings[kernels.CHECK_CRCS] = check_crcs
        settings[kernels.SKIP_CORRUPT] = skip_corrupt
        settings[kernels.TRANSACTIONS_ONLY] = transactions_only
        settings[kernels.ABORTED_ONLY] = uncommitted_only
        self._settings = settings
        self._state = np.zeros(kernels.STATE_FIELDS, np.int64)
        self._state[kernels.MARKER_TYPE] = kernels.NOT_READ
        self._producers = _empty_slots(_MIN_SLOTS)
        self._begun = np.empty((_MIN_SLOTS, 2), np.int64)
        self._ended = np.empty((_MIN_ENDED, kernels.ENDED_FIELDS), np.int64)

    @classmethod
    def from_states(cls, states: Iterable[ProducerState], next_offset: int) -> Self:
        """Begin with the producers of a snapshot at an offset."""
        tracker = cls()
        tracker.next_offset = next_offset
        # A producer counts once: with what the snapshot says of it last.
        rows = np.array(
            [*{state.producer_id: _row_of(state) for state in states}.values()], np.int64
        )
        rows = rows.reshape(-1, kernels.PRODUCER_FIELDS)
        tracker._put_producers(rows)
        begun = rows[rows[:, kernels.FIRST_OPEN_OFFSET] != kernels.NO_OFFSET]
        begun = begun[np.argsort(begun[:, kernels.FIRST_OPEN_OFFSET], kind="stable")]
        tracker._put_begun(begun[:, [kernels.ID, kernels.FIRST_OPEN_OFFSET]])
        return tracker

    @property
    def no_transactions(self) -> Int64s:
        """No rows of what `follow` gives."""
        return self._ended[:0]

    @property
    def open_transactions(self) -> list[Transaction]:
        """Those that no marker has ended yet, in the order of their begins."""
        rows = self._open_rows
        rows = rows[np.argsort(rows[:, kernels.FIRST_OPEN_OFFSET], kind="stable")]
        return [
            Transaction(
                producer_id=row[kernels.ID],
                producer_epoch=row[kernels.OPEN_EPOCH],
                first_offset=row[kernels.FIRST_OPEN_OFFSET],
                last_offset=row[kernels.LAST_OPEN_OFFSET],
                records_count=row[kernels.OPEN_RECORDS],
            )
            for row in rows.tolist()
        ]

    @property
    def first_open_offset(self) -> int | None:
        """First offset of the oldest open transaction; None where none is open."""
        first_offsets = self._producers[:, kernels.FIRST_OPEN_OFFSET]
        first_offsets = first_offsets[first_offsets != kernels.NO_OFFSET]
        return int(first_offsets.min()) if len(first_offsets) else None

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction; after the last batch where none is open."""
        first = self.first_open_offset
        return self.next_offset if first is None else first

    @property
    def states(self) -> list[ProducerState]:
        """The producers as a snapshot holds them."""
        rows = self._rows
        rows = rows[rows[:, kernels.IS_KNOWN] != 0]
        return [_state_of(row) for row in rows[np.argsort(rows[:, kernels.ID])].tolist()]

    def last_batches(self, *, now_ms: int, expiration_ms: int) -> dict[int, LastBatch]:
        """Tell which batch of each producer keeps its state; none for a producer long silent."""
        return {
            row[kernels.ID]: LastBatch(
                producer_epoch=row[kernels.EPOCH], last_data_offset=row[kernels.LAST_DATA_OFFSET]
            )
            for row in self._rows.tolist()
            if row[kernels.FIRST_OPEN_OFFSET] != kernels.NO_OFFSET
            or now_ms - row[kernels.LAST_TIMESTAMP] < expiration_ms
        }

    def apply(self, piece: Piece, source: str, *, from_offset: int = 0) -> list[Transaction]:
        """Follow the next batches of the log.

        Parameters
        ----------
        from_offset : int
            Batches that begin below it are left out.

        Returns
        -------
        list of Transaction
            Those that these batches end, in the order of their markers.

        Raises
        ------
        CorruptRecordError
            A marker that cannot be read, or has a wrong checksum.
        """
        return [
            Transaction.from_row(row) for row in self.follow(piece, source, from_offset).tolist()
        ]

    def follow(self, piece: Piece, source: str, from_offset: int = 0) -> Int64s:
        """Follow the next batches as `take` does; gives rows of ENDED_FIELDS fields."""
        table, state = piece.table, self._state
        self.next_offset = max(self.next_offset, int(table.last_offset[-1]) + 1)
        state[kernels.NEXT_ROW] = 0
        found = []
        reason = kernels.ENDED_FULL
        while reason != kernels.FOLLOWED:
            state[kernels.ENDED_COUNT] = 0
            reason = kernels.follow_producers(
                table.entries,
                piece.buffer,
                piece.file_position,
                piece.floor,
                from_offset,
                self._settings,
                state,
                self._producers,
                self._begun,
                self._ended,
            )
            if state[kernels.ENDED_COUNT]:
                found.append(self._ended[: state[kernels.ENDED_COUNT]].copy())
            if reason != kernels.FOLLOWED:
                self._make_way(reason, piece, int(state[kernels.NEXT_ROW]), source)
        return np.concatenate(found) if found else self.no_transactions

    def _make_way(self, reason: int, piece: Piece, row: int, source: str) -> None:
        """See to what the kernel came back for at a row, so that it can go on."""
        if reason == kernels.PRODUCERS_FULL:
            self._put_producers(self._open_rows if self._transactions_only else self._rows)
        elif reason == kernels.BEGUN_FULL:
            first, count = self._state[[kernels.BEGUN_FIRST, kernels.BEGUN_COUNT]].tolist()
            kept = kernels.keep_open(self._producers, self._begun, first, count)
            self._put_begun(self._begun[:kept])
        elif reason == kernels.BAD_ENTRY:
            raise CrcMismatchError(
                WRONG_CHECKSUM,
                source=source,
                position=int(piece.table.position[row]),
                length=int(piece.table.size_bytes[row]),
                base_offset=int(piece.table.base_offset[row]),
            )
        elif reason == kernels.NOT_INSIDE:
            raise IndexError("header table of other bytes than these")
        elif reason == kernels.ODD_MARKER:
            marker = self._odd_marker(piece, row, source)
            self._state[[kernels.MARKER_TYPE, kernels.MARKER_EPOCH]] = marker

    def _odd_marker(self, piece: Piece, row: int, source: str) -> Marker:
        """Read a marker that brokers write in another way, or that ends no transaction."""
        nothing = Marker(kernels.OTHER_MARKER, -1)
        try:
            marker = read_marker(piece, row, source, check_crcs=self._check_crcs)
        except CorruptRecordError:
            if not self._skip_corrupt:
                raise
            return nothing
        return marker if marker.ends_transaction else nothing

    @property
    def _rows(self) -> Int64s:
        rows: Int64s = self._producers[self._producers[:, kernels.IS_USED] != 0]
        return rows

    @property
    def _open_rows(self) -> Int64s:
        is_open = self._producers[:, kernels.FIRST_OPEN_OFFSET] != kernels.NO_OFFSET
        rows: Int64s = self._producers[is_open]
        return rows

    def _put_producers(self, rows: Int64s) -> None:
        """Make the table of producers again, with room for as many again."""
        size = max(_MIN_SLOTS, 4 << len(rows).bit_length())
        self._producers = _empty_slots(size)
        kernels.put_producers(rows, self._producers)
        self._state[kernels.PRODUCERS_COUNT] = len(rows)

    def _put_begun(self, rows: Int64s) -> None:
        self._begun = np.empty((max(_MIN_SLOTS, 2 * len(rows)), 2), np.int64)
        self._begun[: len(rows)] = rows
        self._state[[kernels.BEGUN_FIRST, kernels.BEGUN_COUNT]] = 0, len(rows)


def _empty_slots(count: int) -> Int64s:
    slots = np.zeros((count, kernels.PRODUCER_FIELDS), np.int64)
    slots[:, kernels.FIRST_OPEN_OFFSET] = kernels.NO_OFFSET
    return slots


def _row_of(state: ProducerState) -> list[int]:
    row = [0] * kernels.PRODUCER_FIELDS
    row[kernels.IS_USED] = row[kernels.IS_KNOWN] = 1
    row[kernels.ID] = state.producer_id
    row[kernels.EPOCH] = row[kernels.OPEN_EPOCH] = state.producer_epoch
    row[kernels.LAST_SEQUENCE] = state.last_sequence
    row[kernels.LAST_DATA_OFFSET] = row[kernels.LAST_OPEN_OFFSET] = state.last_offset
    row[kernels.OFFSET_DELTA] = state.offset_delta
    row[kernels.LAST_TIMESTAMP] = state.timestamp_ms
    row[kernels.COORDINATOR_EPOCH] = state.coordinator_epoch
    row[kernels.FIRST_OPEN_OFFSET] = state.current_txn_first_offset
    return row


def _state_of(row: Sequence[int]) -> ProducerState:
    return ProducerState(
        producer_id=row[kernels.ID],
        producer_epoch=row[kernels.EPOCH],
        last_sequence=row[kernels.LAST_SEQUENCE],
        last_offset=row[kernels.LAST_DATA_OFFSET],
        offset_delta=row[kernels.OFFSET_DELTA],
        timestamp_ms=row[kernels.LAST_TIMESTAMP],
        coordinator_epoch=row[kernels.COORDINATOR_EPOCH],
        current_txn_first_offset=row[kernels.FIRST_OPEN_OFFSET],
    )
