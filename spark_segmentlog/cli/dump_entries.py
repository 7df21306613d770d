"""What is in the files of a partition, entry by entry, each a JSON object with a ``type``.

Nothing is taken on trust: a batch with a wrong checksum is given with ``isValid`` false, bytes that
are no batch as ``corruptBytes``, and the walk goes on at the next good batch after them. Batches
come in groups of neighbours, of which `dump_columns` makes lines faster than entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from spark_segmentlog.cli.dump_options import DumpOptions, Entry, place_of
from spark_segmentlog.cli.dump_records import batch_entry, read_records, record_entry
from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.io.reading import LogFile, is_zero_from
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import CorruptRange, WalkOptions
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.types import Bools, Bytes

# Neighbouring batches of which lines are made at once, by one thread.
_PART_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchGroup:
    """Neighbouring batches of a segment, in memory until the next ones are asked for.

    Attributes
    ----------
    table : HeaderTable
        Their headers, at least one.
    is_valid : ndarray of bool
        Whether their checksums are right.
    buffer : ndarray of uint8
        Holds their bytes; the first one is that of `file_position`.
    """

    segment: Segment
    options: DumpOptions
    table: HeaderTable
    is_valid: Bools
    buffer: Bytes
    file_position: int

    @property
    def next_offset(self) -> int:
        """Offset after the last of them."""
        return int(self.table.last_offset[-1]) + 1

    def parts(self) -> list[BatchGroup]:
        """Cut into smaller groups, in the same memory."""
        ends = np.cumsum(self.table.size_bytes) // _PART_BYTES
        cuts = (np.flatnonzero(ends[1:] != ends[:-1]) + 1).tolist()
        return [
            replace(self, table=self.table.between(start, end), is_valid=self.is_valid[start:end])
            for start, end in pairwise([0, *cuts, len(self.table)])
        ]

    def entries(self) -> Iterator[Entry]:
        """Give the batches and their records one by one."""
        for row in range(len(self.table)):
            batch = batch_entry(self.segment, self.table, row, is_valid=bool(self.is_valid[row]))
            records = self._record_entries(batch)
            if self.options.is_of_records:
                first = next(records, None)
                if first is None:
                    continue
                yield batch
                yield first
            else:
                yield batch
            yield from records

    def _record_entries(self, batch: Entry) -> Iterator[Entry]:
        options = self.options
        if not options.records or (batch["isControl"] and not options.include_control):
            return
        start = batch["position"] - self.file_position
        data = self.buffer.data[start : start + batch["sizeBytes"]]
        try:
            for record in read_records(batch, data):
                if options.wants(record):
                    yield record_entry(batch, record, options)
        except CorruptRecordError as error:
            yield _corrupt_entry(self.segment, batch["position"], batch["sizeBytes"], error.reason)


def segment_parts(segment: Segment, options: DumpOptions) -> Iterator[Entry | BatchGroup]:
    """Walk one `.log`: batches, their records if wanted, bad bytes, the largest timestamp."""
    with segment.open_log() as file:
        yield {
            "type": "segment",
            **place_of(segment.topic_partition, segment.log_path),
            "baseOffset": segment.base_offset,
        }
        yield from _SegmentDump(segment, file, options).parts()


@dataclass(slots=True)
class _SegmentDump:
    segment: Segment
    file: LogFile
    options: DumpOptions
    corrupt: list[CorruptRange] = field(default_factory=list)
    largest: HeaderTable | None = None

    def parts(self) -> Iterator[Entry | BatchGroup]:
        options = self.options
        start_position = self.segment.start_position(
            self.file, options.start_offset, options.min_timestamp_ms
        )
        walk_options = WalkOptions(
            skip_corrupt=True, check_crcs=False, on_corrupt=self.corrupt.append
        )
        walk = HeaderWalk(self.segment, self.file, walk_options, position=start_position)
        is_past = False
        for table in walk:
            yield from self._corrupt_entries()
            yield from self._groups(walk, table)
            is_past = int(table.base_offset[-1]) >= options.end_offset
            if is_past:
                break
        yield from self._corrupt_entries()
        if not is_past:
            yield from self._tail_entries(walk.position)
        yield from self._largest_timestamp_entries()

    def _groups(self, walk: HeaderWalk, table: HeaderTable) -> Iterator[BatchGroup]:
        shown = table.select(self.options.chosen(table))
        if not len(shown):
            return
        is_valid = check_crcs(walk.buffer, shown, file_position=walk.file_position)
        self._note_largest(shown, is_valid)
        yield BatchGroup(
            segment=self.segment,
            options=self.options,
            table=shown,
            is_valid=is_valid,
            buffer=walk.buffer,
            file_position=walk.file_position,
        )

    def _note_largest(self, shown: HeaderTable, is_valid: Bools) -> None:
        """Keep the first batch that says to have the largest timestamp."""
        rows = np.flatnonzero(is_valid & (shown.records_count != 0))
        if not len(rows):
            return
        row = rows[shown.max_timestamp[rows].argmax()]
        if self.largest is None or shown.max_timestamp[row] > self.largest.max_timestamp[0]:
            self.largest = shown.select(np.array([row]))

    def _corrupt_entries(self) -> Iterator[Entry]:
        for found in self.corrupt:
            yield {
                **_corrupt_entry(self.segment, found.position, found.length, found.reason),
                "startOffset": found.start_offset,
                "endOffset": found.end_offset,
            }
        self.corrupt.clear()

    def _tail_entries(self, position: int) -> Iterator[Entry]:
        length = self.file.size() - position
        if length > 0:
            is_zero = is_zero_from(self.file, position)
            yield {
                "type": "tail",
                **place_of(self.segment.topic_partition, self.segment.log_path),
                "position": position,
                "lengthBytes": length,
                "isZero": is_zero,
            }

    def _largest_timestamp_entries(self) -> Iterator[Entry]:
        """Find the record with the largest timestamp, in the one batch that says to have it."""
        if self.largest is None or self.largest.max_timestamp[0] < 0:
            return
        batch = batch_entry(self.segment, self.largest, 0, is_valid=True)
        data = memoryview(self.file.read_at(batch["position"], batch["sizeBytes"]))
        try:
            last = max(
                read_records(batch, data), key=lambda record: record.timestamp_ms, default=None
            )
        except CorruptRecordError:
            # Given with its batch above, where records are wanted.
            last = None
        yield {
            "type": "largestTimestamp",
            **place_of(self.segment.topic_partition, self.segment.log_path),
            "timestampMs": batch["maxTimestampMs"] if last is None else last.timestamp_ms,
            "offset": None if last is None else last.offset,
        }


def _corrupt_entry(segment: Segment, position: int, length: int, reason: str) -> Entry:
    return {
        "type": "corruptBytes",
        **place_of(segment.topic_partition, segment.log_path),
        "position": position,
        "lengthBytes": length,
        "reason": reason,
    }
