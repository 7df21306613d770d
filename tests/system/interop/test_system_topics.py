"""Kafka's own topics: what is decoded here is what the decoders of ``kafka-dump-log`` say of it.

``SEGMENTLOG_SEED`` repeats the random messages of a run.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import lag, read_arrow
from spark_segmentlog.log.directory.cluster_metadata import read_cluster_metadata
from spark_segmentlog.record.system.message_reader import ByteCursor, read_message
from spark_segmentlog.record.system.records import json_value, record_types
from spark_segmentlog.record.system.schemas import message_schemas
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.broker import Broker
from tests.support.kafka_jars import KafkaJars
from tests.support.message_table import TABLE, make_table
from tests.support.running import run

pytestmark = pytest.mark.interop

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
VIEWS = {topic: topic.removeprefix("__") for topic in DECODERS}
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) .*?headerKeys: \[\](?: key: (?P<key>.*?))?"
    r"(?: payload: (?P<payload>.*))?"
)
MESSAGES_OF_EACH = 40


@dataclass(frozen=True, slots=True)
class Traffic:
    """A broker that was stopped, and the offsets that it told before."""

    broker: Broker
    offsets: list[tuple[str, str, int, int, int]]

    def folders(self, topic: str) -> list[Path]:
        return sorted(
            path for root in self.broker.log_directories for path in root.glob(f"{topic}-[0-9]*")
        )


@pytest.fixture(scope="module")
def traffic(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    properties = {
        "share.coordinator.state.topic.num.partitions": 2,
        "metadata.log.max.record.bytes.between.snapshots": 3_000,
        "internal.metadata.log.segment.bytes": 4_000,
        "internal.metadata.max.batch.size.in.bytes": 4_000,
        "metadata.max.retention.bytes": 5_000,
        "internal.metadata.delete.delay.millis": 500,
    }
    broker = Broker(tmp_path_factory.mktemp("system"), jars, properties=properties)
    with broker:
        broker.create_topic("read", partitions=3)
        told = broker.run_java_source("GroupTraffic", broker.bootstrap_servers, "read")
        broker.stop()
    lines = [line.split("\t")[1:] for line in told.splitlines() if line.startswith("offset\t")]
    offsets = [
        (group, topic, int(partition), int(offset), int(end))
        for group, topic, partition, offset, end in lines
    ]
    assert offsets, told[-2000:]
    return Traffic(broker, sorted(offsets))


def records_of(text: str) -> list[tuple[int, Any, Any]]:
    """Take the records of a dump apart: offsets, and keys and values as JSON."""
    found = (RECORD.fullmatch(line) for line in text.splitlines() if line.startswith("| "))
    return [
        (int(match["offset"]), _parsed(match["key"]), _parsed(match["payload"]))
        for match in found
        if match is not None
    ]


def _parsed(text: str | None) -> Any:
    return json.loads(text) if text is not None and text.startswith("{") else text


def dumps(broker: Broker, topic: str, files: Iterable[Path]) -> tuple[list[Any], list[Any]]:
    """Dump files by the broker's tool, and by ours."""
    paths = sorted(files)
    theirs = records_of(broker.dump_log(DECODERS[topic], files=paths).text)
    ours = [record for path in paths for record in records_of(run("dump", path, "--decode").stdout)]
    return theirs, ours


# The table


def test_the_table_is_that_of_the_jars(jars: KafkaJars) -> None:
    assert make_table(jars.libs) == TABLE.read_text()


@pytest.fixture(scope="module")
def messages(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Random messages of Kafka's own classes, every version of each."""
    seed = int(os.environ.get("SEGMENTLOG_SEED", random.randrange(2**32)))
    print(f"SEGMENTLOG_SEED={seed}")
    names = list(message_schemas())
    broker = Broker(tmp_path_factory.mktemp("messages"), jars)
    text = broker.run_java_source("SystemMessages", str(seed), str(MESSAGES_OF_EACH), *names)
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [{**row, "bytes": base64.b64decode(row["bytes"])} for row in rows]


def _without_unknown(value: Any) -> Any:
    """Leave out the fields whose tags are not known, as Kafka's converters do."""
    if isinstance(value, dict):
        kept = {name: field for name, field in value.items() if name != "unknownTaggedFields"}
        return {name: _without_unknown(field) for name, field in kept.items()}
    is_many = isinstance(value, list | tuple)
    return type(value)(map(_without_unknown, value)) if is_many else value


def test_random_messages_are_what_kafkas_converters_say(messages: list[dict[str, Any]]) -> None:
    versions = Counter((row["name"], row["version"]) for row in messages)
    assert versions == {
        (name, version): MESSAGES_OF_EACH
        for name, schema in message_schemas().items()
        for version in range(schema.versions.first, schema.versions.last + 1)
    }
    for row in messages:
        cursor = ByteCursor(row["bytes"])
        found = _without_unknown(json_value(read_message(row["name"], row["version"], cursor)))
        assert (found, cursor.left) == (row["json"], 0), (row["name"], row["version"])


@pytest.mark.parametrize("topic", DECODERS)
def test_random_records_of_every_type_are_what_the_brokers_decoder_says(
    topic: str, messages: list[dict[str, Any]], jars: KafkaJars, tmp_path: Path
) -> None:
    records = list(_records(topic, messages))
    types = record_types(topic).keys()
    # What no broker knows yet, and what none can read.
    damaged = [_with_type(topic, max(types) + 1), _with_version(records[0], 99)]
    LogBuilder(tmp_path).partition(topic, 0, [[v2_batch([*records, *damaged])]])
    broker = Broker(tmp_path, jars)
    theirs, ours = dumps(broker, topic, (tmp_path / f"{topic}-0").glob("*.log"))
    assert len(theirs) == len(ours) == len(records) + len(damaged)
    assert _without_unknown(ours[: len(records)]) == theirs[: len(records)]
    rows = read_arrow(tmp_path, view=VIEWS[topic]).read_all().to_pylist()
    assert {row["typeId"] for row in rows if row["reason"] is None} == set(types)
    assert all(row["reason"] is None for row in rows[: len(records)])
    for row, record in zip(rows[-2:], damaged, strict=True):
        assert row["reason"] is not None
        assert (row["key"], row["value"]) == (record.key, record.value)


def _records(topic: str, messages: list[dict[str, Any]]) -> Iterator[RecordSpec]:
    schemas = message_schemas()
    keys: dict[str, list[bytes]] = {}
    for row in messages:
        if schemas[row["name"]].topic == topic and row["name"].endswith("Key"):
            keys.setdefault(row["name"], []).append(row["bytes"])
    for number, row in enumerate(messages):
        schema = schemas[row["name"]]
        if schema.topic != topic or row["name"].endswith("Key"):
            continue
        assert schema.type_id is not None
        if topic == "__cluster_metadata":
            value = bytes((1, schema.type_id, row["version"])) + row["bytes"]
            yield RecordSpec(value=value)
            continue
        of_type = keys[f"{row['name'].removesuffix('Value')}Key"]
        key = schema.type_id.to_bytes(2, "big") + of_type[number % len(of_type)]
        value = row["version"].to_bytes(2, "big") + row["bytes"]
        yield RecordSpec(key=key, value=value if number % 5 else None)


def _with_type(topic: str, type_id: int) -> RecordSpec:
    if topic == "__cluster_metadata":
        return RecordSpec(value=bytes((1, type_id, 0)))
    return RecordSpec(key=type_id.to_bytes(2, "big"), value=b"\x00\x00")


def _with_version(record: RecordSpec, version: int) -> RecordSpec:
    if record.key is None:
        assert record.value is not None
        return RecordSpec(value=record.value[:2] + bytes((version,)) + record.value[3:])
    return RecordSpec(key=record.key, value=version.to_bytes(2, "big"))


# A real broker's


@pytest.mark.parametrize("topic", DECODERS)
def test_every_field_of_a_real_log_is_what_the_brokers_decoder_says(
    topic: str, traffic: Traffic
) -> None:
    files = [path for folder in traffic.folders(topic) for path in folder.glob("*.log")]
    files += [path for folder in traffic.folders(topic) for path in folder.glob("*.checkpoint")]
    theirs, ours = dumps(traffic.broker, topic, files)
    assert ours == theirs
    assert any(isinstance(payload, dict) for _, _, payload in ours)
    rows = read_arrow(traffic.broker.log_directories, view=VIEWS[topic]).read_all().to_pylist()
    assert {row["reason"] for row in rows} == {None}


def test_the_types_that_a_real_broker_writes(traffic: Traffic) -> None:
    paths = traffic.broker.log_directories
    found = {
        view: set(read_arrow(paths, view=view, columns=["type"]).read_all()["type"].to_pylist())
        for view in VIEWS.values()
    }
    assert found["consumer_offsets"] >= {
        "OffsetCommit",
        "GroupMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupRegularExpression",
        "ShareGroupMetadata",
        "ShareGroupMemberMetadata",
        "ShareGroupStatePartitionMetadata",
    }
    assert found["transaction_state"] == {"TransactionLog"}
    assert "ShareSnapshot" in found["share_group_state"]
    assert found["cluster_metadata"] >= {
        "TopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "FeatureLevelRecord",
        "RegisterBrokerRecord",
        "UserScramCredentialRecord",
        "ClientQuotaRecord",
    }


def test_lag_is_what_the_broker_told(traffic: Traffic) -> None:
    found = [tuple(row.values()) for row in lag(traffic.broker.log_directories).to_pylist()]
    groups = {group for group, *_ in traffic.offsets}
    assert groups >= {"classic", "modern", "matching", "transactional"}
    # What an open transaction writes lies after the offsets that the broker tells of.
    assert [row[:4] for row in found] == [row[:4] for row in traffic.offsets]
    ends = {(topic, partition): end for _, topic, partition, _, end in traffic.offsets}
    for _, topic, partition, committed, end, behind in found:
        assert end == ends[topic, partition]
        assert behind == end - committed


def test_members_of_groups_of_both_protocols(traffic: Traffic) -> None:
    rows = read_arrow(traffic.broker.log_directories, view="consumer_offsets").read_all()
    members: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        members.setdefault(row["group"], []).extend(row["members"] or ())
    assert {member["instanceId"] for member in members["classic"]} == {"i1"}
    assert {member["clientId"] for member in members["modern"] if member["clientId"]} == {
        "client of modern"
    }
    assert {tuple(member["topics"]) for member in members["modern"] if member["topics"]} == {
        ("read",)
    }
    assigned = [member["assignment"] for member in members["modern"] if member["assignment"]]
    assert sorted(assigned[-1][0]["partitions"]) == [0, 1, 2]


def test_what_the_cluster_knows_of_its_topics(traffic: Traffic) -> None:
    (folder,) = traffic.folders("__cluster_metadata")
    assert list(folder.glob("*.checkpoint")), "the broker wrote no snapshot"
    topics = read_cluster_metadata(str(folder.parent)).topics
    assert topics["kept"].replicas == {0: (1,), 1: (1,), 2: (1,)}
    assert "removed" not in topics
    rows = read_arrow(traffic.broker.log_directories, view="cluster_metadata").read_all()
    partitions = {
        (row["topic"], row["partition"])
        for row in rows.to_pylist()
        if row["type"] == "PartitionRecord"
    }
    assert {("kept", 0), ("kept", 1), ("kept", 2), ("read", 0)} <= partitions
    settings = {
        (row["topic"], row["configName"], row["configValue"])
        for row in rows.to_pylist()
        if row["type"] == "ConfigRecord"
    }
    assert {("kept", "retention.ms", "5000"), ("kept", "cleanup.policy", "compact")} <= settings


def test_a_metadata_log_without_its_front_still_knows_its_topics(
    traffic: Traffic, tmp_path: Path
) -> None:
    """A broker deletes segments that a snapshot stands for."""
    (folder,) = traffic.folders("__cluster_metadata")
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    for path in copy.glob(f"{0:020}.*"):
        path.unlink()
    assert list(copy.glob("*.log"))
    columns = ["snapshot", "type", "topic", "partition"]
    rows = read_arrow(tmp_path, view="cluster_metadata", columns=columns).read_all().to_pylist()
    assert None not in {row["topic"] for row in rows if row["type"] == "PartitionChangeRecord"}
    known = {
        (topic, partition)
        for topic, described in read_cluster_metadata(str(folder.parent)).topics.items()
        for partition in described.replicas
    }
    made = {(row["topic"], row["partition"]) for row in rows if row["type"] == "PartitionRecord"}
    assert known <= made
    assert any(row["snapshot"] for row in rows)


def test_cleaning_goes_by_what_the_cluster_says_of_a_topic(traffic: Traffic) -> None:
    paths = traffic.broker.log_directories
    kept = run("retain", *paths, "--topic", "kept", "--dry-run", "--format", "json").objects
    assert [(row["cleanupPolicy"], row["retentionMs"]) for row in kept] == [(["compact"], 5000)] * 3
    ran = run("compact", *paths, "--topic", "kept", "--dry-run", "--format", "json")
    assert [row["partition"] for row in ran.objects] == [0, 1, 2]
    refused = run("compact", *paths, "--topic", "read", "--dry-run")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "topic read has no cleanup.policy" in refused.stderr
    assert run("retain", *paths, "--topic", "read", "--dry-run").exit_code == 2
