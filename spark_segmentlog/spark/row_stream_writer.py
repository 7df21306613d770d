"""The stream's sink of Spark 4.0, which hands rows to tasks: they become Arrow batches here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import DataType, Row, StructType, TimestampType

from spark_segmentlog.spark.versions import to_arrow_schema
from spark_segmentlog.spark.writer import SegmentLogStreamWriter

ROWS_OF_A_BATCH: Final = 10_000


class RowStreamWriter(SegmentLogStreamWriter):
    """Writes the rows of micro-batches; see its base."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return self.stage(to_arrow_batches(iterator, self._schema))


def to_arrow_batches(rows: Iterable[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Put rows together to Arrow batches of `ROWS_OF_A_BATCH` at most."""
    arrow_schema = to_arrow_schema(schema)
    iterator = iter(rows)
    while chunk := list(islice(iterator, ROWS_OF_A_BATCH)):
        columns = [
            _to_array([row[index] for row in chunk], field.dataType, arrow_schema.types[index])
            for index, field in enumerate(schema.fields)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema)


def _to_array(values: list[Any], data_type: DataType, arrow_type: pa.DataType) -> pa.Array:
    if isinstance(data_type, TimestampType):
        # Spark hands out local times without a zone; as integers they are points in time again.
        micros = [None if value is None else data_type.toInternal(value) for value in values]
        return pa.array(micros, pa.int64()).cast(arrow_type)
    return pa.array([_plain(value) for value in values], arrow_type)


def _plain(value: Any) -> Any:
    """Turn the rows inside of a column into what Arrow takes."""
    if isinstance(value, Row):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return bytes(value) if isinstance(value, bytearray) else value
