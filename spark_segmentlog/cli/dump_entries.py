"""What is in the files of a partition, entry by entry, each a JSON object with a ``type``.

Nothing is taken on trust: a batch with a wrong checksum is given with ``isValid`` false, bytes that
are no batch as ``corruptBytes``, and the walk goes on at the next good batch behind them. Batches
come in groups of neighbours, of which `dump_columns` makes lines faster than entry by entry.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

import numpy as np

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from spark_segmentlog.log.io.reading import LogFile, is_zero_from
from spark_segmentlog.log.names import (
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import CorruptRange, WalkOptions
from spark_segmentlog.log.transactions.outcomes import walk_transactions
from spark_segmentlog.record.codec.codecs import names_by_number
from spark_segmentlog.record.layout import MAGIC_V2, TimestampType
from spark_segmentlog.record.plain.batch import Record, RecordHeader, iterate_records
from spark_segmentlog.record.plain.control import parse_control_record
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.record.system.message_reader import MessageError
from spark_segmentlog.record.system.records import (
    json_value,
    read_control_content,
    read_system_record,
)
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.record.types import Bools, Bytes

Entry = dict[str, Any]

TIMESTAMP_TYPES: Final = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
NO_SEQUENCE: Final = -1
SEQUENCES: Final = 2**31
CODEC_NAMES: Final = names_by_number()
# Neighbouring batches of which lines are made at once.
_GROUP_BYTES: Final = 1 << 20


class BytesAs(StrEnum):
    """How keys and values are written."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What of a segment is given.

    Attributes
    ----------
    start_offset, end_offset : int
        Offsets [start, end).
    min_timestamp_ms, max_timestamp_ms : int or None
        Both inclusive: of records, or of batches as far as their headers tell.
    key : bytes or None
        Records of this key alone.
    producer_ids : tuple of int
        Batches of these producers alone; of all where empty.
    records, include_control : bool
        Whether records are given, and those of control batches.
    decode : bool
        Whether it is told what the records of Kafka's own topics say.
    bytes_as : BytesAs
    """

    start_offset: int = 0
    end_offset: int = MAX_OFFSET
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    key: bytes | None = None
    producer_ids: tuple[int, ...] = ()
    records: bool = False
    decode: bool = False
    include_control: bool = False
    bytes_as: BytesAs = BytesAs.TEXT

    @property
    def record_filter(self) -> RecordFilter:
        """What is asked of a record, but for its key."""
        return RecordFilter(
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            min_timestamp_ms=self.min_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms,
        )

    @property
    def is_of_records(self) -> bool:
        """Whether a batch is given for its records alone, that is where one of them is wanted."""
        is_timed = self.min_timestamp_ms is not None or self.max_timestamp_ms is not None
        return self.records and (self.key is not None or is_timed)

    def chosen(self, table: HeaderTable) -> Bools:
        """Choose batches by their headers."""
        chosen: Bools = table.last_offset >= self.start_offset
        chosen &= table.base_offset < self.end_offset
        if self.producer_ids:
            chosen &= np.isin(table.producer_id, self.producer_ids)
        if self.min_timestamp_ms is not None:
            chosen &= table.max_timestamp >= self.min_timestamp_ms
        if self.max_timestamp_ms is not None:
            is_append_time = table.timestamp_type == TimestampType.LOG_APPEND_TIME
            is_first = is_append_time | (~table.has_delete_horizon & (not self.records))
            first = np.where(is_append_time, table.max_timestamp, table.base_timestamp)
            chosen &= ~is_first | (first <= self.max_timestamp_ms)
        return chosen

    def wants(self, record: Record) -> bool:
        """Tell whether a record is one that is asked for."""
        low, high = self.min_timestamp_ms, self.max_timestamp_ms
        return (
            self.start_offset <= record.offset < self.end_offset
            and (low is None or record.timestamp_ms >= low)
            and (high is None or record.timestamp_ms <= high)
            and (self.key is None or record.key == self.key)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchGroup:
    """Neighbouring batches of a segment, in memory until the next ones are asked for.

    Attributes
    ----------
    table : HeaderTable
        Their headers, at least one.
    is_valid : ndarray of bool
        Whether their checksums are right.
    buffer : ndarray of uint8
        Holds their bytes; the first one is that of `file_position`.
    """

    segment: Segment
    options: DumpOptions
    table: HeaderTable
    is_valid: Bools
    buffer: Bytes
    file_position: int

    @property
    def next_offset(self) -> int:
        """Offset behind the last of them."""
        return int(self.table.last_offset[-1]) + 1

    def entries(self) -> Iterator[Entry]:
        """Give the batches and their records one by one."""
        for row in range(len(self.table)):
            batch = _batch_entry(self.segment, self.table, row, is_valid=bool(self.is_valid[row]))
            records = self._record_entries(batch)
            if self.options.is_of_records:
                first = next(records, None)
                if first is None:
                    continue
                yield batch
                yield first
            else:
                yield batch
            yield from records

    def _record_entries(self, batch: Entry) -> Iterator[Entry]:
        options = self.options
        if not options.records or (batch["isControl"] and not options.include_control):
            return
        start = batch["position"] - self.file_position
        data = self.buffer.data[start : start + batch["sizeBytes"]]
        try:
            for record in _records(batch, data):
                if options.wants(record):
                    yield _record_entry(batch, record, options)
        except CorruptRecordError as error:
            yield _corrupt_entry(self.segment, batch["position"], batch["sizeBytes"], error.reason)


def segment_parts(segment: Segment, options: DumpOptions) -> Iterator[Entry | BatchGroup]:
    """Walk one `.log`: batches, their records if wanted, bad bytes, the largest timestamp."""
    with segment.open_log() as file:
        yield {
            "type": "segment",
            **place_of(segment.topic_partition, segment.log_path),
            "baseOffset": segment.base_offset,
        }
        yield from _SegmentDump(segment, file, options).parts()


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


@dataclass(slots=True)
class _SegmentDump:
    segment: Segment
    file: LogFile
    options: DumpOptions
    corrupt: list[CorruptRange] = field(default_factory=list)
    largest: HeaderTable | None = None

    def parts(self) -> Iterator[Entry | BatchGroup]:
        options = self.options
        start_position = self.segment.position_for(self._first_offset(), self.file)
        walk_options = WalkOptions(
            skip_corrupt=True, check_crcs=False, on_corrupt=self.corrupt.append
        )
        walk = HeaderWalk(self.segment, self.file, walk_options, position=start_position)
        is_past = False
        for table in walk:
            yield from self._corrupt_entries()
            yield from self._groups(walk, table)
            is_past = int(table.base_offset[-1]) >= options.end_offset
            if is_past:
                break
        yield from self._corrupt_entries()
        if not is_past:
            yield from self._tail_entries(walk.position)
        yield from self._largest_timestamp_entries()

    def _first_offset(self) -> int:
        """Offset below which nothing is wanted; time indexes tell it for a time."""
        start_offset, min_timestamp_ms = self.options.start_offset, self.options.min_timestamp_ms
        if min_timestamp_ms is None:
            return start_offset
        return max(start_offset, self.segment.offset_below_timestamp(min_timestamp_ms))

    def _groups(self, walk: HeaderWalk, table: HeaderTable) -> Iterator[BatchGroup]:
        shown = table.select(self.options.chosen(table))
        if not len(shown):
            return
        is_valid = check_crcs(walk.buffer, shown, file_position=walk.file_position)
        self._note_largest(shown, is_valid)
        ends = np.cumsum(shown.size_bytes) // _GROUP_BYTES
        cuts = (np.flatnonzero(ends[1:] != ends[:-1]) + 1).tolist()
        for start, end in pairwise([0, *cuts, len(shown)]):
            yield BatchGroup(
                segment=self.segment,
                options=self.options,
                table=shown.between(start, end),
                is_valid=is_valid[start:end],
                buffer=walk.buffer,
                file_position=walk.file_position,
            )

    def _note_largest(self, shown: HeaderTable, is_valid: Bools) -> None:
        """Keep the first batch that says to have the largest timestamp."""
        rows = np.flatnonzero(is_valid & (shown.records_count != 0))
        if not len(rows):
            return
        row = rows[shown.max_timestamp[rows].argmax()]
        if self.largest is None or shown.max_timestamp[row] > self.largest.max_timestamp[0]:
            self.largest = shown.select(np.array([row]))

    def _corrupt_entries(self) -> Iterator[Entry]:
        for found in self.corrupt:
            yield {
                **_corrupt_entry(self.segment, found.position, found.length, found.reason),
                "startOffset": found.start_offset,
                "endOffset": found.end_offset,
            }
        self.corrupt.clear()

    def _tail_entries(self, position: int) -> Iterator[Entry]:
        length = self.file.size() - position
        if length > 0:
            is_zero = is_zero_from(self.file, position)
            yield {
                "type": "tail",
                **place_of(self.segment.topic_partition, self.segment.log_path),
                "position": position,
                "lengthBytes": length,
                "isZero": is_zero,
            }

    def _largest_timestamp_entries(self) -> Iterator[Entry]:
        """Find the record with the largest timestamp, in the one batch that says to have it."""
        if self.largest is None or self.largest.max_timestamp[0] < 0:
            return
        batch = _batch_entry(self.segment, self.largest, 0, is_valid=True)
        data = memoryview(self.file.read_at(batch["position"], batch["sizeBytes"]))
        try:
            last = max(_records(batch, data), key=lambda record: record.timestamp_ms, default=None)
        except CorruptRecordError:
            # Given with its batch above, where records are wanted.
            last = None
        yield {
            "type": "largestTimestamp",
            **place_of(self.segment.topic_partition, self.segment.log_path),
            "timestampMs": batch["maxTimestampMs"] if last is None else last.timestamp_ms,
            "offset": None if last is None else last.offset,
        }


def place_of(topic_partition: TopicPartition, path: str) -> Entry:
    """Say of an entry where it is from."""
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "path": path,
    }


def _batch_entry(segment: Segment, table: HeaderTable, row: int, *, is_valid: bool) -> Entry:
    records_count = int(table.records_count[row])
    has_horizon = bool(table.has_delete_horizon[row])
    base_timestamp = int(table.base_timestamp[row])
    return {
        "type": "batch",
        **place_of(segment.topic_partition, segment.log_path),
        "position": int(table.position[row]),
        "sizeBytes": int(table.size_bytes[row]),
        "magic": int(table.magic[row]),
        # The first offset in a wrapper of an old format is known to its messages alone.
        "baseOffset": int(table.base_offset[row]) if records_count >= 0 else None,
        "lastOffset": int(table.last_offset[row]),
        "recordCount": records_count if records_count >= 0 else None,
        "codec": CODEC_NAMES[int(table.codec[row])],
        "timestampType": TIMESTAMP_TYPES[TimestampType(int(table.timestamp_type[row]))],
        "baseTimestampMs": None if has_horizon else base_timestamp,
        "maxTimestampMs": int(table.max_timestamp[row]),
        "producerId": int(table.producer_id[row]),
        "producerEpoch": int(table.producer_epoch[row]),
        "baseSequence": int(table.base_sequence[row]),
        "partitionLeaderEpoch": int(table.partition_leader_epoch[row]),
        "isTransactional": bool(table.is_transactional[row]),
        "isControl": bool(table.is_control[row]),
        "deleteHorizonMs": base_timestamp if has_horizon else None,
        "crc": int(table.crc[row]),
        "isValid": is_valid,
    }


def _records(batch: Entry, data: memoryview) -> Iterator[Record]:
    iterate = iterate_records if batch["magic"] == MAGIC_V2 else iterate_messages
    return iterate(data, source=batch["path"], file_position=batch["position"], check_crcs=False)


def _record_entry(batch: Entry, record: Record, options: DumpOptions) -> Entry:
    bytes_as = options.bytes_as
    sequence = NO_SEQUENCE
    if batch["baseSequence"] >= 0:
        sequence = add_sequence(batch["baseSequence"], record.offset - batch["baseOffset"])
    entry = {
        "type": "record",
        **{name: batch[name] for name in ("topic", "partition", "path")},
        "offset": record.offset,
        "timestampMs": record.timestamp_ms,
        "timestampType": batch["timestampType"],
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "magic": batch["magic"],
        **bytes_field("key", record.key, bytes_as),
        **bytes_field("value", record.value, bytes_as),
        "headers": [_header_field(header, bytes_as) for header in record.headers],
    }
    if batch["isControl"]:
        return {**entry, **_control_fields(record)}
    if options.decode and batch["topic"] in INTERNAL_TOPICS:
        return {**entry, "decoded": _decoded(batch["topic"], record)}
    return entry


def _decoded(topic: str, record: Record) -> Entry:
    found = read_system_record(topic, record.key, record.value)
    return {
        "type": found.type,
        "typeId": found.type_id,
        "version": found.version,
        "key": json_value(found.key),
        "value": json_value(found.value),
        "reason": found.reason,
    }


def _control_fields(record: Record) -> Entry:
    try:
        control = parse_control_record(record.key, record.value)
    except ValueError as error:
        return {"controlType": None, "controlTypeId": None, "reason": str(error)}
    return {
        "controlType": control.type.name,
        "controlTypeId": control.type_id,
        "controlVersion": control.version,
        "coordinatorEpoch": control.coordinator_epoch if control.ends_transaction else None,
        **_kraft_fields(control.type_id, record.value),
    }


def _kraft_fields(type_id: int, value: bytes | None) -> Entry:
    try:
        content = read_control_content(type_id, value)
    except MessageError as error:
        return {"reason": f"the value does not hold what its type says: {error}"}
    return {} if content is None else {"content": content}


def add_sequence(sequence: int, increment: int) -> int:
    """Count a producer's sequence number on, which goes on at 0 behind the largest int32."""
    return (sequence + increment) % SEQUENCES


def bytes_field(name: str, data: bytes | None, bytes_as: BytesAs) -> Entry:
    """Write bytes under a name that tells how: ``key``, ``keyHex`` or ``keyBase64``."""
    if data is None:
        return {name: None}
    if bytes_as is BytesAs.TEXT:
        try:
            return {name: data.decode()}
        except UnicodeDecodeError:
            bytes_as = BytesAs.BASE64
    if bytes_as is BytesAs.HEX:
        return {f"{name}Hex": data.hex()}
    return {f"{name}Base64": base64.b64encode(data).decode("ascii")}


def _header_field(header: RecordHeader, bytes_as: BytesAs) -> Entry:
    return {"key": header.key, **bytes_field("value", header.value, bytes_as)}


def _corrupt_entry(segment: Segment, position: int, length: int, reason: str) -> Entry:
    return {
        "type": "corruptBytes",
        **place_of(segment.topic_partition, segment.log_path),
        "position": position,
        "lengthBytes": length,
        "reason": reason,
    }


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
