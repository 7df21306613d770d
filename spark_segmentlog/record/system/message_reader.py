"""Reads a message of Kafka's wire format by its schema.

Numbers are big-endian. A string, bytes or an array begins with its length: int16, int32 and int32,
or in a flexible version its length plus one as an unsigned varint. Null is -1, or 0 in a flexible
version; a struct that may be null begins with a byte, 1 where it is not (null is -1, or 0 among
tagged fields). A flexible version ends each struct with tagged fields: how many, then tag, size and
bytes of each.

Every read is bounded by the bytes that are there, and an array by what is left of them.

https://kafka.apache.org/protocol#protocol_types
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from spark_segmentlog.record.plain.varint import read_unsigned_varint
from spark_segmentlog.record.system.schemas import FieldSchema, VersionRange, message_schemas

UNKNOWN_TAGGED_FIELDS: Final = "unknownTaggedFields"

_NUMBERS: Final = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
_UUID_BYTES: Final = 16


class MessageError(ValueError):
    """Bytes that are not the message they should be; turned into a row or an error above."""


class ByteCursor:
    """Bytes, and how far they have been read; nothing is read beyond their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def left(self) -> int:
        """How many bytes are still to be read."""
        return len(self._data) - self.position

    def read(self, length: int) -> bytes:
        """Read some bytes.

        Raises
        ------
        MessageError
            There are fewer.
        """
        start = self._advance(length)
        return self._data[start : self.position]

    def number(self, layout: struct.Struct) -> Any:
        """Read a number of a fixed width."""
        return layout.unpack_from(self._data, self._advance(layout.size))[0]

    def _advance(self, length: int) -> int:
        """Step over some bytes; gives where they start."""
        start, end = self.position, self.position + length
        if length < 0 or end > len(self._data):
            raise MessageError(f"{length} bytes are needed at byte {start} of {len(self._data)}")
        self.position = end
        return start

    def unsigned_varint(self) -> int:
        """Read a number of up to 32 bits in its short form."""
        try:
            value, self.position = read_unsigned_varint(self._data, self.position, len(self._data))
        except ValueError as error:
            raise MessageError(f"{error} (byte {self.position} of {len(self._data)})") from error
        return value

    def int16(self) -> int:
        """Read the number that stands before most messages: a type, or a version."""
        return int(self.number(_NUMBERS["int16"]))


Reader = Callable[[ByteCursor], Any]


def read_message(name: str, version: int, cursor: ByteCursor) -> dict[str, Any]:
    """Read a message, and leave the cursor after it.

    Returns
    -------
    dict
        By the names of Kafka's JSON: numbers, texts, bytes, None, lists, dicts; uuids in Kafka's
        base64. Tagged fields only where they are there; unknown ones as a list of tag and data
        under ``unknownTaggedFields``.

    Raises
    ------
    MessageError
        The bytes are not such a message, or the version is not known.
    """
    read = _message_reader(name, version)
    try:
        found: dict[str, Any] = read(cursor)
    except MessageError as error:
        raise MessageError(f"no {name} of version {version}: {error}") from error
    return found


@cache
def _message_reader(name: str, version: int) -> Reader:
    schema = message_schemas()[name]
    if version not in schema.versions:
        raise MessageError(
            f"version {version} of {name} is not known, version {schema.versions} is"
        )
    return _struct_reader(schema.fields, version, schema.flexible)


def _struct_reader(fields: Sequence[FieldSchema], version: int, flexible: VersionRange) -> Reader:
    present = [field for field in fields if version in field.versions]
    readers = {field.name: _field_reader(field, version, flexible) for field in present}
    tagged = {field.tag: field.name for field in present if field.tag is not None}
    in_order = [(field.name, readers[field.name]) for field in present if field.tag is None]

    def read(cursor: ByteCursor) -> dict[str, Any]:
        return {name: read_field(cursor) for name, read_field in in_order}

    def read_flexible(cursor: ByteCursor) -> dict[str, Any]:
        values = read(cursor)
        found, unknown = _read_tagged(cursor, tagged, readers)
        if found:
            values |= found
            values = {name: values[name] for name in readers if name in values}
        return {**values, UNKNOWN_TAGGED_FIELDS: unknown} if unknown else values

    return read_flexible if version in flexible else read


def read_tagged_fields(cursor: ByteCursor) -> list[tuple[int, bytes]]:
    """Read the section of tagged fields: the tag and the bytes of each.

    Raises
    ------
    MessageError
        The bytes end before.
    """
    return [
        (cursor.unsigned_varint(), cursor.read(cursor.unsigned_varint()))
        for _ in range(cursor.unsigned_varint())
    ]


def read_compact_text(cursor: ByteCursor) -> str:
    """Read a text of a flexible version.

    Raises
    ------
    MessageError
        It is null, cut off, or not UTF-8.
    """
    return _read_text(cursor, cursor.unsigned_varint() - 1)


def _read_tagged(
    cursor: ByteCursor, names: Mapping[int, str], readers: Mapping[str, Reader]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found: dict[str, Any] = {}
    unknown: list[dict[str, Any]] = []
    for tag, data in read_tagged_fields(cursor):
        if tag not in names:
            unknown.append({"tag": tag, "data": data})
            continue
        inner = ByteCursor(data)
        found[names[tag]] = readers[names[tag]](inner)
        if inner.left:
            raise MessageError(f"{inner.left} of {len(data)} bytes of {names[tag]} are too many")
    return found, unknown


def _field_reader(field: FieldSchema, version: int, flexible: VersionRange) -> Reader:
    is_flexible, is_nullable = version in flexible, version in field.nullable
    if field.is_array:
        element = _element_reader(field, version, flexible, is_nullable=False)
        return _sized(field, "int32", is_flexible, is_nullable, _array_reader(element))
    return _element_reader(field, version, flexible, is_nullable=is_nullable)


def _element_reader(
    field: FieldSchema, version: int, flexible: VersionRange, *, is_nullable: bool
) -> Reader:
    is_flexible = version in flexible
    match field.element_type:
        case "string":
            return _sized(field, "int16", is_flexible, is_nullable, _read_text)
        case "bytes":
            return _sized(field, "int32", is_flexible, is_nullable, ByteCursor.read)
        case "uuid":
            return _read_uuid
        case number if number in _NUMBERS:
            layout = _NUMBERS[number]
            return lambda cursor: cursor.number(layout)
    read = _struct_reader(field.fields, version, flexible)
    if not is_nullable:
        return read
    return lambda cursor: read(cursor) if cursor.number(_NUMBERS["int8"]) > 0 else None


def _sized(
    field: FieldSchema,
    length_type: str,
    is_flexible: bool,
    is_nullable: bool,
    read: Callable[[ByteCursor, int], Any],
) -> Reader:
    """Read a length, then what is so long; None for null."""
    layout = _NUMBERS[length_type]

    def read_sized(cursor: ByteCursor) -> Any:
        length = cursor.unsigned_varint() - 1 if is_flexible else cursor.number(layout)
        if length >= 0:
            return read(cursor, length)
        if length < -1 or not is_nullable:
            raise MessageError(f"{field.name} has the length {length} (byte {cursor.position})")
        return None

    return read_sized


def _array_reader(element: Reader) -> Callable[[ByteCursor, int], list[Any]]:
    def read(cursor: ByteCursor, count: int) -> list[Any]:
        if count > cursor.left:
            raise MessageError(f"an array of {count} elements in {cursor.left} bytes")
        return [element(cursor) for _ in range(count)]

    return read


def _read_text(cursor: ByteCursor, length: int) -> str:
    try:
        return cursor.read(length).decode()
    except UnicodeDecodeError as error:
        raise MessageError(f"a text that is not UTF-8: {error}") from error


def _read_uuid(cursor: ByteCursor) -> str:
    return base64.urlsafe_b64encode(cursor.read(_UUID_BYTES)).rstrip(b"=").decode()
