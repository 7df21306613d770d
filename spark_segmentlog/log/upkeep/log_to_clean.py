"""Which part of a log compaction is to clean, and whether that is worth a pass.

Cleaned are the closed segments below the last stable offset (and, with several replicas, below the
high watermark), as long as none of them has a record younger than `min.compaction.lag.ms`. What
``cleaner-offset-checkpoint`` says to be clean is not dirty. A log without anything new is cleaned
again only where a delete horizon is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
)
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.transactions.producer_survey import ProducerSurvey, survey_producers
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.partitions import OwnedPartition
from spark_segmentlog.log.upkeep.swap import SegmentFile


def read_cleaner_offsets(log_directory: str) -> dict[TopicPartition, int]:
    """Read below which offsets the logs of a directory are clean, as far as that is written."""
    return read_offset_checkpoint(LOCAL, log_directory, CLEANER_OFFSET_CHECKPOINT) or {}


class LogToClean:
    """A log as of one listing of its segments, the last, open one included; it has some."""

    def __init__(
        self,
        owned: OwnedPartition,
        state: LogDirectoryState,
        segments: Sequence[SegmentFile],
        config: CompactionConfig,
        now_ms: int,
    ) -> None:
        self.segments = segments
        self._owned = owned
        self._state = state
        self._config = config
        self._now_ms = now_ms

    @cached_property
    def survey(self) -> ProducerSurvey:
        """What the headers of the log tell; the first use reads all of them."""
        return survey_producers(self._owned.segments(self._state, self.segments))

    def may_be_dirty_enough(self) -> bool:
        """Tell by the sizes of files whether a ratio can be reached, before a byte is read.

        Without a ratio all is looked at, since a delete horizon may be over.
        """
        end_offset = self.segments[-1].base_offset
        first_dirty = self._checkpointed_offset()
        if self._config.min_cleanable_ratio <= 0 or first_dirty > end_offset:
            return True
        return self.is_dirty_enough(first_dirty, end_offset)

    def first_dirty_offset(self) -> int:
        """Find from where on the log is not clean yet."""
        checkpointed = self._checkpointed_offset()
        # A checkpoint beyond the log's end is that of a log that was cut since.
        if checkpointed > self.survey.next_offset:
            return self._owned.log_start_offset(self._state, self.segments)
        return checkpointed

    def _checkpointed_offset(self) -> int:
        start = self._owned.log_start_offset(self._state, self.segments)
        offsets = read_cleaner_offsets(self._owned.log_directory)
        return max(offsets.get(self._owned.topic_partition, start), start)

    def first_uncleanable_offset(self, first_dirty: int) -> int:
        """Find the base offset of the first segment that must stay as it is."""
        limit = min(self.survey.producers.last_stable_offset, self.segments[-1].base_offset)
        if self._owned.high_watermark is not None:
            limit = min(limit, self._owned.high_watermark)
        if self._config.min_compaction_lag_ms > 0:
            limit = min(limit, self._first_young_offset(first_dirty, limit))
        return max(
            (segment.base_offset for segment in self.segments if segment.base_offset <= limit),
            default=self.segments[0].base_offset,
        )

    def _first_young_offset(self, first_dirty: int, limit: int) -> int:
        youngest_ms = self._now_ms - self._config.min_compaction_lag_ms
        bounds = [segment.base_offset for segment in self.segments[1:]]
        measured = zip(self.segments, bounds, self.survey.segments, strict=False)
        for segment, bound, survey in measured:
            largest = survey.largest_timestamp
            if largest < 0:
                largest = segment.modified_ns // 1_000_000
            if bound > first_dirty and largest > youngest_ms:
                return segment.base_offset
        return limit

    def has_horizon_over(self, end_offset: int) -> bool:
        """Tell whether a delete horizon below an offset is over, by the batch headers."""
        return any(
            0 <= survey.earliest_horizon_ms <= self._now_ms
            for survey in self.survey.segments
            if survey.base_offset < end_offset
        )

    def is_dirty_enough(self, first_dirty: int, end_offset: int) -> bool:
        """Tell whether enough of the bytes below an offset is new."""
        bounds = [*(segment.base_offset for segment in self.segments[1:]), end_offset]
        clean = dirty = 0
        for segment, bound in zip(self.segments, bounds, strict=True):
            if segment.base_offset >= end_offset:
                break
            if bound <= first_dirty:
                clean += segment.size_bytes
            else:
                dirty += segment.size_bytes
        return dirty > 0 and dirty / (clean + dirty) >= self._config.min_cleanable_ratio

    def count_dirty_records(self, first_dirty: int) -> int:
        """Count the records of the segments that hold something new."""
        surveys = self.survey.segments
        bounds = [*(survey.base_offset for survey in surveys[1:]), self.survey.next_offset]
        return sum(
            survey.records_count
            for survey, bound in zip(surveys, bounds, strict=True)
            if bound > first_dirty
        )
