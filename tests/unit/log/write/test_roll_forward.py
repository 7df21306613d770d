"""The steps of a commit: checkpoints, the mark, what is cut off, and what all of it costs."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_segmentlog.log.formats.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    format_offset_checkpoint,
    parse_offset_checkpoint,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.committing import commit, keys
from tests.support.noting import note_calls
from tests.support.scenarios import MARK, Writing, read_rows, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_high_watermarks_rise_with_the_end_where_a_broker_keeps_them(directory: str) -> None:
    commit(directory, {T0: 3})
    checkpoint = Path(directory) / HIGH_WATERMARK_CHECKPOINT
    assert not checkpoint.exists()
    other = TopicPartition("other", 7)
    checkpoint.write_text(format_offset_checkpoint({T0: 2, other: 5}).decode())
    commit(directory, {T0: 4, T1: 1})
    assert parse_offset_checkpoint(checkpoint.read_text()) == {T0: 7, T1: 1, other: 5}


def test_overwrite_keeps_other_log_start_offsets(directory: str) -> None:
    log = LogBuilder(directory)
    batches = [v2_batch([RecordSpec(value=b"x")] * 4)]
    log.partition("t", 0, [batches])
    log.partition("trimmed", 0, [batches])
    log.log_start_offsets({("trimmed", 0): 2})
    commit(directory, {T0: 1}, overwrite=True)
    text = (Path(directory) / "log-start-offset-checkpoint").read_text()
    assert parse_offset_checkpoint(text) == {TopicPartition("trimmed", 0): 2, T0: 4}


def test_the_clean_shutdown_mark_comes_back_with_the_same_bytes(directory: str) -> None:
    mark = Path(directory) / ".kafka_cleanshutdown"
    mark.write_bytes(MARK)
    commit(directory, {T0: 5})
    assert mark.read_bytes() == MARK


def test_a_torn_tail_of_a_crash_is_cut_off_by_the_commit(directory: str) -> None:
    commit(directory, {T0: 5})
    path = Path(directory) / "t-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    for torn in (whole[:70], bytes(5000)):
        path.write_bytes(path.read_bytes() + torn)
        commit(directory, {T0: 1}, label="next ")
    assert len(keys(directory, T0)) == 7
    assert list(verify(directory)) == []


def test_a_micro_batch_costs_few_syncs(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = {TopicPartition("t", partition): 3 for partition in range(12)}
    commit(directory, partitions, new_partition_count=12)
    request = stage([directory], [Writing(partitions), Writing(partitions)])
    syncs: list[str] = []
    note_calls(monkeypatch, files, "fsync", lambda _: syncs.append("file"))
    note_calls(monkeypatch, files, "fsync_directory", lambda _: syncs.append("folder"))
    commit_staged_batches(request)
    assert len(syncs) <= 12 + 2 + 8


def test_a_commit_over_many_partitions_keeps_few_files_open(directory: str) -> None:
    partitions = [TopicPartition("t", number) for number in range(200)]
    tasks = [Writing(dict.fromkeys(partitions[number % 4 :: 4], 3)) for number in range(160)]
    request = stage([directory], tasks)
    with few_open_files(90):
        commit_staged_batches(request)
    counts = {
        topic_partition: len(rows) for topic_partition, rows in read_rows([directory]).items()
    }
    assert counts == dict.fromkeys(partitions, 120)


@contextmanager
def few_open_files(more: int) -> Iterator[None]:
    """Let this process open only so many files more than it has open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    largest = max(int(name) for name in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (largest + 1 + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
