"""Where a log starts and ends, lookups by offset and time, indexes that mislead, fetches."""

from __future__ import annotations

import gc
import logging
import struct
import weakref
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import CrcMismatchError, OffsetOutOfRangeError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.scanner import SegmentScanner
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message_set,
    segment_file_name,
    v2_batch,
)
from tests.support.noting import note_calls
from tests.support.reading import batch, build_log, offsets, open_one, timed

T = 1_700_000_000_000


# Start, end, high watermark


def test_the_log_starts_at_the_larger_of_checkpoint_and_first_segment(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(312, 100)], [batch(412, 10)]])
    assert open_one(tmp_path).log_start_offset == 312
    builder.log_start_offsets({("t", 0): 401})
    log = open_one(tmp_path)
    assert log.log_start_offset == 401
    assert offsets(log)[:2] == [401, 402]
    builder.log_start_offsets({("t", 0): 7})
    assert open_one(tmp_path).log_start_offset == 312


def test_a_log_start_beyond_all_records_is_the_end_too(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 10)]])
    builder.log_start_offsets({("t", 0): 50})
    log = open_one(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, offsets(log)) == (50, 50, [])


def test_a_partition_without_segments_is_empty(tmp_path: Path) -> None:
    log = build_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, offsets(log)) == (0, 0, [])
    assert log.last_stable_offset() == 0
    assert log.offset_for_timestamp(0) is None
    assert log.read(0, 100).record_batches == b""


def test_the_high_watermark_is_the_checkpoints_within_the_log(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 10)]])
    assert open_one(tmp_path).high_watermark is None
    for mark, expected in [(4, 4), (10, 10), (99, 10)]:
        builder.high_watermarks({("t", 0): mark})
        assert open_one(tmp_path).high_watermark == expected
    builder.high_watermarks({("other", 0): 3})
    assert open_one(tmp_path).high_watermark is None


def test_a_reader_of_a_partition_directory_looks_for_checkpoints_in_its_parent(
    tmp_path: Path,
) -> None:
    builder = LogBuilder(tmp_path)
    directory = builder.partition("t", 0, [[batch(0, 10)]])
    builder.log_start_offsets({("t", 0): 4})
    assert offsets(open_one(directory)) == [4, 5, 6, 7, 8, 9]
    assert offsets(open_one(directory / segment_file_name(0))) == [4, 5, 6, 7, 8, 9]


# Lookup by time


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


def test_an_upper_bound_goes_on_behind_later_append_times(tmp_path: Path) -> None:
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


# Indexes are hints


def _indexed_segment(**segment: Any) -> SegmentSpec:
    batches = [timed(10 * place, *range(T + place, T + place + 10)) for place in range(40)]
    return SegmentSpec(batches, index_interval_bytes=300, **segment)


def _indexed(path: Path, **segment: Any) -> PartitionLog:
    return build_log(path, _indexed_segment(**segment))


RUBBISH = bytes(range(256)) * 3
UNSORTED = b"".join(
    struct.pack(">ii", offset, position) for offset, position in [(300, 9), (5, 7000), (80, 1)]
)
LIES = b"".join(struct.pack(">ii", offset, 5000 + offset) for offset in range(0, 390, 10))
NEGATIVE = struct.pack(">iiii", -50, 300, -10, 600)
UNSORTED_TIMES = struct.pack(">qiqi", T + 500, 20, T + 3, 390)


@pytest.mark.parametrize(
    "index",
    [
        True,
        False,
        b"",
        bytes(8),
        bytes(10_485_760),
        RUBBISH,
        UNSORTED,
        LIES,
        NEGATIVE,
        b"\x00\x00\x00",
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else str(value),
)
def test_no_offset_index_changes_a_row(tmp_path: Path, index: bool | bytes) -> None:
    log = _indexed(tmp_path, index=index)
    assert log.log_end_offset == 400
    assert offsets(log) == list(range(400))
    for start in (0, 5, 10, 99, 100, 101, 255, 399):
        assert offsets(log, start=start) == list(range(start, 400))
        assert offsets(log, start=start, end=start + 1) == [start]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "time_index",
    [True, False, b"", bytes(10_485_756), UNSORTED_TIMES, b"\x00" * 5],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else str(value),
)
def test_no_time_index_changes_a_row(tmp_path: Path, time_index: bool | bytes, clean: bool) -> None:
    log = _indexed(tmp_path, time_index=time_index)
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
        log = open_one(tmp_path)
    times = [T + place + more for place in range(40) for more in range(10)]
    for low in (T - 5, T, T + 17, T + 48, T + 49):
        expected = [offset for offset, time in enumerate(times) if time >= low]
        assert offsets(log, min_ms=low) == expected
        found = log.offset_for_timestamp(low)
        assert (found and found[0]) == (expected[0] if expected else None)


def test_a_time_index_that_a_crash_left_short_hides_no_row(tmp_path: Path) -> None:
    batches = [timed(place, T + place) for place in range(50)]
    segment = SegmentSpec(
        batches, index_interval_bytes=400, final_time_entry=False, index_size_bytes=10_485_756
    )
    log = build_log(tmp_path, segment, clean=False, recovery_point=0)
    assert offsets(log, min_ms=T + 49) == [49]
    assert log.offset_for_timestamp(T + 49) == (49, T + 49)


def test_a_short_time_index_above_the_recovery_point_is_walked_behind(tmp_path: Path) -> None:
    """Only below the recovery point, or after a clean stop, the last entry tells the maximum."""
    segments = [
        SegmentSpec(
            [timed(base + place, T + base + place) for place in range(10)],
            index_interval_bytes=300,
            final_time_entry=False,
        )
        for base in (0, 10, 20)
    ]
    log = build_log(tmp_path, *segments, clean=False, recovery_point=10)
    assert offsets(log, min_ms=T + 19) == list(range(19, 30))
    trusted = [segment.is_index_trusted for segment in log.segments]
    assert trusted == [True, False, False]


def test_zeros_behind_the_time_entries_of_a_rolled_segment_do_not_date_it_to_1970(
    tmp_path: Path,
) -> None:
    entries = struct.pack(">qiqiqi", T, 0, T + 1, 1, T + 2, 2) + bytes(12_000)
    log = build_log(
        tmp_path, SegmentSpec([timed(0, T, T + 1, T + 2)], time_index=entries), [timed(3, T + 3)]
    )
    entry = log.segments[0].last_time_entry()
    assert entry is not None
    assert entry.timestamp == T + 2
    assert offsets(log, min_ms=T + 2) == [2, 3]


@pytest.mark.parametrize(
    "state", [{"clean": True}, {"clean": False}, {"clean": False, "recovery_point": 0}]
)
def test_index_entries_past_the_end_of_a_cut_log_are_ignored(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    whole = build_log(tmp_path, _indexed_segment(), **state)
    size = whole.segments[0].size_bytes()
    with open(whole.segments[0].log_path, "r+b") as file:
        file.truncate(size * 6 // 10)
    log = open_one(tmp_path)
    end = log.log_end_offset
    assert 0 < end < 400
    assert end % 10 == 0
    assert offsets(log) == list(range(end))
    assert offsets(log, start=end - 3) == [end - 3, end - 2, end - 1]
    assert offsets(log, start=395) == []
    assert offsets(log, min_ms=T + end // 10 + 20) == []
    assert log.offset_for_timestamp(T + end // 10 + 20) is None
    assert log.offset_for_timestamp(T + 12) == (39, T + 12)
    assert offsets(log, min_ms=T + end // 10 + 8) == [end - 1]


def test_segments_without_late_records_are_not_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = [[timed(base, T + base)] for base in range(10)]
    log = build_log(tmp_path, *segments)
    scanned: list[int] = []

    def note(scanner: SegmentScanner, segment: Segment, **_: object) -> None:
        scanned.append(segment.base_offset)

    note_calls(monkeypatch, SegmentScanner, "scan", note)
    assert offsets(log, min_ms=T + 8, end=10) == [8, 9]
    assert scanned == [8, 9]


def test_the_arrays_of_many_segments_tell_what_the_segments_do(tmp_path: Path) -> None:
    log = build_log(tmp_path, *[[batch(base, 10)] for base in range(0, 100, 10)])
    some = log.segments_between(25, 61)
    assert [segment.base_offset for segment in some] == some.base_offsets.tolist()
    assert some.base_offsets.tolist() == [20, 30, 40, 50, 60]
    assert some.end_offset_bounds.tolist() == [30, 40, 50, 60, 70]
    assert some.sizes_bytes().tolist() == [segment.size_bytes() for segment in some]
    assert log.segments[-1].end_offset_bound is None
    assert log.segments.end_offset_bounds[-1] == 2**63 - 1
    assert len(some[1:3]) == 2
    assert len(log.segments_between(10, 10)) == 0
    assert len(log.segments_between(1000, 2000)) == 1


# Fetches as a broker's


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


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_missing_indexes_warn_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    log = build_log(tmp_path, [timed(0, T, T + 1)], [timed(2, T + 2, T + 3)])
    for path in (tmp_path / "t-0").glob(f"*.{kind}"):
        path.unlink()
    with caplog.at_level(logging.WARNING):
        for start in (1, 3):
            assert offsets(log, start=start) == list(range(start, 4))
            assert log.offset_for_timestamp(T + start) == (start, T + start)
            assert offsets(log, min_ms=T + start) == list(range(start, 4))
    expected = f"{log.directory} lacks .{kind} files: lookups there take longer"
    assert [record.getMessage() for record in caplog.records] == [expected]


@pytest.mark.parametrize("rest", [1, 16, 17, 40, 65])
def test_a_torn_tail_warns_with_file_and_position(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rest: int
) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 2)], tail=batch(2)[:rest]))
    with caplog.at_level(logging.WARNING):
        assert log.log_end_offset == 2
    (record,) = caplog.records
    expected = f"{log.segments[0].log_path} ends at position {len(batch(0, 2))}: {rest} bytes"
    assert record.getMessage().startswith(expected)


def test_a_scan_that_is_over_leaves_its_memory_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = build_log(tmp_path, [batch(0, 5)])
    scanners: list[weakref.ref[SegmentScanner]] = []

    def note(scanner: SegmentScanner, *_: object, **__: object) -> None:
        scanners.append(weakref.ref(scanner))

    note_calls(monkeypatch, SegmentScanner, "__init__", note)
    gc.disable()
    try:
        for committed in (False, True):
            assert offsets(log, committed=committed) == [0, 1, 2, 3, 4]
            assert [scanner() for scanner in scanners] == [None] * len(scanners)
    finally:
        gc.enable()
