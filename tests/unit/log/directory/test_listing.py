"""The segments of a folder: names that come and go while they are listed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.errors import (
    SegmentLogError,
)
from spark_segmentlog.log.directory.listing import STRICT_LISTINGS, list_partition
from spark_segmentlog.log.io import signature as file_signature
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, segment_file_name
from tests.support.directories import names_of
from tests.support.noting import note_calls
from tests.support.reading import batch, offsets, open_one


def test_the_segment_of_a_single_file_is_bound_by_the_next_one(two_directories: Path) -> None:
    log = open_one(two_directories / "d0" / "a-0" / segment_file_name(0))
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert log.segments[0].end_offset_bound == 3


def test_temporary_and_dying_files_are_left_out(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition(
        "topic",
        0,
        [
            [batch(0, 5)],
            SegmentSpec([batch(0, 9)], suffix=".deleted"),
            SegmentSpec([batch(50, 9)], suffix=".cleaned"),
            SegmentSpec([batch(50, 9)], suffix=".swap"),
        ],
    )
    for partition, kind in [(0, "delete"), (1, "future"), (2, "stray")]:
        builder.partition("topic", partition, [[batch(0)]], directory_suffix=f".0a1b-{kind}")
    assert names_of(LogManager.open(tmp_path)) == ["topic-0"]
    assert offsets(open_one(tmp_path)) == [0, 1, 2, 3, 4]


def test_a_swap_file_without_a_plain_one_counts_as_the_segment(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition(
        "t", 0, [SegmentSpec([batch(0, 3)], suffix=".swap"), [batch(10, 2)], [batch(20, 2)]]
    )
    assert offsets(open_one(tmp_path)) == [0, 1, 2, 10, 11, 20, 21]
    # With the plain one beside it, that one is read: the broker had not taken it away yet.
    builder.partition("t", 0, [[batch(0, 5)]])
    assert offsets(open_one(tmp_path)) == [0, 1, 2, 3, 4, 10, 11, 20, 21]


@pytest.mark.parametrize(("cleaned", "is_read"), [(0, False), (10, False), (20, True)])
def test_a_swap_file_after_a_cleaned_one_may_be_half_a_split(
    tmp_path: Path, cleaned: int, is_read: bool
) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition(
        "t",
        0,
        [
            [batch(0, 3)],
            SegmentSpec([batch(10, 2)], suffix=".swap"),
            SegmentSpec([], base_offset=cleaned, suffix=".cleaned"),
        ],
    )
    assert offsets(open_one(tmp_path)) == [0, 1, 2] + [10, 11] * is_read


def test_a_segment_named_plain_and_deleted_is_read_once(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    old = SegmentSpec([batch(0, 9)], suffix=".deleted")
    directory = builder.partition("t", 0, [old, [batch(0, 3)]])
    paths = [directory / f"{segment_file_name(0)}{suffix}" for suffix in (".deleted", "")]
    for named in (paths, paths[::-1]):
        assert offsets(*LogManager.open(named).topic_partitions.values()) == [0, 1, 2]


def _renamed_under(
    monkeypatch: pytest.MonkeyPatch, directory: Path, rename: Callable[[list[str]], list[str]]
) -> None:
    """Let the first listing of a folder meet a rename: it sees what `rename` makes of it."""
    real, met = os.listdir, list[str]()

    def listdir(path: str) -> list[str]:
        names = real(path)
        if str(path) == str(directory) and not met:
            met.append(path)
            return rename(names)
        return names

    monkeypatch.setattr(os, "listdir", listdir)


@pytest.mark.parametrize("is_settled", [True, False])
def test_a_segment_that_a_listing_missed_under_both_names_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_settled: bool
) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [[batch(base, 10)] for base in (0, 10, 20)])
    plain = directory / segment_file_name(10)
    plain.rename(f"{plain}.swap")
    if is_settled:
        os.utime(directory, (1, 1))

    def miss(names: list[str]) -> list[str]:
        Path(f"{plain}.swap").rename(plain)
        return [name for name in names if not name.startswith(f"{plain.name}")]

    _renamed_under(monkeypatch, directory, miss)
    assert open_one(tmp_path).base_offsets.tolist() == [0, 10, 20]


def test_a_segment_of_which_only_the_log_is_renamed_yet_is_going(tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [[batch(base, 10)] for base in (0, 10, 20)])
    path = directory / segment_file_name(0)
    path.rename(f"{path}.deleted")
    assert open_one(tmp_path).lost_segments == []
    (directory / segment_file_name(10)).unlink()
    lost = open_one(tmp_path).lost_segments
    assert [(lost_range.start_offset, lost_range.end_offset) for lost_range in lost] == [(10, 20)]


def test_a_busy_folder_is_believed_when_its_segments_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [[batch(base, 10)] for base in (0, 10)])
    calls = []
    real = os.listdir

    def listdir(path: str) -> list[str]:
        calls.append(path)
        (directory / f"{len(calls):020d}.snapshot").touch()
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    assert list_partition(LOCAL, str(directory)).base_offsets.tolist() == [0, 10]
    assert len(calls) == STRICT_LISTINGS + 1


def test_segments_that_come_and_go_all_the_time_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [[batch(base, 10)] for base in (0, 10)])
    calls = []
    monkeypatch.setattr(file_signature, "_MAX_PAUSE_SECONDS", 0)

    def listdir(path: str) -> list[str]:
        calls.append(path)
        return [segment_file_name(len(calls))]

    monkeypatch.setattr(os, "listdir", listdir)
    with pytest.raises(SegmentLogError, match="t-0 changed during each of 100 listings"):
        list_partition(LOCAL, str(directory))


def test_a_folder_at_rest_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [[batch(0, 10)]])
    os.utime(directory, (1, 1))
    calls: list[str] = []
    note_calls(monkeypatch, os, "listdir", calls.append)
    list_partition(LOCAL, str(directory))
    assert calls == [str(directory)]
