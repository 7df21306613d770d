"""The scan of a partition: rows of its segments in the order of their offsets."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from spark_segmentlog.log.partition.listed_log import ListedLog
from spark_segmentlog.log.partition.lost_ranges import Losses
from spark_segmentlog.log.partition.pursuit import SegmentPursuit
from spark_segmentlog.log.segment.scanned_piece import ScannedPiece
from spark_segmentlog.log.segment.scanner import ScanOptions, SegmentScanner
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import OnCorrupt
from spark_segmentlog.log.transactions.outcomes import TransactionOutcomes, WholeRead

READ_COMMITTED: Final = "read_committed"

_T = TypeVar("_T")


def scan_segments(
    segments: Sequence[Segment],
    options: ScanOptions,
    *,
    on_corrupt: OnCorrupt | None = None,
    partition_log: ListedLog | None = None,
    finds_stable_offset: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read rows from segments of one partition, in their order; runs in a task.

    The offsets to read are those of ``options.record_filter``, which must have both ends when rows
    of a log that grows are wanted as of one time.

    Parameters
    ----------
    segments : sequence of Segment
        Neighbours that hold the offsets; their partition is listed again only if one is gone, or
        to know what was aborted.
    finds_stable_offset : bool
        Whether rows of transactions that are open at the end of `partition_log`, and those after
        them, are yet to be left out; only for all segments that hold the offsets.

    Raises
    ------
    DataLossError
        Offsets are gone from the partition, and the options say to fail then.
    CorruptRecordError
        Bad bytes, and the options do not say to skip them.
    """
    if segments:
        scan = _PartitionScan(segments, options, on_corrupt, partition_log, finds_stable_offset)
        yield from scan.rows()


def scan_pieces(
    segments: Sequence[Segment],
    options: ScanOptions,
    *,
    partition_log: ListedLog | None = None,
    finds_stable_offset: bool = False,
) -> Generator[ScannedPiece]:
    """Give what `scan_segments` does yet to be decoded, large pieces apart from the scan."""
    if segments:
        scan = _PartitionScan(segments, options, None, partition_log, finds_stable_offset)
        yield from scan.pieces()


class _PartitionScan:
    """A scan over segments that may be renamed while it runs.

    Its parts know nothing of it, so that its buffers are free again as soon as it is over.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        options: ScanOptions,
        on_corrupt: OnCorrupt | None,
        partition_log: ListedLog | None,
        finds_stable_offset: bool,
    ) -> None:
        self._options = options
        self._log_end_offset: int | None = None
        if finds_stable_offset:
            assert partition_log is not None
            self._log_end_offset = partition_log.log_end_offset
        self._losses = Losses(segments[0], options)
        end_offset = options.record_filter.end_offset
        self._pursuit = SegmentPursuit(
            segments,
            end_offset,
            self._losses.tell,
            partition_log,
            skip_corrupt=options.skip_corrupt,
            check_crcs=options.check_crcs,
        )
        topic_partition = segments[0].topic_partition
        self._scanner = SegmentScanner(topic_partition, options, on_corrupt=on_corrupt)
        self._outcomes = self._new_outcomes()

    def rows(self) -> Iterator[pa.RecordBatch]:
        yield from self._each(self._scanner.scan)
        yield from self._scanner.flush()

    def pieces(self) -> Iterator[ScannedPiece]:
        yield from self._each(self._scanner.pieces)
        yield ScannedPiece(self._scanner.flush)

    def _each(self, read: Callable[..., Iterator[_T]]) -> Iterator[_T]:
        scanner, wanted_end = self._scanner, self._options.record_filter.end_offset
        while (segment := self._pursuit.next()) is not None:
            try:
                yield from read(segment, outcomes=self._outcomes, on_lost=self._losses.tell_at_end)
            except FileNotFoundError:
                is_gone = True
            else:
                is_gone = False
                if self._outcomes is not None:
                    wanted_end = min(wanted_end, self._outcomes.stable_offset)
                if scanner.next_offset >= wanted_end:
                    break
            scanner.next_offset, is_listed_again = self._pursuit.go_on(
                scanner.next_offset, wanted_end, is_gone=is_gone
            )
            if is_listed_again:
                # Batches stand at other positions by now.
                self._outcomes = self._new_outcomes()
        self._pursuit.look_at_end(scanner.next_offset, wanted_end)

    def _new_outcomes(self) -> TransactionOutcomes | None:
        if self._options.isolation_level != READ_COMMITTED:
            return None
        whole_read = None
        if self._log_end_offset is not None:
            whole_read = WholeRead(
                start_offset=self._scanner.next_offset, log_end_offset=self._log_end_offset
            )
        return TransactionOutcomes(
            self._pursuit.partition_log,
            check_crcs=self._options.check_crcs,
            skip_corrupt=self._options.skip_corrupt,
            whole_read=whole_read,
        )
