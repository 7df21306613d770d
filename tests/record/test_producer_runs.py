"""Batches of producers put together to runs, by the kernels and by their plain twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.log.producer_tracker import ABORT, COMMIT
from spark_segmentlog.record import kernels
from spark_segmentlog.record._types import Int64s
from spark_segmentlog.record.layout import CONTROL_MASK, TRANSACTIONAL_MASK

MAX_ROWS = 40
# Ids that differ in high bits alone, and the ends of the range, meet in one slot or far apart.
PRODUCER_IDS = (-1, 0, 1, 2, 1 << 32, 2 << 32, 2**63 - 1, -(2**63))

rows = st.tuples(
    st.sampled_from((0, 1, 2, 2, 2, 2)),
    st.sampled_from((0, TRANSACTIONAL_MASK, TRANSACTIONAL_MASK, TRANSACTIONAL_MASK | CONTROL_MASK)),
    st.one_of(st.sampled_from(PRODUCER_IDS), st.integers(-(2**63), 2**63 - 1)),
    st.integers(0, 1),
    st.integers(0, 3),
)


def table_of(drawn: list[tuple[int, int, int, int, int]]) -> Int64s:
    table = np.zeros((len(drawn), kernels.HEADER_FIELDS), np.int64)
    for i, (magic, attributes, producer_id, epoch, records_count) in enumerate(drawn):
        table[i, kernels.BASE_OFFSET] = 3 * i
        table[i, kernels.LAST_OFFSET] = 3 * i + 2
        table[i, kernels.MAGIC] = magic
        table[i, kernels.ATTRIBUTES] = attributes
        table[i, kernels.PRODUCER_ID] = producer_id
        table[i, kernels.PRODUCER_EPOCH] = epoch
        table[i, kernels.RECORDS_COUNT] = records_count
    return table


def plainly_chosen(table: Int64s, only: bool, floor: int, from_offset: int) -> list[bool]:
    chosen = []
    for row in table.tolist():
        is_wanted = row[kernels.PRODUCER_ID] >= 0
        if only:
            is_wanted = bool(row[kernels.ATTRIBUTES] & TRANSACTIONAL_MASK)
        is_in_range = row[kernels.LAST_OFFSET] >= floor and row[kernels.BASE_OFFSET] >= from_offset
        chosen.append(row[kernels.MAGIC] == 2 and is_wanted and is_in_range)
    return chosen


def plain_runs(table: Int64s, chosen: list[bool]) -> list[list[int]]:
    runs: list[list[int]] = []
    last_of: dict[int, tuple[tuple[int, int], list[int]]] = {}
    for i, row in enumerate(table.tolist()):
        if not chosen[i]:
            continue
        attributes, producer_id = row[kernels.ATTRIBUTES], row[kernels.PRODUCER_ID]
        kind = (row[kernels.PRODUCER_EPOCH], attributes & (TRANSACTIONAL_MASK | CONTROL_MASK))
        before = last_of.get(producer_id)
        if before is not None and before[0] == kind and not attributes & CONTROL_MASK:
            before[1][kernels.RUN_LAST] = i
            before[1][kernels.RUN_RECORDS] += row[kernels.RECORDS_COUNT]
        else:
            runs.append([i, i, row[kernels.RECORDS_COUNT]])
            last_of[producer_id] = kind, runs[-1]
    return runs


@given(
    st.lists(rows, max_size=MAX_ROWS),
    st.booleans(),
    st.integers(0, 3 * MAX_ROWS),
    st.integers(0, 3 * MAX_ROWS),
    st.integers(0, 3),
)
def test_kernels_put_runs_together_as_their_plain_twin_does(
    drawn: list[tuple[int, int, int, int, int]],
    only: bool,
    floor: int,
    from_offset: int,
    spare_bits: int,
) -> None:
    table = table_of(drawn)
    for low in ((0, 0), (floor, from_offset)):
        chosen = np.empty(len(table), np.bool_)
        count = kernels.choose_producers(table, only, *low, chosen)
        expected = plainly_chosen(table, only, *low)
        assert chosen.tolist() == expected
        assert count == sum(expected)
        slots = np.zeros(1 << (count.bit_length() + spare_bits), np.int64)
        runs = np.empty((count, kernels.RUN_FIELDS), np.int64)
        found = kernels.find_runs(table, chosen, slots, runs)
        assert runs[:found].tolist() == plain_runs(table, expected)


def plainly_kept(drawn: list[tuple[int, int]]) -> list[bool]:
    kept = []
    for i, (producer_id, end) in enumerate(drawn):
        before = [it for it in drawn[:i] if it[0] == producer_id and it[1] >= 0]
        behind = [it for it in drawn[i + 1 :] if it[0] == producer_id and it[1] >= 0]
        is_committed_data = end < 0 and len(behind) > 0 and behind[0][1] == COMMIT
        is_later_commit = end == COMMIT and len(before) > 0
        kept.append(not is_committed_data and not is_later_commit)
    return kept


@given(st.lists(st.tuples(st.sampled_from(PRODUCER_IDS), st.sampled_from((-1, ABORT, COMMIT)))))
def test_what_tells_of_committed_transactions_alone_is_left_out(
    drawn: list[tuple[int, int]],
) -> None:
    producer_ids = np.array([it[0] for it in drawn], np.int64)
    ends = np.array([it[1] for it in drawn], np.int64)
    kept = np.empty(len(drawn), np.bool_)
    slots = np.zeros(1 << len(drawn).bit_length(), np.int64)
    kernels.leave_out_committed(producer_ids, ends, COMMIT, slots, kept)
    assert kept.tolist() == plainly_kept(drawn)
