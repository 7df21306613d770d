"""Indexes, producer snapshots and transactions of a partition, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spark_segmentlog.cli.dump_options import Entry, place_of
from spark_segmentlog.log.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from spark_segmentlog.log.names import (
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.transactions.transaction_walk import walk_transactions


def index_entries(segment: Segment) -> Iterator[Entry]:
    """Read the indexes of one segment that are there."""
    for read_entries in INDEX_READERS.values():
        yield from read_entries(segment)


def snapshot_entries(log: PartitionLog) -> Iterator[Entry]:
    """Read the producer snapshots of a partition."""
    for offset in log.listing.snapshot_offsets.tolist():
        path = f"{log.directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}"
        data = log.storage.read_file(path)
        if data is not None:
            yield from producer_entries(place_of(log.topic_partition, path), offset, data)


def producer_entries(place: Entry, offset: int, data: bytes) -> Iterator[Entry]:
    """Read the bytes of one producer snapshot."""
    states = parse_producer_snapshot(data)
    yield {
        "type": "snapshot",
        **place,
        "offset": offset,
        "isValid": states is not None,
        "producers": len(states or ()),
    }
    for state in states or ():
        yield _producer_entry(place, state)


def transaction_entries(log: PartitionLog) -> Iterator[Entry]:
    """Walk the transactions of a partition, by their ends, open ones last."""
    place = place_of(log.topic_partition, log.directory)
    yield {"type": "transactions", **place}
    for transaction in walk_transactions(log, log.log_end_offset):
        yield {"type": "transaction", **place, **transaction.as_fields()}


def _offset_entries(segment: Segment) -> Iterator[Entry]:
    place = _index_place(segment, OFFSET_INDEX_SUFFIX)
    with segment.offset_index() as index:
        if segment.storage.exists(place["path"]):
            yield {"type": "index", **place, "entries": index.entries_count}
        for relative_offset, position in index.entries().tolist():
            yield {
                "type": "offsetIndexEntry",
                **place,
                "offset": segment.base_offset + relative_offset,
                "position": position,
            }


def _time_entries(segment: Segment) -> Iterator[Entry]:
    place = _index_place(segment, TIME_INDEX_SUFFIX)
    with segment.time_index() as index:
        if segment.storage.exists(place["path"]):
            yield {"type": "index", **place, "entries": index.entries_count}
        for timestamp_ms, relative_offset in index.entries().tolist():
            yield {
                "type": "timeIndexEntry",
                **place,
                "timestampMs": timestamp_ms,
                "offset": segment.base_offset + relative_offset,
            }


def _aborted_entries(segment: Segment) -> Iterator[Entry]:
    place = _index_place(segment, TRANSACTION_INDEX_SUFFIX)
    aborted = segment.transaction_index()
    if aborted:
        yield {"type": "index", **place, "entries": len(aborted)}
    for transaction in aborted:
        yield {
            "type": "abortedTransaction",
            **place,
            "producerId": transaction.producer_id,
            "firstOffset": transaction.first_offset,
            "lastOffset": transaction.last_offset,
            "lastStableOffset": transaction.last_stable_offset,
        }


INDEX_READERS: Final[Mapping[str, Callable[[Segment], Iterator[Entry]]]] = {
    OFFSET_INDEX_SUFFIX: _offset_entries,
    TIME_INDEX_SUFFIX: _time_entries,
    TRANSACTION_INDEX_SUFFIX: _aborted_entries,
}


def _producer_entry(place: Entry, state: ProducerState) -> Entry:
    first_offset = state.current_txn_first_offset
    return {
        "type": "producer",
        **place,
        "producerId": state.producer_id,
        "producerEpoch": state.producer_epoch,
        "coordinatorEpoch": state.coordinator_epoch,
        "currentTxnFirstOffset": first_offset if state.is_in_transaction else None,
        "timestampMs": state.timestamp_ms,
        "lastSequence": state.last_sequence,
        "lastOffset": state.last_offset,
        "offsetDelta": state.offset_delta,
    }


def _index_place(segment: Segment, kind: str) -> Entry:
    name = f"{segment_file_name(segment.base_offset, kind)}{segment.suffix}"
    return place_of(segment.topic_partition, f"{segment.directory}/{name}")
