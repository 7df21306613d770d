"""Other libraries that check and visit the records of a log file, and build nothing."""

from __future__ import annotations

import warnings
from typing import Any


def visit_with_aiokafka(data: bytes, records_count: int) -> None:
    """Check and visit records with aiokafka's C extension."""
    from aiokafka.record._crecords import MemoryRecords

    _visit(MemoryRecords(data), records_count)


def visit_with_kafka_python(data: bytes, records_count: int) -> None:
    """Check and visit records with kafka-python, in plain Python but for the checksum."""
    with warnings.catch_warnings():
        # kafka-python reads its schemas by a call that Python has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record.memory_records import MemoryRecords

    _visit(MemoryRecords(data), records_count)


def _visit(batches: Any, records_count: int) -> None:
    """Visit batches until they have given so many records, which end a batch."""
    visited = 0
    size_bytes = 0
    while visited < records_count:
        batch = batches.next_batch()
        assert batch.validate_crc()
        for record in batch:
            size_bytes += len(record.key) + len(record.value)
            visited += 1
    assert visited == records_count
