"""Which offsets a read covers, and what is gone from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import DataLossError, OptionValueError
from spark_segmentlog.query.planning import RowBounds
from spark_segmentlog.testing.builder import COMMIT, LogBuilder, SegmentSpec, control_batch
from tests.support.arrow_reading import batch, offsets, places, rows_of, spans, splits_of


def test_offsets_narrow(three_segments: Path) -> None:
    def read(start: int, end: int) -> list[int]:
        return offsets(
            three_segments,
            starting_offsets={"t": {"0": start}},
            ending_offsets={"t": {"0": end}},
        )

    assert read(-2, -1) == list(range(30))
    assert read(7, 23) == list(range(7, 23))
    assert read(10, 10) == []
    assert read(30, 30) == []


def test_start_and_end_must_name_the_chosen_partitions(three_segments: Path) -> None:
    for named in ({"t": {"1": 5}}, {"t": {"0": 5, "9": 5}}, {"u": {"0": 1}}):
        with pytest.raises(OptionValueError, match=r"Specified: .* Assigned: \[t-0\]"):
            read_arrow(three_segments, starting_offsets=named)
        with pytest.raises(OptionValueError, match=r"Specified: .* Assigned: \[t-0\]"):
            read_arrow(three_segments, ending_offsets=named)


def test_start_past_the_end_or_below_the_start_is_loss(
    three_segments: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = LogBuilder(three_segments)
    log.log_start_offsets({("t", 0): 12})
    assert offsets(three_segments) == list(range(12, 30))
    for start, kept in ((11, list(range(12, 30))), (31, [])):
        options: dict[str, Any] = {"starting_offsets": {"t": {"0": start}}}
        with pytest.raises(DataLossError, match=rf"\[{start}, .*t-0.*\[12, 30\)"):
            read_arrow(three_segments, **options)
        assert offsets(three_segments, fail_on_data_loss=False, **options) == kept
        assert "COULD_NOT_READ_OFFSET_RANGE" in caplog.text
    with pytest.raises(DataLossError):
        read_arrow(three_segments, ending_offsets={"t": {"0": 31}})


def test_gap_of_compaction_and_markers_is_no_loss(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    marker = control_batch(COMMIT, base_offset=5, producer_id=1)
    log.partition("t", 0, [[batch(0, 1, 2, last_offset_delta=4), marker, batch(8, 9)]])
    assert offsets(log.path, starting_offsets={"t": {"0": 5}}) == [8]
    assert offsets(log.path, starting_offsets={"t": {"0": 3}}, ending_offsets={"t": {"0": 7}}) == []


def test_start_in_the_removed_tail_of_a_segment(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(8740, 1)], SegmentSpec([batch(8748, 2)], base_offset=8748)])
    log.log_start_offsets({("t", 0): 8737})
    assert offsets(log.path, starting_offsets={"t": {"0": 8745}}) == [8748]


def test_timestamps_find_the_first_record_at_or_after(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(0, 100, 50), batch(2, 200, 10)], [batch(4, 300, 150)]])
    assert offsets(log.path, starting_timestamp=101) == [2, 3, 4, 5]
    assert offsets(log.path, starting_timestamp=201) == [4, 5]
    assert offsets(log.path, ending_timestamp=101) == [0, 1]
    assert offsets(log.path, ending_timestamp=9999) == [0, 1, 2, 3, 4, 5]
    assert offsets(log.path, starting_timestamp=50, ending_timestamp=50) == []
    assert offsets(log.path, starting_timestamp=1) == [0, 1, 2, 3, 4, 5]
    assert offsets(log.path, ending_timestamp=1) == []
    by_partition = {"t": {"0": 101}}
    assert offsets(log.path, starting_offsets_by_timestamp=by_partition) == [2, 3, 4, 5]
    assert offsets(log.path, ending_offsets_by_timestamp=by_partition) == [0, 1]


def test_starting_timestamp_later_than_all_of_one_partition(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(0, 1000, 1010)]])
    log.partition("t", 1, [[batch(0, 990)]])
    log.partition("t", 2, [[]])
    with pytest.raises(OptionValueError, match="t-1 and timestamp 1000"):
        read_arrow(log.path, starting_timestamp=1000)
    late = {"starting_timestamp": 1000, "starting_offsets_by_timestamp_strategy": "latest"}
    assert places(log.path, **late) == [("t", 0, 0), ("t", 0, 1)]
    assert places(log.path, ending_timestamp=1000) == [("t", 1, 0)]
    assert len(places(log.path, starting_timestamp=5)) == 3


def test_offsets_below_the_last_segment_are_planned_without_opening_a_file(
    three_segments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real_open = os.open

    def spy(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(str(path))
        return real_open(path, *rest, **more)

    monkeypatch.setattr(os, "open", spy)
    options: dict[str, Any] = {"startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":8}}'}
    assert spans(splits_of(three_segments, **options)) == [[(3, 8)]]
    assert spans(splits_of(three_segments, RowBounds(end_offset=8))) == [[(0, 8)]]
    assert [path for path in opened if path.endswith((".log", ".index", ".timeindex"))] == []


def test_latest_is_fixed_by_the_plan(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, [[batch(0, 1, 2)]])
    reader = read_arrow(log.path, columns=["offset"])
    splits = splits_of(log.path)
    with open(directory / f"{0:020}.log", "ab") as file:
        file.write(batch(2, 3))
    assert reader.read_all()["offset"].to_pylist() == [0, 1]
    assert rows_of(log.path, splits) == [0, 1]
    assert offsets(log.path) == [0, 1, 2]
