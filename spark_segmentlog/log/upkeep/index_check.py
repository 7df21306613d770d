"""Compares the indexes of a segment with its batches.

An entry is right by what it promises, whoever wrote it:

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

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.formats.index_file import IndexFile
from spark_segmentlog.log.names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.transaction_index_check import (
    KnownAborts,
    find_transaction_index_fault,
)
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey

_INDEX_SUFFIXES: Final = {
    FindingKind.OFFSET_INDEX: OFFSET_INDEX_SUFFIX,
    FindingKind.TIME_INDEX: TIME_INDEX_SUFFIX,
    FindingKind.TRANSACTION_INDEX: TRANSACTION_INDEX_SUFFIX,
}

# What is wrong with an entry of an offset index.
_RIGHT, _AFTER_ALL, _BETWEEN, _BELOW, _NO_END = range(5)


def check_indexes(
    log: PartitionLog, survey: SegmentSurvey, known: KnownAborts
) -> Iterator[Finding]:
    """Compare the indexes of a segment with its batches, as far as these are known."""
    yield from _first_of_file(_check_offset_index(survey))
    yield from _first_of_file(_check_time_index(survey))
    fault = find_transaction_index_fault(log, survey.segment, known)
    if fault is not None:
        yield _index_finding(survey.segment, FindingKind.TRANSACTION_INDEX, -1, fault)


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
    reached = np.maximum.accumulate(survey.last_offsets)
    rows, ends = np.searchsorted(survey.positions, positions), np.searchsorted(reached, offsets)
    batches_count = len(survey.positions)
    starts, last_offsets = np.append(survey.positions, -1), np.append(survey.last_offsets, -1)
    faults = np.select(
        [
            rows == batches_count,
            starts[rows] != positions,
            last_offsets[rows] > offsets,
            (ends == batches_count) | (last_offsets[ends] != offsets),
        ],
        [_AFTER_ALL, _BETWEEN, _BELOW, _NO_END],
        _RIGHT,
    )
    for entry_index in np.flatnonzero(faults != _RIGHT).tolist():
        offset, position = int(offsets[entry_index]), int(positions[entry_index])
        if survey.is_bad_at(position) or survey.is_missing(offset):
            continue
        fault = _worded(survey, int(faults[entry_index]), int(rows[entry_index]))
        reason = f"entry (offset {offset}, position {position}) {fault}"
        at = entry_index * entries.dtype.itemsize
        yield _index_finding(segment, FindingKind.OFFSET_INDEX, at, reason)


def _worded(survey: SegmentSurvey, fault: int, row: int) -> str:
    """Say what is wrong with an entry of an offset index whose position is found at a row."""
    if fault == _AFTER_ALL:
        return f"points after the last batch, which ends at {survey.end_position}"
    if fault == _BETWEEN:
        return f"points between batches, the next starts at {survey.positions[row]}"
    if fault == _BELOW:
        return f"is below the batch there, whose last offset is {survey.last_offsets[row]}"
    return "names an offset with which no batch ends"


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
    is_other = np.append(maxima, -1)[rows] != entries["timestamp"]
    for entry_index in np.flatnonzero((rows == len(maxima)) | is_other).tolist():
        row, timestamp = int(rows[entry_index]), int(entries["timestamp"][entry_index])
        entry = f"entry (timestamp {timestamp}, offset {offsets[entry_index]})"
        at = entry_index * entries.dtype.itemsize
        if survey.is_missing(int(offsets[entry_index])):
            continue
        if row >= len(maxima):
            reason = f"{entry} lies after the last batch"
            yield _index_finding(segment, FindingKind.TIME_INDEX, at, reason)
        elif not _may_be_of_bad_batch(survey, row, int(maxima[row]), timestamp):
            reason = f"{entry}, the largest timestamp up to there is {maxima[row]}"
            yield _index_finding(segment, FindingKind.TIME_INDEX, at, reason)
    largest = int(maxima[-1]) if len(maxima) else -1
    # An entry of timestamp 0 at the base offset cannot be told from the zeros of preallocation.
    if segment.is_index_trusted and largest > max(_last_timestamp(entries), 0):
        reason = f"ends with {_last_timestamp(entries)}, the largest timestamp is {largest}"
        yield _index_finding(segment, FindingKind.TIME_INDEX, -1, reason)


def _may_be_of_bad_batch(survey: SegmentSurvey, row: int, largest: int, timestamp: int) -> bool:
    """Tell whether a bad batch may have had a timestamp that no good one up to a row has."""
    is_after_bad = bool(survey.corrupt) and survey.positions[row] > survey.corrupt[0].position
    return is_after_bad and timestamp > largest


def _last_timestamp(entries: npt.NDArray[np.void]) -> int:
    return int(entries["timestamp"][-1]) if len(entries) else -1


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
