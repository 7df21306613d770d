"""A Python sink without work: what Spark's Python API can do at best with rows to write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


@dataclass
class RowsThrownAway(WriterCommitMessage):
    """How many rows a task has seen."""

    rows_count: int


class DiscardingSink(DataSource):
    """``format("discarding")`` takes Arrow batches and drops them."""

    @classmethod
    def name(cls) -> str:
        return "discarding"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return DiscardingWriter()


class DiscardingWriter(DataSourceArrowWriter):
    """Counts rows."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return RowsThrownAway(sum(arrow_batch.num_rows for arrow_batch in iterator))
