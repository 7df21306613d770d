"""A Python stream source without work: the floor of what a micro-batch costs in Spark's API.

How many rows there are is the size of a file, so that a writer commits by adding bytes to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tests.bench.ready_made import ROW_SCHEMA, ready_made_batch


@dataclass
class TickedRange(InputPartition):
    """Offsets of one micro-batch, the end exclusive."""

    start: int
    end: int


class TickingSource(DataSource):
    """``format("ticking")`` with option ``counter``, the path of the file."""

    @classmethod
    def name(cls) -> str:
        return "ticking"

    def schema(self) -> str:
        return ROW_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return TickingReader(self.options["counter"], schema.json())


class TickingReader(DataSourceStreamReader):
    """Serves as many rows as the counter file has bytes."""

    def __init__(self, counter: str, schema_json: str) -> None:
        self._counter = counter
        self._schema_json = schema_json

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def latestOffset(  # noqa: N802
        self, start: dict[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        return {"rows": os.stat(self._counter).st_size}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [TickedRange(start["rows"], end["rows"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TickedRange)
        rows_count = partition.end - partition.start
        arrow_batch = ready_made_batch(self._schema_json).slice(0, rows_count)
        columns = dict(zip(arrow_batch.schema.names, arrow_batch.columns, strict=True))
        columns["offset"] = pa.array(range(partition.start, partition.end), pa.int64())
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=arrow_batch.schema)
