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
- A batch that repeats offsets that were met before says nothing.
- A marker with a wrong checksum is an error, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, InvalidRecordError
from spark_segmentlog.log.header_walk import Piece
from spark_segmentlog.log.producer_snapshot import NO_TRANSACTION, ProducerState
from spark_segmentlog.log.transaction_index import AbortedTransaction
from spark_segmentlog.record import kernels
from spark_segmentlog.record._types import Bools, Int64s
from spark_segmentlog.record.batch import iterate_records
from spark_segmentlog.record.control import ControlRecordType, parse_control_record
from spark_segmentlog.record.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.layout import NO_TIMESTAMP, RECORDS_OFFSET

NO_OFFSET: Final = -1
_MAX_SEQUENCE: Final = 2**31 - 1

# The only record of a marker, as brokers write it; lengths are zigzag varints.
_USUAL_MARKER: Final = np.dtype(
    [
        ("length_and_attributes", ">u2"),
        ("deltas", ">u2"),
        ("key_length", "u1"),
        ("key_version", ">i2"),
        ("type", ">i2"),
        ("value_length", "u1"),
        ("value_version", ">i2"),
        ("coordinator_epoch", ">i4"),
        ("headers_count", "u1"),
    ]
)
_KEY_LENGTH: Final = 2 * 4
_VALUE_LENGTH: Final = 2 * 6
ABORT: Final = int(ControlRecordType.ABORT)
COMMIT: Final = int(ControlRecordType.COMMIT)


class Marker(NamedTuple):
    """What a control batch says; the coordinator's epoch is -1 where it ends no transaction."""

    type_id: int
    coordinator_epoch: int

    @property
    def ends_transaction(self) -> bool:
        """Whether it is an ABORT or a COMMIT marker."""
        return self.type_id in (ABORT, COMMIT)


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
        First offset of the oldest transaction that was open when this one ended; behind the marker
        where none was.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    records_count: int = 0
    marker: Marker | None = None
    marker_offset: int | None = None
    last_stable_offset: int = NO_OFFSET

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


@dataclass(slots=True)
class _Producer:
    epoch: int
    last_sequence: int = -1
    last_offset: int = NO_OFFSET
    offset_delta: int = 0
    timestamp_ms: int = NO_TIMESTAMP
    coordinator_epoch: int = -1


class ProducerTracker:
    """Producers and their transactions while a log is walked.

    Parameters
    ----------
    check_crcs : bool
        Whether the checksums of markers are compared.
    skip_corrupt : bool
        Whether a marker that is bad is left out, or is an error. Then data batches with a wrong
        checksum are left out too, since their headers open transactions.
    transactions_only : bool
        Whether all other batches of producers are left out, and the producers' states.
    uncommitted_only : bool
        Whether transactions may be left out that are committed; what an ended one says of others,
        its `last_stable_offset`, is not known then. Only with `transactions_only`.

    Attributes
    ----------
    next_offset : int
        Behind the last batch taken.
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
        self._uncommitted_only = uncommitted_only
        self.next_offset = 0
        self._transactions_only = transactions_only
        self._check_crcs = check_crcs
        self._skip_corrupt = skip_corrupt
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, Transaction] = {}

    @classmethod
    def of(cls, states: Iterable[ProducerState], next_offset: int) -> Self:
        """Begin with the producers of a snapshot at an offset."""
        tracker = cls()
        tracker.next_offset = next_offset
        for state in states:
            tracker._producers[state.producer_id] = _producer_of(state)
            if state.is_in_transaction:
                tracker._open[state.producer_id] = _transaction_of(state)
        return tracker

    @property
    def open_transactions(self) -> list[Transaction]:
        """Those that no marker has ended yet."""
        return list(self._open.values())

    @property
    def first_open_offset(self) -> int | None:
        """First offset of the oldest open transaction; None where none is open."""
        if not self._open:
            return None
        return min([it.first_offset for it in self._open.values()])

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction; behind the last batch where none is open."""
        first = self.first_open_offset
        return self.next_offset if first is None else first

    @property
    def states(self) -> list[ProducerState]:
        """The producers as a snapshot holds them."""
        return [
            _state_of(producer_id, producer, self._open.get(producer_id))
            for producer_id, producer in self._producers.items()
        ]

    def last_batches(self, *, now_ms: int, expiration_ms: int) -> dict[int, LastBatch]:
        """Tell which batch of each producer keeps its state; none for a producer long silent."""
        return {
            producer_id: LastBatch(
                producer_epoch=producer.epoch, last_data_offset=producer.last_offset
            )
            for producer_id, producer in self._producers.items()
            if producer_id in self._open or now_ms - producer.timestamp_ms < expiration_ms
        }

    def take(self, piece: Piece, source: str, *, from_offset: int = 0) -> list[Transaction]:
        """Follow the next batches of the log.

        Parameters
        ----------
        piece : Piece
        source : str
            The file, for errors.
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
        table = piece.table
        self.next_offset = max(self.next_offset, int(table.last_offset[-1]) + 1)
        chosen = np.empty(len(table), np.bool_)
        count = kernels.choose_producers(
            table.entries, self._transactions_only, piece.floor, from_offset, chosen
        )
        if count and self._skip_corrupt and self._check_crcs:
            chosen[chosen] = _good(piece, np.flatnonzero(chosen))
            count = int(np.count_nonzero(chosen))
        if count == 0:
            return []
        runs = _Runs(table, chosen, count)
        markers = read_markers(
            piece,
            runs.markers,
            source=source,
            check_crcs=self._check_crcs,
            skip_corrupt=self._skip_corrupt,
        )
        if self._uncommitted_only:
            runs.leave_out_committed(markers)
        ended: list[Transaction] = []
        with_producers = not self._transactions_only
        for run in runs:
            if not run.is_control:
                if with_producers:
                    self._note_data(run)
                if run.is_transactional:
                    self._take_data(run)
            elif (marker := markers.get(run.first_row)) is not None and marker.ends_transaction:
                if with_producers:
                    self._note_marker(run, marker)
                self._take_marker(run, marker, ended)
        return ended

    def _take_data(self, run: _Run) -> None:
        transaction = self._open.get(run.producer_id)
        if transaction is None:
            transaction = self._open[run.producer_id] = Transaction(
                producer_id=run.producer_id,
                producer_epoch=run.producer_epoch,
                first_offset=run.first_offset,
                last_offset=run.last_offset,
            )
        transaction.last_offset = run.last_offset
        transaction.records_count += run.records_count

    def _take_marker(self, run: _Run, marker: Marker, ended: list[Transaction]) -> None:
        transaction = self._open.pop(run.producer_id, None)
        if transaction is not None:
            first_open = self.first_open_offset
            transaction.marker = marker
            transaction.marker_offset = run.first_offset
            transaction.last_stable_offset = (
                run.first_offset + 1 if first_open is None else first_open
            )
            ended.append(transaction)

    def _note_data(self, run: _Run) -> None:
        producer = self._producer(run.producer_id, run.producer_epoch)
        producer.last_offset = run.last_offset
        producer.offset_delta = run.last_offset - run.last_base_offset
        producer.last_sequence = _last_sequence(run.base_sequence, producer.offset_delta)
        producer.timestamp_ms = run.max_timestamp

    def _note_marker(self, run: _Run, marker: Marker) -> None:
        producer = self._producer(run.producer_id, run.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.timestamp_ms = run.max_timestamp

    def _producer(self, producer_id: int, epoch: int) -> _Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(epoch)
        elif producer.epoch != epoch:
            # A new epoch starts its sequences anew; an open transaction goes on to its marker.
            producer = self._producers[producer_id] = _Producer(
                epoch, coordinator_epoch=producer.coordinator_epoch
            )
        return producer


def read_markers(
    piece: Piece,
    rows: Int64s,
    *,
    source: str,
    check_crcs: bool = True,
    skip_corrupt: bool = False,
) -> dict[int, Marker]:
    """Read the control batches at some rows, by their first record.

    Returns
    -------
    dict of int to Marker
        By row; a batch without records is left out.

    Raises
    ------
    CorruptRecordError
        A wrong checksum, or a record that is no control record, unless `skip_corrupt` leaves such
        batches out.
    """
    rows = rows[piece.table.records_count[rows] != 0]
    if len(rows) == 0:
        return {}
    is_good = _good(piece, rows) if check_crcs else np.ones(len(rows), np.bool_)
    found, others = _usual_markers(piece, rows[is_good])
    for row in (*others.tolist(), *rows[~is_good].tolist()):
        try:
            found[row] = _read_marker(piece, row, source, check_crcs)
        except CorruptRecordError:
            if not skip_corrupt:
                raise
    return found


def _usual_markers(piece: Piece, rows: Int64s) -> tuple[dict[int, Marker], Int64s]:
    """Read markers that are as brokers write them, all at once; gives the other rows too."""
    starts = piece.table.position[rows] - piece.file_position + RECORDS_OFFSET
    is_usual = piece.table.size_bytes[rows] == RECORDS_OFFSET + _USUAL_MARKER.itemsize
    data = piece.buffer[starts[is_usual][:, None] + np.arange(_USUAL_MARKER.itemsize)]
    records = np.ascontiguousarray(data).view(_USUAL_MARKER).reshape(-1)
    is_record = (records["deltas"] == 0) & (records["key_length"] == _KEY_LENGTH)
    is_record &= records["value_length"] == _VALUE_LENGTH
    is_usual[is_usual] = is_record
    types = records["type"][is_record].tolist()
    epochs = records["coordinator_epoch"][is_record].tolist()
    found = {
        row: Marker(type_id, epoch if type_id in (ABORT, COMMIT) else -1)
        for row, type_id, epoch in zip(rows[is_usual].tolist(), types, epochs, strict=True)
    }
    return found, rows[~is_usual]


def _read_marker(piece: Piece, row: int, source: str, check_crcs: bool) -> Marker:
    position = int(piece.table.position[row])
    start = position - piece.file_position
    data = piece.buffer.data[start : start + int(piece.table.size_bytes[row])]
    record = next(
        iterate_records(data, source=source, file_position=position, check_crcs=check_crcs)
    )
    try:
        control = parse_control_record(record.key, record.value)
    except ValueError as error:
        raise InvalidRecordError(
            str(error), source=source, position=position, base_offset=record.offset
        ) from error
    return Marker(control.type_id, control.coordinator_epoch)


def _good(piece: Piece, rows: Int64s) -> Bools:
    return check_crcs(piece.buffer, piece.table.select(rows), file_position=piece.file_position)


class _Run(NamedTuple):
    """Batches of one producer with nothing else of it between them, or one control batch.

    `first_offset` is that of the first batch, `last_base_offset` and what follows of the last one.
    """

    first_row: int
    first_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    records_count: int
    last_base_offset: int
    last_offset: int
    base_sequence: int
    max_timestamp: int


class _Runs:
    """The rows of a table, put together so that Python looks at few of them.

    Parameters
    ----------
    table : HeaderTable
    chosen : ndarray of bool
        Which batches, all with a producer; `count` is their number.
    """

    def __init__(self, table: HeaderTable, chosen: Bools, count: int) -> None:
        slots = np.zeros(2 << count.bit_length(), np.int64)
        runs = np.empty((count, kernels.RUN_FIELDS), np.int64)
        runs = runs[: kernels.find_runs(table.entries, chosen, slots, runs)]
        self._first: Int64s = runs[:, kernels.RUN_FIRST]
        self._counts = runs[:, kernels.RUN_RECORDS]
        self._begins = table.select(self._first)
        self._ends = table.select(runs[:, kernels.RUN_LAST])
        self._is_control = self._begins.is_control
        self.markers: Int64s = self._first[self._is_control]

    def leave_out_committed(self, markers: dict[int, Marker]) -> None:
        """Leave out what tells of committed transactions alone."""
        ends = np.full(len(self._first), -1, np.int64)
        ends[self._is_control] = [
            it.type_id if it is not None and it.ends_transaction else -1
            for it in map(markers.get, self.markers.tolist())
        ]
        slots = np.zeros(2 << len(ends).bit_length(), np.int64)
        kept = np.empty(len(ends), np.bool_)
        producer_ids = np.ascontiguousarray(self._begins.producer_id)
        kernels.leave_out_committed(producer_ids, ends, COMMIT, slots, kept)
        self._first, self._counts = self._first[kept], self._counts[kept]
        self._begins, self._ends = self._begins.select(kept), self._ends.select(kept)
        self._is_control = self._is_control[kept]

    def __iter__(self) -> Iterator[_Run]:
        # In the order of their first rows, so that a transaction is open from its begin on.
        begins, ends = self._begins, self._ends
        columns = (
            self._first,
            begins.base_offset,
            begins.producer_id,
            begins.producer_epoch,
            begins.is_transactional,
            self._is_control,
            self._counts,
            ends.base_offset,
            ends.last_offset,
            ends.base_sequence,
            ends.max_timestamp,
        )
        return map(_Run, *(column.tolist() for column in columns))


def _producer_of(state: ProducerState) -> _Producer:
    return _Producer(
        epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_offset=state.last_offset,
        offset_delta=state.offset_delta,
        timestamp_ms=state.timestamp_ms,
        coordinator_epoch=state.coordinator_epoch,
    )


def _transaction_of(state: ProducerState) -> Transaction:
    return Transaction(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        first_offset=state.current_txn_first_offset,
        last_offset=state.last_offset,
    )


def _state_of(
    producer_id: int, producer: _Producer, transaction: Transaction | None
) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_offset=producer.last_offset,
        offset_delta=producer.offset_delta,
        timestamp_ms=producer.timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_first_offset=(
            NO_TRANSACTION if transaction is None else transaction.first_offset
        ),
    )


def _last_sequence(base_sequence: int, delta: int) -> int:
    """Kafka's sequences wrap around to 0 behind the largest 31-bit number."""
    if base_sequence < 0:
        return base_sequence
    last = base_sequence + delta
    return last if last <= _MAX_SEQUENCE else last - _MAX_SEQUENCE - 1
