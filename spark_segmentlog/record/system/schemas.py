"""Kafka's message specifications, as one table: every record type of its own topics (4.3.1).

The table is Kafka's own, without what a reader does not need: a line a message, with its id, the
versions there are, those that are flexible, and the fields. A field has a type (``[]`` before it
for an array), the versions that have it, those in which it may be null, the tag of one that stands
among the tagged fields, and the fields of a struct. Versions are ``0+`` where none are named.

Where it comes from: https://kafka.apache.org/protocol#protocol_messages
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

TABLE_NAME: Final = "messages.json"
_EVER: Final = 2**15


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions from `first` to `last`, both inclusive; none where `last` is below."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """A field of a message, or of a struct in it.

    Attributes
    ----------
    element_type : str
        Kafka's word for the type; of the elements, where the field is an array.
    tag : int or None
        None for a field that stands in its order.
    fields : tuple of FieldSchema
        Of a struct; empty for all else.
    """

    name: str
    element_type: str
    is_array: bool
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    fields: tuple[FieldSchema, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSchema:
    """A message: of a topic's records, or one that stands in other bytes (`topic` is None)."""

    topic: str | None
    type_id: int | None
    name: str
    versions: VersionRange
    flexible: VersionRange
    fields: tuple[FieldSchema, ...]


@cache
def message_schemas() -> Mapping[str, MessageSchema]:
    """Read the table: messages by their names."""
    text = (resources.files(__package__) / TABLE_NAME).read_text("ascii")
    return {row["name"]: _message(row) for row in json.loads(text)}


def _message(row: Mapping[str, Any]) -> MessageSchema:
    return MessageSchema(
        topic=row.get("topic"),
        type_id=row.get("id"),
        name=row["name"],
        versions=_versions(row["versions"]),
        flexible=_versions(row["flexible"]),
        fields=tuple(map(_field, row["fields"])),
    )


def _field(row: Mapping[str, Any]) -> FieldSchema:
    return FieldSchema(
        name=row["name"],
        element_type=row["type"].removeprefix("[]"),
        is_array=row["type"].startswith("[]"),
        versions=_versions(row.get("versions", "0+")),
        nullable=_versions(row.get("nullable", "none")),
        tag=row.get("tag"),
        fields=tuple(map(_field, row.get("fields", ()))),
    )


def _versions(text: str) -> VersionRange:
    """Parse ``2``, ``0-4``, ``3+`` or ``none``."""
    if text == "none":
        return VersionRange(0, -1)
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), _EVER)
    first, _, last = text.partition("-")
    return VersionRange(int(first), int(last or first))
