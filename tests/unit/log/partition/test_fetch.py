"""Whole record batches from an offset on, up to a number of bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import OffsetOutOfRangeError
from spark_segmentlog.testing.builder import (
    LogBuilder,
    SegmentSpec,
)
from tests.support.reading import batch, build_log, open_one


def test_a_fetch_gives_whole_batches_up_to_its_limit(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 2), batch(2, 2), batch(4, 2)], [batch(6, 2)])
    size = len(batch(0, 2))
    fetched = log.read(0, 2 * size + 5)
    assert fetched.record_batches == batch(0, 2) + batch(2, 2)
    assert (fetched.next_offset, fetched.log_start_offset, fetched.log_end_offset) == (4, 0, 8)
    assert log.read(4, 10_000).record_batches == batch(4, 2)
    assert log.read(6, 10_000).next_offset == 8


def test_a_fetch_gives_at_least_one_batch_though_it_be_larger(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 50), batch(50, 1)])
    for limit in (0, 1, 100):
        fetched = log.read(3, limit)
        assert fetched.record_batches == batch(0, 50)
        assert fetched.next_offset == 50


def test_fetching_on_and_on_gives_the_whole_log_and_ends(tmp_path: Path) -> None:
    log = build_log(tmp_path, *[[batch(base, 5), batch(base + 5, 5)] for base in (0, 10, 20)])
    offset, data = 0, b""
    while offset < log.log_end_offset:
        fetched = log.read(offset, 1)
        assert fetched.next_offset > offset
        offset, data = fetched.next_offset, data + fetched.record_batches
    assert data == b"".join(batch(base, 5) for base in range(0, 30, 5))
    assert log.read(30, 1).record_batches == b""
    assert log.read(30, 1).next_offset == 30


@pytest.mark.parametrize("offset", [-1, 3, 31])
def test_a_fetch_out_of_range_names_the_valid_range(tmp_path: Path, offset: int) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 30)]])
    builder.log_start_offsets({("t", 0): 4})
    log = open_one(tmp_path)
    with pytest.raises(OffsetOutOfRangeError, match=rf"offset {offset} of t-0 .* from 4 .* to 30"):
        log.read(offset, 100)


def test_a_fetch_across_a_gap_of_compaction_gives_the_next_batch(tmp_path: Path) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 2), batch(20, 2)], base_offset=0), [batch(40)])
    assert log.read(5, 1000).record_batches == batch(20, 2)
    assert log.read(25, 1000).record_batches == batch(40)
