"""The stream's sink of Spark 4.1 and later, which hands Arrow batches to tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_segmentlog.spark.writer import SegmentLogStreamWriter


class ArrowStreamWriter(SegmentLogStreamWriter, DataSourceStreamArrowWriter):
    """Writes the Arrow batches of micro-batches; see its base."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return self.stage(iterator)
