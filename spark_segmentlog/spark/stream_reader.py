"""The stream reader that Spark asks for offsets beside its driver, and reads with in its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_segmentlog.query.admission import AdmissionLimits
from spark_segmentlog.query.read_plan import ReadRequest
from spark_segmentlog.query.stream_planner import StreamPlanner, StreamSplit, read_stream_split
from spark_segmentlog.query.stream_planning import from_json, to_json
from spark_segmentlog.spark.worker_heap import freeze_worker_heap


@dataclass(frozen=True)
class StreamInputPartition(InputPartition):
    """One task's share of a micro-batch."""

    split: StreamSplit


class SegmentLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's view of a stream: JSON in and out, all else is the planner's. Pickles.

    Parameters
    ----------
    request : ReadRequest
        Options, parsed for a stream, and the shape of rows.
    """

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_request": self._request, "_planner": None}

    @property
    def planner(self) -> StreamPlanner:
        """What plans the micro-batches, made when the driver first asks for one."""
        if self._planner is None:
            self._planner = StreamPlanner(self._request.options)
        return self._planner

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        """Give the offset where a new query starts."""
        return to_json(self.planner.initial_offset())

    def latestOffset(  # noqa: N802
        self,
        start: Mapping[str, Mapping[str, int]] | None = None,
        limit: ReadLimit | None = None,
    ) -> dict[str, dict[str, int]]:
        """Give the end of the next micro-batch; the start itself where there is nothing new."""
        begin = None if start is None else from_json(start)
        return to_json(self.planner.latest_offset(begin, self._limits(limit)))

    def _limits(self, limit: ReadLimit | None) -> AdmissionLimits | None:
        """Put what Spark hands over, one limit of one kind, in the place of the option's."""
        limits = self.planner.limits
        if isinstance(limit, ReadAllAvailable):
            return None
        if isinstance(limit, ReadMaxRows):
            return replace(limits, max_offsets=limit.max_rows)
        if isinstance(limit, ReadMaxBytes):
            return replace(limits, max_bytes=limit.max_bytes)
        return limits

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Give a limit of the kind that was asked for; `latestOffset` knows all of them."""
        limits = self._request.options
        if limits.max_offsets_per_trigger is not None:
            return ReadMaxRows(limits.max_offsets_per_trigger)
        if limits.max_bytes_per_trigger is not None:
            return ReadMaxBytes(limits.max_bytes_per_trigger)
        if limits.min_offsets_per_trigger is not None:
            return ReadMinRows(limits.min_offsets_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Give the latest offset of each partition, as of the last look at the log."""
        latest = self.planner.reported_offset
        return None if latest is None else to_json(latest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run. Spark calls it before it replays a micro-batch."""
        self.planner.prepare_for_available_now()

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[InputPartition]:
        """Plan the tasks between two offsets; none where the end is not above the start."""
        splits = self.planner.plan(from_json(start), from_json(end))
        return [StreamInputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task."""
        assert isinstance(partition, StreamInputPartition)
        yield from read_stream_split(partition.split, self._request)
        freeze_worker_heap("read")

    def commit(self, end: Mapping[str, Mapping[str, int]]) -> None:
        """Do nothing: a reader deletes nothing."""
