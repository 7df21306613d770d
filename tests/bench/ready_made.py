"""A Python data source without work: what Spark's Python API can do at best.

It yields the columns of the row schema from Arrow batches made once a worker, so that what is left
is Spark's own cost of a row. With no rows it is the query that reads nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_segmentlog.record.read.decoder import ARROW_BATCH_ROWS
from tests.bench.log_files import FIRST_TIMESTAMP_MS, KEY_BYTES, VALUE_BYTES

ROW_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)


@dataclass
class RowsPartition(InputPartition):
    """How many rows one task yields."""

    rows_count: int


class ReadyMadeSource(DataSource):
    """``format("readymade")`` with options ``rows``, ``partitions`` and ``valueBytes``."""

    @classmethod
    def name(cls) -> str:
        return "readymade"

    def schema(self) -> str:
        return ROW_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        rows = int(self.options["rows"])
        value_bytes = int(self.options.get("valueBytes", VALUE_BYTES))
        return ReadyMadeReader(
            schema.json(), rows, int(self.options["partitions"]), value_bytes=value_bytes
        )


class SharedReadyMadeSource(ReadyMadeSource):
    """``format("readymade-shared")``, in the workers that the library has run in."""

    @classmethod
    def name(cls) -> str:
        return "readymade-shared"


class ReadyMadeReader(DataSourceReader):
    """Yields the same Arrow batch until the rows are out."""

    def __init__(
        self,
        schema_json: str,
        rows_count: int,
        partitions_count: int,
        *,
        value_bytes: int = VALUE_BYTES,
    ) -> None:
        self._schema_json = schema_json
        self._rows_count = rows_count
        self._partitions_count = partitions_count
        self._value_bytes = value_bytes

    def partitions(self) -> list[InputPartition]:
        share, rest = divmod(self._rows_count, self._partitions_count)
        return [RowsPartition(share + (index < rest)) for index in range(self._partitions_count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowsPartition)
        if not partition.rows_count:
            return
        arrow_batch = ready_made_batch(self._schema_json, self._value_bytes)
        whole, rest = divmod(partition.rows_count, arrow_batch.num_rows)
        for _ in range(whole):
            yield arrow_batch
        if rest:
            yield arrow_batch.slice(0, rest)


@cache
def ready_made_batch(schema_json: str, value_bytes: int = VALUE_BYTES) -> pa.RecordBatch:
    """Make the one Arrow batch that a worker yields, of fewer rows where values are larger."""
    schema = to_arrow_schema(StructType.fromJson(json.loads(schema_json)), timezone="UTC")
    draw = random.Random(7)
    rows = range(ARROW_BATCH_ROWS * VALUE_BYTES // value_bytes)
    columns: dict[str, Callable[[], list[Any]]] = {
        "key": lambda: [draw.randbytes(KEY_BYTES) for _ in rows],
        "value": lambda: [draw.randbytes(value_bytes) for _ in rows],
        "topic": lambda: ["bench"] * len(rows),
        "partition": lambda: [0] * len(rows),
        "offset": lambda: list(rows),
        "timestamp": lambda: [(FIRST_TIMESTAMP_MS + row) * 1000 for row in rows],
        "timestampType": lambda: [0] * len(rows),
    }
    arrays = [pa.array(columns[field.name](), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
