"""Generated logs agree with their model, read by an independent codec."""

from __future__ import annotations

from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given

from spark_segmentlog.testing.batches import summarize_batch
from spark_segmentlog.testing.strategies import GeneratedLog, partition_logs


@given(partition_logs(legacy=False))
def test_generated_logs_hold_the_rows_of_their_model(log: GeneratedLog) -> None:
    rows = []
    memory_records = MemoryRecords(b"".join(log.batches))
    while memory_records.has_next():
        batch = memory_records.next_batch()
        assert batch is not None
        if batch.is_control_batch:
            continue
        for record in batch:
            headers = tuple((name, value) for name, value in record.headers) or None
            stamp = (record.offset, record.timestamp, record.timestamp_type)
            rows.append((*stamp, record.key, record.value, headers))
    assert rows == [
        (row.offset, row.timestamp_ms, row.timestamp_type, row.key, row.value, row.headers)
        for row in log.model.rows()
    ]


@given(partition_logs(gaps=False))
def test_generated_logs_end_where_their_model_does(log: GeneratedLog) -> None:
    next_offset = 0
    for batch in log.batches:
        summary = summarize_batch(batch)
        assert summary is not None
        if summary.magic == 2:
            assert summary.base_offset == next_offset
            next_offset = summary.last_offset + 1
        else:
            records = [row.offset for row in log.model.rows(next_offset)]
            assert records[0] == next_offset
            next_offset = _legacy_end(batch)
    assert next_offset == log.model.log_end_offset


def _legacy_end(batch: bytes) -> int:
    end = 0
    while batch:
        summary = summarize_batch(batch)
        assert summary is not None
        end = summary.last_offset + 1
        batch = batch[summary.size_bytes :]
    return end
