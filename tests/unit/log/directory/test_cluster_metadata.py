"""What the metadata log says of topics: snapshots, changes, removals, transactions, bad records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import UnsafeTargetError
from spark_segmentlog.log.directory.cluster_metadata import read_cluster_metadata
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write import targets
from spark_segmentlog.log.write.targets import make_log_directories, read_target_layout
from spark_segmentlog.testing.builder import RecordSpec, control_batch, v2_batch
from tests.support.broker_data import unpack
from tests.support.metadata_log import (
    ABORT,
    BEGIN,
    END,
    change,
    identifier,
    metadata_log,
    partition,
    remove,
    replicas,
    setting,
    topic,
)


def test_topics_of_real_brokers(tmp_path: Path) -> None:
    log = unpack("kafka-4.3.1", "crashed", tmp_path)
    topics = read_cluster_metadata(log.log_directories[0]).topics
    assert topics["orders"].replicas == {0: (1,), 1: (1,), 2: (1,)}
    for directory in log.log_directories:
        for name in os.listdir(directory):
            stem, _, number = name.rpartition("-")
            if stem in topics and number.isdigit():
                text = (Path(directory) / name / "partition.metadata").read_text()
                assert f"topic_id: {topics[stem].topic_id}" in text


def test_partitions_change_and_topics_go(tmp_path: Path) -> None:
    path = metadata_log(
        tmp_path,
        topic("kept", 1),
        partition(0, 1, 1),
        partition(1, 1, 1, 2),
        topic("gone", 2),
        partition(0, 2, 1),
        change(0, 1, 1, 2, 3),
        remove(2),
        bytes((1, 77, 0)) + b"a kind of the future",
    )
    assert replicas(path) == {"kept": {0: (1, 2, 3), 1: (1, 2)}}
    assert read_cluster_metadata(path).topics["kept"].max_replicas == 3


def test_records_of_a_transaction_count_once_it_has_ended(tmp_path: Path) -> None:
    path = metadata_log(
        tmp_path,
        BEGIN, topic("a", 1), partition(0, 1, 1), END,
        BEGIN, topic("b", 2), ABORT,
        BEGIN, topic("c", 3),
    )  # fmt: skip
    assert replicas(path) == {"a": {0: (1,)}}


def test_a_snapshot_comes_first_and_the_log_after_it(tmp_path: Path) -> None:
    values = [topic("old", 1), topic("new", 2), partition(0, 2, 5)]
    path = metadata_log(tmp_path, *values)
    snapshot = v2_batch([RecordSpec(value=topic("old", 1)), RecordSpec(value=topic("snap", 3))])
    name = "00000000000000000001-0000000003.checkpoint"
    marker = control_batch(3, base_offset=2, producer_id=-1, producer_epoch=-1)
    (tmp_path / "__cluster_metadata-0" / name).write_bytes(snapshot + marker)
    assert replicas(path) == {"old": {}, "snap": {}, "new": {0: (5,)}}


@pytest.mark.parametrize(
    "value",
    [
        topic("t", 1)[:10],
        b"\x01\x02\x00\xff\xff\xff\xff\xff\xff",
        b"\x01",
        partition(0, 9, 1),
        remove(9),
        b"\x01\x02\x00\x03\xff\xff" + identifier(1),
        b"\x02" + topic("t", 1)[1:],
    ],
    ids=[
        "cut off",
        "long varint",
        "frame alone",
        "unknown topic",
        "unknown removed",
        "no text",
        "unknown frame",
    ],
)
def test_a_record_that_cannot_be_read_means_that_nothing_is_known(
    tmp_path: Path, value: bytes
) -> None:
    path = metadata_log(tmp_path, value)
    with pytest.raises(UnsafeTargetError, match="cannot read the cluster's metadata"):
        read_cluster_metadata(path)


def test_new_partitions_are_dealt_out_evenly_and_alike_for_all(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    make_log_directories(paths)
    (tmp_path / "a" / "old-0").mkdir()
    layout = read_target_layout(paths, new_partition_count=5)
    chosen = [layout.directory_of(TopicPartition("new", number)) for number in range(5)]
    assert sorted(chosen.count(path) for path in layout.log_directories) == [1, 2, 2]
    assert chosen.count(os.path.realpath(paths[0])) == 1
    again = read_target_layout(paths[::-1], new_partition_count=5)
    assert [again.directory_of(TopicPartition("new", n)) for n in range(5)] == chosen


def test_where_many_new_partitions_go_is_worked_out_few_times(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    make_log_directories(paths)
    (tmp_path / "a" / "old-0").mkdir()
    layout = read_target_layout(paths)
    targets._deal_out.cache_clear()
    chosen = [layout.directory_of(TopicPartition("new", number)) for number in range(1001)]
    assert targets._deal_out.cache_info().misses <= 11
    assert [chosen.count(path) for path in layout.log_directories] == [500, 501]
    planned = read_target_layout(paths, new_partition_count=1001)
    assert [planned.directory_of(TopicPartition("new", number)) for number in range(1001)] == chosen


def test_a_topic_made_anew_has_none_of_the_settings_of_the_old_one(tmp_path: Path) -> None:
    old = [topic("t", 1), setting(2, "t", "remote.storage.enable", "true"), remove(1)]
    path = metadata_log(tmp_path, *old, topic("t", 2))
    assert read_cluster_metadata(path).topics["t"].settings == {}
    assert not read_cluster_metadata(path).topics["t"].is_tiered


def test_a_later_version_is_read_as_the_last_one_that_is_known(tmp_path: Path) -> None:
    later = bytearray(partition(0, 1, 4, 5))
    later[2] = 9
    tagged = bytes(later[:-1]) + b"\x01\x20\x02ab"
    path = metadata_log(tmp_path, topic("t", 1), tagged)
    assert replicas(path) == {"t": {0: (4, 5)}}
