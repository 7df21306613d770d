"""Which topics may be written where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import (
    NotALogDirectoryError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.targets import read_target_layout
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.committing import commit
from tests.support.scenarios import Writing, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_topics_that_must_not_be_written_are_refused(directory: str, tmp_path: Path) -> None:
    for topic in (*INTERNAL_TOPICS, "a/b", ""):
        with pytest.raises(UnsafeTargetError):
            stage([directory], [Writing({TopicPartition(topic, 0): 1})]) and commit_staged_batches(
                stage([directory], [Writing({TopicPartition(topic, 0): 1})])
            )
    commit(directory, {T0: 1})
    with pytest.raises(UnknownTopicOrPartitionError, match="t-9"):
        commit(directory, {TopicPartition("t", 9): 1})
    with pytest.raises(NotALogDirectoryError, match="partition directory"):
        read_target_layout([os.path.join(directory, "t-0")])


def test_a_clusters_directory_takes_its_own_topics_with_one_replica(directory: str) -> None:
    LogBuilder(directory).meta_properties()
    with pytest.raises(UnsafeTargetError, match="__cluster_metadata-0"):
        commit(directory, {T0: 1})
    assert os.listdir(directory) == ["meta.properties"]
