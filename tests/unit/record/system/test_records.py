"""Records of Kafka's own topics: bytes of Kafka's classes are read as its converters say."""

from __future__ import annotations

import base64
import gzip
import json
import random
from functools import cache
from typing import Any

import pytest

from spark_segmentlog.record.plain.control import ControlRecordType
from spark_segmentlog.record.system.message_reader import ByteCursor, MessageError, read_message
from spark_segmentlog.record.system.records import (
    SystemRecord,
    json_value,
    read_control_content,
    read_system_record,
    record_types,
)
from spark_segmentlog.record.system.schemas import message_schemas
from spark_segmentlog.record.system.topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    REMOTE_LOG_METADATA,
    TRANSACTION_STATE,
)
from tests.support.project import DATA

MESSAGES = DATA / "kafka-4.3.1-messages" / "messages.jsonl.gz"


@cache
def messages_of_kafka() -> list[dict[str, Any]]:
    with gzip.open(MESSAGES, "rt", encoding="utf-8") as lines:
        return [{**row, "bytes": base64.b64decode(row["bytes"])} for row in map(json.loads, lines)]


def without_unknown(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: it for name, it in value.items() if name != "unknownTaggedFields"}
        return {name: without_unknown(it) for name, it in kept.items()}
    return [without_unknown(it) for it in value] if isinstance(value, list) else value


def wrap(name: str, version: int, data: bytes) -> tuple[str, bytes | None, bytes | None] | None:
    """Make a record of a message: its topic, key and value; None for one that is no record."""
    schema = message_schemas()[name]
    if schema.topic is None or schema.type_id is None:
        return None
    if schema.topic in (CLUSTER_METADATA, REMOTE_LOG_METADATA):
        return schema.topic, None, bytes((1, schema.type_id, version)) + data
    if name.endswith("Key"):
        return schema.topic, schema.type_id.to_bytes(2, "big") + data, None
    key = next(
        row["bytes"]
        for row in messages_of_kafka()
        if row["name"] == f"{name.removesuffix('Value')}Key"
    )
    return schema.topic, schema.type_id.to_bytes(2, "big") + key, version.to_bytes(2, "big") + data


def test_every_message_of_every_version_is_what_kafkas_own_json_says() -> None:
    seen = set()
    for row in messages_of_kafka():
        cursor = ByteCursor(row["bytes"])
        found = json_value(read_message(row["name"], row["version"], cursor))
        assert cursor.left == 0
        assert json.dumps(without_unknown(found)) == json.dumps(row["json"]), row["name"]
        seen.add((row["name"], row["version"]))
    assert seen == {
        (name, version)
        for name, schema in message_schemas().items()
        for version in range(schema.versions.first, schema.versions.last + 1)
    }


def test_every_record_type_of_every_topic_is_read() -> None:
    read: dict[str, set[str]] = {}
    for row in messages_of_kafka():
        record = wrap(row["name"], row["version"], row["bytes"])
        if record is not None:
            found = read_system_record(*record)
            assert found.reason is None
            assert found.type is not None
            read.setdefault(record[0], set()).add(found.type)
    assert read == {topic: set(record_types(topic).values()) for topic in read}
    assert read.keys() == INTERNAL_TOPICS.keys()


def test_unknown_tagged_fields_are_kept() -> None:
    flexible = [
        row
        for row in messages_of_kafka()
        if row["version"] in message_schemas()[row["name"]].flexible
    ]
    assert {row["isExtended"] for row in flexible} == {False, True}
    for row in flexible:
        found = read_message(row["name"], row["version"], ByteCursor(row["bytes"]))
        unknown = found.get("unknownTaggedFields", [])
        assert [it["tag"] for it in unknown] == ([9000] if row["isExtended"] else [])
        assert all(isinstance(it["data"], bytes) for it in unknown)


def test_bytes_that_are_cut_off_anywhere_say_so() -> None:
    for row in messages_of_kafka():
        whole = read_message(row["name"], row["version"], ByteCursor(row["bytes"]))
        for length in range(min(len(row["bytes"]), 40)):
            with pytest.raises(MessageError, match=f"no {row['name']} of version"):
                read_message(row["name"], row["version"], ByteCursor(row["bytes"][:length]))
        assert whole == read_message(row["name"], row["version"], ByteCursor(row["bytes"] + b"x"))


def test_no_bytes_are_an_error() -> None:
    draw = random.Random(5)
    for row in messages_of_kafka():
        record = wrap(row["name"], row["version"], row["bytes"])
        if record is None:
            continue
        topic, *parts = record
        for _ in range(8):
            damaged = [None if part is None else bytearray(part) for part in parts]
            part = draw.choice([it for it in damaged if it])
            for _ in range(draw.randint(1, 3)):
                part[draw.randrange(len(part))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
            key, value = (None if it is None else bytes(it) for it in damaged)
            found = read_system_record(topic, key, value)
            json.dumps([json_value(found.key), json_value(found.value)])
            assert (found.reason is None) or isinstance(found.reason, str)


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        (
            CONSUMER_OFFSETS,
            b"\x00\x63x",
            b"v",
            SystemRecord(type_id=99, reason="record type 99 is not known"),
        ),
        (CONSUMER_OFFSETS, None, b"v", SystemRecord(reason="the key is null")),
        (
            CONSUMER_OFFSETS,
            b"\x00",
            None,
            SystemRecord(reason="2 bytes are needed at byte 0 of 1"),
        ),
        (
            TRANSACTION_STATE,
            b"\x00\x00\x00\x01t",
            b"\x00\x09rest",
            SystemRecord(
                type_id=0,
                type="TransactionLog",
                version=9,
                key={"transactionalId": "t"},
                reason="version 9 of TransactionLogValue is not known, version 0 to 1 is",
            ),
        ),
        (CLUSTER_METADATA, None, None, SystemRecord(reason="the value is null")),
        (
            CLUSTER_METADATA,
            None,
            b"\x02\x02\x00",
            SystemRecord(reason="frame version 2 is not known, 1 is"),
        ),
        (
            CLUSTER_METADATA,
            None,
            b"\x01\x4d\x03",
            SystemRecord(type_id=77, version=3, reason="record type 77 is not known"),
        ),
        (
            CLUSTER_METADATA,
            None,
            b"\x01\x14\x00\x00more",
            SystemRecord(
                type_id=20,
                version=0,
                type="NoOpRecord",
                value={},
                reason="4 bytes stand after the last field",
            ),
        ),
        (
            CLUSTER_METADATA,
            None,
            b"\x01\xff\xff\xff\xff\x0f\x00",
            SystemRecord(reason="record type 4294967295 of version 0 is above int16"),
        ),
    ],
)
def test_what_cannot_be_read_says_why(
    topic: str, key: bytes | None, value: bytes | None, expected: SystemRecord
) -> None:
    assert read_system_record(topic, key, value) == expected


def test_a_tombstone_has_its_key_alone() -> None:
    key = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x07"
    assert read_system_record(CONSUMER_OFFSETS, key, None) == SystemRecord(
        type_id=1, type="OffsetCommit", key={"group": "g", "topic": "t", "partition": 7}
    )


def test_an_array_longer_than_its_bytes_makes_no_list() -> None:
    value = b"\x01\x03\x02" + bytes(20) + b"\xff\xff\xff\xff\x0f"
    found = read_system_record(CLUSTER_METADATA, None, value)
    assert found.reason is not None
    assert "an array of 4294967294 elements in 0 bytes" in found.reason


def group_of_consumers(subscription: bytes) -> bytes:
    """Write a group of one member, in version 3."""

    def text(data: bytes) -> bytes:
        return len(data).to_bytes(2, "big") + data

    def sized(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    member = text(b"m") + b"\xff\xff" + text(b"c") + text(b"/h") + bytes(8)
    front = b"\x00\x03" + text(b"consumer") + bytes(4) + text(b"range") + text(b"m") + bytes(8)
    return front + (1).to_bytes(4, "big") + member + sized(subscription) + sized(b"\x00")


def test_what_consumers_subscribe_to_is_read_in_later_versions_too() -> None:
    topics = b"\x00\x00\x00\x01\x00\x01t"
    rest = b"\xff\xff\xff\xff" + bytes(4) + b"\xff\xff\xff\xff" + b"\xff\xff"
    key = b"\x00\x02\x00\x01g"
    for version in (0, 3, 7):
        data = version.to_bytes(2, "big") + topics + (rest if version else rest[:4])
        found = read_system_record(CONSUMER_OFFSETS, key, group_of_consumers(data))
        assert found.value is not None
        assert found.value["members"][0]["subscription"]["topics"] == ["t"]
        assert found.value["members"][0]["assignment"] == b"\x00"


@pytest.mark.parametrize("type_id", [it for it in ControlRecordType if it > 1])
def test_the_content_of_control_records_is_their_message(type_id: ControlRecordType) -> None:
    with pytest.raises(MessageError):
        read_control_content(type_id, b"")
    assert read_control_content(ControlRecordType.COMMIT, b"") is None


def test_the_content_of_a_leader_change() -> None:
    voter = (5).to_bytes(4, "big") + b"\x00"
    value = b"\x00\x00" + (5).to_bytes(4, "big") + b"\x02" + voter + b"\x01" + b"\x00"
    assert read_control_content(ControlRecordType.LEADER_CHANGE, value) == {
        "version": 0,
        "leaderId": 5,
        "voters": [{"voterId": 5}],
        "grantingVoters": [],
    }
