"""Columns of a row, in one table: name, Arrow type, and where its values come from.

A new one needs an entry here. Where its value is one that the header table lacks, a field of
`kernels.output.Outputs` and the line there that writes it come with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import pyarrow as pa

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


@dataclass(frozen=True, slots=True)
class Constant:
    """The same in every row of a partition: its `topic`, or its number, `partition`."""

    name: str
    outputs: ClassVar = ()


@dataclass(frozen=True, slots=True)
class RecordNumber:
    """A number of the record, in this field of `kernels.output.Outputs`."""

    output: str

    @property
    def outputs(self) -> tuple[str, ...]:
        """The fields of `Outputs` that hold it."""
        return (self.output,)


@dataclass(frozen=True, slots=True)
class RecordBytes(RecordNumber):
    """Bytes of the record, in this field of `kernels.output.Outputs`."""


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """The record's headers."""

    outputs: ClassVar = ("list_starts", "list_valid", "header_keys", "header_values")


@dataclass(frozen=True, slots=True)
class EntryField:
    """A whole number of the batch or message that holds the record, one of `header_fields`."""

    field: int
    outputs: ClassVar = ()


Source: TypeAlias = Constant | RecordNumber | RecordBytes | RecordHeaders | EntryField


@dataclass(frozen=True, slots=True)
class RowColumn:
    """One column.

    Attributes
    ----------
    type : pyarrow.DataType
        What Spark's own mapping gives it; whole numbers for `RecordNumber` and `EntryField`.
    source : Source
        Where its values come from.
    is_default : bool
        Whether a read without a schema has it.
    """

    name: str
    type: pa.DataType
    source: Source
    meaning: str
    is_default: bool = True


COLUMNS: Final = {
    column.name: column
    for column in (
        RowColumn("key", pa.binary(), RecordBytes("key"), "null and empty are two things"),
        RowColumn("value", pa.binary(), RecordBytes("value"), "null is a tombstone"),
        RowColumn("topic", pa.string(), Constant("topic"), "of the folder's name"),
        RowColumn("partition", pa.int32(), Constant("partition"), "of the folder's name"),
        RowColumn("offset", pa.int64(), RecordNumber("offset"), "number in the partition"),
        RowColumn(
            "timestamp",
            pa.timestamp("us", "UTC"),
            RecordNumber("timestamp"),
            "1969-12-31 23:59:59.999 UTC where the record has none",
        ),
        RowColumn(
            "timestampType",
            pa.int32(),
            RecordNumber("timestamp_type"),
            "0 CreateTime, 1 LogAppendTime, -1 none (format 0)",
        ),
        RowColumn(
            "headers",
            HEADERS_TYPE,
            RecordHeaders(),
            "null for a record without; with `includeHeaders`, or in a schema",
            is_default=False,
        ),
    )
}
"""Every column of a row by its name, in the order of a read without a schema."""
