"""Compaction keeps the latest record of each key where it was, by Kafka's rules."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import (
    CrcMismatchError,
    DecompressedSizeError,
    InvalidBatchError,
    InvalidRecordError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.formats.transaction_index import parse_transaction_index
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.upkeep import compaction
from spark_segmentlog.log.upkeep.compaction import (
    CompactionConfig,
    PartitionCompaction,
    compact,
    group_segments,
    plan_compaction,
)
from spark_segmentlog.log.upkeep.swap import SegmentFile
from spark_segmentlog.record.compact.offset_map import OffsetMap
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    v2_batch,
)
from tests.support.cleaning import (
    DAY_MS,
    NOW_MS,
    PARTITION,
    build,
    check_indexes,
    checkpoint,
    headers,
    kept,
    log_bytes,
    plain_batches,
    record,
    rows,
    segment_offsets,
    split_log,
    temporary_names,
)
from tests.support.decoding import room_of
from tests.support.transaction_batches import marker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = CompactionConfig(file_delete_delay_ms=0)


def run(
    directory: Path, config: CompactionConfig = CONFIG, now_ms: int = NOW_MS
) -> PartitionCompaction:
    # Files are as young as the wall clock says, so nothing is waited for.
    planned = plan(directory, config, now_ms)
    (partition,) = compact([str(directory.parent)], None, config, now_ms).partitions
    expected = replace(partition, removed_files=0, waiting_files=0)
    if partition.passes > 1:
        # A plan has a map that holds all keys.
        counts: dict[str, Any] = {
            "records_read": planned.records_read,
            "records_kept": planned.records_kept,
        }
        expected = replace(expected, passes=1, **counts)
    assert planned == expected
    return partition


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def plan(directory: Path, config: CompactionConfig, now_ms: int) -> PartitionCompaction:
    before = contents(directory)
    (planned,) = plan_compaction([str(directory.parent)], None, config, now_ms).partitions
    assert contents(directory) == before
    return planned


def active(base_offset: int) -> list[bytes]:
    """A last segment, which is never cleaned."""
    return plain_batches([(b"active", b"%d" % base_offset)], base_offset=base_offset)


# Batches that do not fit where ordinary ones are decompressed


def large_batches(codec: str) -> list[bytes]:
    """Batches of which all, some, or no records stay, with tombstones and without a key."""
    rows: list[tuple[bytes | None, bytes | None]] = []
    for at in range(5):
        rows += [(b"same%d" % (number % 7), b"v%d" % at * 40) for number in range(20)]
        rows += [(b"own%d-%d" % (at, number), b"w" * number) for number in range(20)]
    rows += [(b"only%d" % number, b"x" * 30) for number in range(40)]
    rows += [(b"same%d" % (number % 7), b"last") for number in range(40)]
    rows += [(b"own0-%d" % number, None) for number in range(20)] + [(None, b"gone")] * 20
    return plain_batches(rows, batch_size=40, codec=codec)


@pytest.mark.parametrize("room_bytes", [100, 1000])
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_batches_read_in_parts_are_cleaned_as_whole_ones(
    tmp_path: Path, codec: str, room_bytes: int
) -> None:
    segments = [large_batches(codec), active(320)]
    whole, in_parts = build(tmp_path / "whole", segments), build(tmp_path / "parts", segments)
    expected = run(whole)
    with room_of(room_bytes):
        found = run(in_parts)
    assert (found.records_read, found.records_kept) == (
        expected.records_read,
        expected.records_kept,
    )
    assert 0 < found.records_kept < found.records_read
    assert log_bytes(in_parts, 0) == log_bytes(whole, 0)
    check_indexes(in_parts)


def test_large_batch_that_cannot_be_written_again_is_told_and_left(tmp_path: Path) -> None:
    directory = build(tmp_path, [large_batches("zstd"), active(320)])
    before = log_bytes(directory, 0)
    config = replace(CONFIG, max_decompressed_bytes=300)
    with (
        room_of(100),
        pytest.raises(DecompressedSizeError, match=r"of 40 records of a batch stay, \d+ bytes"),
    ):
        run(directory, config)
    assert log_bytes(directory, 0) == before
    assert not temporary_names(directory)


def test_large_batch_that_loses_nothing_is_copied_whatever_its_size(tmp_path: Path) -> None:
    rows: list[tuple[bytes | None, bytes | None]] = [(b"k%d" % at, b"v" * 50) for at in range(40)]
    gone = plain_batches([(b"k0", b"old")] * 40, batch_size=40, codec="lz4")
    shifted = plain_batches(rows, base_offset=40, batch_size=40, codec="lz4")
    directory = build(tmp_path, [[*gone, *shifted], active(80)])
    with room_of(100):
        run(directory, replace(CONFIG, max_decompressed_bytes=300))
    assert log_bytes(directory, 0) == b"".join(shifted)


# The latest of each key


@pytest.mark.parametrize("codec", CODECS)
def test_only_the_latest_record_of_a_key_stays_with_its_offset(tmp_path: Path, codec: str) -> None:
    values = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2"), (b"a", b"3")]
    directory = build(tmp_path, [plain_batches(values, batch_size=3, codec=codec), active(6)])
    result = run(directory)
    assert kept(directory)[:-1] == [(3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3")]
    assert (result.records_read, result.records_kept) == (6, 3)
    assert headers(directory)[0].codec_id == CODECS.index(codec)
    check_indexes(directory)


def test_a_batch_keeps_its_offsets_when_its_records_go(tmp_path: Path) -> None:
    values = [(b"a", b"1"), (b"x", b"1"), (b"a", b"2"), (b"y", b"1"), (b"a", b"3"), (b"a", b"4")]
    directory = build(tmp_path, [plain_batches(values, batch_size=5), active(6)])
    run(directory)
    first = headers(directory)[0]
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 4, 2)
    assert [offset for offset, _, _ in kept(directory)] == [1, 3, 5, 6]


def test_nothing_at_or_above_the_last_segment_is_touched_or_looked_at(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [plain_batches([(b"a", b"1"), (b"b", b"1")]), plain_batches([(b"a", b"2")], base_offset=2)],
    )
    before = log_bytes(directory, 2)
    run(directory)
    assert kept(directory) == [(0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2")]
    assert log_bytes(directory, 2) == before


def test_a_log_of_one_segment_stays(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")])])
    result = run(directory)
    assert result.passes == 0
    assert len(kept(directory)) == 2


def test_records_without_a_key_go_and_are_counted(tmp_path: Path) -> None:
    values = [(None, b"1"), (b"a", b"1"), (None, b"2"), (b"", b"empty key")]
    directory = build(tmp_path, [plain_batches(values), active(4)])
    result = run(directory)
    assert kept(directory)[:-1] == [(1, b"a", b"1"), (3, b"", b"empty key")]
    assert result.records_without_key == 2


def test_headers_and_timestamps_stay_exact(tmp_path: Path) -> None:
    specs = [
        RecordSpec(key=b"a", value=b"", timestamp_ms=NOW_MS, headers=(("h", None), ("i", b""))),
        RecordSpec(key=b"b", value=b"old", timestamp_ms=NOW_MS + 5),
        RecordSpec(key=b"c", value=b"x", timestamp_ms=NOW_MS - 60_000),
        RecordSpec(key=b"b", value=b"new", timestamp_ms=NOW_MS + 1),
    ]
    directory = build(tmp_path, [[v2_batch(specs)], active(4)])
    before = rows(directory)
    run(directory)
    assert rows(directory) == [before[0], before[2], before[3], before[4]]
    assert headers(directory)[0].max_timestamp == NOW_MS + 1


def test_an_unchanged_batch_is_copied_byte_by_byte(tmp_path: Path) -> None:
    untouched = v2_batch(
        [record(b"k", b"v")], base_offset=2, codec="gzip", partition_leader_epoch=7
    )
    directory = build(
        tmp_path, [[*plain_batches([(b"a", b"1"), (b"a", b"2")]), untouched], active(3)]
    )
    run(directory)
    assert untouched in split_log(log_bytes(directory, 0))


def test_segments_are_merged_up_to_segment_bytes(tmp_path: Path) -> None:
    segments = [plain_batches([(b"k%d" % base, b"v" * 100)], base_offset=base) for base in range(6)]
    size = len(segments[0][0])
    directory = build(tmp_path, [*segments, active(6)])
    config = replace(CONFIG, segment=SegmentConfig(segment_bytes=2 * size))
    result = run(directory, config)
    assert segment_offsets(directory) == [0, 2, 4, 6]
    assert (result.segments_before, result.segments_after) == (7, 4)
    assert len(kept(directory)) == 7
    check_indexes(directory)


def test_a_second_pass_without_anything_new_changes_nothing(tmp_path: Path) -> None:
    directory = build(
        tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2"), (b"b", None)]), active(3)]
    )
    run(directory)
    before = last_writes(directory)
    result = run(directory, now_ms=NOW_MS + 5)
    assert result.passes == 0
    assert last_writes(directory) == before


def last_writes(directory: Path) -> dict[str, tuple[int, int]]:
    """Tell which file each name is, and when it was last written."""
    stats = {path.name: path.stat() for path in directory.iterdir()}
    return {name: (it.st_ino, it.st_mtime_ns) for name, it in stats.items()}


def test_the_cleaner_checkpoint_says_how_far_it_came_and_the_clean_part_is_cleaned_by_new_keys(
    tmp_path: Path,
) -> None:
    first = plain_batches([(b"a", b"1"), (b"b", b"1")])
    directory = build(tmp_path, [first, active(2)])
    run(directory)
    assert checkpoint(directory, "cleaner-offset-checkpoint") == 2
    build(tmp_path, [first, plain_batches([(b"a", b"2")], base_offset=2), active(3)])
    result = run(directory)
    assert result.first_dirty_offset == 2
    assert kept(directory)[:-1] == [(1, b"b", b"1"), (2, b"a", b"2")]
    assert checkpoint(directory, "cleaner-offset-checkpoint") == 3


def test_a_cleaner_checkpoint_beyond_the_end_is_that_of_another_log(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")]), active(2)])
    LogBuilder(tmp_path)._offset_checkpoint("cleaner-offset-checkpoint", {("t", 0): 1000})
    assert run(directory).first_dirty_offset == 0
    assert kept(directory)[:-1] == [(1, b"a", b"2")]


@pytest.mark.parametrize("max_keys", [1, 2, 5, 12])
def test_a_map_that_is_too_small_takes_more_passes_and_gives_the_same(
    tmp_path: Path, max_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [(b"%d" % (index * 7 % 13), b"%d" % index) for index in range(40)]
    segments = [
        plain_batches(values[at : at + 8], base_offset=at, batch_size=3, codec="lz4")
        for at in range(0, 40, 8)
    ]
    directory = build(tmp_path, [*segments, active(40)])

    class SmallMap(OffsetMap):
        def __init__(self, max_bytes: int, *, expected_records: int) -> None:
            super().__init__(max_bytes, expected_records=expected_records)
            self.max_keys = max_keys

    planned = plan(directory, CONFIG, NOW_MS)
    monkeypatch.setattr(compaction, "OffsetMap", SmallMap)
    (result,) = compact([str(tmp_path)], None, CONFIG, NOW_MS).partitions
    assert (planned.cleaned_up_to, planned.segments_after) == (40, result.segments_after)
    assert planned.records_kept == len(dict(values))
    latest = {key: (index, key, value) for index, (key, value) in enumerate(values)}
    assert kept(directory)[:-1] == sorted(latest.values())
    assert result.passes > 1
    assert checkpoint(directory, "cleaner-offset-checkpoint") == 40


def test_the_last_batch_of_a_round_stays_as_a_header_to_keep_its_offset(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [plain_batches([(b"a", b"1"), (None, b"x"), (None, b"y")], batch_size=1), active(3)],
    )
    run(directory)
    first, last, _ = headers(directory)
    assert (first.base_offset, first.records_count) == (0, 1)
    assert (last.base_offset, last.last_offset, last.records_count) == (2, 2, 0)


# Lag and ratio


def test_segments_with_a_young_record_stay_and_all_behind_them(tmp_path: Path) -> None:
    segments = [
        plain_batches([(b"a", b"%d" % base)], base_offset=base, timestamp_ms=NOW_MS - age)
        for base, age in enumerate((5000, 4000, 500, 3000))
    ]
    directory = build(tmp_path, [*segments, active(4)])
    result = run(directory, replace(CONFIG, min_compaction_lag_ms=1000))
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4]
    assert result.cleaned_up_to == 2


def test_too_small_a_part_of_new_bytes_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = build(
        tmp_path,
        [
            plain_batches([(b"%d" % index, b"v" * 100) for index in range(20)]),
            plain_batches([(b"0", b"new")], base_offset=20),
            active(21),
        ],
    )
    LogBuilder(tmp_path)._offset_checkpoint("cleaner-offset-checkpoint", {("t", 0): 20})
    with monkeypatch.context() as patch:
        # It is told by the files' sizes alone.
        patch.setattr(compaction, "survey_producers", None)
        assert run(directory, replace(CONFIG, min_cleanable_ratio=0.5)).passes == 0
    assert run(directory, CONFIG).passes == 1


# Tombstones


def test_a_tombstone_stays_until_its_delete_horizon_is_over(tmp_path: Path) -> None:
    directory = build(
        tmp_path, [plain_batches([(b"a", b"1"), (b"b", b"1"), (b"a", None)]), active(3)]
    )
    run(directory)
    assert kept(directory)[:-1] == [(1, b"b", b"1"), (2, b"a", None)]
    horizons = [header.delete_horizon_ms for header in headers(directory)]
    assert horizons == [None, NOW_MS + DAY_MS, None]
    run(directory, now_ms=NOW_MS + DAY_MS - 1)
    assert kept(directory)[:-1] == [(1, b"b", b"1"), (2, b"a", None)]
    run(directory, now_ms=NOW_MS + DAY_MS)
    assert kept(directory)[:-1] == [(1, b"b", b"1")]


def test_a_delete_horizon_is_set_once_and_keeps_record_timestamps(tmp_path: Path) -> None:
    first = plain_batches([(b"a", None), (b"b", b"1")], timestamp_ms=NOW_MS - 1000)
    directory = build(tmp_path, [first, active(2)])
    run(directory)
    written = log_bytes(directory, 0)
    tombstone = v2_batch(
        [record(b"a", None, NOW_MS - 1000), record(b"b", b"1", NOW_MS - 1000)],
        delete_horizon_ms=NOW_MS + DAY_MS,
    )
    assert written == tombstone
    (directory / f"{2:020d}.log").unlink()
    build(tmp_path, [[written], plain_batches([(b"c", b"1")], base_offset=2), active(3)])
    run(directory, now_ms=NOW_MS + 1000)
    assert split_log(log_bytes(directory, 0))[0] == tombstone


def test_a_tombstone_that_is_not_the_latest_goes_at_once(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", None), (b"a", b"1")]), active(2)])
    run(directory)
    assert kept(directory)[:-1] == [(1, b"a", b"1")]
    assert headers(directory)[0].delete_horizon_ms is None


# Before 1970


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_before_1970_is_copied_and_never_written_again(tmp_path: Path, codec: str) -> None:
    early = v2_batch(
        [record(b"a", b"1", -2), record(b"b", b"1", -1), record(b"c", b"1")], codec=codec
    )
    following = plain_batches([(b"x", b"1")], base_offset=3)
    directory = build(tmp_path / "copied", [[early, *following], active(4)])
    run(directory)
    assert split_log(log_bytes(directory, 0))[0] == early

    following = plain_batches([(b"c", b"2")], base_offset=3)
    directory = build(tmp_path / "refused", [[early], following, active(4)])
    with pytest.raises(InvalidRecordError, match=r"offset 0 has the timestamp -2 ms, before 1970"):
        run(directory)
    assert split_log(log_bytes(directory, 0)) == [early]
    assert not temporary_names(directory)


def test_a_record_before_1970_that_goes_is_no_hindrance(tmp_path: Path) -> None:
    batch = v2_batch([record(b"a", b"1", -2), record(b"b", b"1", -1), record(b"c", b"1")])
    more = plain_batches([(b"a", b"2")], base_offset=3)
    directory = build(tmp_path, [[batch], more, active(4)])
    run(directory)
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4]


# Formats 0 and 1


def old_format_log(path: Path, magic: int, codec: str) -> Path:
    specs = [record(b"a", b"1"), record(b"b", b"1"), record(b"a", None), record(b"c", b"")]
    messages = legacy_message_set(magic, specs, codec=codec)
    more = legacy_message(magic, offset=4, key=b"b", value=b"2")
    directory = build(
        path,
        [
            SegmentSpec([messages], base_offset=0),
            SegmentSpec([more], base_offset=4),
            plain_batches([(b"d", b"1")], base_offset=5),
            active(6),
        ],
    )
    for base_offset, modified_ms in ((0, NOW_MS), (4, NOW_MS + 2 * DAY_MS), (5, NOW_MS)):
        set_modified(directory, base_offset, modified_ms)
    return directory


def set_modified(directory: Path, base_offset: int, modified_ms: int) -> None:
    os.utime(directory / f"{base_offset:020d}.log", ns=(modified_ms * 10**6,) * 2)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_what_stays_of_old_formats_becomes_format_2(tmp_path: Path, magic: int, codec: str) -> None:
    directory = old_format_log(tmp_path, magic, codec)
    before = rows(directory)
    run(directory)
    assert kept(directory)[:-1] == [
        (2, b"a", None),
        (3, b"c", b""),
        (4, b"b", b"2"),
        (5, b"d", b"1"),
    ]
    assert rows(directory) == [it for it in before if it.offset >= 2]
    found = headers(directory)
    assert [it.magic for it in found] == [2] * len(found)
    assert found[0].base_offset == 2
    assert found[0].codec_id == CODECS.index(codec)
    # A tombstone has a place for its horizon now.
    assert found[0].delete_horizon_ms == NOW_MS + DAY_MS
    check_indexes(directory)
    run(directory, now_ms=NOW_MS + DAY_MS)
    assert (2, b"a", None) not in kept(directory)


@pytest.mark.parametrize("offsets", [(5, 3), (0, 2**31)])
def test_a_wrapper_that_no_batch_can_take_the_place_of_is_refused(
    tmp_path: Path, offsets: tuple[int, int]
) -> None:
    inner = b"".join(legacy_message(0, offset=offset, key=b"%d" % offset) for offset in offsets)
    wrapper = legacy_wrapper(0, inner, offset=max(offsets), codec="gzip")
    segment = SegmentSpec([wrapper], base_offset=0, index=False, time_index=False)
    directory = build(tmp_path, [segment, active(max(offsets) + 1)])
    with pytest.raises(InvalidRecordError, match="are not ascending, or more than 2147483647"):
        run(directory)
    assert log_bytes(directory, 0) == wrapper


def test_messages_of_old_formats_that_all_stay_become_format_2_too(tmp_path: Path) -> None:
    messages = legacy_message_set(1, [record(b"a", b"1"), record(b"b", b"1")])
    directory = build(tmp_path, [[messages], active(2)])
    run(directory)
    assert [it.magic for it in headers(directory)] == [2, 2, 2]
    assert kept(directory)[:-1] == [(0, b"a", b"1"), (1, b"b", b"1")]


def test_tombstones_of_old_formats_go_with_the_age_of_their_segment(tmp_path: Path) -> None:
    directory = old_format_log(tmp_path, 1, "none")
    LogBuilder(tmp_path)._offset_checkpoint("cleaner-offset-checkpoint", {("t", 0): 5})
    run(directory)
    # Its segment is two days older than the newest clean one, delete.retention.ms is one.
    assert (2, b"a", None) not in kept(directory)


def test_a_cleaned_segment_is_as_old_as_what_it_replaces(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")]), active(2)])
    set_modified(directory, 0, NOW_MS - DAY_MS)
    run(directory)
    assert (directory / f"{0:020d}.log").stat().st_mtime_ns == (NOW_MS - DAY_MS) * 10**6


# Transactions


def data(producer_id: int, base: int, *pairs: tuple[bytes, bytes | None], **kwargs: int) -> bytes:
    return v2_batch(
        [record(key, value) for key, value in pairs],
        base_offset=base,
        transactional=True,
        producer_id=producer_id,
        producer_epoch=kwargs.get("epoch", 0),
        base_sequence=kwargs.get("sequence", 0),
    )


def transaction_entries(directory: Path, base_offset: int) -> list[tuple[int, int, int]]:
    path = directory / f"{base_offset:020d}.txnindex"
    if not path.exists():
        return []
    return [
        (it.producer_id, it.first_offset, it.last_offset)
        for it in parse_transaction_index(path.read_bytes())
    ]


def test_aborted_records_go_and_never_hide_older_ones(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [
                *plain_batches([(b"a", b"old")]),
                data(7, 1, (b"a", b"aborted"), (b"b", b"aborted")),
                marker(ABORT, 7, 3),
                data(8, 4, (b"c", b"committed")),
                marker(COMMIT, 8, 5),
            ],
            active(6),
        ],
    )
    run(directory)
    assert kept(directory)[:-1] == [(0, b"a", b"old"), (4, b"c", b"committed")]
    check_indexes(directory)


def test_an_open_transaction_bounds_what_is_cleaned(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            plain_batches([(b"a", b"1"), (b"a", b"2")]),
            [data(7, 2, (b"a", b"open")), *plain_batches([(b"a", b"3")], base_offset=3)],
            plain_batches([(b"a", b"4")], base_offset=4),
            active(5),
        ],
    )
    result = run(directory)
    assert result.cleaned_up_to == 2
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4, 5]


def test_a_marker_in_the_last_segment_decides_about_data_in_closed_ones(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [*plain_batches([(b"a", b"old")]), data(7, 1, (b"a", b"aborted"))],
            [marker(ABORT, 7, 2)],
        ],
    )
    # The producer's last batch stays as a header: its sequence must not be lost.
    run(directory)
    assert kept(directory) == [(0, b"a", b"old")]
    empty = headers(directory)[1]
    assert (empty.base_offset, empty.last_offset, empty.records_count) == (1, 1, 0)
    assert (empty.producer_id, empty.is_transactional) == (7, True)


def test_a_marker_goes_when_its_data_is_gone_and_its_horizon_is_over(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [
                data(7, 0, (b"a", b"1")),
                marker(COMMIT, 7, 1),
                data(7, 2, (b"a", b"2"), sequence=1),
                marker(COMMIT, 7, 3),
            ],
            active(4),
        ],
    )
    run(directory)
    # Its data was seen in this pass, so the first marker stays as it is.
    assert [(it.base_offset, it.is_control) for it in headers(directory)] == [
        (1, True),
        (2, False),
        (3, True),
        (4, False),
    ]
    assert headers(directory)[0].delete_horizon_ms is None

    again = plain_batches([(b"n", b"1")], base_offset=4)
    (directory / f"{4:020d}.log").write_bytes(b"".join(again))
    (directory / f"{5:020d}.log").write_bytes(b"".join(active(5)))
    run(directory, now_ms=NOW_MS + 10)
    first = headers(directory)[0]
    assert (first.base_offset, first.is_control) == (1, True)
    assert first.delete_horizon_ms == NOW_MS + 10 + DAY_MS

    run(directory, now_ms=NOW_MS + 10 + DAY_MS)
    assert [(it.base_offset, it.is_control) for it in headers(directory)][:2] == [
        (2, False),
        (3, True),
    ]


def test_the_abort_entry_stays_as_long_as_a_batch_of_the_transaction_does(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [
                data(7, 0, (b"a", b"1")),
                marker(ABORT, 7, 1),
                *plain_batches([(b"b", b"1")], base_offset=2),
            ],
            active(3),
        ],
    )
    run(directory)
    # The header of the producer's last batch is still there, in the transaction.
    assert transaction_entries(directory, 0) == [(7, 0, 1)]
    day = replace(CONFIG, producer_id_expiration_ms=DAY_MS)
    (directory / f"{3:020d}.log").write_bytes(
        b"".join(plain_batches([(b"n", b"1")], base_offset=3))
    )
    (directory / f"{4:020d}.log").write_bytes(b"".join(active(4)))
    run(directory, day, now_ms=NOW_MS + 2 * DAY_MS)
    # The producer is silent for too long: its batch goes, the marker gets its horizon next.
    assert headers(directory)[0].base_offset == 1


def test_a_producers_last_batch_stays_as_a_header_with_its_sequence(tmp_path: Path) -> None:
    def idempotent(base: int, sequence: int, value: bytes) -> bytes:
        return v2_batch(
            [record(b"k", value)] * 2,
            base_offset=base,
            producer_id=5,
            producer_epoch=3,
            base_sequence=sequence,
        )

    directory = build(
        tmp_path,
        [
            [idempotent(0, 0, b"1"), idempotent(2, 2, b"2")],
            plain_batches([(b"k", b"3")], base_offset=4),
            active(5),
        ],
    )
    run(directory)
    first = headers(directory)[0]
    assert (first.base_offset, first.last_offset, first.records_count) == (2, 3, 0)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (5, 3, 2)
    assert kept(directory)[0] == (4, b"k", b"3")
    run(directory, replace(CONFIG, producer_id_expiration_ms=0), now_ms=NOW_MS)


def test_the_marker_of_a_bumped_epoch_stays_for_fencing(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [data(7, 0, (b"a", b"1")), marker(ABORT, 7, 1, epoch=1)],
            plain_batches([(b"b", b"1")], base_offset=2),
            active(3),
        ],
    )
    run(directory)
    # Its data is of an older epoch and goes; the marker alone says the present one.
    assert [(it.base_offset, it.is_control, it.records_count) for it in headers(directory)][:1] == [
        (1, True, 1)
    ]
    later = NOW_MS + DAY_MS // 2
    run(directory, replace(CONFIG, delete_retention_ms=0), now_ms=later)
    assert headers(directory)[0].is_control


def test_an_emptied_marker_tells_the_present_epoch_of_its_producer(tmp_path: Path) -> None:
    emptied = v2_batch(
        base_offset=1,
        max_timestamp=NOW_MS,
        transactional=True,
        control=True,
        producer_id=7,
        producer_epoch=1,
    )
    horizon = v2_batch(
        [RecordSpec(key=b"\0\0\0\0", value=bytes(6), timestamp_ms=NOW_MS)],
        delete_horizon_ms=NOW_MS,
        transactional=True,
        control=True,
        producer_id=7,
        producer_epoch=0,
    )
    directory = build(
        tmp_path, [[horizon, emptied, *plain_batches([(b"a", b"1")], base_offset=2)], active(3)]
    )
    run(directory)
    assert [(it.base_offset, it.producer_epoch) for it in headers(directory)][:2] == [
        (1, 1),
        (2, -1),
    ]


def test_control_records_of_other_kinds_stay(tmp_path: Path) -> None:
    other = control_batch(99, base_offset=0, transactional=False)
    directory = build(
        tmp_path, [[other, *plain_batches([(b"a", b"1"), (b"a", b"2")], base_offset=1)], active(3)]
    )
    run(directory)
    assert split_log(log_bytes(directory, 0))[0] == other


# Files


def test_old_files_are_renamed_first_and_removed_when_they_are_old_enough(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")]), active(2)])
    config = replace(CONFIG, file_delete_delay_ms=60_000)
    young = run(directory, config)
    assert temporary_names(directory) == [
        f"{0:020d}.{kind}.deleted" for kind in ("index", "log", "timeindex")
    ]
    assert young.waiting_files == 3
    wall_ms = int((directory / f"{0:020d}.log.deleted").stat().st_ctime * 1000)
    later = run(directory, config, now_ms=wall_ms + 61_000)
    assert later.removed_files == 3
    assert temporary_names(directory) == []


def test_snapshots_of_merged_segments_go_with_them(tmp_path: Path) -> None:
    segments = [plain_batches([(b"k%d" % base, b"v")], base_offset=base) for base in range(3)]
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, [*segments, active(3)], snapshots=True)
    run(directory)
    assert sorted(name for name in os.listdir(directory) if name.endswith(".snapshot")) == [
        f"{offset:020d}.snapshot" for offset in (0, 3, 4)
    ]


def test_a_segment_is_split_where_an_offset_does_not_fit_31_bits(tmp_path: Path) -> None:
    far = 3_000_000_000
    batches = [
        *plain_batches([(b"a", b"1"), (b"b", b"1")], batch_size=1),
        *plain_batches([(b"c", b"1"), (b"a", b"2")], base_offset=far, batch_size=1),
    ]
    directory = build(
        tmp_path,
        [SegmentSpec(batches, index=False, time_index=False), active(far + 2)],
    )
    run(directory)
    assert segment_offsets(directory) == [0, far, far + 2]
    assert kept(directory)[:-1] == [(1, b"b", b"1"), (far, b"c", b"1"), (far + 1, b"a", b"2")]
    check_indexes(directory)


def test_groups_never_span_more_offsets_than_an_index_can_say() -> None:
    def segment(base_offset: int, size_bytes: int = 10) -> SegmentFile:
        return SegmentFile(base_offset=base_offset, size_bytes=size_bytes, modified_ns=0)

    def grouped(end_offset: int) -> list[list[int]]:
        groups = group_segments(found, end_offset=end_offset, config=SegmentConfig())
        return [[it.base_offset for it in group] for group in groups]

    found = [segment(0), segment(5), segment(2**31), segment(2**31 + 1)]
    assert grouped(2**32) == [[0, 5], [2**31, 2**31 + 1]]
    assert grouped(2**32 + 1) == [[0, 5], [2**31], [2**31 + 1]]
    # A segment without a byte adds no offset.
    found = [segment(0), segment(2**31, 0), segment(2**31 + 9, 0)]
    assert grouped(2**32) == [[0, 2**31, 2**31 + 9]]


def test_readers_are_told_that_the_listing_changed(tmp_path: Path) -> None:
    from spark_segmentlog.log.directory.open_commit import read_commit_state

    directory = build(tmp_path, [plain_batches([(b"a", b"1"), (b"a", b"2")]), active(2)])
    before = read_commit_state(str(tmp_path)).counter
    run(directory)
    assert read_commit_state(str(tmp_path)).counter > before


def test_the_log_reads_back_through_the_log_manager(tmp_path: Path) -> None:
    values = [(b"%d" % (index % 5), b"%d" % index) for index in range(50)]
    segments = [
        plain_batches(values[at : at + 10], base_offset=at, batch_size=3, codec="zstd")
        for at in range(0, 50, 10)
    ]
    directory = build(tmp_path, [*segments, active(50)])
    run(directory)
    with_manager: list[tuple[int, bytes | None, bytes | None]] = []
    log = LogManager.open([str(tmp_path)]).topic_partitions[PARTITION]
    for arrow_batch in log.scan(options=ScanOptions(columns=("offset", "key", "value"))):
        with_manager.extend(
            (row["offset"], row["key"], row["value"]) for row in arrow_batch.to_pylist()
        )
    assert with_manager == kept(directory)


# Refusals


def test_a_bad_checksum_in_a_closed_segment_stops_it_and_nothing_changes(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [plain_batches([(b"a", b"1")]), plain_batches([(b"a", b"2")], base_offset=1), active(2)],
    )
    path = directory / f"{1:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[-3] ^= 1
    path.write_bytes(damaged)
    before = {name: (directory / name).read_bytes() for name in os.listdir(directory)}
    with pytest.raises(CrcMismatchError, match="position 0, base offset 1"):
        run(directory)
    assert {name: (directory / name).read_bytes() for name in os.listdir(directory)} == before


def test_segments_below_the_log_start_go(tmp_path: Path) -> None:
    parts = [plain_batches([(b"a", b"1")], base_offset=base) for base in range(3)]
    directory = build(tmp_path, [*parts, active(3)])
    LogBuilder(tmp_path).log_start_offsets({(PARTITION.topic, PARTITION.partition): 2})
    run(directory)
    assert segment_offsets(directory)[0] == 2


def test_a_closed_segment_that_ends_torn_is_refused(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [SegmentSpec(plain_batches([(b"a", b"1"), (b"a", b"2")]), cut_bytes=1), active(2)],
    )
    with pytest.raises(InvalidBatchError, match="another segment follows"):
        run(directory)


def test_topics_that_are_a_brokers_own_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", b"1")]), active(1)])
    for topic in INTERNAL_TOPICS:
        LogBuilder(tmp_path).partition(topic, 0, [plain_batches([(b"a", b"1")])])
        with pytest.raises(UnsafeTargetError, match="broker's own"):
            compact([str(tmp_path)], [topic], CONFIG, NOW_MS)
    with pytest.raises(UnknownTopicOrPartitionError, match="nothere"):
        compact([str(tmp_path)], ["nothere"], CONFIG, NOW_MS)
    assert run(directory).topic_partition == PARTITION


# The model


@st.composite
def keyed_logs(draw: st.DrawFn) -> list[list[list[tuple[bytes | None, bytes | None]]]]:
    """Segments of batches of (key, value)."""
    pair = st.tuples(
        st.sampled_from([None, b"", *[b"k%d" % index for index in range(6)]]),
        st.none() | st.binary(max_size=4),
    )
    batch = st.lists(pair, min_size=1, max_size=5)
    return draw(st.lists(st.lists(batch, min_size=1, max_size=4), min_size=1, max_size=5))


def written(
    log: Sequence[Sequence[Sequence[tuple[bytes | None, bytes | None]]]], codecs: Sequence[str]
) -> tuple[list[list[bytes]], list[tuple[int, bytes | None, bytes | None]]]:
    segments: list[list[bytes]] = []
    model: list[tuple[int, bytes | None, bytes | None]] = []
    offset = 0
    for number, batches in enumerate(log):
        built = []
        for pairs in batches:
            built.extend(
                plain_batches(
                    pairs,
                    base_offset=offset,
                    batch_size=len(pairs),
                    codec=codecs[number % len(codecs)],
                )
            )
            model.extend((offset + at, key, value) for at, (key, value) in enumerate(pairs))
            offset += len(pairs)
        segments.append(built)
    segments.append(active(offset))
    model.append((offset, b"active", b"%d" % offset))
    return segments, model


@settings(max_examples=60, deadline=None)
@given(log=keyed_logs(), codecs=st.lists(st.sampled_from(CODECS), min_size=1, max_size=3))
def test_a_compacted_log_is_the_latest_of_each_key_of_the_model(
    log: list[list[list[tuple[bytes | None, bytes | None]]]], codecs: list[str]
) -> None:
    segments, model = written(log, codecs)
    with tempfile.TemporaryDirectory() as folder:
        directory = build(Path(folder), segments)
        end_offset = model[-1][0]
        run(directory)
        latest = {key: offset for offset, key, _ in model if offset < end_offset}
        expected = [row for row in model if row[1] is not None and latest.get(row[1]) == row[0]]
        assert kept(directory) == [*expected, model[-1]]
        check_indexes(directory)
        assert _end_offset(directory) == end_offset + 1
        # Behind the horizon tombstones go, and the rest stays as it is.
        run(directory, now_ms=NOW_MS + DAY_MS)
        without = [row for row in expected if row[2] is not None]
        assert kept(directory) == [*without, model[-1]]
        check_indexes(directory)


def _end_offset(directory: Path) -> int:
    return max(header.next_offset for header in headers(directory))


@settings(max_examples=40, deadline=None)
@given(log=keyed_logs(), cut=st.integers(0, 10))
def test_compacting_in_two_steps_gives_what_one_step_gives(
    log: list[list[list[tuple[bytes | None, bytes | None]]]], cut: int
) -> None:
    segments, _ = written(log, ["none"])
    cut = 1 + cut % max(len(segments) - 1, 1)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        whole = build(Path(folder), segments)
        run(whole)
        stepwise = build(Path(other), segments[: cut + 1])
        run(stepwise)
        for spec in segments[cut + 1 :]:
            base = int.from_bytes(spec[0][:8], "big")
            (stepwise / f"{base:020d}.log").write_bytes(b"".join(spec))
        run(stepwise)
        assert kept(stepwise) == kept(whole)


def test_many_keys_in_small_batches_take_a_bounded_map(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    keys = random.integers(0, 3000, 20_000)
    values = [(b"key-%05d" % key, b"%d" % index) for index, key in enumerate(keys.tolist())]
    directory = build(
        tmp_path,
        [
            plain_batches(values[:10_000], batch_size=1),
            plain_batches(values[10_000:], base_offset=10_000, batch_size=100, codec="lz4"),
            active(20_000),
        ],
    )
    result = run(directory, replace(CONFIG, dedupe_buffer_bytes=24 * 2048))
    assert result.passes > 1
    latest = {key: (index, key, value) for index, (key, value) in enumerate(values)}
    assert kept(directory)[:-1] == sorted(latest.values())
    check_indexes(directory)
