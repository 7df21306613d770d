"""Columns of a DataFrame that is written: which there are, and which of their types can be written.

Names match without case, as Spark's do. What a read gives can be written as it is, so `offset` and
`timestampType` may be there and are ignored; any other column is refused, since its values would be
lost without a word. All of this is known when the query is planned.
"""

from __future__ import annotations

import difflib
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_segmentlog.errors import SchemaError
from spark_segmentlog.query.write_columns import ENCODED, WriteColumns

IGNORED: Final = ("offset", "timestamptype")

_TEXT: Final = (StringType,)
_TEXT_OR_BYTES: Final = (StringType, BinaryType)
_PLAIN_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": _TEXT,
    "partition": (IntegerType,),
    "timestamp": (TimestampType,),
}
_ALLOWED: Final = {
    "key": "STRING and BINARY",
    "value": "STRING and BINARY",
    "topic": "STRING",
    "partition": "INT",
    "timestamp": "TIMESTAMP",
    "headers": "ARRAY<STRUCT<key STRING, value BINARY>>",
}
_KNOWN: Final = (*_ALLOWED, "offset", "timestampType")


def find_write_columns(schema: StructType, *, topic: str | None) -> WriteColumns:
    """Find the columns of a frame that is to be written.

    Parameters
    ----------
    topic : str or None
        Topic of every row, by option; a column of that name means nothing then.

    Raises
    ------
    SchemaError
        A column that is not known, named twice, of another type, or missing.
    """
    indexes: dict[str, int] = {}
    for index, field in enumerate(schema):
        name = field.name.lower()
        if name in indexes:
            raise SchemaError(f"column '{field.name}' is there more than once")
        if name not in _ALLOWED and name not in IGNORED:
            raise SchemaError(_unknown_text(field.name))
        indexes[name] = index
        _check_type(field.name, field.dataType)
    if "value" not in indexes:
        raise SchemaError("Required attribute 'value' not found: no column of that name.")
    if topic is None and "topic" not in indexes:
        raise SchemaError(
            "topic option required when no 'topic' attribute is present. Use the topic option for "
            "setting a topic."
        )
    return WriteColumns(
        encoded=tuple((name, indexes[name]) for name in ENCODED if name in indexes),
        topic=indexes.get("topic") if topic is None else None,
        partition=indexes.get("partition"),
    )


def _check_type(column: str, data_type: DataType) -> None:
    name = column.lower()
    if name in IGNORED:
        return
    if name == "headers":
        is_legal = _is_headers_type(data_type)
    else:
        is_legal = isinstance(data_type, _PLAIN_TYPES[name])
    if not is_legal:
        hint = ""
        if isinstance(data_type, TimestampNTZType):
            hint = ": a time without zone is no point in time; cast it to TIMESTAMP"
        raise SchemaError(
            f"column '{column}' is {data_type.simpleString().upper()}, allowed is "
            f"{_ALLOWED[name]}{hint}"
        )


def _is_headers_type(data_type: DataType) -> bool:
    if not isinstance(data_type, ArrayType) or not isinstance(data_type.elementType, StructType):
        return False
    fields = data_type.elementType.fields
    return (
        [field.name.lower() for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, _TEXT)
        and isinstance(fields[1].dataType, _TEXT_OR_BYTES)
    )


def _unknown_text(column: str) -> str:
    by_key = {name.lower(): name for name in _KNOWN}
    nearest = difflib.get_close_matches(column.lower(), by_key, n=1, cutoff=0.0)
    return (
        f"no column '{column}' can be written; the nearest one is '{by_key[nearest[0]]}', known "
        f"are {', '.join(_KNOWN)}"
    )
