"""Rows for encoder tests: as an Arrow batch, as plain records, and read back by several readers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

from spark_segmentlog.record.layout import TimestampType
from spark_segmentlog.record.plain.batch import Record, RecordHeader
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.header_table import check_crcs, scan_headers
from spark_segmentlog.record.write.encoder import EncodedBatches, RecordBatchEncoder
from spark_segmentlog.testing.builder import RecordSpec

with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

# Offset, timestamp in ms, key, value, headers.
Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def arrow_batch(records: Sequence[RecordSpec]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp_ms for record in records], pa.int64()),
            "headers": pa.array([list(record.headers) or None for record in records], HEADERS_TYPE),
        }
    )


def plain_records(records: Sequence[RecordSpec]) -> list[Record]:
    return [
        Record(
            offset=place,
            timestamp_ms=record.timestamp_ms,
            timestamp_type=TimestampType.CREATE_TIME,
            key=record.key,
            value=record.value,
            headers=tuple(RecordHeader(*header) for header in _headers(record)),
        )
        for place, record in enumerate(records)
    ]


def _headers(record: RecordSpec) -> list[tuple[str, bytes | None]]:
    return [(str(name), value) for name, value in record.headers]


def expected_rows(records: Sequence[RecordSpec], base_offset: int = 0) -> list[Row]:
    return [
        (base_offset + place, record.timestamp_ms, record.key, record.value, _headers(record))
        for place, record in enumerate(records)
    ]


def read_by_aiokafka(data: bytes) -> list[Row]:
    return _read_memory_records(MemoryRecords(data))


def read_by_kafka_python(data: bytes) -> list[Row]:
    return _read_memory_records(KafkaPythonRecords(data))


def _read_memory_records(memory_records: MemoryRecords | KafkaPythonRecords) -> list[Row]:
    rows = []
    while memory_records.has_next():
        batch = memory_records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        for record in batch:
            headers = list(record.headers)
            rows.append((record.offset, record.timestamp, record.key, record.value, headers))
    return rows


def read_by_decoder(batches: EncodedBatches) -> list[Row]:
    """Rows of our own decoder; the header table has to agree with what the encoder says."""
    buffer = batches.buffer
    table = scan_headers(buffer, 0, len(buffer), file_position=0)
    assert table.end_position == len(buffer)
    assert table.position.tolist() == batches.positions.tolist()
    assert table.size_bytes.tolist() == batches.sizes_bytes.tolist()
    assert table.base_offset.tolist() == batches.base_offsets.tolist()
    assert table.last_offset.tolist() == batches.last_offsets.tolist()
    assert table.max_timestamp.tolist() == batches.max_timestamps.tolist()
    assert table.records_count.tolist() == batches.record_counts.tolist()
    assert np.all(check_crcs(buffer, table, file_position=0))
    decoder = RecordDecoder(
        ["offset", "timestamp", "key", "value", "headers"], topic="t", partition=0, source="memory"
    )
    decoded = [*decoder.decode(buffer, table, file_position=0), decoder.flush()]
    return [
        (
            row["offset"],
            row["timestamp"] // 1000,
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or []],
        )
        for part in decoded
        if part is not None
        for row in _with_plain_timestamps(part).to_pylist()
    ]


def _with_plain_timestamps(part: pa.RecordBatch) -> pa.RecordBatch:
    at = part.schema.names.index("timestamp")
    return part.set_column(at, "timestamp", part.column(at).cast(pa.int64()))


def values(*data: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(data, pa.binary())})


def noise(size: int) -> bytes:
    """Bytes that do not compress, always the same."""
    return np.random.default_rng(20).integers(0, 256, size, np.uint8).tobytes()


def encode_in_order(
    encoder: RecordBatchEncoder, records: pa.RecordBatch, **options: Any
) -> EncodedBatches:
    """Encode rows in their order, as one group."""
    order, ends = np.arange(records.num_rows), np.array([records.num_rows])
    return encoder.encode_groups(records, order, ends, **options)
