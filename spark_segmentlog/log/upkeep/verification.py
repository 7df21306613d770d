"""Compares everything in a partition with its batches: framing, checksums, offsets, indexes.

Nothing is written and no lock is taken, so what a running broker has in hand may be reported as
torn. An index entry is right by what it promises, whoever wrote it:

- offset index: a batch starts at the position, ends at or below the offset, and some batch from
  there on ends with it. Ours and new brokers' entries name the batch at the position; older
  brokers index a whole append, which may hold several batches.
- time index: the timestamp is the largest one of all batches up to the one with the offset. The
  offset may be that of the record or the last of its batch.
- transaction index: an entry for each ABORT marker of which data is there, as
  `transaction_index_check` has it.

An index that is sorted and lies is found here, not by reads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.directory.journal import read_open_commit
from spark_segmentlog.log.directory.paths import log_directory_of
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_offset_checkpoint,
    read_text,
)
from spark_segmentlog.log.formats.index_file import IndexFile
from spark_segmentlog.log.formats.producer_snapshot import (
    NO_TRANSACTION,
    ProducerState,
    parse_producer_snapshot,
)
from spark_segmentlog.log.io.reading import LogFile, is_local
from spark_segmentlog.log.io.signature import FileSignature
from spark_segmentlog.log.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from spark_segmentlog.log.partition.leader_epoch_check import (
    EpochRun,
    check_leader_epochs,
    epoch_runs,
)
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import LostRange, PartitionLog, while_it_is_there
from spark_segmentlog.log.partition.producer_replay import ProducerReplay
from spark_segmentlog.log.partition.transaction_index_check import (
    KnownAborts,
    batch_at,
    find_transaction_index_fault,
)
from spark_segmentlog.log.segment import index_trust
from spark_segmentlog.log.segment.growth import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.segment.segment import ScanOptions, Segment, SegmentScanner
from spark_segmentlog.log.segment.walk import CorruptRange, HeaderWalk, ReadBuffer
from spark_segmentlog.log.tier.stores import NO_REMOTE, RemoteOptions, is_store
from spark_segmentlog.log.write.preflight import CUTS_THE_LOG, surroundings, torn_segment
from spark_segmentlog.log.write.staging import list_staged
from spark_segmentlog.record.layout import LAST_OFFSET_DELTA_OFFSET, MAGIC_V2
from spark_segmentlog.record.read.header_table import HeaderTable

LOOK_AGAIN_SECONDS: Final = (0.2, 0.5, 1.5)
AT_WORK_NS: Final = 30_000_000_000
_INDEX_SUFFIXES: Final = {
    FindingKind.OFFSET_INDEX: OFFSET_INDEX_SUFFIX,
    FindingKind.TIME_INDEX: TIME_INDEX_SUFFIX,
    FindingKind.TRANSACTION_INDEX: TRANSACTION_INDEX_SUFFIX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSurvey:
    """All good batches of one segment, a row each, and the bytes that are none.

    Attributes
    ----------
    end_position : int
        End of the last good batch.
    next_offset : int
        Offset behind all of them.
    corrupt : tuple of CorruptRange
        Bad bytes, in their order.
    findings : tuple of Finding
        What else is to be said of batches.
    epochs : tuple of EpochRun
        Leader epochs of the good batches, in their order.
    torn : Finding or None
        The half batch that the file ends with.
    lost_to : int or None
        An offset behind the last batch that the log is known to have had.
    evidence : str
        Why that is known.
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
        """Offset behind the good batches in front of the first bad bytes."""
        count = self.valid_count
        last = int(self.last_offsets[:count].max()) + 1 if count else self.segment.base_offset
        return max(last, self.segment.base_offset)

    @property
    def is_whole(self) -> bool:
        """Whether no bytes are bad."""
        return not self.corrupt

    @property
    def stop(self) -> Finding | None:
        """What lies behind the good batches in front of the first bad bytes, if not only zeros."""
        return _corrupt(self.corrupt[0]) if self.corrupt else self.torn

    @property
    def lost_range(self) -> tuple[int, int] | None:
        """Offsets [start, end) behind the last batch that are known to be gone."""
        if self.lost_to is None:
            return None
        bound = self.segment.end_offset_bound
        return self.next_offset, self.lost_to + 1 if bound is None else bound

    def is_bad_at(self, position: int) -> bool:
        """Tell whether a byte is one of the bad ones."""
        return any(it.position <= position < it.position + it.length for it in self.corrupt)

    def is_missing(self, offset: int) -> bool:
        """Tell whether an offset is one that bad bytes, or what is gone behind them, had."""
        is_cut = self.torn is not None or self.lost_to is not None
        return (is_cut and offset >= self.next_offset) or any(
            it.start_offset <= offset and (it.end_offset is None or offset < it.end_offset)
            for it in self.corrupt
        )


def verify(
    paths: str | Sequence[str],
    *,
    topic_partitions: Iterable[TopicPartition] | None = None,
    deep: bool = False,
    remote: RemoteOptions = NO_REMOTE,
) -> Iterator[Finding]:
    """Verify log directories, partition directories or `.log` files.

    Parameters
    ----------
    paths : str or sequence of str
    topic_partitions : iterable of TopicPartition, optional
        Which ones; all where not given.
    deep : bool
        Whether every record is decompressed and decoded too.
    remote : RemoteOptions
        Stores of remote segments, which are verified with the local ones.

    Yields
    ------
    Finding
    """
    directories = [paths] if isinstance(paths, str) else list(paths)
    for directory in directories:
        yield from _verify_log_directory(directory)
    wanted = None if topic_partitions is None else set(topic_partitions)
    local = [path for path in directories if is_local(path) and not is_store(path)]
    for finding in _lasting_surroundings(local):
        # A copy of one log directory knows no cluster, and nothing is wrong with that.
        is_unknown = finding.kind is FindingKind.CLUSTER_METADATA
        is_known = not is_unknown or finding.topic_partition is not None
        if is_known and (wanted is None or finding.topic_partition in {None, *wanted}):
            yield finding
    for log in partition_logs(directories, wanted, remote):
        yield from while_it_is_there(log, verify_partition(log, deep=deep))


def _lasting_surroundings(paths: Sequence[str]) -> list[Finding]:
    """Tell what is wrong around partitions, and still is when it is looked at again.

    A broker at work makes and deletes partitions, and its metadata log, or their folders, run
    ahead for a moment.
    """
    found = list(surroundings(paths))
    for pause_seconds in LOOK_AGAIN_SECONDS if any(map(_is_broker_at_work, paths)) else ():
        if not found:
            break
        time.sleep(pause_seconds)
        again = set(surroundings(paths))
        found = [finding for finding in found if finding in again]
    return found


def _is_broker_at_work(path: str) -> bool:
    """Tell whether high watermarks were written a moment ago, as a broker does all the time."""
    try:
        mark = FileSignature.of(os.path.join(log_directory_of(path), HIGH_WATERMARK_CHECKPOINT))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return time.time_ns() - mark.modified_ns < AT_WORK_NS


def partition_logs(
    paths: Sequence[str],
    wanted: Container[TopicPartition] | None,
    remote: RemoteOptions = NO_REMOTE,
) -> Iterator[PartitionLog]:
    """Open every copy of the partitions below some paths; a log directory may have none yet."""
    for log in LogManager.open(paths, may_be_empty=True, remote=remote).copies:
        if wanted is None or log.topic_partition in wanted:
            yield log


def verify_partition(log: PartitionLog, *, deep: bool = False) -> Iterator[Finding]:
    """Verify the segments of one partition and their indexes.

    What is found in a segment counts if the segment was the same all the while.
    """

    producers = ProducerReplay(log)
    epochs: dict[int, tuple[EpochRun, ...]] = {}
    ends: dict[int, int | None] = {}

    def verify(segment: Segment) -> list[Finding]:
        survey = _up_to_recovery_point(survey_segment(segment), log)
        epochs[segment.base_offset] = survey.epochs
        is_damaged = survey.stop is not None or survey.lost_to is not None
        ends[segment.base_offset] = None if is_damaged else survey.next_offset
        return _verify_segment(log, survey, producers, deep=deep)

    for note in log.remote_notes():
        yield Finding(
            kind=FindingKind.REMOTE_SEGMENT,
            path=note.path,
            topic_partition=log.topic_partition,
            detail=note.text,
        )
    for lost in log.lost_segments:
        yield _lost_segment(lost, log)
    yield from log.visit_segments(
        lambda segment, _: ((it, 0) for it in log.looked_at(segment, verify))
    )
    compared = {*log.base_offsets.tolist(), *filter(None, ends.values())}
    yield from _check_snapshots(log, compared)
    if log.is_whole and ends:
        end_offset = None if log.lost_segments else ends[max(ends)]
        found = [
            *check_leader_epochs(log, chain.from_iterable(epochs.values()), end_offset),
            *_check_cleaner_checkpoint(log, end_offset),
        ]
        # What is said of a log that grows may be right by now.
        if found and (end_offset is None or not log.goes_on_after(end_offset)):
            yield from found


def _check_cleaner_checkpoint(log: PartitionLog, end_offset: int | None) -> Iterator[Finding]:
    """Find that a cleaner is said to have come farther than the log reaches."""
    directory = log.state.path
    text = read_text(log.storage, directory, CLEANER_OFFSET_CHECKPOINT)
    offset = ((text and parse_offset_checkpoint(text)) or {}).get(log.topic_partition, 0)
    if end_offset is not None and end_offset < offset:
        yield Finding(
            kind=FindingKind.OFFSET_CHECKPOINT,
            path=f"{directory}/{CLEANER_OFFSET_CHECKPOINT}",
            topic_partition=log.topic_partition,
            detail=f"names offset {offset} of a log that ends at {end_offset}",
        )


def _check_snapshot_at(
    log: PartitionLog, survey: SegmentSurvey, producers: ProducerReplay
) -> Iterator[Finding]:
    """Compare the snapshot at the end of a segment with the producers of the batches up to there.

    A producer that was silent for long may be missing in it, and one whose batches are gone in the
    log.
    """
    bound = survey.segment.end_offset_bound
    offset = survey.next_offset if bound is None else bound
    states = log.snapshot_at(offset)
    if states is None or producers.states is None:
        return
    if any(lost.start_offset < offset <= lost.end_offset for lost in log.lost_segments):
        return
    if any(it.last_offset >= offset for it in states):
        return
    known = {it.producer_id: it for it in producers.states}
    told = {it.producer_id: it for it in states}
    for producer_id in sorted({*known, *told}):
        detail = _state_fault(log, told.get(producer_id), known.get(producer_id))
        if detail:
            yield _snapshot_finding(log, offset, f"producer {producer_id} {detail}")
            return


def _state_fault(
    log: PartitionLog, state: ProducerState | None, known: ProducerState | None
) -> str:
    begin = NO_TRANSACTION if state is None else state.current_txn_first_offset
    if known is not None and known.current_txn_first_offset != begin:
        return (
            f"with a transaction from offset {begin}, in the log it is from "
            f"{known.current_txn_first_offset} (-1 for none)"
        )
    if state is None:
        return ""
    last_offset = state.last_offset
    if last_offset < 0 or (known is not None and known.last_offset == last_offset):
        return ""
    if known is not None and known.last_offset > last_offset:
        return f"with last offset {last_offset}, its batches reach offset {known.last_offset}"
    found = batch_at(log, last_offset)
    if found is None or (known is not None and known.last_offset < 0):
        return ""
    piece, row = found
    if int(piece.table.producer_id[row]) == state.producer_id:
        return ""
    return f"with last offset {last_offset}, where no batch of it is"


def _snapshot_finding(log: PartitionLog, offset: int, detail: str, broker: str = "") -> Finding:
    return Finding(
        kind=FindingKind.PRODUCER_SNAPSHOT,
        path=f"{log.directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}",
        topic_partition=log.topic_partition,
        detail=detail,
        broker=broker,
    )


def _check_snapshots(log: PartitionLog, compared: Container[int]) -> Iterator[Finding]:
    """Find producer snapshots that do not hold together, or speak of other batches.

    Those at the end of a segment were compared with all of its producers.
    """
    for offset in log.listing.snapshot_offsets.tolist():
        path = f"{log.directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}"
        data = log.storage.read_file(path)
        states = None if data is None else parse_producer_snapshot(data)
        if data is None:
            continue
        if states is None:
            yield _snapshot_finding(log, offset, "does not hold together", "a broker deletes it")
        elif any(it.last_offset >= offset for it in states):
            yield _snapshot_finding(log, offset, "names offsets at or behind its own")
        elif offset not in compared:
            details = (_state_fault(log, it, None) for it in states)
            detail = next(filter(None, details), "")
            if detail:
                yield _snapshot_finding(log, offset, f"a producer {detail}")


def _lost_segment(lost: LostRange, log: PartitionLog) -> Finding:
    name = segment_file_name(lost.start_offset, LOG_SUFFIX)
    return Finding(
        kind=FindingKind.LOST_OFFSETS,
        path=f"{log.directory}/{name}",
        topic_partition=log.topic_partition,
        start_offset=lost.start_offset,
        end_offset=lost.end_offset,
        detail="the .log of the segment is gone, its index is there",
    )


def _verify_segment(
    log: PartitionLog, survey: SegmentSurvey, producers: ProducerReplay, *, deep: bool
) -> list[Finding]:
    segment = survey.segment
    undecoded = _decode_all(survey) if deep else []
    bad = replace(survey, corrupt=(*survey.corrupt, *undecoded))
    findings = [*survey.findings, *_bad_bytes(survey, _check_end(bad))]
    if survey.torn is not None and survey.lost_to is None:
        findings.append(survey.torn)
    findings.extend(_check_reach(survey))
    findings.extend(map(_corrupt, undecoded))
    known = known_aborts(survey, producers)
    findings.extend(check_indexes(log, bad, known))
    if known.is_damaged:
        producers.lose_track(segment)
    else:
        findings.extend(_check_snapshot_at(log, survey, producers))
    return findings


def _bad_bytes(survey: SegmentSurvey, at_end: Iterator[Finding]) -> Iterator[Finding]:
    """Tell of bad and lost bytes, and where a broker's recovery would cut the log at the first."""
    segment = survey.segment
    is_recovered = segment.end_offset_bound is not None and not segment.is_index_trusted
    is_cut = is_recovered and survey.valid_bytes < survey.file_bytes
    found = [*map(_corrupt, _joined(survey.corrupt)), *at_end]
    if is_cut and found:
        found[0] = replace(found[0], broker=CUTS_THE_LOG, refuses_writes=True)
    elif is_cut:
        yield torn_segment(segment, survey.valid_bytes)
    yield from found


def _joined(ranges: Iterable[CorruptRange]) -> list[CorruptRange]:
    """Join neighbouring bad bytes that may have had the same offsets: one fault made them."""
    joined: list[CorruptRange] = []
    for it in sorted(ranges, key=lambda it: it.position):
        before = joined[-1] if joined else it
        is_next = bool(joined) and it.position <= before.position + before.length
        is_open = before.end_offset is None or it.start_offset < before.end_offset
        if is_next and (is_open or it.start_offset == before.start_offset):
            length = max(before.length, it.position + it.length - before.position)
            joined[-1] = replace(before, length=length, end_offset=it.end_offset)
        else:
            joined.append(it)
    return joined


def survey_segment(segment: Segment) -> SegmentSurvey:
    """Walk a segment's batches and compare their checksums."""
    surveyor = _Surveyor(segment)
    with segment.open_log() as file:
        surveyor.walk(file)
    return surveyor.survey()


class _Surveyor:
    """Follows a walk over one segment; bad bytes are noted and stepped over."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
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

    def walk(self, file: LogFile) -> None:
        """Look at every batch of the file."""
        self._file_bytes = file.size()
        buffer = ReadBuffer()
        walk = HeaderWalk(self._segment, file, 0, buffer, True, self._corrupt.append)
        for table in walk:
            self._take(walk, table)
        self._next_offset = walk.next_offset
        self._lost_to = self._find_lost(file, walk)
        if walk.torn_end:
            self._torn = _torn(self._segment, walk.position, walk.torn_end)

    def _find_lost(self, file: LogFile, walk: HeaderWalk) -> int | None:
        """Look for offsets that are gone; a crash can leave such indexes in the last segment."""
        segment = self._segment
        if segment.promised_end is not None and walk.known_offset < segment.promised_end:
            self._evidence = f"what was copied behind it begins with offset {segment.promised_end}"
            return segment.promised_end - 1
        if segment.end_offset_bound is None and not segment.is_index_trusted:
            return None
        named = index_trust.offset_beyond_end(segment, file, walk.position, walk.known_offset)
        self._evidence = "" if named is None else f"its index names offset {named}"
        return named

    def _take(self, walk: HeaderWalk, table: HeaderTable) -> None:
        self._findings += _header_findings(walk, table)
        self._epochs += epoch_runs(table, self._segment.log_path)
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


def check_indexes(
    log: PartitionLog, survey: SegmentSurvey, known: KnownAborts
) -> Iterator[Finding]:
    """Compare the indexes of a segment with its batches, as far as these are known."""
    yield from _first_of_file(_check_offset_index(survey))
    yield from _first_of_file(_check_time_index(survey))
    fault = find_transaction_index_fault(log, survey.segment, known)
    if fault is not None:
        yield _index_finding(survey.segment, FindingKind.TRANSACTION_INDEX, -1, fault)


def known_aborts(survey: SegmentSurvey, producers: ProducerReplay) -> KnownAborts:
    """Follow the transactions of the next segment, up to its first bad bytes."""
    aborted = producers.follow(survey.segment, survey.valid_bytes)
    is_damaged = survey.stop is not None or survey.lost_to is not None
    return KnownAborts(aborted=aborted, next_offset=survey.next_offset, is_damaged=is_damaged)


def _up_to_recovery_point(survey: SegmentSurvey, log: PartitionLog) -> SegmentSurvey:
    """Add what the recovery point tells of the end of a log: all below it was flushed."""
    points = log.state.recovery_points or {}
    recovery_point = points.get(log.topic_partition, 0)
    is_last = survey.segment.end_offset_bound is None and not any(
        lost.start_offset >= survey.next_offset for lost in log.lost_segments
    )
    if is_last and survey.lost_to is not None and 0 < recovery_point <= survey.lost_to:
        # What a clean stop flushed ends there: an index that names more is wrong.
        survey = replace(survey, lost_to=None)
    is_told = survey.lost_to is not None or not survey.is_whole
    if is_told or not is_last:
        return survey
    if survey.next_offset < recovery_point:
        evidence = f"the log's recovery point in {RECOVERY_POINT_CHECKPOINT} is {recovery_point}"
        return replace(survey, lost_to=recovery_point - 1, evidence=evidence)
    # What a consumer may have seen is gone, as far as this file can be believed.
    mark = (log.state.high_watermarks or {}).get(log.topic_partition, 0)
    if survey.torn is None and survey.next_offset < mark:
        evidence = f"the high watermark in {HIGH_WATERMARK_CHECKPOINT} is {mark}"
        return replace(survey, lost_to=mark - 1, evidence=evidence)
    return survey


def _check_end(survey: SegmentSurvey) -> Iterator[Finding]:
    """Tell of offsets behind the last batch that are known to be gone."""
    lost_range = survey.lost_range
    if lost_range is None or any(_may_have_had(it, lost_range) for it in survey.corrupt):
        return
    start_offset, end_offset = lost_range
    rest = "" if survey.torn is None else f", behind them {survey.torn.detail}"
    yield Finding(
        kind=FindingKind.LOST_OFFSETS,
        path=survey.segment.log_path,
        topic_partition=survey.segment.topic_partition,
        position=survey.end_position,
        start_offset=start_offset,
        end_offset=end_offset,
        detail=f"the log's bytes end here{rest}, {survey.evidence}",
    )


def _may_have_had(bad: CorruptRange, lost_range: tuple[int, int]) -> bool:
    """Tell whether bad bytes may have had offsets that are gone behind the last batch."""
    is_before = bad.start_offset <= lost_range[0]
    return bad.end_offset is None or (is_before and lost_range[1] <= bad.end_offset)


def _read_entries(
    segment: Segment, kind: FindingKind, open_index: Callable[[], IndexFile], price: str
) -> Generator[Finding, None, npt.NDArray[np.void] | None]:
    """Read the entries of an index; None where it is missing or malformed, which is then found."""
    path = _index_path(segment, kind)
    if not segment.storage.exists(path):
        yield Finding(
            kind=FindingKind.MISSING_INDEX,
            path=path,
            topic_partition=segment.topic_partition,
            detail=f"no {kind}: {price}",
        )
        return None
    with open_index() as index:
        fault = index.size_fault()
        if fault:
            yield _index_finding(segment, kind, -1, fault)
            return None
        if index.is_well_formed(whole=True):
            return index.entries()
    yield _index_finding(segment, kind, -1, "entries do not ascend")
    return None


def _check_offset_index(survey: SegmentSurvey) -> Iterator[Finding]:
    segment = survey.segment
    entries = yield from _read_entries(
        segment,
        FindingKind.OFFSET_INDEX,
        segment.offset_index,
        "lookups walk the segment from its start",
    )
    if entries is None:
        return
    offsets = entries["relative_offset"].astype(np.int64) + segment.base_offset
    positions = entries["position"].astype(np.int64)
    rows = np.searchsorted(survey.positions, positions)
    reached = np.maximum.accumulate(survey.last_offsets)
    ends = np.searchsorted(reached, offsets)
    for slot in range(len(entries)):
        offset, position = int(offsets[slot]), int(positions[slot])
        if survey.is_bad_at(position) or survey.is_missing(offset):
            continue
        reason = _offset_entry_fault(survey, offset, position, int(rows[slot]), int(ends[slot]))
        if reason:
            at = slot * entries.dtype.itemsize
            yield _index_finding(segment, FindingKind.OFFSET_INDEX, at, reason)


def _offset_entry_fault(
    survey: SegmentSurvey, offset: int, position: int, row: int, end_row: int
) -> str:
    """Tell what is wrong with an entry; an empty text where nothing is."""
    entry = f"entry (offset {offset}, position {position})"
    if row >= len(survey.positions):
        return f"{entry} points behind the last batch, which ends at {survey.end_position}"
    if int(survey.positions[row]) != position:
        return f"{entry} points between batches, the next starts at {survey.positions[row]}"
    if int(survey.last_offsets[row]) > offset:
        return f"{entry} is below the batch there, whose last offset is {survey.last_offsets[row]}"
    if end_row >= len(survey.last_offsets) or int(survey.last_offsets[end_row]) != offset:
        return f"{entry} names an offset with which no batch ends"
    return ""


def _check_time_index(survey: SegmentSurvey) -> Iterator[Finding]:
    segment = survey.segment
    entries = yield from _read_entries(
        segment,
        FindingKind.TIME_INDEX,
        segment.time_index,
        "lookups by time walk the segment from its start",
    )
    if entries is None:
        return
    maxima = np.maximum.accumulate(survey.max_timestamps)
    offsets = entries["relative_offset"].astype(np.int64) + segment.base_offset
    rows = np.searchsorted(np.maximum.accumulate(survey.last_offsets), offsets)
    for slot in range(len(entries)):
        row, timestamp = int(rows[slot]), int(entries["timestamp"][slot])
        entry = f"entry (timestamp {timestamp}, offset {offsets[slot]})"
        at = slot * entries.dtype.itemsize
        if survey.is_missing(int(offsets[slot])):
            continue
        if row >= len(maxima):
            reason = f"{entry} lies behind the last batch"
            yield _index_finding(segment, FindingKind.TIME_INDEX, at, reason)
        elif int(maxima[row]) != timestamp and not _may_be_of_bad_batch(
            survey, row, int(maxima[row]), timestamp
        ):
            reason = f"{entry}, the largest timestamp up to there is {maxima[row]}"
            yield _index_finding(segment, FindingKind.TIME_INDEX, at, reason)
    largest = int(maxima[-1]) if len(maxima) else -1
    # An entry of timestamp 0 at the base offset cannot be told from the zeros of preallocation.
    if segment.is_index_trusted and largest > max(_last_timestamp(entries), 0):
        reason = f"ends with {_last_timestamp(entries)}, the largest timestamp is {largest}"
        yield _index_finding(segment, FindingKind.TIME_INDEX, -1, reason)


def _may_be_of_bad_batch(survey: SegmentSurvey, row: int, largest: int, timestamp: int) -> bool:
    """Tell whether a bad batch may have had a timestamp that no good one up to a row has."""
    is_behind_bad = bool(survey.corrupt) and survey.positions[row] > survey.corrupt[0].position
    return is_behind_bad and timestamp > largest


def _last_timestamp(entries: npt.NDArray[np.void]) -> int:
    return int(entries["timestamp"][-1]) if len(entries) else -1


def _check_reach(survey: SegmentSurvey) -> Iterator[Finding]:
    """Check that a broker's index can hold all offsets of a segment."""
    segment = survey.segment
    if survey.next_offset - 1 - segment.base_offset > MAX_RELATIVE_OFFSET:
        yield Finding(
            kind=FindingKind.OFFSET_ORDER,
            path=segment.log_path,
            topic_partition=segment.topic_partition,
            detail=(
                f"last offset {survey.next_offset - 1} is more than {MAX_RELATIVE_OFFSET} above "
                "the base offset: a broker cannot load the segment"
            ),
        )


def _decode_all(survey: SegmentSurvey) -> list[CorruptRange]:
    """Decode every record; gives the batches that are bad, though their checksums are right."""
    segment = survey.segment
    found: list[CorruptRange] = []
    scanner = SegmentScanner(
        segment.topic_partition,
        ScanOptions(columns=("key", "value", "headers"), skip_corrupt=True, read_ahead=False),
        on_corrupt=found.append,
    )
    for _ in scanner.scan(segment):
        pass
    known = {it.position for it in survey.corrupt}
    return [it for it in found if it.position not in known]


def _verify_log_directory(log_directory: str) -> Iterator[Finding]:
    if not os.path.isdir(log_directory):
        return
    journal = read_open_commit(log_directory)
    if journal is not None and not journal.is_visible:
        yield Finding(
            kind=FindingKind.OPEN_COMMIT,
            path=log_directory,
            detail=f"write {journal.write_id} is committed but not visible yet",
            broker="a broker does not start",
        )
    for path, write_id in list_staged(log_directory):
        yield Finding(
            kind=FindingKind.STAGED_FILE,
            path=path,
            detail=f"staged by write {write_id}, swept seven days after its last change",
        )


def _corrupt(found: CorruptRange) -> Finding:
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


def _index_finding(segment: Segment, kind: FindingKind, position: int, reason: str) -> Finding:
    return Finding(
        kind=kind,
        path=_index_path(segment, kind),
        topic_partition=segment.topic_partition,
        position=position,
        detail=reason,
    )


def _index_path(segment: Segment, kind: FindingKind) -> str:
    name = segment_file_name(segment.base_offset, _INDEX_SUFFIXES[kind])
    return f"{segment.directory}/{name}{segment.suffix}"


def _first_of_file(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Give the first finding about a file, with the number of those that it stands for."""
    first = next(findings, None)
    if first is None:
        return
    others = sum(1 for _ in findings)
    if others:
        first = replace(first, detail=f"{first.detail}, and {others} more entries")
    yield first
