"""What the control records of KRaft hold, as Kafka's own JSON has it.

Each value is a message of Kafka's flexible wire format: fixed-width numbers, compact arrays and
strings (their length plus one as an unsigned varint) and tagged fields behind each struct. Its
first field is its own version. Schemas: LeaderChangeMessage, SnapshotHeaderRecord,
SnapshotFooterRecord, KRaftVersionRecord and VotersRecord of Kafka's clients.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any, Final

from spark_segmentlog.record.plain.control import ControlRecordType

MAX_ARRAY_LENGTH: Final = 10_000


class _Reader:
    """Takes fields off the front of a value; ValueError where it is too short."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def number(self, kind: str) -> int:
        layout = struct.Struct(f">{kind}")
        return int(layout.unpack(self._take(layout.size))[0])

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self._take(16)).rstrip(b"=").decode()

    def text(self) -> str:
        return self._take(self._unsigned() - 1).decode("utf-8", "replace")

    def array(self, read: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
        count = self._unsigned() - 1
        if not 0 <= count <= MAX_ARRAY_LENGTH:
            raise ValueError(f"array of {count} elements")
        return [read() for _ in range(count)]

    def skip_tags(self) -> None:
        for _ in range(self._unsigned()):
            self._unsigned()
            self._take(self._unsigned())

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("varint of more than 5 bytes")

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise ValueError(f"{length} bytes at byte {self._position} of {len(self._data)}")
        taken = self._data[self._position : end]
        self._position = end
        return taken


def kraft_content(type_id: int, value: bytes | None) -> dict[str, Any] | None:
    """Parse the value of a KRaft control record; None for a type that is none of them.

    Raises
    ------
    ValueError
        The value is shorter than its fields say.
    """
    read = _READERS.get(type_id)
    if read is None:
        return None
    reader = _Reader(value or b"")
    version = reader.number("h")
    return {"version": version, **read(reader, version)}


def _leader_change(reader: _Reader, version: int) -> dict[str, Any]:
    def voter() -> dict[str, Any]:
        fields: dict[str, Any] = {"voterId": reader.number("i")}
        if version >= 1:
            fields["voterDirectoryId"] = reader.uuid()
        reader.skip_tags()
        return fields

    return {
        "leaderId": reader.number("i"),
        "voters": reader.array(voter),
        "grantingVoters": reader.array(voter),
    }


def _voters(reader: _Reader, version: int) -> dict[str, Any]:
    def endpoint() -> dict[str, Any]:
        fields = {"name": reader.text(), "host": reader.text(), "port": reader.number("H")}
        reader.skip_tags()
        return fields

    def feature() -> dict[str, Any]:
        fields = {
            "minSupportedVersion": reader.number("h"),
            "maxSupportedVersion": reader.number("h"),
        }
        reader.skip_tags()
        return fields

    def voter() -> dict[str, Any]:
        fields = {
            "voterId": reader.number("i"),
            "voterDirectoryId": reader.uuid(),
            "endpoints": reader.array(endpoint),
            "kRaftVersionFeature": feature(),
        }
        reader.skip_tags()
        return fields

    return {"voters": reader.array(voter)}


_READERS: Final[dict[int, Callable[[_Reader, int], dict[str, Any]]]] = {
    ControlRecordType.LEADER_CHANGE: _leader_change,
    ControlRecordType.SNAPSHOT_HEADER: lambda reader, version: {
        "lastContainedLogTimestamp": reader.number("q")
    },
    ControlRecordType.SNAPSHOT_FOOTER: lambda reader, version: {},
    ControlRecordType.KRAFT_VERSION: lambda reader, version: {"kRaftVersion": reader.number("h")},
    ControlRecordType.KRAFT_VOTERS: _voters,
}
