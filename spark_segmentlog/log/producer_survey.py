"""What a log's batch headers tell of its producers and transactions, from one walk over all of it.

The same as a broker's ProducerStateManager knows once it has read the log: each producer's epoch,
last sequence and last data batch, which transactions are open, and which were aborted. A marker is
matched by producer id alone: that of a transaction.version=2 producer carries the epoch that
follows the data's. Transaction indexes and snapshots are not asked: the markers are the truth they
come from.

The walk also measures what compaction decides by: the largest timestamp of each segment, and the
offsets of batches that hold something whose delete horizon is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, InvalidBatchError
from spark_segmentlog.log.files import ZERO_CHECK_BYTES, LogFile, is_zero_from
from spark_segmentlog.log.header_walk import HeaderWalk, ReadBuffer
from spark_segmentlog.log.producer_snapshot import NO_TRANSACTION, ProducerState
from spark_segmentlog.log.segment import Segment
from spark_segmentlog.log.transaction_index import AbortedTransaction
from spark_segmentlog.record._types import Bytes
from spark_segmentlog.record.batch import iterate_records
from spark_segmentlog.record.control import ControlRecord, ControlRecordType, parse_control_record
from spark_segmentlog.record.header_table import HeaderTable
from spark_segmentlog.record.layout import MAGIC_V2, NO_TIMESTAMP

NO_OFFSET: Final = -1
_MAX_SEQUENCE: Final = 2**31 - 1


@dataclass(slots=True)
class _Producer:
    """One producer while the log is walked."""

    epoch: int
    last_sequence: int = -1
    last_offset: int = NO_OFFSET
    offset_delta: int = 0
    timestamp_ms: int = NO_TIMESTAMP
    coordinator_epoch: int = -1
    transaction_first_offset: int = NO_TRANSACTION


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSurvey:
    """What the walk measured of one segment.

    Attributes
    ----------
    largest_timestamp : int
        In ms; -1 where no record has one.
    records_count : int
        An estimate from above, where wrappers of formats 0 and 1 are among its batches.
    earliest_horizon_ms : int
        -1 where no batch has a delete horizon.
    """

    base_offset: int
    largest_timestamp: int
    records_count: int
    earliest_horizon_ms: int


@dataclass(slots=True)
class ProducerSurvey:
    """What the headers of a log tell.

    Attributes
    ----------
    next_offset : int
        Behind the last whole batch.
    aborted : list of AbortedTransaction
        In the order of their markers; those of which data is still there.
    segments : list of SegmentSurvey
        In the order of the log.
    """

    next_offset: int = 0
    aborted: list[AbortedTransaction] = field(default_factory=list)
    segments: list[SegmentSurvey] = field(default_factory=list)
    _producers: dict[int, _Producer] = field(default_factory=dict)

    @classmethod
    def of(cls, states: Sequence[ProducerState], next_offset: int) -> Self:
        """Begin with the producers of a snapshot at an offset."""
        producers = {
            it.producer_id: _Producer(
                epoch=it.producer_epoch,
                last_sequence=it.last_sequence,
                last_offset=it.last_offset,
                offset_delta=it.offset_delta,
                timestamp_ms=it.timestamp_ms,
                coordinator_epoch=it.coordinator_epoch,
                transaction_first_offset=it.current_txn_first_offset,
            )
            for it in states
        }
        return cls(next_offset=next_offset, _producers=producers)

    @property
    def last_stable_offset(self) -> int:
        """First offset of the earliest open transaction; the log's end where none is open."""
        return min(self._open_transactions(), default=self.next_offset)

    @property
    def states(self) -> list[ProducerState]:
        """The producers as a snapshot at the log's end holds them."""
        return [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_offset=producer.last_offset,
                offset_delta=producer.offset_delta,
                timestamp_ms=producer.timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_first_offset=producer.transaction_first_offset,
            )
            for producer_id, producer in self._producers.items()
        ]

    def last_batches(self, *, now_ms: int, expiration_ms: int) -> dict[int, LastBatch]:
        """Tell which batch of each producer keeps its state; none for a producer long silent."""
        return {
            producer_id: LastBatch(
                producer_epoch=producer.epoch, last_data_offset=producer.last_offset
            )
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset != NO_TRANSACTION
            or now_ms - producer.timestamp_ms < expiration_ms
        }

    def follow(
        self,
        segment: Segment,
        buffer: ReadBuffer,
        *,
        start_offset: int = 0,
        end_position: int | None = None,
    ) -> None:
        """Take the batches of the next segment.

        Parameters
        ----------
        start_offset : int
            Batches below it are left out.
        end_position : int, optional
            Where its good batches are known to end. Without it a last segment may end torn, and
            any other must be whole.

        Raises
        ------
        CorruptRecordError
        """
        self.next_offset = max(self.next_offset, segment.base_offset)
        measures = _Measures()
        with segment.open_log() as file:
            walk = HeaderWalk(segment, file, 0, buffer, False, None)
            for table in _tables(walk, start_offset, end_position):
                measures.take(table)
                try:
                    self.take(
                        walk.buffer,
                        table,
                        file_position=walk.file_position,
                        source=segment.log_path,
                    )
                except CorruptRecordError as error:
                    if not _is_torn_end(segment, file, error):
                        raise
            if end_position is None and segment.end_offset_bound is not None:
                check_whole(segment, walk, file.size(), self.next_offset)
        self.segments.append(measures.of(segment.base_offset))

    def take(self, buffer: Bytes, table: HeaderTable, *, file_position: int, source: str) -> None:
        """Take the next batches of the log."""
        self.next_offset = int(table.last_offset[-1]) + 1
        rows = np.flatnonzero((table.producer_id >= 0) & (table.magic == MAGIC_V2))
        if len(rows) == 0:
            return
        is_control = table.is_control
        is_transactional = table.is_transactional
        for row in rows.tolist():
            if is_control[row]:
                position = int(table.position[row]) - file_position
                marker = read_marker(buffer, position, source=source, file_position=file_position)
                self._take_marker(table, row, marker)
            else:
                self._take_data(table, row, in_transaction=bool(is_transactional[row]))

    def _take_data(self, table: HeaderTable, row: int, *, in_transaction: bool) -> None:
        base_offset, last_offset = int(table.base_offset[row]), int(table.last_offset[row])
        producer = self._producer(int(table.producer_id[row]), int(table.producer_epoch[row]))
        producer.last_offset = last_offset
        producer.offset_delta = last_offset - base_offset
        producer.last_sequence = _last_sequence(
            int(table.base_sequence[row]), producer.offset_delta
        )
        producer.timestamp_ms = int(table.max_timestamp[row])
        if in_transaction and producer.transaction_first_offset == NO_TRANSACTION:
            producer.transaction_first_offset = base_offset

    def _take_marker(self, table: HeaderTable, row: int, marker: ControlRecord | None) -> None:
        # An empty control batch says that the whole transaction was cleaned away.
        if marker is None or not marker.ends_transaction:
            return
        producer_id = int(table.producer_id[row])
        producer = self._producer(producer_id, int(table.producer_epoch[row]))
        first_offset = producer.transaction_first_offset
        producer.transaction_first_offset = NO_TRANSACTION
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.timestamp_ms = int(table.max_timestamp[row])
        if marker.type is ControlRecordType.ABORT and first_offset != NO_TRANSACTION:
            marker_offset = int(table.base_offset[row])
            self.aborted.append(
                AbortedTransaction(
                    producer_id=producer_id,
                    first_offset=first_offset,
                    last_offset=marker_offset,
                    last_stable_offset=min(self._open_transactions(), default=marker_offset + 1),
                )
            )

    def _producer(self, producer_id: int, epoch: int) -> _Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(epoch)
        elif producer.epoch != epoch:
            # A new epoch starts its sequences anew; an open transaction goes on to its marker.
            producer = self._producers[producer_id] = _Producer(
                epoch,
                coordinator_epoch=producer.coordinator_epoch,
                transaction_first_offset=producer.transaction_first_offset,
            )
        return producer

    def _open_transactions(self) -> list[int]:
        return [
            producer.transaction_first_offset
            for producer in self._producers.values()
            if producer.transaction_first_offset != NO_TRANSACTION
        ]


def survey_producers(segments: Sequence[Segment]) -> ProducerSurvey:
    """Walk the headers of a whole log.

    Parameters
    ----------
    segments : sequence of Segment
        Ascending; the last one may end torn.

    Raises
    ------
    InvalidBatchError
        A segment before the last one that is not whole batches up to its end.
    """
    survey = ProducerSurvey()
    buffer = ReadBuffer()
    for segment in segments:
        survey.follow(segment, buffer)
    return survey


def _tables(walk: HeaderWalk, start_offset: int, end_position: int | None) -> Iterator[HeaderTable]:
    """Give the tables of a walk, each cut to the batches that are asked for."""
    if end_position == 0:
        return
    for table in walk:
        is_wanted = table.base_offset >= start_offset
        if end_position is not None:
            is_wanted &= table.position < end_position
        if is_wanted.all():
            yield table
        elif is_wanted.any():
            yield table.select(is_wanted)
        if end_position is not None and walk.position >= end_position:
            return


def _is_torn_end(segment: Segment, file: LogFile, error: CorruptRecordError) -> bool:
    """Tell whether a bad marker is the half-written last batch of a log: then it is no marker."""
    end = error.position + error.length
    return (
        segment.end_offset_bound is None
        and error.length > 0
        and is_zero_from(file, end, np.empty(ZERO_CHECK_BYTES, np.uint8))
    )


def check_whole(segment: Segment, walk: HeaderWalk, size_bytes: int, next_offset: int) -> None:
    """Refuse a closed segment that ends torn, or reaches into the next one.

    Raises
    ------
    InvalidBatchError
        With the place where its whole batches end.
    """
    if walk.position != size_bytes:
        raise InvalidBatchError(
            f"closed segment of {size_bytes} bytes has whole batches up to {walk.position} only; "
            "run segmentlog verify before its log is cleaned",
            source=segment.log_path,
            position=walk.position,
        )
    if segment.end_offset_bound is not None and next_offset > segment.end_offset_bound:
        raise InvalidBatchError(
            f"segment ends with offset {next_offset - 1}, the next one starts at "
            f"{segment.end_offset_bound}; run segmentlog verify before its log is cleaned",
            source=segment.log_path,
            position=walk.position,
        )


def read_marker(
    buffer: Bytes, position: int, *, source: str, file_position: int
) -> ControlRecord | None:
    """Read the first record of a control batch; None for a batch without records."""
    for record in iterate_records(
        buffer.data, position, source=source, file_position=file_position
    ):
        try:
            return parse_control_record(record.key, record.value)
        except ValueError as error:
            raise InvalidBatchError(
                str(error),
                source=source,
                position=file_position + position,
                base_offset=record.offset,
            ) from error
    return None


@dataclass(slots=True)
class _Measures:
    largest_timestamp: int = NO_TIMESTAMP
    records_count: int = 0
    earliest_horizon_ms: int = NO_TIMESTAMP

    def take(self, table: HeaderTable) -> None:
        self.largest_timestamp = max(self.largest_timestamp, int(table.max_timestamp.max()))
        # A wrapper does not say how many messages it holds: seldom more than it has bytes.
        counts = np.where(table.records_count < 0, table.size_bytes, table.records_count)
        self.records_count += int(counts.sum())
        horizons = table.base_timestamp[table.has_delete_horizon]
        if len(horizons):
            earliest = int(horizons.min())
            known = self.earliest_horizon_ms
            self.earliest_horizon_ms = earliest if known < 0 else min(known, earliest)

    def of(self, base_offset: int) -> SegmentSurvey:
        return SegmentSurvey(
            base_offset=base_offset,
            largest_timestamp=self.largest_timestamp,
            records_count=self.records_count,
            earliest_horizon_ms=self.earliest_horizon_ms,
        )


def _last_sequence(base_sequence: int, delta: int) -> int:
    """Kafka's sequences wrap around to 0 behind the largest 31-bit number."""
    if base_sequence < 0:
        return base_sequence
    last = base_sequence + delta
    return last if last <= _MAX_SEQUENCE else last - _MAX_SEQUENCE - 1
