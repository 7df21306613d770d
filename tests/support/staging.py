"""Staging of made-up rows, and the extents that are reported of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.staged_leftovers import (
    new_write_id,
)
from spark_segmentlog.log.write.staging import StagedWrite, StagingWriter
from spark_segmentlog.record.write.encoder import RecordBatchEncoder

DAY_SECONDS = 24 * 60 * 60


def make_writer(
    *,
    config: SegmentConfig | None = None,
    buffer_bytes: int = 1 << 20,
    batch_size_bytes: int = 1000,
    write_id: str = "",
    task_id: int = 3,
) -> StagingWriter:
    return StagingWriter(
        write_id=write_id or new_write_id(),
        task_id=task_id,
        attempt_id=7,
        config=config or SegmentConfig(),
        encoder=RecordBatchEncoder(batch_size_bytes=batch_size_bytes),
        buffer_bytes=buffer_bytes,
    )


def rows(count: int, *, value_bytes: int = 100, timestamps: object = None) -> pa.RecordBatch:
    columns = {"value": pa.array([b"v" * value_bytes] * count, pa.binary())}
    if timestamps is not None:
        columns["timestamp"] = pa.array(timestamps, pa.int64())
    return pa.record_batch(columns)


def stage_partitions(
    directory: Path, partition_count: int, row_count: int, **settings: Any
) -> StagedWrite:
    writer = make_writer(**settings)
    indexes = [
        writer.index_of(TopicPartition("t", partition), str(directory))
        for partition in range(partition_count)
    ]
    assert indexes == list(range(partition_count))
    for start in range(0, row_count, 1000):
        count = min(1000, row_count - start)
        writer.write(rows(count), (np.arange(count) + start) % partition_count)
    return writer.finish()


def extents_of(staged: StagedWrite) -> list[tuple[int, int, int]]:
    return [
        (extent.partition_index, extent.offset_count, extent.size_bytes)
        for file in staged.files
        for extent in file.unpack_extents()
    ]
