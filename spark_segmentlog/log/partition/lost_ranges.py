"""Offsets that are gone though they were promised: who finds them, and what is done then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spark_segmentlog.errors import DataLossError
from spark_segmentlog.log.directory.listing import list_partition
from spark_segmentlog.log.names import MAX_OFFSET, OffsetRange
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.segment.segment import Segment

if TYPE_CHECKING:
    from spark_segmentlog.log.partition.listed_log import ListedLog

ORPHAN_PAUSE_SECONDS: Final = 0.05

_log = logging.getLogger(__name__)


def find_lost_segments(log: ListedLog) -> list[OffsetRange]:
    """Find the offsets of segments whose `.log` is gone and whose index is still there.

    Retention and compaction take both away, one after the other, so that what a listing shows is
    looked at once more. Below the checkpointed log start nothing is lost.
    """
    found = set(log.listing.orphan_offsets.tolist())
    if not found:
        return []
    time.sleep(ORPHAN_PAUSE_SECONDS)
    found &= set(list_partition(log.storage, log.directory).orphan_offsets.tolist())
    log_start_offset = log.state.log_start_offset(log.topic_partition)
    ranges = [
        OffsetRange(
            log.topic_partition,
            max(base_offset, log_start_offset),
            _end_of_lost(log, base_offset),
        )
        for base_offset in sorted(found)
    ]
    return [lost for lost in ranges if lost.start_offset < lost.end_offset]


def _end_of_lost(log: ListedLog, base_offset: int) -> int:
    bound = log.next_base_offset(base_offset)
    if bound is not None:
        return bound
    return max(log.state.flushed_offset(log.topic_partition), base_offset + 1)


def find_lost_after(log: ListedLog, stable_offset: int) -> list[OffsetRange]:
    """Find offsets that are gone after a last stable offset, as the indexes there tell.

    The end of the transaction that holds rows back may have been among them.
    """
    segments = log.segments_between(stable_offset, log.log_end_offset)
    return [
        OffsetRange(log.topic_partition, *lost)
        for segment in segments
        if (lost := segment.lost_at_end()) is not None
    ]


def find_lost_at_end(log: ListedLog) -> tuple[int, int] | None:
    """Find offsets [log end offset, recovery point) that are gone; None where none is known to be.

    A broker writes a recovery point when everything below it is on the disk.
    """
    return _missing_below(log, log.state.flushed_offset(log.topic_partition))


def find_lost_by_high_watermark(log: ListedLog) -> tuple[int, int] | None:
    """Find offsets [log end offset, checkpointed high watermark); None where the log reaches it.

    Records below it can be lost to a crash, since it is written before they are flushed.
    """
    return _missing_below(log, log.state.reached_offset(log.topic_partition))


def _missing_below(log: ListedLog, reached_offset: int) -> tuple[int, int] | None:
    # The end of some files that were named is not that of the log.
    if log.is_part or reached_offset <= log.log_end_offset:
        return None
    return log.log_end_offset, reached_offset


class Losses:
    """What a scan does about offsets that are gone."""

    def __init__(self, segment: Segment, options: ScanOptions) -> None:
        self._topic_partition = segment.topic_partition
        self._directory = segment.directory
        self._options = options

    def tell_at_end(self, start_offset: int, end_offset: int, reason: str) -> None:
        """Tell of offsets at a segment's end; an error, unless bad bytes are stepped over."""
        self.tell(start_offset, end_offset, reason, is_error=not self._options.skip_corrupt)

    def tell(
        self, start_offset: int, end_offset: int, reason: str = "", *, is_error: bool = True
    ) -> None:
        """Tell of offsets [start, end).

        Raises
        ------
        DataLossError
            The options say to fail.
        """
        text = (
            f"could not read records in offset [{start_offset}, {end_offset}) of topic partition "
            f"{self._topic_partition}: they are gone from {self._directory}"
        )
        if reason:
            text = f"{text}, {reason}"
        if is_error and self._options.fail_on_data_loss:
            raise DataLossError("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", text)
        _log.warning(text)


def tell_of_gone(directory: str) -> Callable[[int, int], None]:
    """Make what tells of offsets that are gone while somebody looks at a log."""

    def tell(start_offset: int, end_offset: int) -> None:
        to = "their end" if end_offset == MAX_OFFSET else end_offset
        _log.warning("%s: offsets from %d to %s are gone", directory, start_offset, to)

    return tell
