"""Views: rows about a log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import InvalidBatchError
from spark_segmentlog.testing.builder import ABORT, COMMIT, LogBuilder
from tests.support.reading import batch, build_log
from tests.support.transaction_batches import data, marker

EVERY_VIEW = ("batches", "segments", "transactions")


def test_batches_are_those_that_reach_into_the_range(tmp_path: Path) -> None:
    build_log(tmp_path, [batch(0, 5), batch(5, 5)], [batch(10, 5), batch(15, 5)])
    rows = read_arrow(
        tmp_path,
        view="batches",
        assign={"t": [0]},
        starting_offsets={"t": {"0": 7}},
        ending_offsets={"t": {"0": 12}},
    ).read_all()
    assert rows["baseOffset"].to_pylist() == [5, 10]


def test_segments_are_rows_though_they_are_empty(tmp_path: Path) -> None:
    build_log(tmp_path, [batch(0, 5)], [])
    rows = read_arrow(tmp_path, view="segments").read_all()
    assert rows["baseOffset"].to_pylist() == [0, 5]
    assert rows["isActive"].to_pylist() == [False, True]


def test_transactions_are_told_with_how_they_ended(tmp_path: Path) -> None:
    batches = [data(1, 0), marker(COMMIT, 1, 1), data(2, 2), marker(ABORT, 2, 3), data(1, 4)]
    build_log(tmp_path, batches)
    rows = read_arrow(tmp_path, view="transactions").read_all()
    found = rows.select(["producerId", "state", "firstOffset", "markerOffset"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1, "committed", 0, 1),
        (2, "aborted", 2, 3),
        (1, "open", 4, None),
    ]


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_columns_may_be_chosen(tmp_path: Path, view: str) -> None:
    build_log(tmp_path, [batch(0, 5)])
    rows = read_arrow(tmp_path, view=view, columns=["partition", "topic"])
    assert rows.schema.names == ["partition", "topic"]
    rows.read_all()


def test_bad_bytes_are_an_error_or_stepped_over(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[batch(0), struct.pack(">qi", -1, 5) * 9, batch(1)]])
    with pytest.raises(InvalidBatchError):
        read_arrow(tmp_path, view="batches").read_all()
    rows = read_arrow(tmp_path, view="batches", mode="DROPMALFORMED").read_all()
    assert rows["baseOffset"].to_pylist() == [0, 1]
