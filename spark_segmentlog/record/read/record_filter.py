"""Which records become rows: told exactly by a record, and in part by the header of its batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_segmentlog.record.kernels.headers import Bounds, select_entries
from spark_segmentlog.record.layout import INT64_MAX
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.types import Bools

_INT64_MIN = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records become rows; exact, record by record.

    Parameters
    ----------
    start_offset, end_offset : int
        Range of offsets, the end exclusive.
    min_timestamp_ms, max_timestamp_ms : int, optional
        Bounds of the timestamp, both inclusive. Records of format 0 have timestamp -1.
    """

    start_offset: int = 0
    end_offset: int = INT64_MAX
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None

    def bounds(self) -> Bounds:
        """Give the four bounds as 64-bit numbers."""
        low, high = self.min_timestamp_ms, self.max_timestamp_ms
        return Bounds(
            start_offset=_clamped(self.start_offset),
            end_offset=_clamped(self.end_offset),
            min_timestamp_ms=_INT64_MIN if low is None else _clamped(low),
            max_timestamp_ms=INT64_MAX if high is None else _clamped(high),
        )


EVERY_RECORD = RecordFilter()


@dataclass(frozen=True, slots=True)
class EntryChoice:
    """What a read does with the entries of a header table, one mask each.

    Attributes
    ----------
    selected : ndarray of bool
        They may hold rows.
    verified_only : ndarray of bool
        Markers and transactional batches in the range of offsets that give no row.
    has_transactions : bool
        Whether transactional batches are selected.
    """

    selected: Bools
    verified_only: Bools
    has_transactions: bool


def choose_entries(table: HeaderTable, record_filter: RecordFilter) -> EntryChoice:
    """Choose by their headers the entries that may hold records that pass a filter."""
    selected, verified_only = np.empty(len(table), np.bool_), np.empty(len(table), np.bool_)
    has_transactions = select_entries(
        table.entries,
        tuple(record_filter.bounds()),
        selected,
        verified_only,
    )
    return EntryChoice(selected, verified_only, has_transactions)


def _clamped(value: int) -> int:
    return min(max(value, _INT64_MIN), INT64_MAX)
