"""Records of Kafka's own topics: what the key and value of one say.

The coordinators' topics (``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``)
have a type (int16) and its fields in the key, a version (int16) and its fields in the value; a null
value takes back what its key named. Records of ``__cluster_metadata`` have no key; the value is a
frame version, a type and a version (unsigned varints), then the fields.

A record that cannot be read is no error: it says why, and its bytes are still there.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from spark_segmentlog.record.plain.control import ControlRecordType
from spark_segmentlog.record.system.message_reader import (
    ByteCursor,
    MessageError,
    read_message,
)
from spark_segmentlog.record.system.schemas import message_schemas
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

FRAME_VERSION: Final = 1
_MAX_INT16: Final = 2**15 - 1
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_KEY_OR_VALUE: Final = re.compile("(Key|Value)$")
_CONSUMER: Final = "consumer"
_EMBEDDED: Final = {
    "subscription": "ConsumerProtocolSubscription",
    "assignment": "ConsumerProtocolAssignment",
}
_CONTROL_CONTENTS: Final = {
    ControlRecordType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlRecordType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlRecordType.KRAFT_VOTERS: "VotersRecord",
}

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecord:
    """A record of one of Kafka's own topics, as far as it can be read.

    Attributes
    ----------
    type_id : int or None
        None where not even that can be read.
    type : str or None
        Kafka's name of the type, ``OffsetCommit`` or ``TopicRecord``; None for an unknown one.
    version : int or None
        Of the value; None where there is none.
    key, value : dict or None
        Their fields, by the names of Kafka's JSON. The value of a tombstone is None.
    reason : str or None
        Why something of it cannot be read; None where all of it was.
    """

    type_id: int | None = None
    type: str | None = None
    version: int | None = None
    key: Fields | None = None
    value: Fields | None = None
    reason: str | None = None


def read_system_record(topic: str, key: bytes | None, value: bytes | None) -> SystemRecord:
    """Read a record of one of Kafka's own topics; never an error, whatever the bytes are."""
    if INTERNAL_TOPICS[topic].has_keys:
        return _read_coordinator_record(topic, key, value)
    return _read_metadata(topic, value)


@cache
def record_types(topic: str) -> Mapping[int, str]:
    """Name the record types of one of Kafka's own topics by their ids."""
    has_keys = INTERNAL_TOPICS[topic].has_keys
    return {
        schema.type_id: _KEY_OR_VALUE.sub("", schema.name) if has_keys else schema.name
        for schema in message_schemas().values()
        if schema.topic == topic and schema.type_id is not None
    }


def read_metadata_frame(cursor: ByteCursor) -> tuple[int, int]:
    """Read what a record of the cluster's metadata begins with: its type and its version.

    Raises
    ------
    MessageError
        They are cut off, too large, or stand in a frame of another version.
    """
    frame_version = cursor.unsigned_varint()
    if frame_version != FRAME_VERSION:
        raise MessageError(f"frame version {frame_version} is not known, {FRAME_VERSION} is")
    type_id, version = cursor.unsigned_varint(), cursor.unsigned_varint()
    if max(type_id, version) > _MAX_INT16:
        raise MessageError(f"record type {type_id} of version {version} is above int16")
    return type_id, version


def read_control_content(type_id: int, value: bytes | None) -> Fields | None:
    """Read what a control record of KRaft holds; None for a type that is none of them.

    The version of such a message is its own first field.

    Raises
    ------
    MessageError
        The value is not that message.
    """
    name = _CONTROL_CONTENTS.get(ControlRecordType(type_id))
    if name is None:
        return None
    value = value or b""
    return read_message(name, ByteCursor(value).int16(), ByteCursor(value))


def json_value(value: Any) -> Any:
    """Give fields as Kafka's JSON has them: bytes in base64, numbers that are none as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    if isinstance(value, list):
        return [json_value(element) for element in value]
    if isinstance(value, dict):
        return {name: json_value(element) for name, element in value.items()}
    return value


def _type_name(topic: str, type_id: int) -> str:
    name = record_types(topic).get(type_id)
    if name is None:
        raise MessageError(f"record type {type_id} is not known")
    return name


def _read_metadata(topic: str, value: bytes | None) -> SystemRecord:
    if value is None:
        return SystemRecord(reason="the value is null")
    known: Fields = {}
    cursor = ByteCursor(value)
    try:
        known["type_id"], known["version"] = read_metadata_frame(cursor)
        known["type"] = _type_name(topic, known["type_id"])
        known["value"] = read_message(known["type"], known["version"], cursor)
        if cursor.left:
            known["reason"] = f"{cursor.left} bytes stand after the last field"
    except MessageError as error:
        known["reason"] = str(error)
    return SystemRecord(**known)


def _read_coordinator_record(topic: str, key: bytes | None, value: bytes | None) -> SystemRecord:
    if key is None:
        return SystemRecord(reason="the key is null")
    known: Fields = {}
    cursor = ByteCursor(key)
    try:
        known["type_id"] = cursor.int16()
        known["type"] = _type_name(topic, known["type_id"])
        known["key"] = read_message(f"{known['type']}Key", 0, cursor)
        if value is not None:
            cursor = ByteCursor(value)
            known["version"] = cursor.int16()
            fields = read_message(f"{known['type']}Value", known["version"], cursor)
            known["value"] = _with_consumer_protocol(fields)
    except MessageError as error:
        known["reason"] = str(error)
    return SystemRecord(**known)


def _with_consumer_protocol(fields: Fields) -> Fields:
    """Read what the members of a group of consumers have left in its record, where it is theirs."""
    if fields.get("protocolType") != _CONSUMER:
        return fields
    members = [
        {
            name: _read_embedded(_EMBEDDED[name], value) if name in _EMBEDDED else value
            for name, value in member.items()
        }
        for member in fields["members"]
    ]
    return {**fields, "members": members}


def _read_embedded(name: str, data: bytes) -> Fields | bytes:
    """Read a message that begins with its version; a later one has the fields of the last known.

    What a client wrote there is its own affair: bytes that are none stay bytes.
    """
    cursor = ByteCursor(data)
    try:
        version = min(cursor.int16(), message_schemas()[name].versions.last)
        return read_message(name, version, cursor)
    except MessageError:
        return data
