"""Entries are chosen by their headers as a plain loop over the headers chooses them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.layout import (
    CONTROL_MASK,
    MAGIC_V0,
    MAGIC_V2,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from spark_segmentlog.record.read.header_table import HeaderTable, StopReason
from spark_segmentlog.record.read.record_filter import RecordFilter, choose_entries

INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-3, 30)
ATTRIBUTES = st.integers(0, 127)


@st.composite
def header_tables(draw: st.DrawFn) -> HeaderTable:
    count = draw(st.integers(0, 8))
    entries = np.zeros((count, fields.HEADER_FIELDS), np.int64)
    for row in range(count):
        base = draw(st.integers(0, 20))
        entries[row, fields.POSITION] = row * 10
        entries[row, fields.BASE_OFFSET] = base
        entries[row, fields.LAST_OFFSET] = base + draw(st.integers(0, 5))
        entries[row, fields.MAGIC] = draw(st.integers(0, 2))
        entries[row, fields.ATTRIBUTES] = draw(ATTRIBUTES)
        entries[row, fields.MAX_TIMESTAMP] = draw(SMALL)
    return HeaderTable(entries=entries, end_position=count * 10, stop=StopReason.END)


BOUND = st.none() | SMALL | st.integers(-(2**70), 2**70)
FILTERS = st.builds(
    RecordFilter,
    start_offset=SMALL | INT64,
    end_offset=SMALL | st.integers(2**62, 2**70),
    min_timestamp_ms=BOUND,
    max_timestamp_ms=BOUND,
)


def is_wanted_plainly(row: np.ndarray, wanted: RecordFilter) -> str:
    """Say ``selected``, ``verified_only`` or nothing of one header, by the rules in words."""
    if row[fields.LAST_OFFSET] < wanted.start_offset:
        return ""
    if row[fields.BASE_OFFSET] >= wanted.end_offset:
        return ""
    attributes = int(row[fields.ATTRIBUTES])
    is_batch = row[fields.MAGIC] == MAGIC_V2
    left_out = (
        "verified_only" if is_batch and attributes & (CONTROL_MASK | TRANSACTIONAL_MASK) else ""
    )
    if is_batch and attributes & CONTROL_MASK:
        return left_out
    timestamp = int(row[fields.MAX_TIMESTAMP])
    if wanted.min_timestamp_ms is not None and timestamp < wanted.min_timestamp_ms:
        return left_out
    is_append_time = row[fields.MAGIC] != MAGIC_V0 and attributes & TIMESTAMP_TYPE_MASK
    is_late = wanted.max_timestamp_ms is not None and timestamp > wanted.max_timestamp_ms
    return left_out if is_append_time and is_late else "selected"


@given(table=header_tables(), wanted=FILTERS)
def test_the_kernel_chooses_what_a_plain_loop_chooses(
    table: HeaderTable, wanted: RecordFilter
) -> None:
    choice = choose_entries(table, wanted)
    plain = [is_wanted_plainly(row, wanted) for row in table.entries]
    assert choice.selected.tolist() == [what == "selected" for what in plain]
    assert choice.verified_only.tolist() == [what == "verified_only" for what in plain]
    has_transactions = any(choice.selected & table.is_transactional)
    assert choice.has_transactions == has_transactions
