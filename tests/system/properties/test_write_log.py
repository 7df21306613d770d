"""Random writes, by commits and by appends in turn, against a list: same rows, sound files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.prepare import CommitRequest
from spark_segmentlog.log.write.staged_leftovers import new_write_id
from spark_segmentlog.log.write.staging import StagedWrite, StagingWriter
from spark_segmentlog.log.write.targets import read_target_layout
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from tests.support.scenarios import read_rows

PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Row = tuple[int, bytes | None, bytes | None, int]

rows = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1),
        st.none() | st.binary(max_size=8),
        st.none() | st.binary(max_size=120),
        st.integers(-1, 5000),
    ),
    max_size=40,
)
configs = st.builds(
    SegmentConfig,
    segment_bytes=st.sampled_from([700, 1500, 6000, 1 << 20]),
    segment_ms=st.sampled_from([100, 3000, 10**9]),
    segment_index_bytes=st.sampled_from([48, 10 << 20]),
    index_interval_bytes=st.sampled_from([1, 150, 4096]),
)
steps = st.lists(
    st.tuples(st.sampled_from(["commit", "overwrite", "append"]), st.lists(rows, max_size=3)),
    min_size=1,
    max_size=5,
)


def as_arrow(found: list[Row]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([key for _, key, _, _ in found], pa.binary()),
            "value": pa.array([value for _, _, value, _ in found], pa.binary()),
            "timestamp": pa.array([timestamp for *_, timestamp in found], pa.int64()),
        }
    )


def commit(
    directory: str,
    tasks: list[list[Row]],
    config: SegmentConfig,
    codec: str,
    *,
    overwrite: bool,
) -> None:
    layout = read_target_layout([directory], new_partition_count=PARTITIONS)
    write_id = new_write_id()
    staged: list[StagedWrite] = []
    for task_id, task in enumerate(tasks):
        writer = StagingWriter(
            write_id=write_id,
            task_id=task_id,
            attempt_id=0,
            config=config,
            encoder=RecordBatchEncoder(compression=codec, batch_size_bytes=300),
            buffer_bytes=2000,
        )
        for partition in range(PARTITIONS):
            writer.index_of(TopicPartition("t", partition), layout.log_directories[0])
        for start in range(0, len(task), 7):
            part = task[start : start + 7]
            writer.write(as_arrow(part), np.array([partition for partition, *_ in part]))
        staged.append(writer.finish())
    commit_staged_batches(
        CommitRequest(
            layout=layout,
            staged=tuple(staged),
            write_ids=(write_id,),
            topics=("t",),
            overwrite=overwrite,
            config=config,
        )
    )


def append(directory: str, tasks: list[list[Row]], config: SegmentConfig, codec: str) -> None:
    with open_log(
        directory,
        num_partitions=PARTITIONS,
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        compression_type=codec,
        batch_size=300,
    ) as log:
        log.create_topic("t", PARTITIONS)
        for task in tasks:
            for partition in range(PARTITIONS):
                part = [row for row in task if row[0] == partition]
                if part:
                    log.append("t", as_arrow(part), partition=partition)


@given(steps=steps, config=configs, codec=st.sampled_from(CODECS), is_clean=st.booleans())
@settings(deadline=None, max_examples=25)
def test_rows_are_those_written_and_files_are_sound(
    steps: list[tuple[str, list[list[Row]]]], config: SegmentConfig, codec: str, is_clean: bool
) -> None:
    folder = tempfile.mkdtemp()
    model: dict[int, list[Row]] = {partition: [] for partition in range(PARTITIONS)}
    start = dict.fromkeys(range(PARTITIONS), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        try:
            for kind, tasks in steps:
                if is_clean:
                    (Path(folder) / ".kafka_cleanshutdown").write_bytes(b"{}")
                if kind == "append":
                    append(folder, tasks, config, codec)
                else:
                    commit(folder, tasks, config, codec, overwrite=kind == "overwrite")
                for partition, written in model.items():
                    if kind == "overwrite":
                        start[partition] = len(written)
                    written.extend(row for task in tasks for row in task if row[0] == partition)
            check(folder, model, start, config)
        finally:
            shutil.rmtree(folder)


def check(
    folder: str, model: dict[int, list[Row]], start: dict[int, int], config: SegmentConfig
) -> None:
    found = read_rows([folder])
    for partition, written in model.items():
        expected = [
            (offset, key, value)
            for offset, (_, key, value, _) in enumerate(written)
            if offset >= start[partition]
        ]
        assert found[TopicPartition("t", partition)] == expected
    assert [str(finding) for finding in verify(folder, deep=True)] == []
    sizes = [path.stat().st_size for path in Path(folder).glob("*/*.log")]
    assert max(sizes, default=0) <= config.segment_bytes
    for path in Path(folder).glob("*/*index"):
        assert path.stat().st_size <= config.segment_index_bytes
