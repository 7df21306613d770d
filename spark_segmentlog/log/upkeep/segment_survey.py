"""One look at every batch of a segment: the good ones as columns, bad bytes, how the file ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.io.remote_file import expect_whole
from spark_segmentlog.log.partition.leader_epoch_check import EpochRun, epoch_runs
from spark_segmentlog.log.segment import index_trust
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import CorruptRange, WalkOptions
from spark_segmentlog.log.upkeep.record_checks import RecordChecks
from spark_segmentlog.record.layout import LAST_OFFSET_DELTA_OFFSET, MAGIC_V2, NO_PRODUCER_ID
from spark_segmentlog.record.read.header_table import HeaderTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSurvey:
    """All good batches of one segment, a row each, and the bytes that are none.

    Attributes
    ----------
    end_position : int
        End of the last good batch.
    next_offset : int
        Offset after all of them.
    corrupt : tuple of CorruptRange
        Bad bytes, in their order.
    findings : tuple of Finding
        What else is to be said of batches.
    epochs : tuple of EpochRun
        Leader epochs of the good batches, in their order.
    torn : Finding or None
        The half batch that the file ends with.
    lost_to : int or None
        An offset after the last batch that the log is known to have had.
    evidence : str
        Why that is known.
    has_producers : bool
        Whether any good batch is of a producer with an id, as every marker is that ends something.
    has_bad_records : bool
        Whether a good batch has records that cannot be read, where these were checked.
    """

    segment: Segment
    end_position: int
    next_offset: int
    file_bytes: int
    positions: npt.NDArray[np.int64]
    base_offsets: npt.NDArray[np.int64]
    last_offsets: npt.NDArray[np.int64]
    max_timestamps: npt.NDArray[np.int64]
    corrupt: tuple[CorruptRange, ...] = ()
    findings: tuple[Finding, ...] = ()
    epochs: tuple[EpochRun, ...] = ()
    torn: Finding | None = None
    lost_to: int | None = None
    evidence: str = ""
    has_producers: bool = False
    has_bad_records: bool = False

    @property
    def valid_bytes(self) -> int:
        """End of the good batches in front of the first bad bytes."""
        return self.corrupt[0].position if self.corrupt else self.end_position

    @property
    def valid_count(self) -> int:
        """Number of good batches in front of the first bad bytes."""
        return int(np.searchsorted(self.positions, self.valid_bytes))

    @property
    def valid_next_offset(self) -> int:
        """Offset after the good batches in front of the first bad bytes."""
        count = self.valid_count
        last = int(self.last_offsets[:count].max()) + 1 if count else self.segment.base_offset
        return max(last, self.segment.base_offset)

    @property
    def is_whole(self) -> bool:
        """Whether no bytes are bad."""
        return not self.corrupt

    @property
    def stop(self) -> Finding | None:
        """What lies after the good batches in front of the first bad bytes, if not only zeros."""
        return corrupt_finding(self.corrupt[0]) if self.corrupt else self.torn

    @property
    def has_good_after_bad(self) -> bool:
        """Whether a good batch lies anywhere after the first bad bytes."""
        return self.valid_count < len(self.positions)

    @property
    def has_rest_after_bad(self) -> bool:
        """Whether a torn batch or zeros lie after all bad bytes and good batches."""
        bad_end = max(
            (bad_range.position + bad_range.length for bad_range in self.corrupt), default=0
        )
        return max(bad_end, self.end_position) < self.file_bytes

    def without_bad(self) -> SegmentSurvey:
        """Give what is left when the bad bytes are cut out, at the positions where it stands."""
        return replace(self, corrupt=())

    @property
    def lost_range(self) -> tuple[int, int] | None:
        """Offsets [start, end) after the last batch that are known to be gone."""
        if self.lost_to is None:
            return None
        bound = self.segment.end_offset_bound
        return self.next_offset, self.lost_to + 1 if bound is None else bound

    def is_bad_at(self, position: int) -> bool:
        """Tell whether a byte is one of the bad ones."""
        return any(
            bad_range.position <= position < bad_range.position + bad_range.length
            for bad_range in self.corrupt
        )

    def is_missing(self, offset: int) -> bool:
        """Tell whether an offset is one that bad bytes, or what is gone after them, had."""
        is_cut = self.torn is not None or self.lost_to is not None
        return (is_cut and offset >= self.next_offset) or any(
            bad_range.start_offset <= offset
            and (bad_range.end_offset is None or offset < bad_range.end_offset)
            for bad_range in self.corrupt
        )


def survey_segment(segment: Segment, *, check_records: bool = False) -> SegmentSurvey:
    """Walk a segment's batches and compare their checksums; check their records too if asked."""
    surveyor = _Surveyor(segment, check_records=check_records)
    with segment.open_log() as file:
        surveyor.walk(file)
    return surveyor.survey()


class _Surveyor:
    """Follows a walk over one segment; bad bytes are noted and stepped over."""

    def __init__(self, segment: Segment, *, check_records: bool) -> None:
        self._segment = segment
        self._checks_records = check_records
        self._corrupt: list[CorruptRange] = []
        self._findings: list[Finding] = []
        self._columns: list[npt.NDArray[np.int64]] = []
        self._epochs: list[EpochRun] = []
        self._torn: Finding | None = None
        self._end_position = 0
        self._file_bytes = 0
        self._next_offset = segment.base_offset
        self._lost_to: int | None = None
        self._evidence = ""
        self._has_producers = False
        self._has_bad_records = False

    def walk(self, file: LogFile) -> None:
        """Look at every batch of the file."""
        expect_whole(file)
        self._file_bytes = file.size()
        options = WalkOptions(skip_corrupt=True, on_corrupt=self._corrupt.append)
        walk = HeaderWalk(self._segment, file, options)
        if self._checks_records:
            with RecordChecks(walk) as checks:
                for table in walk:
                    self._add(walk, table)
                    checks.check(table)
                self._has_bad_records = not checks.are_good()
        else:
            for table in walk:
                self._add(walk, table)
        self._next_offset = walk.next_offset
        self._lost_to = self._find_lost(file, walk)
        if walk.torn_end:
            self._torn = _torn(self._segment, walk.position, walk.torn_end)

    def _find_lost(self, file: LogFile, walk: HeaderWalk) -> int | None:
        """Look for offsets that are gone; a crash can leave such indexes in the last segment."""
        segment = self._segment
        if segment.promised_end is not None and walk.known_offset < segment.promised_end:
            self._evidence = f"what was copied after it begins with offset {segment.promised_end}"
            return segment.promised_end - 1
        if segment.end_offset_bound is None and not segment.is_index_trusted:
            return None
        named = index_trust.offset_beyond_end(segment, file, walk.position, walk.known_offset)
        self._evidence = "" if named is None else f"its index names offset {named}"
        return named

    def _add(self, walk: HeaderWalk, table: HeaderTable) -> None:
        self._findings += _header_findings(walk, table)
        self._epochs += epoch_runs(table, self._segment.log_path)
        self._has_producers |= bool((table.producer_id > NO_PRODUCER_ID).any())
        self._end_position = int(table.position[-1] + table.size_bytes[-1])
        self._columns.append(
            np.stack([table.position, table.base_offset, table.last_offset, table.max_timestamp])
        )

    def survey(self) -> SegmentSurvey:
        """Give what was seen."""
        columns = np.concatenate([np.empty((4, 0), np.int64), *self._columns], axis=1)
        positions, base_offsets, last_offsets, max_timestamps = columns
        return SegmentSurvey(
            segment=self._segment,
            end_position=self._end_position,
            next_offset=self._next_offset,
            file_bytes=self._file_bytes,
            positions=positions,
            base_offsets=base_offsets,
            last_offsets=last_offsets,
            max_timestamps=max_timestamps,
            corrupt=tuple(self._corrupt),
            findings=tuple(self._findings),
            epochs=tuple(self._epochs),
            torn=self._torn,
            lost_to=self._lost_to,
            evidence=self._evidence,
            has_producers=self._has_producers,
            has_bad_records=self._has_bad_records,
        )


def _header_findings(walk: HeaderWalk, table: HeaderTable) -> Iterator[Finding]:
    """Find headers of good batches that a reader copes with, though they are not right."""
    segment = walk.segment
    if walk.floor:
        yield Finding(
            kind=FindingKind.OFFSET_ORDER,
            path=segment.log_path,
            topic_partition=segment.topic_partition,
            position=int(table.position[0]),
            detail=f"offsets {table.base_offset[0]} to {table.last_offset[0]} stand again, each is "
            "read where it stands first",
        )
    counts = table.last_offset - table.base_offset + 1
    dense = np.flatnonzero((table.magic == MAGIC_V2) & (table.records_count == counts))
    starts = table.position[dense] - walk.file_position + LAST_OFFSET_DELTA_OFFSET
    stored = walk.buffer[starts[:, None] + np.arange(4)].copy().view(">i4").reshape(-1)
    for row in dense[stored != counts[dense] - 1].tolist():
        yield Finding(
            kind=FindingKind.BATCH_HEADER,
            path=segment.log_path,
            topic_partition=segment.topic_partition,
            position=int(table.position[row]),
            detail=f"last offset delta below that of its {counts[row]} records",
        )


def corrupt_finding(found: CorruptRange) -> Finding:
    """Say that bytes are bad."""
    return Finding(
        kind=FindingKind.CORRUPT_BATCH,
        path=found.path,
        topic_partition=found.topic_partition,
        position=found.position,
        start_offset=found.start_offset,
        end_offset=found.end_offset,
        detail=found.reason,
    )


def _torn(segment: Segment, position: int, detail: str) -> Finding:
    return Finding(
        kind=FindingKind.TORN_TAIL,
        path=segment.log_path,
        topic_partition=segment.topic_partition,
        position=position,
        detail=detail,
    )
