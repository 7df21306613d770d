"""Retention deletes whole segments at the front of a log, by Kafka's rules."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.log.formats.producer_snapshot import parse_producer_snapshot
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.upkeep.compaction import compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.partitions import CleanupPolicy
from spark_segmentlog.log.upkeep.retention import Reason
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, v2_batch
from tests.support.cleaning import (
    DAY_MS,
    NOW_MS,
    PARTITION,
    aged,
    build,
    checkpoint,
    plain_batches,
    record,
    rows,
    run_retention,
    segment_offsets,
    temporary_names,
)

KEEP = RetentionConfig(retention_ms=-1, file_delete_delay_ms=0)


START_FILE = "log-start-offset-checkpoint"


# Time


def test_segments_whose_largest_timestamp_is_too_old_go(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 4000, 3000, 10]))
    result = run_retention(directory, replace(KEEP, retention_ms=3500))
    assert segment_offsets(directory) == [4, 6]
    assert result.log_start_offset == 4
    assert checkpoint(directory, START_FILE) == 4
    assert [deleted_segment.reason for deleted_segment in result.deleted_segments] == [
        Reason.AGE,
        Reason.AGE,
    ]
    assert [row.offset for row in rows(directory)] == [4, 5, 6, 7]


def test_a_segment_as_old_as_the_limit_stays(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([1001, 1000, 0]))
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert segment_offsets(directory) == [2, 4]


def test_a_record_of_the_future_that_keeps_its_segment_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = build(tmp_path, aged([-5000, 4000, 3000, 0]))
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert segment_offsets(directory) == [0, 2, 4, 6]
    assert "segment 0 has a record of the future" in caplog.text


def test_nothing_goes_after_a_segment_that_stays(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 10, 5000, 10]))
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert segment_offsets(directory) == [2, 4, 6]


def test_one_young_record_keeps_its_segment(tmp_path: Path) -> None:
    mixed = [
        v2_batch([record(b"a", b"1", NOW_MS - 5000), record(b"b", b"1", NOW_MS)]),
        v2_batch([record(b"c", b"1", NOW_MS - 5000)], base_offset=2),
    ]
    directory = build(tmp_path, [mixed, plain_batches([(b"d", b"1")], base_offset=3)])
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert segment_offsets(directory) == [0, 3]


def test_an_expired_last_segment_is_rolled_and_goes(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 4000]))
    result = run_retention(directory, replace(KEEP, retention_ms=1000))
    assert segment_offsets(directory) == [4]
    assert (directory / f"{4:020d}.log").stat().st_size == 0
    assert result.log_start_offset == 4
    log = LogManager.open([str(tmp_path)]).topic_partitions[PARTITION]
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    # An empty last segment stays.
    run_retention(directory, replace(KEEP, retention_ms=1000), now_ms=NOW_MS + DAY_MS)
    assert segment_offsets(directory) == [4]


def test_a_rolled_segment_carries_the_producers_state(tmp_path: Path) -> None:
    batch = v2_batch(
        [record(b"a", b"1", NOW_MS - 5000)] * 3,
        producer_id=9,
        producer_epoch=2,
        base_sequence=40,
    )
    directory = build(tmp_path, [[batch]])
    run_retention(directory, replace(KEEP, retention_ms=1000))
    data = (directory / f"{3:020d}.snapshot").read_bytes()
    (state,) = parse_producer_snapshot(data) or []
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (9, 2, 42)
    assert (state.last_offset, state.offset_delta) == (2, 2)


def test_a_snapshot_of_a_clean_shutdown_is_left_as_it_is(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, aged([5000, 4000]), snapshots=True)
    log.clean_shutdown()
    before = (directory / f"{4:020d}.snapshot").read_bytes()
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert (directory / f"{4:020d}.snapshot").read_bytes() == before
    assert not (directory / f"{0:020d}.snapshot").exists()
    assert not (directory / f"{2:020d}.snapshot").exists()


@pytest.mark.parametrize("clean", [True, False])
def test_a_time_index_padded_with_zeros_does_not_mean_1970(tmp_path: Path, clean: bool) -> None:
    segments = [
        SegmentSpec(batches, index_size_bytes=12 * 1000) for batches in aged([1000, 1000, 0])
    ]
    directory = build(tmp_path, segments, clean=clean)
    run_retention(directory, replace(KEEP, retention_ms=5000))
    assert segment_offsets(directory) == [0, 2, 4]
    run_retention(directory, replace(KEEP, retention_ms=500))
    assert segment_offsets(directory) == [4]


@pytest.mark.parametrize(
    "time_index", [False, b"", bytes(1200), b"\0\0\0\0\0\0\0\1" + bytes(4), b"\x7f" * 24]
)
def test_without_a_time_index_to_be_trusted_the_batches_are_asked(
    tmp_path: Path, time_index: bool | bytes
) -> None:
    first, second = aged([1000, 0])
    directory = build(tmp_path, [SegmentSpec(first, time_index=time_index), second], clean=False)
    run_retention(directory, replace(KEEP, retention_ms=5000))
    assert segment_offsets(directory) == [0, 2]
    run_retention(directory, replace(KEEP, retention_ms=500))
    assert segment_offsets(directory) == [2]


def test_a_crashed_time_index_that_ends_early_is_no_reason_to_delete(tmp_path: Path) -> None:
    batches = [
        v2_batch([record(b"a", b"x" * 5000, NOW_MS - 50_000 + place)], base_offset=place)
        for place in range(3)
    ]
    batches.append(v2_batch([record(b"a", b"1", NOW_MS)], base_offset=3))
    directory = build(
        tmp_path,
        [
            SegmentSpec(batches, final_time_entry=False),
            plain_batches([(b"a", b"1")], base_offset=4),
        ],
        clean=False,
    )
    run_retention(directory, replace(KEEP, retention_ms=10_000))
    assert segment_offsets(directory) == [0, 4]


def test_records_without_timestamps_go_by_the_files_age(tmp_path: Path) -> None:
    first, second = (
        plain_batches([(b"a", b"1")], base_offset=base, timestamp_ms=-1) for base in (0, 1)
    )
    directory = build(tmp_path, [first, second])
    old = (NOW_MS - 5000) * 10**6
    os.utime(directory / f"{0:020d}.log", ns=(old, old))
    os.utime(directory / f"{1:020d}.log", ns=(NOW_MS * 10**6, NOW_MS * 10**6))
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert segment_offsets(directory) == [1]


# Size


@pytest.mark.parametrize(
    ("limit_segments", "limit_extra", "left"),
    [(0, 0, [8]), (1, -1, [6]), (1, 0, [6]), (2, 0, [4, 6]), (2, -1, [4, 6]), (3, 1, [0, 2, 4, 6])],
)
def test_segments_go_as_long_as_the_rest_has_retention_bytes(
    tmp_path: Path, limit_segments: int, limit_extra: int, left: list[int]
) -> None:
    segments = aged([0, 0, 0, 0])
    size = sum(map(len, segments[0]))
    directory = build(tmp_path, segments)
    limit = limit_segments * size + limit_extra
    result = run_retention(directory, replace(KEEP, retention_bytes=limit))
    assert segment_offsets(directory) == left
    assert all(deleted_segment.reason is Reason.SIZE for deleted_segment in result.deleted_segments)


def test_no_limit_keeps_everything(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([10**12, 10**11, 0]))
    result = run_retention(directory, KEEP)
    assert segment_offsets(directory) == [0, 2, 4]
    assert result.deleted_segments == ()


# Log start offset and policy


@pytest.mark.parametrize("policy", [{CleanupPolicy.COMPACT}, {CleanupPolicy.DELETE}])
def test_segments_below_the_log_start_offset_go_whatever_the_policy(
    tmp_path: Path, policy: set[CleanupPolicy]
) -> None:
    directory = build(tmp_path, aged([0, 0, 0]))
    LogBuilder(tmp_path).log_start_offsets({("t", 0): 3})
    result = run_retention(directory, replace(KEEP, cleanup_policy=frozenset(policy)))
    assert segment_offsets(directory) == [2, 4]
    assert [deleted_segment.reason for deleted_segment in result.deleted_segments] == [
        Reason.LOG_START_OFFSET
    ]
    # It lies inside of the first segment, and stays there.
    assert checkpoint(directory, START_FILE) == 3


def test_a_compacted_topic_keeps_old_segments(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([10**9, 0]))
    config = RetentionConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    run_retention(directory, config)
    assert segment_offsets(directory) == [0, 2]
    both = replace(config, cleanup_policy=frozenset(CleanupPolicy))
    run_retention(directory, both)
    assert segment_offsets(directory) == [2]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_indexes_that_a_deletion_cut_short_has_left_go_with_the_next(
    tmp_path: Path, is_compacted: bool
) -> None:
    directory = build(tmp_path, aged([5000, 4000, 0, 0]))
    (tmp_path / START_FILE).write_text("0\n1\nt 0 2\n")
    (directory / f"{0:020d}.log").unlink()
    # From the log's start on an index tells of a log that is lost.
    (directory / f"{2:020d}.log").unlink()
    if is_compacted:
        compact([str(tmp_path)], None, CompactionConfig(file_delete_delay_ms=0), NOW_MS)
    else:
        run_retention(directory, KEEP)
    assert {int(path.name[:20]) for path in directory.glob("*.*index")} == {2, 4, 6}
    assert temporary_names(directory) == []


def test_a_reader_that_has_the_file_open_reads_on(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 0]))
    log = LogManager.open([str(tmp_path)]).topic_partitions[PARTITION]
    with log.segments[0].open_log() as file:
        run_retention(directory, replace(KEEP, retention_ms=1000))
        assert file.size() > 0
        assert len(file.read_at(0, file.size())) == file.size()


def test_a_torn_last_segment_with_nothing_whole_in_it_stays(tmp_path: Path) -> None:
    first, second = aged([5000, 5000])
    whole = sum(map(len, second))
    directory = build(tmp_path, [first, SegmentSpec(second, cut_bytes=whole - 30)], clean=False)
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert segment_offsets(directory) == [2]


# The model


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_pass_leaves_what_a_list_of_segments_would(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ages = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    limit_age = data.draw(st.integers(-1, 5))
    limit_count = data.draw(st.integers(-1, 6))
    start = data.draw(st.integers(0, 2 * len(ages)))
    directory = build(tmp_path_factory.mktemp("log"), aged([1000 * age for age in ages]))
    LogBuilder(directory.parent).log_start_offsets({("t", 0): start})
    sizes = [(directory / f"{2 * at:020d}.log").stat().st_size for at in range(len(ages))]
    config = replace(
        KEEP,
        retention_ms=limit_age * 1000 if limit_age >= 0 else -1,
        retention_bytes=limit_count * sizes[0] if limit_count >= 0 else -1,
    )
    run_retention(directory, config)
    left = list(range(len(ages)))
    while len(left) > 1 and 2 * left[1] <= start:
        left.pop(0)
    while (
        left
        and limit_count >= 0
        and sum(sizes[at] for at in left) - sizes[left[0]] >= (limit_count * sizes[0])
    ):
        left.pop(0)
    while left and limit_age >= 0 and ages[left[0]] > limit_age:
        left.pop(0)
    end = 2 * len(ages)
    assert segment_offsets(directory) == ([2 * at for at in left] or [end])
    expected_start = max(start, 2 * left[0] if left else end)
    assert (checkpoint(directory, START_FILE) or 0) == expected_start
    log = LogManager.open([str(directory.parent)]).topic_partitions[PARTITION]
    assert log.log_start_offset == expected_start
    assert log.log_end_offset == max(end, start)
