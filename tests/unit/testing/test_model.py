"""The oracle itself: small logs whose right answers are written out by hand."""

from __future__ import annotations

import pytest

from spark_segmentlog.testing.model import LogRow, PartitionModel


def row(offset: int, timestamp_ms: int = 0) -> LogRow:
    return LogRow(offset=offset, timestamp_ms=timestamp_ms)


def offsets(rows: list[LogRow]) -> list[int]:
    return [entry.offset for entry in rows]


def test_gaps_keep_the_next_offset_of_the_batch() -> None:
    model = PartitionModel()
    model.append([row(0), row(2), row(4)], next_offset=10)
    model.skip_offsets(1)
    model.append([row(11)])
    assert offsets(model.rows(1, 11)) == [2, 4]
    assert model.log_end_offset == 12


def test_out_of_order_timestamps_are_compared_row_by_row() -> None:
    model = PartitionModel()
    model.append([row(offset, t) for offset, t in enumerate([100, 50, 200, 10, 300, 150])])
    assert offsets(model.rows(min_timestamp_ms=60, max_timestamp_ms=179)) == [0, 5]
    assert offsets(model.rows(max_timestamp_ms=59)) == [1, 3]
    assert model.offset_for_timestamp(101) == (2, 200)
    assert model.offset_for_timestamp(301) is None


def test_commit_marker_does_not_end_an_aborted_range() -> None:
    model = PartitionModel(log_end_offset=1)
    for commit in (True, False, True):
        model.append([row(model.log_end_offset)], producer_id=1)
        model.end_transaction(1, commit=commit)
    assert offsets(model.rows(read_committed=True)) == [1, 5]
    assert offsets(model.rows()) == [1, 3, 5]


def test_open_transaction_bounds_the_last_stable_offset() -> None:
    model = PartitionModel(log_end_offset=100)
    model.append([row(offset) for offset in range(100, 105)], producer_id=7)
    model.append([row(105)])
    assert model.last_stable_offset == 100
    assert model.rows(read_committed=True) == []
    model.end_transaction(7, commit=True)
    assert model.last_stable_offset == 107
    assert offsets(model.rows(read_committed=True)) == list(range(100, 106))


def test_offsets_never_go_back() -> None:
    model = PartitionModel(log_end_offset=5)
    with pytest.raises(ValueError, match="below the log end 5"):
        model.append([row(4)])
    assert offsets(model.append_values([row(0), row(0)])) == [5, 6]
