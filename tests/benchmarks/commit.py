"""The bytes that a commit of large staged files writes: their renamed files are the segments.

What the process hands to the kernel to be written is counted by the kernel (``/proc/self/io``).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_segmentlog.log.commit import CommitRequest, commit_staged_batches
from spark_segmentlog.log.file_names import TopicPartition
from spark_segmentlog.log.segment_tail import SegmentConfig
from spark_segmentlog.log.staging import StagedWrite, StagingWriter, new_write_id
from spark_segmentlog.log.targets import TargetLayout, read_target_layout
from spark_segmentlog.record.encoder import RecordBatchEncoder
from tests.benchmarks.harness import Figure, Settings
from tests.benchmarks.log_files import FIRST_TIMESTAMP_MS, KEY_BYTES, VALUE_BYTES

TASKS_COUNT = 8
STAGED_FILE_BYTES = 64 << 20
SEGMENT_BYTES = 128 << 20
PAGE_BYTES = 4096
ROWS_COUNT = 10_000
TOPIC_PARTITION = TopicPartition("bench", 0)


def commit_figures(settings: Settings) -> Iterator[Figure]:
    """Stage files as tasks do, commit them, and count what the commit wrote."""
    config = SegmentConfig(segment_bytes=settings.sized(SEGMENT_BYTES, multiple_of=1 << 16))
    with tempfile.TemporaryDirectory(dir=settings.cache) as folder:
        layout = read_target_layout([folder])
        write_id = new_write_id()
        staged = [
            _stage(layout, write_id, task_id, config, settings.sized(STAGED_FILE_BYTES))
            for task_id in range(TASKS_COUNT)
        ]
        before = _written_bytes()
        request = CommitRequest(
            layout=layout, staged=tuple(staged), write_ids=(write_id,), config=config
        )
        commit_staged_batches(request)
        written_bytes = _written_bytes() - before
        segments = sorted(Path(folder).glob("*/*.log"))
        staged_bytes = sum(file.size_bytes for each in staged for file in each.files)
        assert sum(path.stat().st_size for path in segments) == staged_bytes
    batch_count = sum(file.batch_count for each in staged for file in each.files)
    detail = f"{written_bytes} bytes written for {staged_bytes} staged, {batch_count} batches"
    value = written_bytes / (batch_count * PAGE_BYTES)
    yield Figure(name="commit_rewritten", value=value, detail=detail)


def _stage(
    layout: TargetLayout, write_id: str, task_id: int, config: SegmentConfig, size_bytes: int
) -> StagedWrite:
    """Stage rows of one partition until a file has about that size."""
    writer = StagingWriter(
        write_id=write_id,
        task_id=task_id,
        attempt_id=0,
        config=config,
        encoder=RecordBatchEncoder(),
    )
    slot = writer.slot_for(TOPIC_PARTITION, layout.directory_of(TOPIC_PARTITION))
    row_bytes = KEY_BYTES + VALUE_BYTES + 10
    for first in range(0, size_bytes // row_bytes, ROWS_COUNT):
        count = min(ROWS_COUNT, size_bytes // row_bytes - first)
        writer.write(_rows(count), np.full(count, slot, np.int64))
    return writer.finish()


def _rows(count: int) -> pa.RecordBatch:
    columns = {
        "key": pa.array([os.urandom(KEY_BYTES // 2).hex().encode()] * count, pa.binary()),
        "value": pa.array([os.urandom(VALUE_BYTES // 2).hex().encode()] * count, pa.binary()),
        "timestamp": pa.array(range(FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + count), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _written_bytes() -> int:
    found = re.search(r"wchar: (\d+)", Path("/proc/self/io").read_text())
    assert found is not None
    return int(found[1])
