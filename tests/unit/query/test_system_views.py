"""Views of Kafka's own topics: every record is a row, whatever its bytes are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CorruptRecordError, UnknownTopicOrPartitionError
from spark_segmentlog.testing.builder import ABORT, COMMIT, LogBuilder, RecordSpec, control_batch
from spark_segmentlog.testing.builder import v2_batch as batch_of
from spark_segmentlog.testing.system_records import offset_commit
from tests.support.metadata_log import change, identifier, log_of, partition, remove, topic


def rows(path: Any, view: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_arrow(path, view=view, **options).read_all().to_pylist()
    return found


def told(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


# Of real brokers


def test_offsets_and_groups_of_a_real_broker(broker_log: Any) -> None:
    log = broker_log("kafka-4.3.1", "clean")
    found = rows(log.log_directories, "consumer_offsets")
    assert all(row["reason"] is None for row in found)
    commits = [row for row in found if row["type"] == "OffsetCommit"]
    assert [told(row, "group", "topic", "partition", "offset") for row in commits][-3:] == [
        {"group": "g1", "topic": "orders", "partition": number, "offset": offset}
        for number, offset in ((0, 119), (1, 209), (2, 224))
    ]
    assert {(row["version"], row["leaderEpoch"], row["metadata"]) for row in commits} == {
        (4, 0, "")
    }
    assert all(row["commitTimestampMs"] <= row["recordTimestampMs"] for row in commits)
    (member,) = next(row["members"] for row in found if row["members"])
    assert member["topics"] == ["orders"]
    assert member["assignment"] == [{"topic": "orders", "topicId": None, "partitions": [0, 1, 2]}]
    assert member["clientHost"] == "/127.0.0.1"
    groups = [row for row in found if row["type"] == "GroupMetadata"]
    assert [row["epoch"] for row in groups] == [0, 1, 2]
    assert json.loads(groups[1]["decodedValue"])["generation"] == 1


def test_transactions_of_a_real_broker_by_state(broker_log: Any) -> None:
    log = broker_log("kafka-4.3.1", "clean")
    found = rows(log.log_directories, "transaction_state")
    assert {row["reason"] for row in found} == {None}
    first = [row for row in found if row["transactionalId"] == "tx-1-1"][:3]
    assert [row["state"] for row in first] == ["Empty", "Ongoing", "PrepareCommit"]
    assert first[1]["partitions"] == [{"topic": "ledger", "partitionIds": [1, 0]}]
    assert first[1]["startTimestampMs"] == first[1]["lastUpdateTimestampMs"]
    assert (first[0]["producerId"], first[0]["timeoutMs"]) == (1, 3_600_000)


def test_topics_partitions_and_settings_of_a_real_cluster(broker_log: Any) -> None:
    log = broker_log("kafka-4.3.1", "clean")
    found = rows(log.log_directories, "cluster_metadata")
    assert {row["reason"] for row in found} == {None}
    made = [row for row in found if row["type"] == "PartitionRecord" and row["topic"] == "orders"]
    assert [told(row, "partition", "replicas", "isr", "leader") for row in made] == [
        {"partition": number, "replicas": [1], "isr": [1], "leader": 1} for number in range(3)
    ]
    names = {row["topicId"]: row["topic"] for row in found if row["type"] == "TopicRecord"}
    changes = [row for row in found if row["type"] == "PartitionChangeRecord"]
    assert all(row["topic"] == names[row["topicId"]] for row in changes)
    settings = [row for row in found if row["type"] == "ConfigRecord"]
    assert {row["resourceType"] for row in settings} == {"broker", "topic"}
    assert ("broker", None) in {(row["resourceType"], row["topic"]) for row in settings}
    assert all(
        row["topic"] == row["resourceName"] for row in settings if row["resourceType"] == "topic"
    )
    assert {row["brokerId"] for row in found if row["type"] == "RegisterBrokerRecord"} == {1}


def test_the_topic_is_chosen_by_the_view_unless_options_choose(tmp_path: Path) -> None:
    commit = offset_commit("g", "t", 5, 7)
    log_of(tmp_path, "orders", RecordSpec(value=b"v"))
    with pytest.raises(UnknownTopicOrPartitionError, match="__consumer_offsets"):
        rows(tmp_path, "consumer_offsets")
    for number in range(2):
        log_of(tmp_path, "__consumer_offsets", commit, number=number)
    log_of(tmp_path, "restored", commit)
    assert [row["recordPartition"] for row in rows(tmp_path, "consumer_offsets")] == [0, 1]
    (row,) = rows(tmp_path, "consumer_offsets", assign={"__consumer_offsets": [1]})
    assert told(row, "recordPartition", "partition", "offset") == {
        "recordPartition": 1,
        "partition": 5,
        "offset": 7,
    }
    (row,) = rows(tmp_path, "consumer_offsets", subscribe="restored")
    assert row["group"] == "g"


def test_offsets_choose_records_and_not_what_they_say(tmp_path: Path) -> None:
    log_of(tmp_path, "__consumer_offsets", *(offset_commit("g", "t", 0, 100 + n) for n in range(9)))
    found = rows(
        tmp_path,
        "consumer_offsets",
        starting_offsets={"__consumer_offsets": {"0": 3}},
        ending_offsets={"__consumer_offsets": {"0": 5}},
    )
    assert [(row["recordOffset"], row["offset"]) for row in found] == [(3, 103), (4, 104)]


def test_read_committed_hides_commits_of_transactions_that_were_aborted(tmp_path: Path) -> None:
    entries = []
    for place, (producer_id, marker) in enumerate(((1, COMMIT), (2, ABORT))):
        records = [offset_commit(f"g{producer_id}", "t", 0, 5)]
        producer: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0}
        data = batch_of(
            records, base_offset=2 * place, transactional=True, base_sequence=0, **producer
        )
        entries += [data, control_batch(marker, base_offset=2 * place + 1, **producer)]
    LogBuilder(tmp_path).partition("__consumer_offsets", 0, [entries])
    assert [row["group"] for row in rows(tmp_path, "consumer_offsets")] == ["g1", "g2"]
    found = rows(tmp_path, "consumer_offsets", kafka_isolation_level="read_committed")
    assert [row["group"] for row in found] == ["g1"]


# What cannot be read


def test_what_cannot_be_read_is_a_row_with_its_bytes(tmp_path: Path) -> None:
    good = offset_commit("g", "t", 0, 1)
    records = [
        good,
        RecordSpec(key=b"\x00\x63\xff", value=b"new"),
        RecordSpec(key=good.key, value=b"\x00\x09\x01"),
        RecordSpec(key=good.key, value=b"\x00\x03\x01"),
        RecordSpec(key=None, value=b"v"),
        offset_commit("g", "t", 0, None),
    ]
    found = rows(log_of(tmp_path, "__consumer_offsets", *records), "consumer_offsets")
    assert [(row["type"], row["typeId"], row["version"]) for row in found] == [
        ("OffsetCommit", 1, 3),
        (None, 99, None),
        ("OffsetCommit", 1, 9),
        ("OffsetCommit", 1, 3),
        (None, None, None),
        ("OffsetCommit", 1, None),
    ]
    assert [row["reason"] for row in found] == [
        None,
        "record type 99 is not known",
        "version 9 of OffsetCommitValue is not known, version 0 to 4 is",
        "no OffsetCommitValue of version 3: 8 bytes are needed at byte 2 of 3",
        "the key is null",
        None,
    ]
    assert [(row["key"], row["value"]) for row in found] == [
        (record.key, record.value) for record in records
    ]
    assert [row["isTombstone"] for row in found] == [False] * 5 + [True]
    assert [row["group"] for row in found] == ["g", None, "g", "g", None, "g"]


def test_bad_bytes_of_the_log_go_by_mode(tmp_path: Path) -> None:
    batches = [batch_of([offset_commit("g", "t", 0, n)], base_offset=n) for n in range(3)]
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    LogBuilder(tmp_path).partition("__consumer_offsets", 0, [batches])
    with pytest.raises(CorruptRecordError):
        rows(tmp_path, "consumer_offsets")
    found = rows(tmp_path, "consumer_offsets", mode="DROPMALFORMED")
    assert [row["offset"] for row in found] == [0, 2]


# The metadata log


def test_a_metadata_log_without_its_front_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    later = [change(0, 1, 2), topic("new", 3), partition(0, 3, 1), remove(1)]
    data = batch_of([RecordSpec(value=value) for value in later], base_offset=10)
    log.partition("__cluster_metadata", 0, [[data]])
    held = [topic("old", 1), partition(0, 1, 1), partition(1, 1, 1)]
    for end_offset, values in ((11, held), (13, [*held, topic("new", 3), partition(0, 3, 1)])):
        name = f"{end_offset:020}-0000000001.checkpoint"
        markers = [
            control_batch(kind, base_offset=offset, producer_id=-1, producer_epoch=-1)
            for kind, offset in ((3, 0), (4, 1 + len(values)))
        ]
        snapshot = batch_of([RecordSpec(value=value) for value in values], base_offset=1)
        path = tmp_path / "__cluster_metadata-0" / name
        path.write_bytes(markers[0] + snapshot + markers[1])
    found = rows(tmp_path, "cluster_metadata")
    assert [(row["snapshot"], row["recordOffset"], row["type"], row["topic"]) for row in found] == [
        ("00000000000000000011-0000000001.checkpoint", 1, "TopicRecord", "old"),
        ("00000000000000000011-0000000001.checkpoint", 2, "PartitionRecord", "old"),
        ("00000000000000000011-0000000001.checkpoint", 3, "PartitionRecord", "old"),
        (None, 11, "TopicRecord", "new"),
        (None, 12, "PartitionRecord", "new"),
        (None, 13, "RemoveTopicRecord", "old"),
    ]
    asked = rows(
        tmp_path,
        "cluster_metadata",
        starting_offsets={"__cluster_metadata": {"0": 13}},
        columns=["recordOffset", "topic", "snapshot"],
    )
    assert asked == [{"recordOffset": 13, "topic": "old", "snapshot": None}]


def test_a_changed_partition_says_what_changed_alone(tmp_path: Path) -> None:
    values = [topic("t", 1), partition(4, 1, 1, 2), change(4, 1, 3), change(4, 9, 3)]
    found = rows(
        log_of(tmp_path, "__cluster_metadata", *(RecordSpec(value=value) for value in values)),
        "cluster_metadata",
    )
    assert [told(row, "topic", "partition", "replicas", "leader") for row in found[1:]] == [
        {"topic": "t", "partition": 4, "replicas": [1, 2], "leader": 1},
        {"topic": "t", "partition": 4, "replicas": [3], "leader": 1},
        {"topic": None, "partition": 4, "replicas": [3], "leader": 1},
    ]
    assert len(identifier(1)) == 16


def test_share_state_by_batches(tmp_path: Path) -> None:
    front = b"\x00\x01" + b"\x00\x01g" + identifier(1) + (3).to_bytes(4, "big")
    batch = (5).to_bytes(8, "big") + (6).to_bytes(8, "big")
    batches = b"\x03" + batch + b"\x02\x00\x01\x00" + batch + b"\x09\x00\x02\x00"
    value = bytes(2) + bytes(4) + bytes(4) + (5).to_bytes(8, "big") + batches + b"\x00"
    (row,) = rows(
        log_of(tmp_path, "__share_group_state", RecordSpec(key=front, value=value)),
        "share_group_state",
    )
    assert row["reason"] is None
    assert told(row, "type", "group", "partition", "startOffset") == {
        "type": "ShareUpdate",
        "group": "g",
        "partition": 3,
        "startOffset": 5,
    }
    assert row["stateBatches"] == [
        {"firstOffset": 5, "lastOffset": 6, "deliveryState": "Acknowledged", "deliveryCount": 1},
        {"firstOffset": 5, "lastOffset": 6, "deliveryState": "9", "deliveryCount": 2},
    ]
