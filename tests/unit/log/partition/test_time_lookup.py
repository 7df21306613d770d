"""From a time to an offset, and scans between two times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import CrcMismatchError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message_set,
    v2_batch,
)
from tests.support.reading import build_log, offsets, open_one, timed

T = 1_700_000_000_000


def _out_of_order(path: Path, **segment: Any) -> PartitionLog:
    batches = [timed(place, T + ms) for place, ms in enumerate((100, 50, 200, 10, 300, 150))]
    return build_log(path, SegmentSpec(batches, index_interval_bytes=0, **segment))


@pytest.mark.parametrize("time_index", [True, False, bytes(12_000)])
@pytest.mark.parametrize("clean", [True, False])
def test_time_filters_are_exact_on_timestamps_out_of_order(
    tmp_path: Path, time_index: bool | bytes, clean: bool
) -> None:
    log = _out_of_order(tmp_path, time_index=time_index)
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
        log = open_one(tmp_path)
    assert offsets(log, min_ms=T + 60, max_ms=T + 179) == [0, 5]
    assert offsets(log, max_ms=T + 59) == [1, 3]
    assert offsets(log, min_ms=T + 300) == [4]
    assert offsets(log, min_ms=T + 301) == []
    assert offsets(log, min_ms=T - 1) == [0, 1, 2, 3, 4, 5]


def test_time_filters_are_exact_within_a_batch(tmp_path: Path) -> None:
    log = build_log(tmp_path, [timed(0, T + 100, T + 50, T + 200, T + 10, T + 300, T + 150)])
    assert offsets(log, min_ms=T + 60, max_ms=T + 179) == [0, 5]
    assert offsets(log, max_ms=T + 59) == [1, 3]


def test_the_first_offset_at_or_after_a_time_is_told_record_by_record(tmp_path: Path) -> None:
    log = _out_of_order(tmp_path)
    found = [log.offset_for_timestamp(T + ms) for ms in (0, 100, 101, 200, 201, 300, 301)]
    assert found == [
        (0, T + 100),
        (0, T + 100),
        (2, T + 200),
        (2, T + 200),
        (4, T + 300),
        (4, T + 300),
        None,
    ]


def test_the_first_offset_lies_within_a_batch_and_at_or_above_the_log_start(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[timed(0, T, T + 5, T + 3), timed(3, T + 4)]])
    builder.clean_shutdown()
    assert open_one(tmp_path).offset_for_timestamp(T + 1) == (1, T + 5)
    builder.log_start_offsets({("t", 0): 2})
    assert open_one(tmp_path).offset_for_timestamp(T + 1) == (2, T + 3)
    assert open_one(tmp_path).offset_for_timestamp(T + 4) == (3, T + 4)


def test_a_time_before_the_first_record_is_the_start_and_one_after_the_last_is_none(
    tmp_path: Path,
) -> None:
    log = build_log(tmp_path, [timed(5, T)], [timed(6, T + 1)])
    assert log.offset_for_timestamp(0) == (5, T)
    assert log.offset_for_timestamp(T + 2) is None


@pytest.mark.parametrize("time_index", [True, False])
def test_a_repeated_batch_gives_no_time_as_it_gives_no_row(
    tmp_path: Path, time_index: bool
) -> None:
    again = timed(2, T + 30, T + 31)
    batches = [timed(0, T, T + 1), timed(2, T + 2, T + 3), again, timed(4, T + 40)]
    log = build_log(tmp_path, SegmentSpec(batches, time_index=time_index, index_interval_bytes=0))
    assert offsets(log, min_ms=T + 20) == [4]
    assert log.offset_for_timestamp(T + 20) == (4, T + 40)


def test_a_time_is_looked_for_from_an_offset_on(tmp_path: Path) -> None:
    log = _out_of_order(tmp_path)
    assert log.offset_for_timestamp(T + 150, 2) == (2, T + 200)
    assert log.offset_for_timestamp(T + 150, 3) == (4, T + 300)
    assert log.offset_for_timestamp(T + 150, 5) == (5, T + 150)
    assert log.offset_for_timestamp(T + 150, 6) is None


def test_a_marker_counts_as_it_does_for_a_broker(tmp_path: Path) -> None:
    marker = control_batch(1, base_offset=1, producer_id=3, timestamp_ms=T + 9)
    log = build_log(
        tmp_path, [timed(0, T, producer_id=3, transactional=True), marker, timed(2, T + 8)]
    )
    assert log.offset_for_timestamp(T + 5) == (1, T + 9)


def test_log_append_time_batches_are_found_by_their_largest_timestamp(tmp_path: Path) -> None:
    stamped = timed(0, -1, -1, log_append_time=True, max_timestamp=T + 50)
    log = build_log(tmp_path, [stamped, timed(2, T + 20)])
    assert log.offset_for_timestamp(T + 30) == (0, T + 50)
    assert offsets(log, min_ms=T + 30) == [0, 1]
    assert offsets(log, max_ms=T + 30) == [2]
    assert offsets(log, min_ms=T + 50, max_ms=T + 50) == [0, 1]


def test_an_upper_bound_goes_on_after_later_append_times(tmp_path: Path) -> None:
    """The broker's clock stepped back."""
    stamps = (T, T + 90, T + 10)
    batches = [
        timed(place, -1, log_append_time=True, max_timestamp=stamp)
        for place, stamp in enumerate(stamps)
    ]
    log = build_log(tmp_path, batches[:2], batches[2:])
    assert offsets(log, max_ms=T + 20) == [0, 2]


def test_a_delete_horizon_is_not_taken_for_a_timestamp(tmp_path: Path) -> None:
    day = 86_400_000
    records = [
        RecordSpec(value=b"v", timestamp_delta=-day),
        RecordSpec(value=b"v", timestamp_delta=1000 - day),
    ]
    horizon = v2_batch(
        records, delete_horizon_ms=T + day, base_timestamp=T + day, max_timestamp=T + 1000
    )
    log = build_log(tmp_path, [horizon])
    assert offsets(log, min_ms=T, max_ms=T) == [0]
    assert offsets(log, min_ms=T + 1001) == []
    assert log.offset_for_timestamp(T + 1) == (1, T + 1000)


def test_records_without_a_timestamp_are_found_below_zero(tmp_path: Path) -> None:
    old = legacy_message_set(0, [RecordSpec(value=b"v")] * 2, base_offset=0, codec="none")
    log = build_log(tmp_path, [old, timed(2, -1), timed(3, 5)])
    assert offsets(log, max_ms=-1) == [0, 1, 2]
    assert offsets(log, min_ms=0) == [3]
    assert log.offset_for_timestamp(0) == (3, 5)


def test_a_compressed_batch_whose_largest_record_was_removed_is_looked_into(tmp_path: Path) -> None:
    emptied = v2_batch([RecordSpec(value=b"v", timestamp_ms=T)], codec="lz4", max_timestamp=T + 100)
    log = build_log(tmp_path, [emptied, timed(1, T + 90)])
    assert log.offset_for_timestamp(T + 50) == (1, T + 90)
    assert offsets(log, min_ms=T + 50) == [1]


def test_a_time_lookup_says_that_bytes_are_bad_or_steps_over_them(tmp_path: Path) -> None:
    log = build_log(tmp_path, [timed(0, T, crc=1), timed(1, T)])
    with pytest.raises(CrcMismatchError, match="position 0, base offset 0"):
        log.offset_for_timestamp(T)
    assert open_one(tmp_path, skip_corrupt=True).offset_for_timestamp(T) == (1, T)
    assert open_one(tmp_path, check_crcs=False).offset_for_timestamp(T) == (0, T)
