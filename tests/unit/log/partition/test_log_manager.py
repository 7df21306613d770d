"""Paths of every kind, dying and half-made files, replicas, open commits."""

from __future__ import annotations

import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    LogPermissionError,
    NotALogDirectoryError,
    SegmentLogError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.log.directory import state as log_directory
from spark_segmentlog.log.directory.listing import STRICT_LISTINGS, list_partition
from spark_segmentlog.log.directory.open_commit import CommitState
from spark_segmentlog.log.io import signature as file_signature
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition import log_manager
from spark_segmentlog.log.partition.log_manager import LogManager, divergence_offset
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, segment_file_name
from tests.support.noting import note_calls
from tests.support.reading import batch, offsets, open_one


def _names(manager: LogManager) -> list[str]:
    return [str(topic_partition) for topic_partition in manager.topic_partitions]


@pytest.fixture
def two_directories(tmp_path: Path) -> Path:
    first, second = LogBuilder(tmp_path / "d0"), LogBuilder(tmp_path / "d1")
    first.partition("a", 0, [[batch(0, 3)], [batch(3, 2)]])
    first.partition("my-topic-2", 10, [[batch(0)]])
    second.partition("a", 1, [[batch(0, 4)]])
    return tmp_path


# Paths


def test_several_log_directories_are_one_log(two_directories: Path) -> None:
    manager = LogManager.open([two_directories / "d0", str(two_directories / "d1")])
    assert _names(manager) == ["a-0", "a-1", "my-topic-2-10"]
    assert manager.topics() == ["a", "my-topic-2"]
    assert manager.partitions_of("a") == [TopicPartition("a", 0), TopicPartition("a", 1)]
    assert manager.offset_bounds() == {
        TopicPartition("a", 0): (0, 5),
        TopicPartition("a", 1): (0, 4),
        TopicPartition("my-topic-2", 10): (0, 1),
    }


def test_a_partition_directory_a_file_and_globs_name_what_they_match(two_directories: Path) -> None:
    d0 = two_directories / "d0"
    assert offsets(open_one(d0 / "a-0")) == [0, 1, 2, 3, 4]
    assert offsets(open_one(d0 / "a-0" / segment_file_name(0))) == [0, 1, 2]
    assert offsets(open_one(d0 / "a-0" / segment_file_name(3))) == [3, 4]
    assert offsets(open_one(d0 / "a-0" / "*.log")) == [0, 1, 2, 3, 4]
    assert _names(LogManager.open(two_directories / "d*")) == ["a-0", "a-1", "my-topic-2-10"]
    assert _names(LogManager.open(two_directories / "*" / "a-*")) == ["a-0", "a-1"]


def test_the_segment_of_a_single_file_is_bound_by_the_next_one(two_directories: Path) -> None:
    log = open_one(two_directories / "d0" / "a-0" / segment_file_name(0))
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert log.segments[0].end_offset_bound == 3


def test_the_end_of_a_file_is_no_loss_below_the_recovery_point(two_directories: Path) -> None:
    LogBuilder(two_directories / "d0").recovery_points({("a", 0): 5})
    path = two_directories / "d0" / "a-0" / segment_file_name(0)
    assert open_one(path).lost_at_end is None
    assert read_arrow(path).read_all()["offset"].to_pylist() == [0, 1, 2]


def test_what_is_named_twice_is_read_once(two_directories: Path) -> None:
    d0 = two_directories / "d0"
    os.symlink(d0, two_directories / "link")
    paths = [d0, d0 / "a-0", two_directories / "link", d0 / "a-0" / segment_file_name(0)]
    manager = LogManager.open(paths)
    assert _names(manager) == ["a-0", "my-topic-2-10"]
    assert offsets(manager.partition_log(TopicPartition("a", 0))) == [0, 1, 2, 3, 4]


def test_dots_and_brackets_in_paths_are_part_of_names(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "kafka.logs-1.2" / "[x]")
    builder.partition("my.topic.v1", 3, [[batch(0)]])
    file = builder.path / "my.topic.v1-3" / segment_file_name(0)
    assert open_one(file).topic_partition == TopicPartition("my.topic.v1", 3)
    assert _names(LogManager.open(builder.path)) == ["my.topic.v1-3"]
    assert _names(LogManager.open(tmp_path / "kafka.logs-1.2" / "[[]x]")) == ["my.topic.v1-3"]


def test_a_log_directory_may_be_named_like_a_partition(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "kafka-logs-1")
    builder.partition("a", 0, [[batch(0)]])
    assert _names(LogManager.open(builder.path)) == ["a-0"]


def test_other_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("a", 0, [[batch(0)]])
    (tmp_path / ".lock").touch()
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "b-0").touch()
    (tmp_path / "a-0" / "notes.txt").touch()
    (tmp_path / "a-0" / "00000000000000000000-0000000001.checkpoint").touch()
    (tmp_path / "a-0" / "99999999999999999999.log").touch()
    assert _names(LogManager.open(tmp_path)) == ["a-0"]
    assert len(open_one(tmp_path).segments) == 1


# Errors, each of its own class


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LogPathNotFoundError, match="nothing does not exist"):
        LogManager.open(tmp_path / "nothing")
    with pytest.raises(LogPathNotFoundError, match=r"x\* matches nothing"):
        LogManager.open(tmp_path / "x*")
    with pytest.raises(LogPathNotFoundError, match="at least one"):
        LogManager.open([])


def test_one_of_several_log_directories_may_hold_no_partition_yet(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "a").partition("t", 0, [[batch(0)]])
    empty = tmp_path / "b"
    empty.mkdir()
    both = [str(tmp_path / "a"), str(empty)]
    assert _names(LogManager.open(both)) == _names(LogManager.open(both[::-1])) == ["t-0"]
    (empty / ".lock").touch()
    assert _names(LogManager.open(both)) == ["t-0"]
    with pytest.raises(EmptyLogDirectoryError):
        LogManager.open(str(empty))
    (empty / ".lock").unlink()
    (empty / "notes.txt").touch()
    with pytest.raises(EmptyLogDirectoryError, match=r"b holds no partition"):
        LogManager.open(both)


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(EmptyLogDirectoryError, match="holds no partition"):
        LogManager.open(tmp_path)
    LogBuilder(tmp_path).partition("a", 0, [[batch(0)]], directory_suffix=".0a1b-delete")
    with pytest.raises(EmptyLogDirectoryError, match="1 are partitions that a broker was deleting"):
        LogManager.open(tmp_path)


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(NotALogDirectoryError, match=r"notes\.txt is a file, but no segment"):
        LogManager.open(tmp_path / "notes.txt")


def test_a_segment_in_a_folder_that_names_no_partition(tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    path = tmp_path / "copied" / segment_file_name(0)
    path.write_bytes(batch(0))
    for named in (path, tmp_path / "copied"):
        with pytest.raises(NotALogDirectoryError, match="'copied' is no partition directory"):
            LogManager.open(named)


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LogBuilder(tmp_path).partition("a", 0, [[batch(0)]])

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(LogPermissionError, match="no permission to read"):
        LogManager.open(tmp_path)


def test_a_topic_or_partition_that_is_not_there(two_directories: Path) -> None:
    manager = LogManager.open(two_directories / "d0")
    with pytest.raises(
        UnknownTopicOrPartitionError, match=r"'b' is not in .*: there are \['a', 'm"
    ):
        manager.partition_log(TopicPartition("b", 0))
    with pytest.raises(
        UnknownTopicOrPartitionError, match=r"no partition 7 in .*: there are \[0\]"
    ):
        manager.partition_log(TopicPartition("a", 7))


@pytest.mark.parametrize(
    "error",
    [LogPathNotFoundError("x"), EmptyLogDirectoryError("x"), UnknownTopicOrPartitionError("x")],
)
def test_errors_pickle(error: Exception) -> None:
    assert type(pickle.loads(pickle.dumps(error))) is type(error)


# Temporary and dying files


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
    assert _names(LogManager.open(tmp_path)) == ["topic-0"]
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
def test_a_swap_file_behind_a_cleaned_one_may_be_half_a_split(
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


def test_deleted_partitions_can_be_read_on_request(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("gone", 0, [[batch(0, 3)]], directory_suffix=".0a1b-delete")
    builder.partition("anew", 0, [[batch(0, 9)]], directory_suffix=".0c1d-delete")
    builder.partition("anew", 0, [[batch(0, 2)]])
    builder.log_start_offsets({("gone", 0): 2})
    assert _names(LogManager.open(tmp_path)) == ["anew-0"]
    manager = LogManager.open(tmp_path, include_deleted=True)
    assert _names(manager) == ["anew-0", "gone-0"]
    assert offsets(manager.partition_log(TopicPartition("anew", 0))) == [0, 1]
    assert offsets(manager.partition_log(TopicPartition("gone", 0))) == [0, 1, 2]
    assert offsets(open_one(tmp_path / "gone-0.0a1b-delete", include_deleted=True)) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["delete", "future", "stray"])
def test_a_directory_beside_the_log_is_read_by_its_own_path(tmp_path: Path, kind: str) -> None:
    builder = LogBuilder(tmp_path)
    name = f"my.topic-3.0a1b-{kind}"
    builder.partition("my.topic", 3, [[batch(0, 3)], [batch(3, 2)]], directory_suffix=name[10:])
    builder.log_start_offsets({("my.topic", 3): 4})
    builder.clean_shutdown()
    with pytest.raises(EmptyLogDirectoryError, match=rf"read by its own path, as .*/{name}"):
        LogManager.open(tmp_path)
    for path in (tmp_path / name, tmp_path / f"*-{kind}", tmp_path / name / segment_file_name(0)):
        log = open_one(path)
        assert log.topic_partition == TopicPartition("my.topic", 3)
    # What the log directory says is of the live log.
    log = open_one(tmp_path / name)
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert not log.segments[0].is_index_trusted
    assert offsets(log) == [0, 1, 2, 3, 4]
    # A glob that is not about them passes them by.
    builder.partition("my.topic", 3, [[batch(0, 1)]])
    builder.log_start_offsets({})
    assert offsets(open_one(tmp_path / "my*")) == [0]


@pytest.mark.parametrize("suffix", [".deleted", ".swap", ".cleaned"])
def test_a_file_on_its_way_is_read_by_its_own_path(tmp_path: Path, suffix: str) -> None:
    builder = LogBuilder(tmp_path)
    old = SegmentSpec([batch(0, 3)], suffix=suffix)
    directory = builder.partition("t", 0, [old, [batch(3, 2)], [batch(5, 1)]])
    builder.log_start_offsets({("t", 0): 4})
    name = f"{segment_file_name(0)}{suffix}"
    for path in (directory / name, directory / f"*.log{suffix}"):
        log = open_one(path)
        expected = [] if suffix == ".swap" else [0, 1, 2]
        assert offsets(log) == expected
        assert [it.log_path for it in log.segments] == [str(directory / name)]
        assert log.segments[0].end_offset_bound == 3
    assert offsets(open_one(directory / "0*.log*")) == [4, 5]


def test_a_segment_named_plain_and_deleted_is_read_once(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    old = SegmentSpec([batch(0, 9)], suffix=".deleted")
    directory = builder.partition("t", 0, [old, [batch(0, 3)]])
    paths = [directory / f"{segment_file_name(0)}{suffix}" for suffix in (".deleted", "")]
    for named in (paths, paths[::-1]):
        assert offsets(*LogManager.open(named).topic_partitions.values()) == [0, 1, 2]


def test_partitions_of_a_first_commit_are_not_there_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path / "d0").partition("new", 0, [[batch(0, 5)]])
    LogBuilder(tmp_path / "d1").partition("t", 0, [[batch(0, 5)]])
    _states(monkeypatch, CommitState(0, "w", {TopicPartition("new", 0): None}))
    with pytest.raises(EmptyLogDirectoryError, match="d0 holds no partition yet: a commit is"):
        LogManager.open(tmp_path / "d0")
    assert _names(LogManager.open([tmp_path / "d0", tmp_path / "d1"])) == ["t-0"]


def test_a_new_directory_is_empty_while_its_first_commit_is_open(tmp_path: Path) -> None:
    (tmp_path / ".segmentlog-commit").mkdir()
    (tmp_path / ".segmentlog-0-0-0-0.staged").touch()
    with pytest.raises(EmptyLogDirectoryError, match="holds no partition"):
        LogManager.open(tmp_path)


# Folders that change while they are listed


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
    assert [(it.start_offset, it.end_offset) for it in lost] == [(10, 20)]


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


def test_a_partition_that_moves_between_two_directories_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker moves a replica: ``-future`` becomes the live one, the old one ``-delete``."""
    old = LogBuilder(tmp_path / "d1").partition("t", 0, [[batch(0, 5)]])
    LogBuilder(tmp_path / "d0").partition("s", 0, [[batch(0, 5)]])
    new = LogBuilder(tmp_path / "d0").partition(
        "t", 0, [[batch(0, 5)]], directory_suffix=".1-future"
    )
    real, moved = os.scandir, list[str]()

    def scandir(path: str) -> Any:
        if str(path) == str(old.parent) and not moved:
            moved.append(path)
            old.rename(f"{old}.2-delete")
            new.rename(new.with_name("t-0"))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert _names(LogManager.open([tmp_path / "d0", tmp_path / "d1"])) == ["s-0", "t-0"]


# Replicas


def test_every_copy_of_a_partition_is_known(tmp_path: Path) -> None:
    paths = [_replica(tmp_path / name, [(2, 0)], batch(0, 3)) for name in ("b1", "b2")]
    manager = LogManager.open(paths)
    assert [log.directory for log in manager.copies] == [f"{path}/t-0" for path in paths]
    assert len(manager.topic_partitions) == 1


def _replica(path: Path, epochs: list[tuple[int, int]], *batches: bytes) -> Path:
    LogBuilder(path).partition("t", 0, [batches], leader_epochs=epochs)
    return path


def test_of_two_replicas_the_one_with_the_last_leader_epoch_serves(tmp_path: Path) -> None:
    old = _replica(tmp_path / "b1", [(0, 0)], batch(0, 9))
    new = _replica(tmp_path / "b2", [(0, 0), (3, 5)], batch(0, 5), batch(5, 2))
    for paths in ([old, new], [new, old]):
        (log,) = LogManager.open(paths).topic_partitions.values()
        assert log.directory.startswith(str(new))
        assert offsets(log) == [0, 1, 2, 3, 4, 5, 6]
    stale = open_one(old)
    assert divergence_offset(stale, open_one(new)) == 5


def test_of_two_replicas_of_one_epoch_the_longest_serves(tmp_path: Path) -> None:
    short = _replica(tmp_path / "b1", [(2, 0)], batch(0, 3))
    long = _replica(tmp_path / "b2", [(2, 0)], batch(0, 3), batch(3, 3))
    (log,) = LogManager.open([short, long]).topic_partitions.values()
    assert log.log_end_offset == 6
    assert divergence_offset(open_one(short), open_one(long)) == 3


@pytest.mark.parametrize(
    ("replica", "leader", "cut"),
    [
        ([(0, 0), (1, 4)], [(0, 0), (2, 6)], 4),  # epoch 1 was never the leader's
        ([(0, 0), (2, 6)], [(0, 0), (1, 4), (2, 6)], 8),
        ([(5, 0)], [(6, 3)], 3),  # no epoch in common
        ([], [(1, 0)], 8),  # nothing known of the replica
    ],
)
def test_a_replica_agrees_up_to_where_the_epochs_part(
    tmp_path: Path, replica: list[tuple[int, int]], leader: list[tuple[int, int]], cut: int
) -> None:
    one = open_one(_replica(tmp_path / "b1", replica, batch(0, 8)))
    other = open_one(_replica(tmp_path / "b2", leader, batch(0, 9)))
    assert divergence_offset(one, other) == cut


# Commits of this library


def _states(monkeypatch: pytest.MonkeyPatch, *states: CommitState) -> list[CommitState]:
    """Let the commit state change each time that it is read; the last one stays."""
    left = list(states)

    def read(path: str, storage: object) -> CommitState:
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(log_directory, "commit_state", read)
    return left


def test_an_open_commit_caps_partitions_and_hides_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 5)], [batch(5, 5)]])
    builder.partition("t", 1, [[batch(0, 5)]])
    builder.partition("new", 0, [[batch(0, 5)]])
    builder.log_start_offsets({("t", 0): 5})
    caps = {TopicPartition("t", 0): (2, 7), TopicPartition("new", 0): None}
    _states(monkeypatch, CommitState(3, "w", caps))
    manager = LogManager.open(tmp_path)
    assert manager.offset_bounds() == {
        TopicPartition("t", 0): (2, 7),
        TopicPartition("t", 1): (0, 5),
    }
    assert offsets(manager.partition_log(TopicPartition("t", 0))) == [2, 3, 4, 5, 6]
    assert offsets(open_one(tmp_path / "t-0")) == [2, 3, 4, 5, 6]
    assert _names(LogManager.open(tmp_path / "t-1")) == ["t-1"]
    # The folder was there, but not yet what it holds.
    with pytest.raises(EmptyLogDirectoryError, match="holds no partition yet"):
        LogManager.open(tmp_path / "new-0")


def test_a_commit_during_the_listing_makes_it_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[batch(0, 5)]])
    opened = CommitState(3, "w", {TopicPartition("t", 0): (0, 2)})
    left = _states(monkeypatch, CommitState(3), opened, opened, CommitState(4), CommitState(4))
    # The second look is of the moment when the commit was open: what it does is not visible yet.
    assert open_one(tmp_path).log_end_offset == 2
    assert left == [CommitState(4)] * 2


def test_a_commit_between_listing_and_ends_is_seen_on_all_partitions_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 5)]])
    builder.partition("t", 1, [[batch(0, 5)]])
    # Taken at open, before and after; then after the ends; then at the second open.
    _states(monkeypatch, *[CommitState(0)] * 2, *[CommitState(1)] * 4)
    manager = LogManager.open(tmp_path)
    builder.partition("t", 0, [[batch(0, 5)], [batch(5, 5)]])
    manager.partition_log(TopicPartition("t", 1)).log_end_offset  # noqa: B018
    builder.partition("t", 1, [[batch(0, 5)], [batch(5, 5)]])
    assert set(manager.offset_bounds().values()) == {(0, 10)}


def test_commits_to_other_topics_make_no_reader_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that a commit came into is made again once, and lists what changed alone."""
    builder = LogBuilder(tmp_path)
    directories = [builder.partition("t", number, [[batch(0, 5)]]) for number in range(20)]
    busy = builder.partition("busy", 0, [[batch(0, 1)]])
    for path in [*directories, *(file for it in directories for file in it.iterdir()), tmp_path]:
        os.utime(path, (1, 1))
    commits: list[str] = []

    def commit(path: str, storage: object) -> CommitState:
        commits.append(path)
        with open(busy / segment_file_name(0), "ab") as file:
            file.write(batch(len(commits)))
        (busy / f"{len(commits):020d}.snapshot").touch()
        return CommitState(len(commits))

    listed, walked = Counter[str](), Counter[str]()

    def note_listing(storage: Storage, directory: str) -> None:
        listed[Path(directory).name] += 1

    def note_end(log: PartitionLog) -> None:
        walked[str(log.topic_partition)] += 1

    monkeypatch.setattr(log_directory, "commit_state", commit)
    note_calls(monkeypatch, log_manager, "list_partition", note_listing)
    note_calls(monkeypatch, PartitionLog, "find_next_offset", note_end)
    manager = LogManager.open(tmp_path)
    wanted = manager.partitions_of("t")
    assert manager.offset_bounds(wanted) == dict.fromkeys(wanted, (0, 5))
    assert {name: count for name, count in listed.items() if count > 1} == {
        "busy-0": listed["busy-0"]
    }
    assert listed["busy-0"] <= 3
    assert walked == dict.fromkeys(map(str, wanted), 1)


def test_a_commit_to_half_of_what_is_asked_for_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first partition is changed before the first look, the second one within the second."""
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 5)], [batch(5, 5)]])
    second = builder.partition("t", 1, [[batch(0, 5)]])
    caps = {TopicPartition("t", 0): (0, 5), TopicPartition("t", 1): (0, 5)}
    opened = CommitState(0, "w", caps)
    _states(
        monkeypatch,
        *[CommitState(0)] * 2,  # at open, before and after
        opened,  # behind the first ends
        opened,  # at the second look
        *[CommitState(1)] * 3,
    )
    manager = LogManager.open(tmp_path)
    real = PartitionLog.find_next_offset
    ends: list[int] = []

    def end(log: PartitionLog) -> int:
        found = real(log)
        if log.topic_partition.partition == 1 and not ends:
            ends.append(found)
            with open(second / segment_file_name(0), "ab") as file:
                file.write(batch(5, 5))
        return found

    monkeypatch.setattr(PartitionLog, "find_next_offset", end)
    assert set(manager.offset_bounds().values()) in ({(0, 5)}, {(0, 10)})


# A reader never writes


def test_reading_opens_no_lock_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 5)], [batch(5, 5)]])
    (tmp_path / ".lock").touch()
    opened: list[tuple[str, int]] = []
    real_open = os.open

    def watch(path: str, flags: int, *args: int, **names: int) -> int:
        # Kernels that are compiled meanwhile are kept elsewhere.
        if str(path).startswith(str(tmp_path)):
            opened.append((str(path), flags))
        return real_open(path, flags, *args, **names)

    monkeypatch.setattr(os, "open", watch)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    log = open_one(tmp_path)
    assert offsets(log, min_ms=1, committed=True) == list(range(10))
    assert sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    assert opened
    assert all(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0 for _, flags in opened)
    assert not any(path.endswith(".lock") for path, _ in opened)


def test_planning_touches_no_file_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing 100,000 segments must cost what the listing costs."""
    LogBuilder(tmp_path).partition("t", 0, [[batch(base)] for base in range(50)])
    opened: list[str] = []

    def note(path: str, *_: int, **__: int) -> None:
        opened.append(str(path))

    note_calls(monkeypatch, os, "open", note)
    note_calls(monkeypatch, os, "stat", note)
    log = open_one(tmp_path)
    assert log.segments_between(10, 13).base_offsets.tolist() == [10, 11, 12]
    assert not [path for path in opened if tmp_path / "t-0" in Path(path).parents]


def test_partitions_load_in_parallel_and_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = LogBuilder(tmp_path)
    for partition in range(40):
        builder.partition("t", partition, [[batch(0, partition + 1)]])
    threads: set[int] = set()
    note_calls(
        monkeypatch, log_manager, "list_partition", lambda *_: threads.add(threading.get_ident())
    )
    manager = LogManager.open(tmp_path)
    ends = [end for _, end in manager.offset_bounds().values()]
    assert ends == list(range(1, 41))
    assert threading.get_ident() not in threads
