"""Where one partition starts and ends for a read."""

from __future__ import annotations

from functools import cached_property

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.query.read_options import ReadOptions


class LogBounds:
    """Where one partition starts and ends, as the isolation level and the high watermark say."""

    def __init__(
        self, log: PartitionLog, options: ReadOptions, *, finds_stable_offset: bool = False
    ) -> None:
        self._log = log
        self._options = options
        self._finds_stable_offset = finds_stable_offset
        self._offsets_of_times: dict[int, int | None] = {}

    @property
    def log_start_offset(self) -> int:
        """First offset that is there."""
        return self._log.log_start_offset

    @property
    def remote_start_offset(self) -> int | None:
        """Where the log starts in remote storage; the views are of what is there alone."""
        return self._log.remote_start_offset if self._options.view.is_of_records else None

    @cached_property
    def last_base_offset(self) -> int:
        """Base offset of the last segment: the log ends there or after it."""
        # An open commit hides what lies after the offset where the log ended before it.
        is_in_commit = self._log.state.visible_range(self._log.topic_partition) is not None
        if is_in_commit or len(self._log.base_offsets) == 0:
            return self.log_start_offset
        return max(int(self._log.base_offsets[-1]), self.log_start_offset)

    @property
    def is_always_bounded(self) -> bool:
        """Whether a read may have to stop before the log ends."""
        return self._options.is_read_committed or self._options.until_high_watermark

    def log_end_offset(self) -> int:
        """Offset after the last record."""
        return self._log.log_end_offset

    def latest_offset(self) -> int:
        """End of what may be read.

        Raises
        ------
        OptionValueError
            The high watermark is asked for, and no checkpoint tells it.
        """
        end = self._visible_end_offset()
        if self._options.is_read_committed:
            end = min(end, self._log.last_stable_offset())
        return max(end, self.log_start_offset)

    def end_of_read(self) -> int:
        """Offset where a read has to stop by what is known before it.

        Raises
        ------
        OptionValueError
            The high watermark is asked for, and no checkpoint tells it.
        """
        if self._finds_stable_offset:
            return max(self._visible_end_offset(), self.log_start_offset)
        return self.latest_offset()

    def _visible_end_offset(self) -> int:
        end = self._log.log_end_offset
        return min(end, self._high_watermark()) if self._options.until_high_watermark else end

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """Offset of the first record at or after a timestamp.

        It does not lie before that of an earlier one, from which on it is looked for.
        """
        start_offset = 0
        for earlier_ms, offset in self._offsets_of_times.items():
            if earlier_ms <= timestamp_ms:
                if offset is None:
                    return None
                start_offset = max(start_offset, offset)
        found = self._log.offset_for_timestamp(timestamp_ms, start_offset)
        self._offsets_of_times[timestamp_ms] = None if found is None else found[0]
        return self._offsets_of_times[timestamp_ms]

    def _high_watermark(self) -> int:
        mark = self._log.high_watermark
        if mark is None:
            raise OptionValueError(
                f"option 'untilHighWatermark' is 'true', but {self._log.state.path} has no "
                f"replication-offset-checkpoint that names {self._log.topic_partition}"
            )
        return mark
