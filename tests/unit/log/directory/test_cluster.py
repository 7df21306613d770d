"""Whose a log directory is, and what is set for its topics."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import UnknownTopicOrPartitionError, UnsafeTargetError
from spark_segmentlog.log.directory.cluster import read_cluster
from spark_segmentlog.log.directory.cluster_metadata import read_cluster_metadata
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.targets import read_target_layout
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.metadata_log import (
    metadata_log,
    partition,
    setting,
    topic,
)


def test_topics_of_the_cluster_may_be_written_if_they_have_one_replica(tmp_path: Path) -> None:
    path = metadata_log(
        tmp_path / "d0",
        topic("one", 1), partition(0, 1, 1), partition(1, 1, 1),
        topic("two", 2), partition(0, 2, 1, 2),
    )  # fmt: skip
    (tmp_path / "d1" / "one-0").mkdir(parents=True)
    LogBuilder(tmp_path / "d1").meta_properties()
    other = str(tmp_path / "d1")
    layout = read_target_layout([other])
    assert layout.partition_count("one") == 2
    assert layout.directory_of(TopicPartition("one", 0)) == os.path.realpath(other)
    for name, message in (("two", "2 replicas"), ("three", "does not exist in the cluster")):
        with pytest.raises(UnsafeTargetError, match=message):
            layout.check_topic(name)
    with pytest.raises(UnknownTopicOrPartitionError, match="one-1"):
        layout.directory_of(TopicPartition("one", 1))
    unsafe = read_target_layout([other], allow_unsafe=True)
    unsafe.check_topic("three")
    with pytest.raises(UnsafeTargetError, match="the broker's own"):
        unsafe.check_topic("__consumer_offsets")
    assert read_target_layout([path]).cluster_topics is not None


def test_the_metadata_of_another_cluster_is_not_taken(tmp_path: Path) -> None:
    metadata_log(tmp_path / "d0", topic("one", 1))
    LogBuilder(tmp_path / "d1").meta_properties(cluster_id="another")
    with pytest.raises(UnsafeTargetError, match="cannot be told"):
        read_target_layout([str(tmp_path / "d1")])


def test_settings_of_topics_and_brokers_as_they_were_set_last(tmp_path: Path) -> None:
    path = metadata_log(
        tmp_path,
        topic("t", 1),
        setting(2, "t", "retention.ms", "5"),
        setting(2, "t", "retention.ms", "6"),
        setting(2, "t", "cleanup.policy", "compact"),
        setting(2, "t", "cleanup.policy", None),
        setting(2, "nobody", "retention.ms", "7"),
        setting(4, "", "log.retention.ms", "8"),
        setting(4, "1", "log.retention.ms", "9"),
        setting(4, "2", "log.retention.ms", "10"),
        setting(16, "t", "interval.ms", "11"),
    )
    assert read_cluster_metadata(path).topics["t"].settings == {"retention.ms": "6"}
    cluster = read_cluster([path])
    assert cluster is not None
    assert cluster.node_id == 1
    assert cluster.broker_settings == {"log.retention.ms": "9"}
