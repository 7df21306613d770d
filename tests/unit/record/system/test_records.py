"""Records of Kafka's own topics: bytes of Kafka's classes are read as its converters say."""

from __future__ import annotations

import pytest

from spark_segmentlog.record.plain.control import ControlRecordType
from spark_segmentlog.record.system.message_reader import MessageError
from spark_segmentlog.record.system.records import (
    SystemRecord,
    read_control_content,
    read_system_record,
    record_types,
)
from spark_segmentlog.record.system.topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    INTERNAL_TOPICS,
    TRANSACTION_STATE,
)
from tests.support.kafka_messages import messages_of_kafka, wrap


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


@pytest.mark.parametrize("type_id", [type_id for type_id in ControlRecordType if type_id > 1])
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
