"""Compaction keeps the latest record of each key where it was, by Kafka's rules."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import (
    CrcMismatchError,
    InvalidBatchError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.upkeep.compaction import compact
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.testing.builder import (
    LogBuilder,
    SegmentSpec,
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
    segment_offsets,
    temporary_names,
)
from tests.support.compacting import CODECS, CONFIG, active, run


def test_nothing_at_or_above_the_last_segment_is_touched_or_looked_at(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [plain_batches([(b"a", b"1"), (b"b", b"1")]), plain_batches([(b"a", b"2")], base_offset=2)],
    )
    before = log_bytes(directory, 2)
    run(directory)
    assert kept(directory) == [(0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2")]
    assert log_bytes(directory, 2) == before


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
        # After the horizon tombstones go, and the rest stays as it is.
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
