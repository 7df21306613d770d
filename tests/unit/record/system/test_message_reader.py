"""Bytes of messages by their schemas, and bytes that are none."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from spark_segmentlog.record.system.message_reader import ByteCursor, MessageError, read_message
from spark_segmentlog.record.system.records import (
    json_value,
    read_system_record,
)
from spark_segmentlog.record.system.schemas import message_schemas
from spark_segmentlog.record.system.topics import (
    CLUSTER_METADATA,
)
from tests.support.kafka_messages import messages_of_kafka, wrap


def without_unknown(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: field for name, field in value.items() if name != "unknownTaggedFields"}
        return {name: without_unknown(field) for name, field in kept.items()}
    return [without_unknown(item) for item in value] if isinstance(value, list) else value


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
        assert [field["tag"] for field in unknown] == ([9000] if row["isExtended"] else [])
        assert all(isinstance(field["data"], bytes) for field in unknown)


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
            part = draw.choice([part for part in damaged if part])
            for _ in range(draw.randint(1, 3)):
                part[draw.randrange(len(part))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
            key, value = (None if part is None else bytes(part) for part in damaged)
            found = read_system_record(topic, key, value)
            json.dumps([json_value(found.key), json_value(found.value)])
            assert (found.reason is None) or isinstance(found.reason, str)


def test_an_array_longer_than_its_bytes_makes_no_list() -> None:
    value = b"\x01\x03\x02" + bytes(20) + b"\xff\xff\xff\xff\x0f"
    found = read_system_record(CLUSTER_METADATA, None, value)
    assert found.reason is not None
    assert "an array of 4294967294 elements in 0 bytes" in found.reason
