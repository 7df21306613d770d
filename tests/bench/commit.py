"""What a commit writes beyond what it must, and how long one over many partitions takes.

The renamed files of large staged ones are the segments: what the process hands to the kernel to be
written is counted by the kernel (``/proc/self/io``). A commit that makes many partitions is held to
the bare creation of the same files with the same syncs, in turns, two rounds of each, as ten
thousand partitions are minutes of a slow disk. Whether it is linear is told by the time of the
processor, staging included, which does not hang on the disk.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.prepare import CommitRequest
from spark_segmentlog.log.write.staged_leftovers import new_write_id
from spark_segmentlog.log.write.staging import StagedWrite, StagingWriter
from spark_segmentlog.log.write.targets import TargetLayout, read_target_layout
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from tests.bench.harness import Figure, Settings, seconds
from tests.bench.log_files import FIRST_TIMESTAMP_MS, KEY_BYTES, VALUE_BYTES

TASKS_COUNT = 8
STAGED_FILE_BYTES = 64 << 20
SEGMENT_BYTES = 128 << 20
PAGE_BYTES = 4096
ROWS_COUNT = 10_000
TOPIC_PARTITION = TopicPartition("bench", 0)
PARTITIONS_COUNT = 10_000
FEWER_PARTITIONS_COUNT = 1_000
ROWS_A_PARTITION = 10
ROUNDS = 2
# What a commit syncs in a partition that it makes, besides the folder.
SYNCED = ("00000000000000000000.log", "leader-epoch-checkpoint", "partition.metadata")


def commit_figures(settings: Settings) -> Iterator[Figure]:
    """Give the bytes that a commit rewrites, and the time that many partitions take."""
    yield _rewritten(settings)
    few = _ManyPartitions.measure(settings, settings.sized(FEWER_PARTITIONS_COUNT))
    rounds = [
        _ManyPartitions.measure(settings, settings.sized(PARTITIONS_COUNT)) for _ in range(ROUNDS)
    ]
    committed = min(round.committed for round in rounds)
    created = min(round.created for round in rounds)
    yield Figure(
        name="commit_against_creation",
        value=committed / created,
        detail=f"{committed:.2f} s against {created:.2f} s",
    )
    many = min(rounds, key=lambda round: round.busy_each)
    yield Figure(
        name="commit_linear",
        value=many.busy_each / few.busy_each,
        detail=f"{many.busy_each * 1e6:.0f} us a partition against {few.busy_each * 1e6:.0f} us",
    )


def _rewritten(settings: Settings) -> Figure:
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
    return Figure(name="commit_rewritten", value=value, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ManyPartitions:
    """A commit that makes partitions: seconds of it, and of the bare creation of the same files.

    `busy_each` is the processor's time for each partition, staging included.
    """

    committed: float
    created: float
    busy_each: float

    @classmethod
    def measure(cls, settings: Settings, partitions_count: int) -> _ManyPartitions:
        with (
            tempfile.TemporaryDirectory(dir=settings.cache) as folder,
            tempfile.TemporaryDirectory(dir=settings.cache) as bare,
        ):
            started = time.process_time()
            request = _staged_for_many(folder, partitions_count)
            committed = seconds(lambda: commit_staged_batches(request))()
            busy = time.process_time() - started
            contents = [
                (path.parent.name, path.name, path.read_bytes())
                for path in sorted(Path(folder).glob("*/*"))
            ]
            created = seconds(lambda: _create(bare, contents))()
        return cls(committed=committed, created=created, busy_each=busy / partitions_count)


def _staged_for_many(folder: str, partitions_count: int) -> CommitRequest:
    """Stage rows that name the partitions of a new topic."""
    layout = read_target_layout([folder])
    write_id = new_write_id()
    writer = _staging_writer(write_id, 0, SegmentConfig())
    named = [TopicPartition("bench", number) for number in range(partitions_count)]
    indexes = [writer.index_of(name, layout.directory_of(name)) for name in named]
    rows = _rows(partitions_count * ROWS_A_PARTITION)
    writer.write(rows, np.repeat(np.array(indexes, np.int64), ROWS_A_PARTITION))
    return CommitRequest(layout=layout, staged=(writer.finish(),), write_ids=(write_id,))


def _create(folder: str, contents: Sequence[tuple[str, str, bytes]]) -> None:
    """Create files, a folder after the other, with the syncs of a commit."""
    for name, group in groupby(contents, key=lambda content: content[0]):
        directory = os.path.join(folder, name)
        os.mkdir(directory)
        for _, file_name, data in group:
            with open(os.path.join(directory, file_name), "wb", buffering=0) as file:
                file.write(data)
                if file_name in SYNCED:
                    os.fsync(file.fileno())
        files.fsync_directory(directory)


def _stage(
    layout: TargetLayout, write_id: str, task_id: int, config: SegmentConfig, size_bytes: int
) -> StagedWrite:
    """Stage rows of one partition until a file has about that size."""
    writer = _staging_writer(write_id, task_id, config)
    partition_index = writer.index_of(TOPIC_PARTITION, layout.directory_of(TOPIC_PARTITION))
    row_bytes = KEY_BYTES + VALUE_BYTES + 10
    for first in range(0, size_bytes // row_bytes, ROWS_COUNT):
        count = min(ROWS_COUNT, size_bytes // row_bytes - first)
        writer.write(_rows(count), np.full(count, partition_index, np.int64))
    return writer.finish()


def _staging_writer(write_id: str, task_id: int, config: SegmentConfig) -> StagingWriter:
    return StagingWriter(
        write_id=write_id,
        task_id=task_id,
        attempt_id=0,
        config=config,
        encoder=RecordBatchEncoder(),
    )


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
