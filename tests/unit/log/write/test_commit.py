"""Staged batches become part of their logs: where they go, what is refused, who sees them when."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.commit import commit_staged_batches
from tests.support.broker_data import unpack
from tests.support.committing import keys
from tests.support.scenarios import Writing, read_rows, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_rows_are_there_in_the_order_of_tasks_with_dense_offsets(directory: str) -> None:
    request = stage([directory], [Writing({T0: 30}), Writing({T0: 5, T1: 7})])
    shuffled = replace(request, staged=request.staged[::-1])
    result = commit_staged_batches(shuffled)
    assert result.offset_ranges == (OffsetRange(T0, 0, 35), OffsetRange(T1, 0, 7))
    found = read_rows([directory])[T0]
    assert [offset for offset, _, _ in found] == list(range(35))
    expected = [f"t-0/0#{row}".encode() for row in range(30)]
    assert keys(directory, T0) == expected + [f"t-0/1#{row}".encode() for row in range(5)]
    assert list(verify(directory)) == []


@pytest.mark.parametrize("name", ["clean", "crashed"])
def test_a_brokers_directories_are_appended_to(name: str, tmp_path: Path) -> None:
    directories = list(unpack("kafka-4.3.1", name, tmp_path).log_directories)
    orders = [TopicPartition("orders", partition) for partition in range(3)]
    before = read_rows(directories)
    request = stage(directories, [Writing(dict.fromkeys(orders, 10))], config=SegmentConfig())
    commit_staged_batches(request)
    after = read_rows(directories)
    for topic_partition, rows in before.items():
        assert after[topic_partition][: len(rows)] == rows
        added = after[topic_partition][len(rows) :]
        assert len(added) == (10 if topic_partition in orders else 0)
        if added and rows:
            assert added[0][0] == rows[-1][0] + 1
    assert [finding for finding in verify(directories) if not finding.is_harmless] == []


def test_readers_beside_200_commits_see_whole_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    directories = [str(tmp_path / name) for name in ("a", "b")]
    for path in directories:
        os.mkdir(path)
    partitions = [TopicPartition("t", partition) for partition in range(4)]
    config = SegmentConfig(segment_bytes=6000)
    commit_staged_batches(
        stage(directories, [Writing(dict.fromkeys(partitions, 1))], new_partition_count=4)
    )
    is_over = threading.Event()
    seen: list[set[int]] = []
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not is_over.is_set():
                seen.append({len(rows) for rows in read_rows(directories).values()})
        except Exception as error:  # noqa: BLE001 - told by the assertion below
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        overwrite = number % 20 == 19
        commit_staged_batches(
            stage(
                directories,
                [Writing(dict.fromkeys(partitions, 1))],
                config=config,
                overwrite=overwrite,
            )
        )
    is_over.set()
    reader.join()
    assert failures == []
    assert len(seen) > 5
    assert [counts for counts in seen if len(counts) != 1] == []
