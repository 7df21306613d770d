"""``format("segmentlog")``: Kafka's log directories as a Spark data source."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_segmentlog.errors import OptionValueError, SegmentLogError
from spark_segmentlog.query.options import parse_read_options, warn_ignored
from spark_segmentlog.query.read_options import ReadOptions
from spark_segmentlog.spark.worker_heap import freeze_worker_heap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_segmentlog.query.split_reader import ReadRequest

FORMAT = "segmentlog"

_NO_TABLES = (
    "segmentlog is no format of catalog tables, since Spark keeps their options from every Python "
    "source: use CREATE TEMPORARY VIEW v USING segmentlog OPTIONS (path '/data/kafka-logs')"
)

# Whatever needs Arrow or a compiler is imported where it is used: Spark imports this module to look
# for sources, and one that fails then, or is slow, is everybody's trouble.


class SegmentLogDataSource(DataSource):
    """Spark's way in; found as ``format("segmentlog")`` once the package is installed."""

    @classmethod
    def name(cls) -> str:
        """Name the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the schema of the rows that the options ask for; reads nothing."""
        from spark_segmentlog.query.schema import default_schema

        if {"owner", "provider"} <= {key.lower() for key in self.options}:
            raise OptionValueError(_NO_TABLES)
        schema = default_schema(self._schema_options())
        return from_arrow_schema(schema, prefer_timestamp_ntz=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch query."""
        from spark_segmentlog.spark.batch_reader import PushdownReader, SegmentLogReader
        from spark_segmentlog.spark.pushdown import may_push_filters, warn_unless_pushed

        options = self._read_options()
        request = _request(options, schema)
        warn_ignored(options)
        warn_unless_pushed(options)
        freeze_worker_heap("plan")
        return PushdownReader(request) if may_push_filters(options) else SegmentLogReader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Make the reader of a stream."""
        from spark_segmentlog.spark.stream_reader import make_stream_reader

        return make_stream_reader(_request(self._read_options(streaming=True), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of a batch."""
        from spark_segmentlog.spark.writer import SegmentLogWriter

        writer = SegmentLogWriter(self.options, schema, overwrite=overwrite)
        freeze_worker_heap("plan")
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Make the writer of micro-batches; complete mode, which sets `overwrite`, appends too."""
        from spark_segmentlog.spark.writer import make_stream_writer

        return make_stream_writer(self.options, schema)

    def _schema_options(self) -> ReadOptions:
        """Parse the options for whichever of a batch and a stream they are of.

        Spark does not tell which; the reader that it makes later does not let the other's pass.
        """
        try:
            return self._read_options()
        except SegmentLogError:
            with suppress(SegmentLogError):
                return self._read_options(streaming=True)
            raise

    def _read_options(self, *, streaming: bool = False) -> ReadOptions:
        if not self.options:
            raise OptionValueError(f"no path is given; {_NO_TABLES}")
        return parse_read_options(self.options, streaming=streaming)


def _request(options: ReadOptions, schema: StructType) -> ReadRequest:
    from spark_segmentlog.query.schema import shape_rows
    from spark_segmentlog.query.split_reader import ReadRequest
    from spark_segmentlog.spark.versions import to_arrow_schema

    shape = shape_rows(to_arrow_schema(schema), options)
    return ReadRequest(options=options, shape=shape)


def register(spark: SparkSession) -> None:
    """Make ``format("segmentlog")`` known to a session by hand.

    Needed only where Spark does not find installed sources, for example because another package
    named ``pyspark_*`` fails when it is imported.
    """
    spark.dataSource.register(SegmentLogDataSource)
