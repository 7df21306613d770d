"""Paths of every kind, dying and half-made files, replicas, open commits."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import UnknownTopicOrPartitionError
from spark_segmentlog.log.directory import state as log_directory
from spark_segmentlog.log.directory.open_commit import CommitState
from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition import log_manager
from spark_segmentlog.log.partition.log_manager import LogManager, divergence_offset
from spark_segmentlog.log.partition.lost_ranges import find_lost_at_end
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.testing.builder import LogBuilder, segment_file_name
from tests.support.directories import names_of, set_commit_states
from tests.support.noting import note_calls
from tests.support.reading import batch, offsets, open_one

# Paths


def test_several_log_directories_are_one_log(two_directories: Path) -> None:
    manager = LogManager.open([two_directories / "d0", str(two_directories / "d1")])
    assert names_of(manager) == ["a-0", "a-1", "my-topic-2-10"]
    assert manager.topics() == ["a", "my-topic-2"]
    assert manager.partitions_of("a") == [TopicPartition("a", 0), TopicPartition("a", 1)]
    assert manager.offset_bounds() == {
        TopicPartition("a", 0): (0, 5),
        TopicPartition("a", 1): (0, 4),
        TopicPartition("my-topic-2", 10): (0, 1),
    }


def test_the_end_of_a_file_is_no_loss_below_the_recovery_point(two_directories: Path) -> None:
    LogBuilder(two_directories / "d0").recovery_points({("a", 0): 5})
    path = two_directories / "d0" / "a-0" / segment_file_name(0)
    assert find_lost_at_end(open_one(path)) is None
    assert read_arrow(path).read_all()["offset"].to_pylist() == [0, 1, 2]


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
    assert names_of(LogManager.open([tmp_path / "d0", tmp_path / "d1"])) == ["s-0", "t-0"]


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


def test_a_commit_during_the_listing_makes_it_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[batch(0, 5)]])
    opened = CommitState(3, "w", {TopicPartition("t", 0): (0, 2)})
    left = set_commit_states(
        monkeypatch, CommitState(3), opened, opened, CommitState(4), CommitState(4)
    )
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
    set_commit_states(monkeypatch, *[CommitState(0)] * 2, *[CommitState(1)] * 4)
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
    for path in [
        *directories,
        *(file for directory in directories for file in directory.iterdir()),
        tmp_path,
    ]:
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
    visible_ranges = {TopicPartition("t", 0): (0, 5), TopicPartition("t", 1): (0, 5)}
    opened = CommitState(0, "w", visible_ranges)
    set_commit_states(
        monkeypatch,
        *[CommitState(0)] * 2,  # at open, before and after
        opened,  # after the first ends
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
