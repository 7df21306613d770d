"""Compares everything in a partition with its batches: framing, checksums, offsets, indexes.

Nothing is written and no lock is taken, so what a running broker has in hand may be reported as
torn. An index entry is right by what it promises, whoever wrote it:

- offset index: a batch starts at the position, ends at or below the offset, and some batch from
  there on ends with it. Ours and new brokers' entries name the batch at the position; older
  brokers index a whole append, which may hold several batches.
- time index: the timestamp is the largest one of all batches up to the one with the offset. The
  offset may be that of the record or the last of its batch.

An index that is sorted and lies is found here, not by reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import CorruptRecordError, EmptyLogDirectoryError
from spark_segmentlog.log.commit_journal import read_journal
from spark_segmentlog.log.file_names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from spark_segmentlog.log.files import ZERO_CHECK_BYTES, is_zero_from
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.index_file import IndexFile
from spark_segmentlog.log.log_manager import LogManager
from spark_segmentlog.log.partition_log import PartitionLog
from spark_segmentlog.log.segment import HeaderWalk, ReadBuffer, Segment
from spark_segmentlog.log.segment_tail import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.staging import list_staged
from spark_segmentlog.record.decoder import RecordDecoder
from spark_segmentlog.record.header_table import check_crcs

MAX_FINDINGS_A_FILE: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSurvey:
    """The batches of one segment up to the first bytes that are none, a row each.

    Attributes
    ----------
    valid_bytes : int
        End of the good batches.
    stop : Finding or None
        What lies behind them, if anything but zeros.
    """

    segment: Segment
    valid_bytes: int
    file_bytes: int
    positions: npt.NDArray[np.int64]
    base_offsets: npt.NDArray[np.int64]
    last_offsets: npt.NDArray[np.int64]
    max_timestamps: npt.NDArray[np.int64]
    stop: Finding | None = None

    @property
    def is_whole(self) -> bool:
        """Whether these are all batches: no good one can lie behind bad bytes."""
        return self.stop is None or self.stop.kind is FindingKind.TORN_TAIL

    @property
    def next_offset(self) -> int:
        """Offset behind the last good batch."""
        last = self.last_offsets[-1:].tolist()
        return last[0] + 1 if last else self.segment.base_offset


def verify(
    paths: str | Sequence[str],
    *,
    topic_partitions: Iterable[TopicPartition] | None = None,
    deep: bool = False,
) -> Iterator[Finding]:
    """Verify log directories, partition directories or `.log` files.

    Parameters
    ----------
    paths : str or sequence of str
    topic_partitions : iterable of TopicPartition, optional
        Which ones; all where not given.
    deep : bool
        Whether every record is decompressed and decoded too.

    Yields
    ------
    Finding
    """
    directories = [paths] if isinstance(paths, str) else list(paths)
    for directory in directories:
        yield from _verify_log_directory(directory)
    wanted = None if topic_partitions is None else set(topic_partitions)
    for log in partition_logs(directories, wanted):
        yield from verify_partition(log, deep=deep)


def partition_logs(
    paths: Sequence[str], wanted: Container[TopicPartition] | None
) -> Iterator[PartitionLog]:
    """Open the partitions below some paths; a log directory may have none yet."""
    used = [path for path in paths if not _is_empty(path)]
    if used:
        for topic_partition, log in LogManager.open(used).topic_partitions.items():
            if wanted is None or topic_partition in wanted:
                yield log


def _is_empty(path: str) -> bool:
    try:
        LogManager.open(path)
    except EmptyLogDirectoryError:
        return True
    return False


def verify_partition(log: PartitionLog, *, deep: bool = False) -> Iterator[Finding]:
    """Verify the segments of one partition and their indexes."""
    next_offset = 0
    for segment in log.segments:
        survey = survey_segment(segment)
        yield from _check_offsets(survey, next_offset)
        if survey.stop is not None:
            yield survey.stop
        yield from check_indexes(survey)
        if deep:
            yield from _decode_all(segment)
        next_offset = int(survey.last_offsets[-1]) + 1 if len(survey.last_offsets) else next_offset


def survey_segment(segment: Segment) -> SegmentSurvey:
    """Walk a segment's batches and compare their checksums, up to the first bad one."""
    columns: list[tuple[npt.NDArray[np.int64], ...]] = []
    stop: Finding | None = None
    valid_bytes = 0
    with segment.open_log() as file:
        file_bytes = file.size()
        walk = HeaderWalk(segment, file, 0, ReadBuffer(), False, None)
        try:
            for table in walk:
                is_good = check_crcs(walk.buffer, table, file_position=walk.file_position)
                good = table if is_good.all() else table.select(np.arange(int(is_good.argmin())))
                if len(good):
                    columns.append(
                        (good.position, good.base_offset, good.last_offset, good.max_timestamp)
                    )
                    valid_bytes = int(good.position[-1] + good.size_bytes[-1])
                if len(good) < len(table):
                    stop = _corrupt(segment, int(table.position[len(good)]), "wrong checksum")
                    break
        except CorruptRecordError as error:
            stop = _corrupt(segment, error.position, error.reason)
    if stop is None and valid_bytes < file_bytes and not _is_zero_tail(segment, valid_bytes):
        stop = _torn(segment, valid_bytes, file_bytes)
    return _survey(segment, valid_bytes, file_bytes, columns, stop)


def check_indexes(survey: SegmentSurvey) -> Iterator[Finding]:
    """Compare the indexes of a segment with its batches, as far as these are known."""
    yield from _limited(_check_offset_index(survey))
    yield from _limited(_check_time_index(survey))


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
    ends = np.searchsorted(survey.last_offsets, offsets)
    for slot in range(len(entries)):
        reason = _offset_entry_fault(
            survey, int(offsets[slot]), int(positions[slot]), int(rows[slot]), int(ends[slot])
        )
        if reason:
            at = slot * entries.dtype.itemsize
            yield _index_finding(segment, FindingKind.OFFSET_INDEX, at, reason)


def _offset_entry_fault(
    survey: SegmentSurvey, offset: int, position: int, row: int, end_row: int
) -> str:
    """Tell what is wrong with an entry; an empty text where nothing is."""
    entry = f"entry (offset {offset}, position {position})"
    if row >= len(survey.positions):
        if not survey.is_whole:
            return ""
        return f"{entry} points behind the last batch, which ends at {survey.valid_bytes}"
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
    rows = np.searchsorted(survey.last_offsets, offsets)
    for slot in range(len(entries)):
        row, timestamp = int(rows[slot]), int(entries["timestamp"][slot])
        entry = f"entry (timestamp {timestamp}, offset {offsets[slot]})"
        at = slot * entries.dtype.itemsize
        if row >= len(maxima) and not survey.is_whole:
            return
        if row >= len(maxima):
            reason = f"{entry} lies behind the last batch"
            yield _index_finding(segment, FindingKind.TIME_INDEX, at, reason)
        elif int(maxima[row]) != timestamp:
            reason = f"{entry}, the largest timestamp up to there is {maxima[row]}"
            yield _index_finding(segment, FindingKind.TIME_INDEX, at, reason)
    largest = int(maxima[-1]) if len(maxima) else -1
    # An entry of timestamp 0 at the base offset cannot be told from the zeros of preallocation.
    if segment.is_index_trusted and largest > max(_last_timestamp(entries), 0):
        reason = f"ends with {_last_timestamp(entries)}, the largest timestamp is {largest}"
        yield _index_finding(segment, FindingKind.TIME_INDEX, -1, reason)


def _last_timestamp(entries: npt.NDArray[np.void]) -> int:
    return int(entries["timestamp"][-1]) if len(entries) else -1


def _check_offsets(survey: SegmentSurvey, next_offset: int) -> Iterator[Finding]:
    """Check that offsets ascend, within the segment and from the one before."""
    segment = survey.segment
    if len(survey.positions) == 0:
        return
    floors = np.concatenate([[max(next_offset, segment.base_offset)], survey.last_offsets[:-1] + 1])
    is_bad = (survey.base_offsets < floors) | (survey.last_offsets < survey.base_offsets)
    bound = segment.end_offset_bound
    if bound is not None:
        is_bad |= survey.last_offsets >= bound
    for row in np.flatnonzero(is_bad)[:MAX_FINDINGS_A_FILE].tolist():
        yield Finding(
            kind=FindingKind.OFFSET_ORDER,
            path=segment.log_path,
            topic_partition=segment.topic_partition,
            position=int(survey.positions[row]),
            detail=(
                f"batch of offsets {survey.base_offsets[row]} to {survey.last_offsets[row]}, "
                f"allowed is from {floors[row]} on"
                + (f" and below {bound}" if bound is not None else "")
            ),
        )
    if int(survey.last_offsets[-1]) - segment.base_offset > MAX_RELATIVE_OFFSET:
        yield Finding(
            kind=FindingKind.OFFSET_ORDER,
            path=segment.log_path,
            topic_partition=segment.topic_partition,
            detail=(
                f"last offset {survey.last_offsets[-1]} is more than {MAX_RELATIVE_OFFSET} above "
                "the base offset: a broker cannot load the segment"
            ),
        )


def _decode_all(segment: Segment) -> Iterator[Finding]:
    """Decode every record, as a read that skips nothing would."""
    topic_partition = segment.topic_partition
    decoder = RecordDecoder(
        ("key", "value", "headers"),
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        source=segment.log_path,
    )
    with segment.open_log() as file:
        walk = HeaderWalk(segment, file, 0, ReadBuffer(), False, None)
        try:
            for table in walk:
                for _ in decoder.decode(walk.buffer, table, None, file_position=walk.file_position):
                    pass
        except CorruptRecordError as error:
            yield _corrupt(segment, error.position, error.reason)


def _verify_log_directory(log_directory: str) -> Iterator[Finding]:
    if not os.path.isdir(log_directory):
        return
    journal = read_journal(log_directory)
    if journal is not None and not journal.visible:
        yield Finding(
            kind=FindingKind.OPEN_COMMIT,
            path=log_directory,
            detail=f"write {journal.write_id} is committed but not visible yet",
        )
    for path, write_id in list_staged(log_directory):
        yield Finding(
            kind=FindingKind.STAGED_FILE,
            path=path,
            detail=f"staged by write {write_id}, swept seven days after its last change",
        )


def _survey(
    segment: Segment,
    valid_bytes: int,
    file_bytes: int,
    columns: Sequence[tuple[npt.NDArray[np.int64], ...]],
    stop: Finding | None,
) -> SegmentSurvey:
    positions, base_offsets, last_offsets, max_timestamps = (
        np.concatenate([np.empty(0, np.int64), *(part[field] for part in columns)])
        for field in range(4)
    )
    return SegmentSurvey(
        segment=segment,
        valid_bytes=valid_bytes,
        file_bytes=file_bytes,
        positions=positions,
        base_offsets=base_offsets,
        last_offsets=last_offsets,
        max_timestamps=max_timestamps,
        stop=stop,
    )


def _is_zero_tail(segment: Segment, position: int) -> bool:
    with segment.open_log() as file:
        return is_zero_from(file, position, np.empty(ZERO_CHECK_BYTES, np.uint8))


def _corrupt(segment: Segment, position: int, reason: str) -> Finding:
    return Finding(
        kind=FindingKind.CORRUPT_BATCH,
        path=segment.log_path,
        topic_partition=segment.topic_partition,
        position=position,
        detail=reason,
    )


def _torn(segment: Segment, valid_bytes: int, file_bytes: int) -> Finding:
    return Finding(
        kind=FindingKind.TORN_TAIL,
        path=segment.log_path,
        topic_partition=segment.topic_partition,
        position=valid_bytes,
        detail=f"{file_bytes - valid_bytes} bytes of a batch that is cut off",
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
    suffix = OFFSET_INDEX_SUFFIX if kind is FindingKind.OFFSET_INDEX else TIME_INDEX_SUFFIX
    return f"{segment.directory}/{segment_file_name(segment.base_offset, suffix)}{segment.suffix}"


def _limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Give the first findings of a file: the rest of an index that is wrong says nothing new."""
    yield from islice(findings, MAX_FINDINGS_A_FILE)
