"""Producers and transactions followed by the compiled state machine and by a plain one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.formats.producer_snapshot import ProducerState
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.transactions.markers import ABORT, COMMIT, Marker
from spark_segmentlog.log.transactions.producer_tracker import ProducerTracker, Transaction
from spark_segmentlog.record.read.header_table import scan_headers
from spark_segmentlog.testing.builder import RecordSpec, control_batch, v2_batch

MAX_ENTRIES = 40
# Ids that differ in high bits alone, and the ends of the range, meet in one slot or far apart.
PRODUCER_IDS = (0, 1, 2, 1 << 32, 2 << 32, 2**63 - 1)
COORDINATOR_EPOCH = 3
DATA_TIMESTAMP_MS, MARKER_TIMESTAMP_MS = 5, 6

entries = st.lists(
    st.tuples(
        st.sampled_from(
            # "bare" is a marker that was emptied, "emptied" data.
            ("data", "data", "data", "emptied", "plain", "commit", "abort", "bare", "other")
        ),
        st.sampled_from(PRODUCER_IDS) | st.integers(0, 2**63 - 1),
        st.integers(0, 1),
        st.sampled_from((0, 7, 2**31 - 2)),
    ),
    max_size=MAX_ENTRIES,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch as it was drawn, and its offsets."""

    kind: str
    producer_id: int
    epoch: int
    sequence: int
    base_offset: int
    last_offset: int

    @property
    def records_count(self) -> int:
        return 0 if self.kind == "emptied" else self.last_offset - self.base_offset + 1

    def encode(self) -> bytes:
        producer: dict[str, Any] = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        if self.kind in ("commit", "abort"):
            return control_batch(
                COMMIT if self.kind == "commit" else ABORT,
                base_offset=self.base_offset,
                coordinator_epoch=COORDINATOR_EPOCH,
                timestamp_ms=MARKER_TIMESTAMP_MS,
                **producer,
            )
        if self.kind == "bare":
            return v2_batch(
                base_offset=self.base_offset,
                max_timestamp=MARKER_TIMESTAMP_MS,
                transactional=True,
                control=True,
                **producer,
            )
        if self.kind == "other":
            record = RecordSpec(key=b"\x00\x00\x00\x09", value=b"")
            return v2_batch(
                [record],
                base_offset=self.base_offset,
                transactional=True,
                control=True,
                **producer,
            )
        return v2_batch(
            [RecordSpec(value=b"v", timestamp_ms=DATA_TIMESTAMP_MS)] * self.records_count,
            base_offset=self.base_offset,
            last_offset_delta=self.last_offset - self.base_offset,
            base_sequence=self.sequence,
            transactional=self.kind != "plain",
            **producer,
        )


@dataclass(slots=True)
class PlainTracker:
    """What a tracker is to know, by the plainest means."""

    transactions_only: bool
    states: dict[int, ProducerState] = field(default_factory=dict)
    still_open: dict[int, Transaction] = field(default_factory=dict)
    ended: list[Transaction] = field(default_factory=list)

    def apply(self, entry: Entry) -> None:
        if entry.kind in ("commit", "abort"):
            self._end(entry)
        elif entry.kind == "bare":
            self._note(entry, timestamp_ms=MARKER_TIMESTAMP_MS)
        elif entry.kind != "other":
            self._note(
                entry,
                last_offset=entry.last_offset,
                offset_delta=entry.last_offset - entry.base_offset,
                last_sequence=(entry.sequence + entry.last_offset - entry.base_offset) % 2**31,
                timestamp_ms=DATA_TIMESTAMP_MS if entry.records_count else -1,
            )
            if entry.kind != "plain":
                self._extend(entry)

    def _note(self, entry: Entry, **changed: int) -> None:
        if self.transactions_only:
            return
        known = self.states.get(entry.producer_id)
        fields = dict.fromkeys(ProducerState.__dataclass_fields__, -1)
        fields |= {"producer_id": entry.producer_id, "producer_epoch": entry.epoch}
        fields["offset_delta"] = 0
        if known is not None:
            fields["coordinator_epoch"] = known.coordinator_epoch
            if known.producer_epoch == entry.epoch:
                fields = {name: getattr(known, name) for name in fields}
        self.states[entry.producer_id] = ProducerState(**fields | changed)

    def _extend(self, entry: Entry) -> None:
        transaction = self.still_open.setdefault(
            entry.producer_id,
            Transaction(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                first_offset=entry.base_offset,
                last_offset=-1,
            ),
        )
        transaction.last_offset = entry.last_offset
        transaction.records_count += entry.records_count

    def _end(self, entry: Entry) -> None:
        self._note(entry, timestamp_ms=MARKER_TIMESTAMP_MS, coordinator_epoch=COORDINATOR_EPOCH)
        transaction = self.still_open.pop(entry.producer_id, None)
        if transaction is None:
            return
        marker_type = COMMIT if entry.kind == "commit" else ABORT
        transaction.marker = Marker(marker_type, COORDINATOR_EPOCH)
        transaction.marker_offset = entry.base_offset
        begins = [transaction.first_offset for transaction in self.still_open.values()]
        transaction.last_stable_offset = min(begins, default=entry.base_offset + 1)
        self.ended.append(transaction)

    def sorted_states(self) -> list[ProducerState]:
        open_offsets = {
            transaction.producer_id: transaction.first_offset
            for transaction in self.still_open.values()
        }
        rows = []
        for _, state in sorted(self.states.items()):
            fields = {name: getattr(state, name) for name in ProducerState.__dataclass_fields__}
            fields["current_txn_first_offset"] = open_offsets.get(state.producer_id, -1)
            rows.append(ProducerState(**fields))
        return rows


def _laid_out(drawn: list[tuple[str, int, int, int]]) -> list[Entry]:
    laid_out: list[Entry] = []
    next_offset = 0
    for kind, producer_id, epoch, sequence in drawn:
        length = 3 if kind in ("data", "plain", "emptied") else 1
        last_offset = next_offset + length - 1
        laid_out.append(Entry(kind, producer_id, epoch, sequence, next_offset, last_offset))
        next_offset = last_offset + 1
    return laid_out


def _piece(batches: list[bytes]) -> Piece:
    buffer = np.frombuffer(b"".join(batches), np.uint8)
    return Piece(scan_headers(buffer, 0, len(buffer), file_position=0), buffer, 0)


@given(entries, st.integers(0, MAX_ENTRIES), st.booleans(), st.booleans())
def test_the_compiled_tracker_follows_as_a_plain_one_does(
    drawn: list[tuple[str, int, int, int]],
    cut: int,
    transactions_only: bool,
    uncommitted_only: bool,
) -> None:
    uncommitted_only = uncommitted_only and transactions_only
    laid_out = _laid_out(drawn)
    tracker = ProducerTracker(
        transactions_only=transactions_only, uncommitted_only=uncommitted_only
    )
    plain = PlainTracker(transactions_only)
    ended = []
    for part in (laid_out[:cut], laid_out[cut:]):
        if part:
            ended += tracker.apply(_piece([entry.encode() for entry in part]), "log")
        for entry in part:
            plain.apply(entry)
    expected = plain.ended
    if uncommitted_only:
        expected = [transaction for transaction in plain.ended if transaction.is_aborted]
        ended = [_without_stable(transaction) for transaction in ended]
        expected = [_without_stable(record) for record in expected]
    assert ended == expected
    still_open = sorted(plain.still_open.values(), key=lambda transaction: transaction.first_offset)
    assert tracker.open_transactions == still_open
    assert tracker.states == plain.sorted_states()
    next_offset = laid_out[-1].last_offset + 1 if laid_out else 0
    assert tracker.last_stable_offset == min(
        (transaction.first_offset for transaction in still_open), default=next_offset
    )


def _without_stable(transaction: Transaction) -> Transaction:
    transaction.last_stable_offset = -1
    return transaction


@pytest.mark.parametrize("transactions_only", [False, True])
def test_thousands_of_producers_and_transactions_make_their_tables_grow(
    transactions_only: bool,
) -> None:
    producers = range(3000)
    data = [("data", producer, 0, 0) for producer in producers]
    markers = [("abort" if producer % 2 else "commit", producer, 0, 0) for producer in producers]
    laid_out = _laid_out([*data, *markers, *data])
    tracker = ProducerTracker(transactions_only=transactions_only)
    ended = tracker.apply(_piece([entry.encode() for entry in laid_out]), "log")
    assert [transaction.producer_id for transaction in ended] == list(producers)
    # The next one to begin is the oldest that is open, until all of the first round have ended.
    assert [transaction.last_stable_offset for transaction in ended[:-1]] == [
        3 * producer + 3 for producer in producers[:-1]
    ]
    assert [open_transaction.producer_id for open_transaction in tracker.open_transactions] == list(
        producers
    )


def test_a_tracker_goes_on_from_a_snapshot_of_itself() -> None:
    laid_out = _laid_out(
        [("data", 1, 0, 0), ("data", 2, 0, 0), ("abort", 1, 0, 0), ("plain", 3, 0, 7)]
    )
    whole = ProducerTracker()
    whole.apply(_piece([entry.encode() for entry in laid_out]), "log")
    again = ProducerTracker.from_states(whole.states, whole.next_offset)
    assert again.states == whole.states
    assert again.last_stable_offset == whole.last_stable_offset == 3
    marker = Entry("commit", 2, 0, 0, 10, 10)
    [ended] = again.apply(_piece([marker.encode()]), "log")
    assert (ended.producer_id, ended.first_offset, ended.last_stable_offset) == (2, 3, 11)


@pytest.mark.parametrize("change", ["control", "transactional", "magic"])
def test_what_one_flipped_bit_made_of_a_marker_is_an_error_or_left_out(change: str) -> None:
    laid_out = _laid_out([("data", 1, 0, 0), ("abort", 1, 0, 0), ("data", 1, 0, 3)])
    batches = [bytearray(entry.encode()) for entry in laid_out]
    if change == "magic":
        batches[1][16] = 0
    else:
        batches[1][22] ^= 0x20 if change == "control" else 0x10
    piece = _piece([bytes(batch) for batch in batches])
    assert len(piece.table) == len(batches)
    with pytest.raises(CorruptRecordError, match="wrong checksum"):
        ProducerTracker(transactions_only=True).apply(piece, "log")
    tracker = ProducerTracker(transactions_only=True, skip_corrupt=True)
    assert tracker.apply(piece, "log") == []
    assert tracker.first_open_offset == 0
