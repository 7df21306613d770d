"""Every transaction of a log, found by walking the batch headers and the markers.

A transaction is what one producer wrote between two of its markers. Batch headers and markers are
the truth that transaction indexes and snapshots come from, so those are not asked. Markers without
data in this log (compaction took it, or the producer wrote none) are no transaction here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_segmentlog.log.header_walk import HeaderWalk, ReadBuffer
from spark_segmentlog.log.partition_log import PartitionLog
from spark_segmentlog.log.transactions import transaction_events
from spark_segmentlog.record.control import ControlRecordType
from spark_segmentlog.record.header_table import HeaderTable

OPEN = "open"
COMMITTED = "committed"
ABORTED = "aborted"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction of one producer in one partition.

    Attributes
    ----------
    first_offset, last_offset : int
        Of its data, both inclusive.
    records_count : int
        Records that are still there.
    marker_offset : int or None
        Of the marker that ended it; None while it is open.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    records_count: int
    state: str = OPEN
    marker_offset: int | None = None


def walk_transactions(log: PartitionLog, end_offset: int) -> Iterator[Transaction]:
    """Yield the transactions that begin below an offset, by their ends, open ones last.

    Raises
    ------
    CorruptRecordError
        Bytes that are no batch, unless the log steps over them.
    """
    open_transactions: dict[int, Transaction] = {}
    for table, markers in _tables(log, end_offset):
        for row in range(len(table)):
            producer_id = int(table.producer_id[row])
            offset = int(table.base_offset[row])
            if not table.is_control[row]:
                if offset < end_offset:
                    _add_data(open_transactions, table, row)
            elif offset in markers and producer_id in open_transactions:
                ended = open_transactions.pop(producer_id)
                is_commit = markers[offset] is ControlRecordType.COMMIT
                ended.state = COMMITTED if is_commit else ABORTED
                ended.marker_offset = offset
                yield ended
    yield from sorted(open_transactions.values(), key=lambda it: it.first_offset)


def _tables(
    log: PartitionLog, end_offset: int
) -> Iterator[tuple[HeaderTable, dict[int, ControlRecordType]]]:
    """Walk the transactional batches, with the types of the markers among them by offset."""
    buffer = ReadBuffer()
    for segment in log.segments_between(log.log_start_offset, end_offset):
        with segment.open_log() as file:
            for table in (walk := HeaderWalk(segment, file, 0, buffer, log.skip_corrupt, None)):
                chosen = table.select(table.is_transactional & (table.records_count > 0))
                events = transaction_events(
                    chosen,
                    walk.buffer,
                    file_position=walk.file_position,
                    source=segment.log_path,
                )
                markers = {it.base_offset: it.marker for it in events if it.marker is not None}
                yield chosen, markers


def _add_data(transactions: dict[int, Transaction], table: HeaderTable, row: int) -> None:
    producer_id = int(table.producer_id[row])
    last_offset, count = int(table.last_offset[row]), int(table.records_count[row])
    known = transactions.get(producer_id)
    if known is None:
        transactions[producer_id] = Transaction(
            producer_id=producer_id,
            producer_epoch=int(table.producer_epoch[row]),
            first_offset=int(table.base_offset[row]),
            last_offset=last_offset,
            records_count=count,
        )
    else:
        known.last_offset = last_offset
        known.records_count += count
