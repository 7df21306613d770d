"""Transactions as the batch headers and markers of a log tell of them.

A data batch with the transactional bit opens its producer's transaction, a marker (ABORT or COMMIT,
in a control batch of the same producer id) ends it. Producer epochs are not compared: the marker of
transaction.version 2 carries the data's epoch plus one. A data batch that compaction emptied still
opens one, as for a broker, which keeps the marker as long as that batch; an emptied marker ends
nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from spark_segmentlog.errors import CorruptRecordError, InvalidRecordError
from spark_segmentlog.log.producer_snapshot import ProducerState
from spark_segmentlog.record._types import Bytes
from spark_segmentlog.record.batch import iterate_records
from spark_segmentlog.record.control import ControlRecordType, parse_control_record
from spark_segmentlog.record.header_table import HeaderTable
from spark_segmentlog.record.layout import RECORDS_OFFSET

# length, attributes, timestamp delta 0, offset delta 0, key length 4, key version, key type
_USUAL_MARKER: Final = struct.Struct(">BBBBBhh")
_KEY_LENGTH_4: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEvent:
    """A transactional data batch, or a marker (`marker` is then its type)."""

    producer_id: int
    base_offset: int
    marker: ControlRecordType | None


def transaction_events(
    table: HeaderTable,
    buffer: Bytes,
    *,
    file_position: int,
    source: str,
    skip_corrupt: bool = False,
) -> Iterator[TransactionEvent]:
    """Yield what opens and ends transactions in a table of headers, in order.

    Raises
    ------
    CorruptRecordError
        A marker that cannot be read, unless `skip_corrupt` is true: then it is none.
    """
    rows = np.flatnonzero(table.is_transactional & ~(table.is_control & (table.records_count == 0)))
    events = table.select(rows)
    columns = zip(
        events.position.tolist(),
        events.size_bytes.tolist(),
        events.base_offset.tolist(),
        events.producer_id.tolist(),
        events.is_control.tolist(),
        strict=True,
    )
    for position, size_bytes, base_offset, producer_id, is_control in columns:
        marker = None
        if is_control:
            start = position - file_position
            try:
                marker = _marker_type(buffer[start : start + size_bytes], source, position)
            except CorruptRecordError:
                if not skip_corrupt:
                    raise
                continue
            if marker not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                continue
        yield TransactionEvent(producer_id=producer_id, base_offset=base_offset, marker=marker)


@dataclass(slots=True)
class OpenTransactions:
    """The first offset of each open transaction, by producer id."""

    first_offsets: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, states: Iterable[ProducerState]) -> Self:
        """Give those that were open when a snapshot was taken."""
        return cls(
            {it.producer_id: it.current_txn_first_offset for it in states if it.is_in_transaction}
        )

    def take(self, event: TransactionEvent) -> None:
        """Follow one event."""
        if event.marker is None:
            self.first_offsets.setdefault(event.producer_id, event.base_offset)
        else:
            self.first_offsets.pop(event.producer_id, None)


def _marker_type(batch: Bytes, source: str, position: int) -> ControlRecordType:
    if len(batch) >= RECORDS_OFFSET + _USUAL_MARKER.size:
        fields = _USUAL_MARKER.unpack_from(batch.data, RECORDS_OFFSET)
        if fields[2:5] == (0, 0, _KEY_LENGTH_4):
            return ControlRecordType(fields[6])
    record = next(
        iterate_records(batch.tobytes(), source=source, file_position=position, check_crcs=False)
    )
    try:
        return parse_control_record(record.key, record.value).type
    except ValueError as error:
        raise InvalidRecordError(
            str(error), source=source, position=position, base_offset=record.offset
        ) from error
