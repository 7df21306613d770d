"""Batches split into their records, to compare."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.compact.batch_records import BatchRecords, split_batches
from spark_segmentlog.record.kernels import filter as kernels
from spark_segmentlog.record.read.header_table import scan_headers
from spark_segmentlog.record.types import flat_bytes


def split(data: bytes) -> tuple[np.ndarray, list[BatchRecords]]:
    buffer = flat_bytes(np.frombuffer(data, np.uint8))
    table = scan_headers(buffer, 0, len(buffer), file_position=0)
    rows = np.arange(len(table))
    parts = []
    for records in split_batches(buffer, table, rows, file_position=0, source="test"):
        # The next one may reuse the buffer.
        parts.append(frozen(records))
    return buffer, parts


def frozen(records: BatchRecords) -> BatchRecords:
    fields = {name: getattr(records, name) for name in BatchRecords.__slots__}
    return BatchRecords(**{**fields, "buffer": records.buffer.copy()})


def rows_of(parts: list[BatchRecords]) -> list[tuple[int, int, bytes | None, int]]:
    rows = []
    for part in parts:
        data = part.buffer.tobytes()
        for offset, stamp, at, length, value_length in zip(
            part.offset,
            part.timestamp_ms,
            part.key_position,
            part.key_length,
            part.value_length,
            strict=True,
        ):
            key = None if length < 0 else data[at : at + length]
            rows.append((int(offset), int(stamp), key, int(value_length)))
    return rows


# The hash and the table


def hashed(keys: list[bytes], secret: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(key) for key in keys], np.int64)
    buffer = flat_bytes(np.frombuffer(b"".join(keys) + bytes(8), np.uint8))
    low, high = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
    kernels.hash_keys(
        buffer, np.cumsum(lengths) - lengths, lengths, np.array(secret, np.uint64), low, high
    )
    return low, high
