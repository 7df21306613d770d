"""Batches and records of a dump, as JSON objects: what headers say, keys, values, decoded ones."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

from spark_segmentlog.cli.dump_options import BytesAs, DumpOptions, Entry, place_of
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.record.codec.codecs import names_by_number
from spark_segmentlog.record.layout import MAGIC_V2, NO_SEQUENCE, SEQUENCES, TimestampType
from spark_segmentlog.record.plain.batch import Record, RecordHeader, iterate_records
from spark_segmentlog.record.plain.control import parse_control_record
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.system.message_reader import MessageError
from spark_segmentlog.record.system.records import (
    json_value,
    read_control_content,
    read_system_record,
)
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

TIMESTAMP_TYPES: Final = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


CODEC_NAMES: Final = names_by_number()


def batch_entry(segment: Segment, table: HeaderTable, row: int, *, is_valid: bool) -> Entry:
    """Say what a row of a header table says."""
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


def read_records(batch: Entry, data: memoryview) -> Iterator[Record]:
    """Read the records of a batch, whose checksum was compared, or is wrong."""
    iterate = iterate_records if batch["magic"] == MAGIC_V2 else iterate_messages
    return iterate(data, source=batch["path"], file_position=batch["position"], check_crcs=False)


def record_entry(batch: Entry, record: Record, options: DumpOptions) -> Entry:
    """Say what a record of a batch holds."""
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
    """Count a producer's sequence number on, which goes on at 0 after the largest int32."""
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
