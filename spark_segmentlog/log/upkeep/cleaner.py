"""One cleaning pass over the closed segments of a log: the map of latest offsets, and the groups.

Which records stay is told in `kept_records`, where they go in `cleaned_segment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from spark_segmentlog.errors import CrcMismatchError
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.upkeep.cleaned_segment import CleanedGroup, MeasuredSegment
from spark_segmentlog.log.upkeep.kept_records import KeptRecords
from spark_segmentlog.log.upkeep.kept_transactions import TransactionTracker
from spark_segmentlog.record.compact.batch_records import split_batches
from spark_segmentlog.record.compact.offset_map import OffsetMap
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.types import Int64s


def build_offset_map(
    offset_map: OffsetMap,
    segments: Sequence[Segment],
    tracker: TransactionTracker,
    *,
    start_offset: int,
    end_offset: int,
    max_decompressed_bytes: int,
) -> None:
    """Put the keys of closed segments from an offset on; `latest_offset` says how far it came.

    Raises
    ------
    CorruptRecordError
        Bad bytes; nothing was changed.
    """
    buffer = ReadBuffer()
    for segment in segments:
        with segment.walk(start_offset=start_offset, buffer=buffer) as walk:
            for table in walk:
                wanted = (table.last_offset >= start_offset) & (table.records_count != 0)
                rows = np.flatnonzero(wanted & ~table.is_control & ~tracker.contain(table))
                _require_good_crcs(walk, table, rows)
                for records in split_batches(
                    walk.buffer,
                    table,
                    rows,
                    file_position=walk.file_position,
                    source=segment.log_path,
                    max_held_bytes=max_decompressed_bytes,
                ):
                    keyed = (records.key_length >= 0) & (records.offset >= start_offset)
                    if not offset_map.put(records, keyed):
                        return
            walk.check_whole()
    offset_map.latest_offset = end_offset - 1


class GroupCleaner:
    """Cleans segments, one group into one new segment (seldom more), by one map."""

    def __init__(self, kept: KeptRecords) -> None:
        self._kept = kept
        self._tracker = kept.tracker
        self._rules = kept.rules
        self._buffer = ReadBuffer()

    def measure(self, segments: Sequence[Segment], modified_ns: Sequence[int]) -> CleanedGroup:
        """Tell what `clean` would leave of neighbouring segments; writes nothing."""
        group = CleanedGroup(segments[0].directory, segments[0].base_offset, MeasuredSegment)
        for segment, modified in zip(segments, modified_ns, strict=True):
            self._clean_segment(segment, modified // 1_000_000, group)
        return group

    def clean(self, segments: Sequence[Segment], modified_ns: Sequence[int]) -> CleanedGroup:
        """Write what stays of neighbouring segments to ``.cleaned`` files, complete and synced.

        Parameters
        ----------
        segments : sequence of Segment
            Ascending, closed.
        modified_ns : sequence of int
            Of their logs.
        """
        group = CleanedGroup(segments[0].directory, segments[0].base_offset)
        try:
            for segment, modified in zip(segments, modified_ns, strict=True):
                self._clean_segment(segment, modified // 1_000_000, group)
            group.finish(modified_ns[-1])
        except Exception:
            # A full disk must not stay full of what nobody will read.
            group.close()
            group.discard()
            raise
        return group

    def _clean_segment(self, segment: Segment, modified_ms: int, group: CleanedGroup) -> None:
        retain_legacy = modified_ms > self._rules.legacy_horizon_ms
        with segment.walk(buffer=self._buffer) as walk:
            for piece in walk.pieces():
                _require_good_crcs(walk, piece.table, np.arange(len(piece.table)))
                chunk = self._kept.of_piece(piece, segment.log_path, retain_legacy)
                group.append(chunk, self._rules.index_interval_bytes)
                group.add_aborted(self._tracker.entries)
                self._tracker.entries.clear()
            walk.check_whole()


def _require_good_crcs(walk: HeaderWalk, table: HeaderTable, rows: Int64s) -> None:
    chosen = table.select(rows)
    good = check_crcs(walk.buffer, chosen, file_position=walk.file_position)
    if not good.all():
        _raise_bad_crc(walk.segment.log_path, chosen, int(np.argmin(good)))


def _raise_bad_crc(path: str, table: HeaderTable, row: int) -> NoReturn:
    raise CrcMismatchError(
        f"crc mismatch in a closed segment: stored {int(table.crc[row]):#010x}; run segmentlog "
        "verify before its log is compacted",
        source=path,
        position=int(table.position[row]),
        base_offset=int(table.base_offset[row]),
        length=int(table.size_bytes[row]),
    )
