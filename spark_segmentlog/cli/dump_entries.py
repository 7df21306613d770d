"""What is in the files of a partition, entry by entry, each a JSON object with a ``type``.

Nothing is taken on trust: a batch with a wrong checksum is given with ``isValid`` false, bytes that
are no batch as ``corruptBytes``, and the walk goes on at the next good batch behind them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from spark_segmentlog.log.io.reading import ZERO_CHECK_BYTES, LogFile, is_zero_from
from spark_segmentlog.log.names import (
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import CorruptRange, HeaderWalk, ReadBuffer
from spark_segmentlog.log.transactions.outcomes import walk_transactions
from spark_segmentlog.record.layout import MAGIC_V2, Codec, TimestampType
from spark_segmentlog.record.plain.batch import Record, RecordHeader, iterate_records
from spark_segmentlog.record.plain.control import parse_control_record
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.system.message_reader import MessageError
from spark_segmentlog.record.system.records import (
    is_system_topic,
    read_control_content,
    read_system_record,
    to_json,
)

Entry = dict[str, Any]

TIMESTAMP_TYPES: Final = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
NO_SEQUENCE: Final = -1
_SEQUENCES: Final = 2**31


class BytesAs(StrEnum):
    """How keys and values are written."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What of a segment is given; offsets are [start, end)."""

    start_offset: int = 0
    end_offset: int = MAX_OFFSET
    records: bool = False
    decode: bool = False
    include_control: bool = False
    bytes_as: BytesAs = BytesAs.TEXT


def segment_entries(segment: Segment, options: DumpOptions) -> Iterator[Entry]:
    """Walk one `.log`: batches, their records if wanted, bad bytes, the largest timestamp."""
    with segment.open_log() as file:
        yield {"type": "segment", "path": segment.log_path, "baseOffset": segment.base_offset}
        yield from _SegmentDump(segment, file, options).entries()


def index_entries(segment: Segment) -> Iterator[Entry]:
    """Read the indexes of one segment that are there."""
    yield from _offset_entries(segment)
    yield from _time_entries(segment)
    path = _path(segment, TRANSACTION_INDEX_SUFFIX)
    aborted = segment.transaction_index()
    if aborted:
        yield {"type": "index", "path": path, "entries": len(aborted)}
    for transaction in aborted:
        yield {
            "type": "abortedTransaction",
            "path": path,
            "producerId": transaction.producer_id,
            "firstOffset": transaction.first_offset,
            "lastOffset": transaction.last_offset,
            "lastStableOffset": transaction.last_stable_offset,
        }


def snapshot_entries(log: PartitionLog) -> Iterator[Entry]:
    """Read the producer snapshots of a partition."""
    for offset in log.listing.snapshot_offsets.tolist():
        path = f"{log.directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}"
        data = log.storage.read_file(path)
        if data is None:
            continue
        states = parse_producer_snapshot(data)
        yield {
            "type": "snapshot",
            "path": path,
            "offset": offset,
            "isValid": states is not None,
            "producers": len(states or ()),
        }
        for state in states or ():
            yield _producer_entry(path, state)


def transaction_entries(log: PartitionLog) -> Iterator[Entry]:
    """Walk the transactions of a partition, by their ends, open ones last."""
    yield {"type": "transactions", "path": log.directory}
    for transaction in walk_transactions(log, log.log_end_offset):
        yield {
            "type": "transaction",
            "topic": log.topic_partition.topic,
            "partition": log.topic_partition.partition,
            **transaction.as_fields(),
        }


@dataclass(slots=True)
class _SegmentDump:
    segment: Segment
    file: LogFile
    options: DumpOptions
    corrupt: list[CorruptRange] = field(default_factory=list)
    largest: Entry | None = None

    def entries(self) -> Iterator[Entry]:
        options = self.options
        start_position = self.segment.position_for(options.start_offset, self.file)
        walk = HeaderWalk(
            self.segment,
            self.file,
            start_position,
            ReadBuffer(),
            True,
            self.corrupt.append,
            check_crcs=False,
        )
        is_past = False
        for table in walk:
            yield from self._corrupt_entries()
            yield from self._batch_entries(walk, table)
            is_past = int(table.base_offset[-1]) >= options.end_offset
            if is_past:
                break
        yield from self._corrupt_entries()
        if not is_past:
            yield from self._tail_entries(walk.position)
        yield from self._largest_timestamp_entries()

    def _batch_entries(self, walk: HeaderWalk, table: HeaderTable) -> Iterator[Entry]:
        chosen = table.last_offset >= self.options.start_offset
        chosen &= table.base_offset < self.options.end_offset
        shown = table.select(chosen)
        valid = check_crcs(walk.buffer, shown, file_position=walk.file_position)
        for row in range(len(shown)):
            batch = _batch_entry(self.segment, shown, row, is_valid=bool(valid[row]))
            if (
                batch["isValid"]
                and batch["recordCount"] != 0
                and (
                    self.largest is None or batch["maxTimestampMs"] > self.largest["maxTimestampMs"]
                )
            ):
                self.largest = batch
            yield batch
            if self.options.records and (self.options.include_control or not batch["isControl"]):
                start = batch["position"] - walk.file_position
                yield from self._record_entries(
                    batch, walk.buffer.data[start : start + batch["sizeBytes"]]
                )

    def _record_entries(self, batch: Entry, data: memoryview) -> Iterator[Entry]:
        try:
            for record in _records(batch, data):
                if self.options.start_offset <= record.offset < self.options.end_offset:
                    yield _record_entry(batch, record, self.options)
        except CorruptRecordError as error:
            yield _corrupt_entry(
                self.segment.log_path, batch["position"], batch["sizeBytes"], error.reason
            )

    def _corrupt_entries(self) -> Iterator[Entry]:
        for it in self.corrupt:
            yield {
                **_corrupt_entry(it.path, it.position, it.length, it.reason),
                "startOffset": it.start_offset,
                "endOffset": it.end_offset,
            }
        self.corrupt.clear()

    def _tail_entries(self, position: int) -> Iterator[Entry]:
        length = self.file.size() - position
        if length > 0:
            is_zero = is_zero_from(self.file, position, np.empty(ZERO_CHECK_BYTES, np.uint8))
            yield {
                "type": "tail",
                "path": self.segment.log_path,
                "position": position,
                "lengthBytes": length,
                "isZero": is_zero,
            }

    def _largest_timestamp_entries(self) -> Iterator[Entry]:
        """Find the record with the largest timestamp, in the one batch that says to have it."""
        batch = self.largest
        if batch is None or batch["maxTimestampMs"] < 0:
            return
        data = memoryview(self.file.read_at(batch["position"], batch["sizeBytes"]))
        try:
            last = max(_records(batch, data), key=lambda it: it.timestamp_ms, default=None)
        except CorruptRecordError:
            # Given with its batch above, where records are wanted.
            last = None
        yield {
            "type": "largestTimestamp",
            "path": self.segment.log_path,
            "timestampMs": batch["maxTimestampMs"] if last is None else last.timestamp_ms,
            "offset": None if last is None else last.offset,
        }


def _batch_entry(segment: Segment, table: HeaderTable, row: int, *, is_valid: bool) -> Entry:
    records_count = int(table.records_count[row])
    has_horizon = bool(table.has_delete_horizon[row])
    base_timestamp = int(table.base_timestamp[row])
    codec = int(table.codec[row])
    return {
        "type": "batch",
        "topic": segment.topic_partition.topic,
        "partition": segment.topic_partition.partition,
        "path": segment.log_path,
        "position": int(table.position[row]),
        "sizeBytes": int(table.size_bytes[row]),
        "magic": int(table.magic[row]),
        # The first offset in a wrapper of an old format is known to its messages alone.
        "baseOffset": int(table.base_offset[row]) if records_count >= 0 else None,
        "lastOffset": int(table.last_offset[row]),
        "recordCount": records_count if records_count >= 0 else None,
        "codec": Codec(codec).name.lower() if codec <= Codec.ZSTD else str(codec),
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
        "offset": record.offset,
        "timestampMs": record.timestamp_ms,
        "timestampType": batch["timestampType"],
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "magic": batch["magic"],
        **_bytes_field("key", record.key, bytes_as),
        **_bytes_field("value", record.value, bytes_as),
        "headers": [_header_field(header, bytes_as) for header in record.headers],
    }
    if batch["isControl"]:
        return {**entry, **_control_fields(record)}
    if options.decode and is_system_topic(batch["topic"]):
        return {**entry, "decoded": _decoded(batch["topic"], record)}
    return entry


def _decoded(topic: str, record: Record) -> Entry:
    found = read_system_record(topic, record.key, record.value)
    return {
        "type": found.type,
        "typeId": found.type_id,
        "version": found.version,
        "key": to_json(found.key),
        "value": to_json(found.value),
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
    return (sequence + increment) % _SEQUENCES


def _bytes_field(name: str, data: bytes | None, bytes_as: BytesAs) -> Entry:
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
    return {"key": header.key, **_bytes_field("value", header.value, bytes_as)}


def _corrupt_entry(path: str, position: int, length: int, reason: str) -> Entry:
    return {
        "type": "corruptBytes",
        "path": path,
        "position": position,
        "lengthBytes": length,
        "reason": reason,
    }


def _offset_entries(segment: Segment) -> Iterator[Entry]:
    path = _path(segment, OFFSET_INDEX_SUFFIX)
    with segment.offset_index() as index:
        if segment.storage.exists(path):
            yield {"type": "index", "path": path, "entries": index.entries_count}
        for relative_offset, position in index.entries().tolist():
            yield {
                "type": "offsetIndexEntry",
                "path": path,
                "offset": segment.base_offset + relative_offset,
                "position": position,
            }


def _time_entries(segment: Segment) -> Iterator[Entry]:
    path = _path(segment, TIME_INDEX_SUFFIX)
    with segment.time_index() as index:
        if segment.storage.exists(path):
            yield {"type": "index", "path": path, "entries": index.entries_count}
        for timestamp_ms, relative_offset in index.entries().tolist():
            yield {
                "type": "timeIndexEntry",
                "path": path,
                "timestampMs": timestamp_ms,
                "offset": segment.base_offset + relative_offset,
            }


def _producer_entry(path: str, state: ProducerState) -> Entry:
    first_offset = state.current_txn_first_offset
    return {
        "type": "producer",
        "path": path,
        "producerId": state.producer_id,
        "producerEpoch": state.producer_epoch,
        "coordinatorEpoch": state.coordinator_epoch,
        "currentTxnFirstOffset": first_offset if state.is_in_transaction else None,
        "timestampMs": state.timestamp_ms,
        "lastSequence": state.last_sequence,
        "lastOffset": state.last_offset,
        "offsetDelta": state.offset_delta,
    }


def _path(segment: Segment, kind: str) -> str:
    return f"{segment.directory}/{segment_file_name(segment.base_offset, kind)}{segment.suffix}"
