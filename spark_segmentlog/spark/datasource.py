"""``format("segmentlog")``: Kafka's log directories as a Spark data source."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from spark_segmentlog.errors import OptionValueError, SegmentLogError
from spark_segmentlog.spark.options import ReadOptions, parse_read_options, warn_ignored
from spark_segmentlog.spark.schema import default_schema, shape_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "segmentlog"


class SegmentLogDataSource(DataSource):
    """Spark's way in; found as ``format("segmentlog")`` once the package is installed."""

    @classmethod
    def name(cls) -> str:
        """Name the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the schema of the rows that the options ask for; reads nothing."""
        schema = default_schema(self._schema_options())
        return from_arrow_schema(schema, prefer_timestamp_ntz=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch query."""
        from spark_segmentlog.spark.batch_reader import PushdownReader, SegmentLogReader
        from spark_segmentlog.spark.pushdown import narrows
        from spark_segmentlog.spark.read_plan import ReadRequest

        options = self._read_options()
        shape = shape_rows(to_arrow_schema(schema, timezone="UTC"), options)
        warn_ignored(options)
        request = ReadRequest(options=options, shape=shape)
        return PushdownReader(request) if narrows(options) else SegmentLogReader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Make the reader of a stream."""
        from spark_segmentlog.spark.read_plan import ReadRequest
        from spark_segmentlog.spark.stream_reader import SegmentLogStreamReader

        options = self._read_options(streaming=True)
        shape = shape_rows(to_arrow_schema(schema, timezone="UTC"), options)
        return SegmentLogStreamReader(ReadRequest(options=options, shape=shape))

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
        if not any(key.lower() in ("path", "paths") for key in self.options):
            raise OptionValueError(
                "no path is given: load('/data/kafka-logs'), or in SQL CREATE TEMPORARY VIEW v "
                "USING segmentlog OPTIONS (path '/data/kafka-logs'), since Spark gives the options "
                "of a catalog table (CREATE TABLE) to no Python source"
            )
        return parse_read_options(self.options, streaming=streaming)


def register(spark: SparkSession) -> None:
    """Make ``format("segmentlog")`` known to a session by hand.

    Needed only where Spark does not find installed sources, for example because another package
    named ``pyspark_*`` fails when it is imported.
    """
    spark.dataSource.register(SegmentLogDataSource)
