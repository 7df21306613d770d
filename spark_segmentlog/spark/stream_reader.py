"""The stream reader that Spark asks for offsets beside its driver, and reads with in its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_segmentlog.query.split_reader import ReadRequest, Split
from spark_segmentlog.query.stream_planner import StreamPlanner
from spark_segmentlog.query.stream_planning import from_json, to_json
from spark_segmentlog.query.stream_splits import read_stream_split
from spark_segmentlog.spark import versions
from spark_segmentlog.spark.worker_heap import freeze_worker_heap

JsonOffsets = Mapping[str, Mapping[str, int]]


def make_stream_reader(request: ReadRequest) -> SegmentLogStreamReader:
    """Make the reader of a stream that this version of Spark knows how to ask."""
    if versions.LIMITS_MICRO_BATCHES:
        from spark_segmentlog.spark.limited_stream_reader import LimitedStreamReader

        return LimitedStreamReader(request)
    if request.options.has_admission_limits:
        versions.warn_of_lack("each micro-batch takes all there is, limits have no effect", "4.2")
    return SegmentLogStreamReader(request)


@dataclass(frozen=True)
class StreamInputPartition(InputPartition):
    """One task's share of a micro-batch."""

    split: Split


class SegmentLogStreamReader(DataSourceStreamReader):
    """Spark's view of a stream: JSON in and out, all else is the planner's. Pickles."""

    knows_starts = False
    """Whether Spark tells where a micro-batch starts."""

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_request": self._request, "_planner": None}

    @property
    def planner(self) -> StreamPlanner:
        """What plans the micro-batches, made when the driver first asks for one."""
        if self._planner is None:
            self._planner = StreamPlanner(self._request.options, knows_starts=self.knows_starts)
        return self._planner

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        """Give the offset where a new query starts."""
        return to_json(self.planner.initial_offset())

    def latestOffset(  # noqa: N802
        self, start: JsonOffsets | None = None, limit: Any = None
    ) -> dict[str, dict[str, int]]:
        """Give the end of the next micro-batch: all that there is. No start and limit is given."""
        return to_json(self.planner.latest_offset(None, None))

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Plan the tasks between two offsets; none where the end is not above the start."""
        splits = self.planner.plan(from_json(start), from_json(end))
        return [StreamInputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        assert isinstance(partition, StreamInputPartition)
        yield from read_stream_split(partition.split, self._request)
        freeze_worker_heap("read")

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: a reader deletes nothing."""
