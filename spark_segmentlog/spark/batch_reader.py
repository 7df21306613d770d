"""The batch reader that Spark plans with on the driver and reads with in its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_segmentlog.query.read_options import View
from spark_segmentlog.query.read_plan import plan_splits
from spark_segmentlog.query.split_reader import ReadRequest, Split, read_split
from spark_segmentlog.query.views import read_view
from spark_segmentlog.spark.pushdown import bounds_of_filters
from spark_segmentlog.spark.worker_heap import freeze_worker_heap

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


@dataclass(frozen=True)
class LogInputPartition(InputPartition):
    """One task's share of a read."""

    split: Split


class SegmentLogReader(DataSourceReader):
    """Reads the splits of one load."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read, on the driver; this is when ``latest`` is fixed."""
        splits = plan_splits(self._request.options, self._request.bounds)
        return [LogInputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in a task."""
        if not isinstance(partition, LogInputPartition):
            # Spark makes one partition of no partitions.
            return
        if self._request.options.view is View.RECORDS:
            yield from read_split(partition.split, self._request)
        else:
            yield from read_view(partition.split, self._request)
        freeze_worker_heap("read")


class PushdownReader(SegmentLogReader):
    """A reader whose load is used in one scan only, so that predicates may narrow it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take filters on topic, partition, offset and timestamp; give the others back."""
        bounds, left = bounds_of_filters(filters)
        self._request = self._request.narrowed(bounds)
        # A row of bad bytes has no topic, partition or offset, so no predicate on them holds for
        # it; only Spark drops it.
        return filters if self._request.gives_corrupt_rows else left
