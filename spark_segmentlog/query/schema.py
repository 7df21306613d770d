"""Schemas of rows, in Arrow's terms, and how decoded columns become them.

Spark takes an Arrow batch only if its schema equals the one that Spark makes of the DataFrame's,
nullability and nested fields included. So a user's schema (a subset of the columns in any order,
NOT NULL or not) is turned into names to decode and a target that every batch is given.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_segmentlog.errors import SchemaError
from spark_segmentlog.query.read_options import ReadOptions, View
from spark_segmentlog.record.columns import COLUMNS

CORRUPT_RECORD: Final = "_corrupt_record"
CORRUPT_RECORD_TYPE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("position", pa.int64()),
        ("length", pa.int64()),
        ("reason", pa.string()),
        ("startOffset", pa.int64()),
        ("endOffset", pa.int64()),
    ]
)
# A schema may ask for the bytes alone, without the offsets that are missing for them.
CORRUPT_BYTES_TYPE: Final = pa.struct(list(CORRUPT_RECORD_TYPE)[:4])

HEADERS: Final = "headers"

_SQL_NAMES: Final = {
    pa.binary(): "BINARY",
    pa.string(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    CORRUPT_RECORD_TYPE: "STRUCT<path STRING, position BIGINT, length BIGINT, reason STRING>",
}


def default_schema(options: ReadOptions) -> pa.Schema:
    """Give the schema of rows where the user named none."""
    if options.view is not View.RECORDS:
        return _view_schema(options.view)
    return pa.schema(
        [
            (column.name, column.type)
            for column in COLUMNS.values()
            if column.is_default or (column.name == HEADERS and options.include_headers)
        ]
    )


def schema_of_columns(columns: Sequence[str], options: ReadOptions) -> pa.Schema:
    """Give the schema of some columns by their names.

    Raises
    ------
    SchemaError
        A column that does not exist, or one that is named twice.
    """
    known = _known_columns(options)
    by_key = {name.lower(): name for name in known}
    fields = []
    for column in columns:
        if column.lower() not in by_key:
            raise SchemaError(_unknown_text(column, by_key))
        fields.append((by_key[column.lower()], known[by_key[column.lower()]]))
    _check_distinct([name for name, _ in fields])
    return pa.schema(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """How decoded columns become rows of a schema; travels to tasks.

    Attributes
    ----------
    columns : tuple of str
        Columns to decode, in the order of the schema, by the names that they have here.
    corrupt_index : int or None
        Where ``_corrupt_record`` stands in the schema.
    """

    schema: pa.Schema
    columns: tuple[str, ...]
    corrupt_index: int | None

    def fit(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """Give decoded columns the names, nullability and nested types of the schema.

        Raises
        ------
        SchemaError
            A null in a column that the schema says has none.
        """
        if decoded.schema.equals(self.schema):
            return decoded
        arrays = decoded.columns
        if self.corrupt_index is not None:
            nothing = pa.nulls(decoded.num_rows, CORRUPT_RECORD_TYPE)
            arrays.insert(self.corrupt_index, nothing)
        if not arrays:
            return decoded
        fitted = [_fit(array, field) for array, field in zip(arrays, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(fitted, schema=self.schema)

    def corrupt_rows(self, corrupt: list[dict[str, Any]]) -> pa.RecordBatch:
        """Make rows of bad bytes, with nulls in every column of data."""
        return pa.RecordBatch.from_arrays(
            [
                _fit(pa.array(corrupt, field.type), field)
                if index == self.corrupt_index
                else _fit(pa.nulls(len(corrupt), field.type), field)
                for index, field in enumerate(self.schema)
            ],
            schema=self.schema,
        )


def shape_rows(schema: pa.Schema, options: ReadOptions) -> RowShape:
    """Compare a schema with the columns there are.

    Raises
    ------
    SchemaError
        A column that does not exist, is named twice or has another type.
    """
    known = _known_columns(options)
    by_key = {name.lower(): name for name in known}
    columns = []
    corrupt_index = None
    for index, wanted in enumerate(schema):
        name = by_key.get(wanted.name.lower())
        if name is None:
            raise SchemaError(_unknown_text(wanted.name, by_key))
        is_bytes_alone = name == CORRUPT_RECORD and _is_same_type(wanted.type, CORRUPT_BYTES_TYPE)
        if not _is_same_type(wanted.type, known[name]) and not is_bytes_alone:
            raise SchemaError(
                f"column '{wanted.name}' is asked for as {sql_name(wanted.type)}, it is "
                f"{sql_name(known[name])}"
            )
        if name == CORRUPT_RECORD:
            corrupt_index = index
        else:
            columns.append(name)
    _check_distinct([field.name for field in schema])
    return RowShape(schema=schema, columns=tuple(columns), corrupt_index=corrupt_index)


def _view_schema(view: View) -> pa.Schema:
    # Here: these load the compiled kernels, for which whoever asks for records' columns would wait.
    from spark_segmentlog.query.system_columns import SYSTEM_SCHEMAS
    from spark_segmentlog.query.view_columns import VIEW_COLUMNS, schema_of

    return schema_of(view) if view in VIEW_COLUMNS else SYSTEM_SCHEMAS[view]


def _known_columns(options: ReadOptions) -> dict[str, pa.DataType]:
    if options.view is not View.RECORDS:
        return {field.name: field.type for field in _view_schema(options.view)}
    types = {column.name: column.type for column in COLUMNS.values()}
    return {**types, CORRUPT_RECORD: CORRUPT_RECORD_TYPE}


def _fit(array: Any, wanted: pa.Field) -> Any:
    if not wanted.nullable and array.null_count:
        raise SchemaError(
            f"column '{wanted.name}' is asked for as NOT NULL, but {array.null_count} of "
            f"{len(array)} rows have no value in it"
        )
    return array if array.type.equals(wanted.type) else array.cast(wanted.type)


def _is_same_type(left: pa.DataType, right: pa.DataType) -> bool:
    """Compare types, but not whether their nested fields may be null."""
    if pa.types.is_list(left) and pa.types.is_list(right):
        return _is_same_type(left.value_type, right.value_type)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        pairs = list(zip(left, right, strict=False))
        return left.num_fields == right.num_fields and all(
            one.name == other.name and _is_same_type(one.type, other.type) for one, other in pairs
        )
    return bool(left.equals(right))


def _check_distinct(names: list[str]) -> None:
    keys = [name.lower() for name in names]
    twice = sorted({name for name in names if keys.count(name.lower()) > 1})
    if twice:
        raise SchemaError(f"columns are named more than once: {', '.join(twice)}")


def _unknown_text(column: str, by_key: dict[str, str]) -> str:
    nearest = difflib.get_close_matches(column.lower(), by_key, n=1, cutoff=0.0)
    return (
        f"no column '{column}'; the nearest one is '{by_key[nearest[0]]}', there are "
        f"{', '.join(by_key.values())}"
    )


def sql_name(kind: pa.DataType) -> str:
    """Name a type as SQL does."""
    if kind in _SQL_NAMES:
        return _SQL_NAMES[kind]
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name} {sql_name(field.type)}' for field in kind)}>"
    return str(kind)
