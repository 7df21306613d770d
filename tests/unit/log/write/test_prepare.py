"""What a commit will do: versions, overwriting, new topics and partitions that moved."""

from __future__ import annotations

import os
from pathlib import Path

from spark_segmentlog.log.directory.versions import read_versions
from spark_segmentlog.log.formats.checkpoints import (
    parse_leader_epochs,
    parse_offset_checkpoint,
)
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.staged_leftovers import list_staged
from tests.support.committing import commit, keys
from tests.support.scenarios import Writing, read_rows, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_new_topic_has_all_its_partitions_with_one_topic_id(directory: str) -> None:
    commit(directory, {TopicPartition("t", 2): 1}, new_partition_count=4)
    folders = [Path(directory) / f"t-{partition}" for partition in range(4)]
    ids = {(folder / "partition.metadata").read_text() for folder in folders}
    assert len(ids) == 1
    for folder in folders:
        epochs = parse_leader_epochs((folder / "leader-epoch-checkpoint").read_text())
        assert epochs is not None
        assert [(entry.epoch, entry.start_offset) for entry in epochs] == [(0, 0)]
        assert (folder / "00000000000000000000.log").exists()
    assert list(verify(directory)) == []


def test_a_version_that_is_committed_is_skipped_whole(directory: str) -> None:
    commit(directory, {T0: 3}, application="app", version=5)
    for version in (5, 4):
        request = stage([directory], [Writing({T0: 3, T1: 1})], application="app", version=version)
        assert commit_staged_batches(request).is_skipped
        assert list(list_staged(directory)) == []
    commit(directory, {T0: 2}, application="other", version=1)
    commit(directory, {T0: 1}, application="app", version=6)
    assert len(keys(directory, T0)) == 6
    versions = read_versions(directory)
    assert versions.counter == 3
    assert {name: entry.version for name, entry in versions.applications.items()} == {
        "app": 6,
        "other": 1,
    }


def test_a_version_without_rows_is_committed_too(directory: str) -> None:
    request = stage([directory], [], application="app", version=1)
    assert not commit_staged_batches(request).is_skipped
    assert commit_staged_batches(request).is_skipped
    assert not commit_staged_batches(stage([directory], [])).is_skipped
    assert read_versions(directory).counter == 1


def test_overwrite_moves_the_log_start_and_never_restarts_offsets(directory: str) -> None:
    other = TopicPartition("other", 0)
    commit(directory, {T0: 5, T1: 4, other: 3})
    commit(directory, {T0: 2}, overwrite=True, label="new ")
    rows = read_rows([directory])
    assert [offset for offset, _, _ in rows[T0]] == [5, 6]
    assert rows[T1] == []
    assert len(rows[other]) == 3
    text = (Path(directory) / "log-start-offset-checkpoint").read_text()
    assert parse_offset_checkpoint(text) == {T0: 5, T1: 4}
    commit_staged_batches(stage([directory], [], overwrite=True, topics=("t",)))
    assert read_rows([directory])[T0] == []
    commit(directory, {T1: 1})
    assert [offset for offset, _, _ in read_rows([directory])[T1]] == [4]
    assert list(verify(directory)) == []


def test_a_topic_made_meanwhile_elsewhere_is_copied_there(tmp_path: Path) -> None:
    directories = [str(tmp_path / name) for name in ("a", "b")]
    for path in directories:
        os.mkdir(path)
    config = SegmentConfig(segment_bytes=4000)
    request = stage(directories, [Writing({T0: 60})], config=config, new_partition_count=1)
    (home,) = {os.path.dirname(file.path) for file in request.staged[0].files}
    elsewhere = next(path for path in directories if path != home)
    commit_staged_batches(stage([elsewhere], [Writing({T0: 3})], new_partition_count=1))
    commit_staged_batches(request)
    assert os.listdir(home) != []
    assert len(read_rows([elsewhere])[T0]) == 63
    assert list(verify(directories)) == []
