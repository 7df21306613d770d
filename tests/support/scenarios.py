"""A staged write into two log directories, and how to tell what became of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.errors import CommitPendingError
from spark_segmentlog.log.directory.journal import COMMIT_DIRECTORY_NAME
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.upkeep import recovery
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write import roll_forward
from spark_segmentlog.log.write.commit import CommitResult, commit_staged_batches
from spark_segmentlog.log.write.prepare import CommitRequest
from spark_segmentlog.log.write.staged_leftovers import list_staged, new_write_id
from spark_segmentlog.log.write.staging import StagedWrite, StagingWriter
from spark_segmentlog.log.write.targets import read_target_layout
from spark_segmentlog.record.write.encoder import RecordBatchEncoder

MARK = b'{"version":0,"brokerEpoch":446}'
CONFIG = SegmentConfig(segment_bytes=4000, index_interval_bytes=300)
OPTIONS = ScanOptions(columns=("key", "value", "offset"))
START_MS = 1_700_000_000_000

Rows = dict[TopicPartition, list[tuple[int, bytes | None, bytes | None]]]


@dataclass(frozen=True, slots=True)
class Writing:
    """Rows of one task: a count for each partition, and the size of a value."""

    counts: dict[TopicPartition, int]
    value_bytes: int = 20


@dataclass(frozen=True, slots=True)
class Scenario:
    """A folder with log directories in it, and a write that is staged in them."""

    root: Path
    template: Path
    request: CommitRequest

    @property
    def directories(self) -> list[str]:
        return [str(self.root / name) for name in ("d0", "d1")]

    def reset(self) -> None:
        """Go back to where the write is staged and nothing else has happened."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root)

    def commit(self) -> CommitResult:
        return commit_staged_batches(self.request)

    def rows(self) -> Rows:
        return read_rows(self.directories)


def stage(
    directories: Sequence[str],
    tasks: Sequence[Writing],
    *,
    config: SegmentConfig = CONFIG,
    new_partition_count: int = 2,
    label: str = "",
    batch_size_bytes: int = 200,
    **request: Any,
) -> CommitRequest:
    """Stage the rows of some tasks and give the request that commits them."""
    layout = read_target_layout(directories, new_partition_count=new_partition_count)
    write_id = new_write_id()
    staged: list[StagedWrite] = []
    for task_id, task in enumerate(tasks):
        writer = StagingWriter(
            write_id=write_id,
            task_id=task_id,
            attempt_id=0,
            config=config,
            encoder=RecordBatchEncoder(batch_size_bytes=batch_size_bytes),
        )
        for topic_partition, count in task.counts.items():
            partition_index = writer.index_of(topic_partition, layout.directory_of(topic_partition))
            writer.write(
                make_rows(f"{label}{topic_partition}/{task_id}", count, task.value_bytes),
                np.full(count, partition_index),
            )
        staged.append(writer.finish())
    return CommitRequest(
        layout=layout,
        staged=tuple(staged),
        write_ids=(write_id,),
        config=config,
        lock_timeout_ms=2000,
        **request,
    )


def make_rows(label: str, count: int, value_bytes: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([f"{label}#{row}".encode() for row in range(count)], pa.binary()),
            "value": pa.array([b"v" * value_bytes] * count, pa.binary()),
            "timestamp": pa.array(START_MS + np.arange(count) * 7 % 50, pa.int64()),
        }
    )


def make_scenario(folder: Path, *, overwrite: bool = False) -> Scenario:
    """Make two log directories, the first cleanly shut, and stage a write of every kind.

    It appends to segments, renames staged files to segments, makes a topic, and has an application
    and a version.
    """
    root, template = folder / "work", folder / "template"
    directories = [str(root / name) for name in ("d0", "d1")]
    for directory in directories:
        Path(directory).mkdir(parents=True)
    small, large = TopicPartition("old", 0), TopicPartition("old", 1)
    commit_staged_batches(stage(directories, [Writing({small: 30, large: 5})], label="before "))
    (root / "d0" / ".kafka_cleanshutdown").write_bytes(MARK)
    made = TopicPartition("new", 1)
    tasks = [Writing({small: 12, large: 60, made: 9}), Writing({small: 70, large: 3, made: 4})]
    request = stage(directories, tasks, application="app", version=3, overwrite=overwrite)
    shutil.copytree(root, template)
    return Scenario(root, template, request)


def make_decided(folder: Path) -> Scenario:
    """Make the same, and a commit that is decided there, of whose steps none is taken."""
    scenario = make_scenario(folder)

    def broken(_: object) -> None:
        raise OSError(5, "broken")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roll_forward, "announce_decision", broken)
        with pytest.raises(CommitPendingError):
            scenario.commit()
    return scenario


def read_rows(directories: Sequence[str]) -> Rows:
    """Read all rows as a reader does that sees the directories as one log."""
    manager = LogManager.open(directories)
    found: Rows = {}
    for topic_partition, (start, end) in manager.offset_bounds().items():
        rows: list[tuple[int, bytes | None, bytes | None]] = []
        log = manager.partition_log(topic_partition)
        for batch in log.scan(start_offset=start, end_offset=end, options=OPTIONS):
            columns = batch.to_pydict()
            rows.extend(zip(columns["offset"], columns["key"], columns["value"], strict=True))
        found[topic_partition] = rows
    return found


def assert_sound(directories: Sequence[str]) -> None:
    """Check that nothing is left over, nothing is wrong, and indexes equal rebuilt ones."""
    for directory in directories:
        assert not (Path(directory) / COMMIT_DIRECTORY_NAME).exists()
        assert list(list_staged(directory)) == []
    assert [str(finding) for finding in verify(directories)] == []
    before = read_indexes(directories)
    recovery.reindex(directories, index_interval_bytes=CONFIG.index_interval_bytes)
    assert read_indexes(directories) == before


def read_indexes(directories: Sequence[str]) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for directory in directories
        for path in sorted(Path(directory).glob("*-*/*index"))
    }
