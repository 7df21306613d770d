"""Compares everything in a partition with its batches: framing, checksums, offsets, indexes.

Nothing is written and no lock is taken, so what a running broker has in hand may be reported as
torn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from spark_segmentlog.log.directory.open_commit import read_open_commit
from spark_segmentlog.log.directory.paths import log_directory_of
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    parse_offset_checkpoint,
    read_text,
)
from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.io.reading import Storage, is_local
from spark_segmentlog.log.io.signature import FileSignature
from spark_segmentlog.log.names import LOG_SUFFIX, OffsetRange, TopicPartition, segment_file_name
from spark_segmentlog.log.partition.leader_epoch_check import EpochRun, check_leader_epochs
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog, while_it_is_there
from spark_segmentlog.log.partition.producer_replay import ProducerReplay
from spark_segmentlog.log.partition.transaction_index_check import KnownAborts
from spark_segmentlog.log.segment.scanner import ScanOptions, SegmentScanner
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk_options import CorruptRange
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.log.tier.stores import is_store
from spark_segmentlog.log.upkeep.index_check import check_indexes
from spark_segmentlog.log.upkeep.segment_survey import (
    SegmentSurvey,
    corrupt_finding,
    survey_segment,
)
from spark_segmentlog.log.upkeep.snapshot_check import check_snapshot_at, check_snapshots
from spark_segmentlog.log.write.cut_check import CUTS_THE_LOG, torn_segment
from spark_segmentlog.log.write.preflight import surroundings
from spark_segmentlog.log.write.staged_leftovers import list_staged

LOOK_AGAIN_SECONDS: Final = (0.2, 0.5, 1.5)

AT_WORK_NS: Final = 30_000_000_000

# Told of every segment whose batches were looked at; again when it was written meanwhile.
OnSegment = Callable[[SegmentSurvey], None]


def _ignore(survey: SegmentSurvey) -> None:
    """Take no note of a segment."""


def verify(
    paths: str | Sequence[str],
    *,
    topic_partitions: Iterable[TopicPartition] | None = None,
    deep: bool = False,
    remote: RemoteOptions = NO_REMOTE,
    include_deleted: bool = False,
    on_segment: OnSegment = _ignore,
) -> Iterator[Finding]:
    """Verify log directories, partition directories or `.log` files.

    Parameters
    ----------
    topic_partitions : iterable of TopicPartition, optional
        Which ones; all where not given.
    deep : bool
        Whether every record is decompressed and decoded too.
    remote : RemoteOptions
        Stores of remote segments, which are verified with the local ones.
    include_deleted : bool
        Whether ``-delete`` and ``-stray`` directories are looked at too.
    on_segment : callable
        Told of every segment whose batches were looked at.
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
    for log in partition_logs(directories, wanted, remote, include_deleted=include_deleted):
        found = verify_partition(log, deep=deep, on_segment=on_segment)
        yield from while_it_is_there(log, found)


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
        mark = FileSignature.from_path(
            os.path.join(log_directory_of(path), HIGH_WATERMARK_CHECKPOINT)
        )
    except (FileNotFoundError, NotADirectoryError):
        return False
    return time.time_ns() - mark.modified_ns < AT_WORK_NS


def partition_logs(
    paths: Sequence[str],
    wanted: Container[TopicPartition] | None,
    remote: RemoteOptions = NO_REMOTE,
    *,
    include_deleted: bool = False,
    storage: Storage | None = None,
) -> Iterator[PartitionLog]:
    """Open every copy of the partitions below some paths; a log directory may have none yet."""
    manager = LogManager.open(
        paths,
        filesystem=storage,
        may_be_empty=True,
        remote=remote,
        include_deleted=include_deleted,
    )
    for log in manager.copies:
        if wanted is None or log.topic_partition in wanted:
            yield log


def verify_partition(
    log: PartitionLog, *, deep: bool = False, on_segment: OnSegment = _ignore
) -> Iterator[Finding]:
    """Verify the segments of one partition and their indexes.

    What is found in a segment counts if the segment was the same all the while.
    """

    producers = ProducerReplay(log)
    epochs: dict[int, tuple[EpochRun, ...]] = {}
    ends: dict[int, int | None] = {}

    def verify(segment: Segment) -> list[Finding]:
        survey = _up_to_recovery_point(survey_segment(segment, check_records=deep), log)
        on_segment(survey)
        epochs[segment.base_offset] = survey.epochs
        is_damaged = survey.stop is not None or survey.lost_to is not None
        ends[segment.base_offset] = None if is_damaged else survey.next_offset
        known = known_aborts(survey, producers)
        undecoded = _not_in(survey, _decode_all(segment)) if survey.has_bad_records else []
        if known.is_damaged:
            producers.lose_track(segment)
        return _verify_segment(log, survey, producers, known, undecoded)

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
        lambda segment, _: ((finding, 0) for finding in log.looked_at(segment, verify))
    )
    compared = {*log.base_offsets.tolist(), *filter(None, ends.values())}
    yield from check_snapshots(log, compared)
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


def _lost_segment(lost: OffsetRange, log: PartitionLog) -> Finding:
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
    log: PartitionLog,
    survey: SegmentSurvey,
    producers: ProducerReplay,
    known: KnownAborts,
    undecoded: Sequence[CorruptRange],
) -> list[Finding]:
    bad = replace(survey, corrupt=(*survey.corrupt, *undecoded))
    findings = [*survey.findings, *_bad_bytes(survey, _check_end(bad))]
    if survey.torn is not None and survey.lost_to is None:
        findings.append(survey.torn)
    findings.extend(_check_reach(survey))
    findings.extend(map(corrupt_finding, undecoded))
    findings.extend(check_indexes(log, bad, known))
    if not known.is_damaged:
        findings.extend(check_snapshot_at(log, survey, producers))
    return findings


def _bad_bytes(survey: SegmentSurvey, at_end: Iterator[Finding]) -> Iterator[Finding]:
    """Tell of bad and lost bytes, and where a broker's recovery would cut the log at the first."""
    segment = survey.segment
    is_recovered = segment.end_offset_bound is not None and not segment.is_index_trusted
    is_cut = is_recovered and survey.valid_bytes < survey.file_bytes
    found = [*map(corrupt_finding, _joined(survey.corrupt)), *at_end]
    if is_cut and found:
        found[0] = replace(found[0], broker=CUTS_THE_LOG, refuses_writes=True)
    elif is_cut:
        yield torn_segment(segment, survey.valid_bytes)
    yield from found


def _joined(ranges: Iterable[CorruptRange]) -> list[CorruptRange]:
    """Join neighbouring bad bytes that may have had the same offsets: one fault made them."""
    joined: list[CorruptRange] = []
    for bad_range in sorted(ranges, key=lambda bad_range: bad_range.position):
        before = joined[-1] if joined else bad_range
        is_next = bool(joined) and bad_range.position <= before.position + before.length
        is_open = before.end_offset is None or bad_range.start_offset < before.end_offset
        if is_next and (is_open or bad_range.start_offset == before.start_offset):
            length = max(before.length, bad_range.position + bad_range.length - before.position)
            joined[-1] = replace(before, length=length, end_offset=bad_range.end_offset)
        else:
            joined.append(bad_range)
    return joined


def known_aborts(survey: SegmentSurvey, producers: ProducerReplay) -> KnownAborts:
    """Follow the transactions of the next segment, up to its first bad bytes."""
    aborted = producers.follow(survey.segment, survey.valid_bytes if survey.has_producers else 0)
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
    mark = log.state.reached_offset(log.topic_partition)
    if survey.torn is None and survey.next_offset < mark:
        evidence = f"the high watermark in {HIGH_WATERMARK_CHECKPOINT} is {mark}"
        return replace(survey, lost_to=mark - 1, evidence=evidence)
    return survey


def _check_end(survey: SegmentSurvey) -> Iterator[Finding]:
    """Tell of offsets after the last batch that are known to be gone."""
    lost_range = survey.lost_range
    if lost_range is None or any(
        _may_have_had(bad_range, lost_range) for bad_range in survey.corrupt
    ):
        return
    start_offset, end_offset = lost_range
    rest = "" if survey.torn is None else f", after them {survey.torn.detail}"
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
    """Tell whether bad bytes may have had offsets that are gone after the last batch."""
    is_before = bad.start_offset <= lost_range[0]
    return bad.end_offset is None or (is_before and lost_range[1] <= bad.end_offset)


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


def _decode_all(segment: Segment) -> list[CorruptRange]:
    """Decode every record, only to tell all bytes that are bad, why, and what is missing for it."""
    found: list[CorruptRange] = []
    scanner = SegmentScanner(
        segment.topic_partition,
        ScanOptions(columns=(), skip_corrupt=True, read_ahead=False),
        on_corrupt=found.append,
    )
    for _ in scanner.scan(segment):
        pass
    return found


def _not_in(survey: SegmentSurvey, found: Iterable[CorruptRange]) -> list[CorruptRange]:
    """Leave out what a survey has found; there stay batches that are bad with right checksums."""
    known = {bad_range.position for bad_range in survey.corrupt}
    return [bad_range for bad_range in found if bad_range.position not in known]


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
