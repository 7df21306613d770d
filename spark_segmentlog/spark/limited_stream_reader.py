"""The stream reader of Spark 4.2 and later, which says where a micro-batch starts and its limit."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_segmentlog.query.admission import AdmissionLimits
from spark_segmentlog.query.stream_planning import from_json, to_json
from spark_segmentlog.spark.stream_reader import JsonOffsets, SegmentLogStreamReader


class LimitedStreamReader(SegmentLogStreamReader, SupportsTriggerAvailableNow):
    """A reader whose micro-batches have limits, and whose runs may end; see its base."""

    knows_starts = True

    def latestOffset(  # noqa: N802
        self, start: JsonOffsets | None = None, limit: ReadLimit | None = None
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
