"""Batches and messages as aiokafka reads them."""

from __future__ import annotations

from aiokafka.record.memory_records import MemoryRecords


def decoded(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None, list[object]]]:
    """Read the bytes: offset, timestamp, key, value and headers of each record."""
    rows = []
    memory_records = MemoryRecords(data)
    while memory_records.has_next():
        batch = memory_records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        for record in batch:
            rows.append(
                (record.offset, record.timestamp, record.key, record.value, list(record.headers))
            )
    return rows
