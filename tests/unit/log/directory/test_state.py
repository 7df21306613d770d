"""What a log directory tells of its partitions: those that a commit is making, and their bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import EmptyLogDirectoryError
from spark_segmentlog.log.directory.open_commit import CommitState
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.directories import names_of, set_commit_states
from tests.support.reading import batch, offsets, open_one


def test_partitions_of_a_first_commit_are_not_there_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path / "d0").partition("new", 0, [[batch(0, 5)]])
    LogBuilder(tmp_path / "d1").partition("t", 0, [[batch(0, 5)]])
    set_commit_states(monkeypatch, CommitState(0, "w", {TopicPartition("new", 0): None}))
    with pytest.raises(EmptyLogDirectoryError, match="d0 holds no partition yet: a commit is"):
        LogManager.open(tmp_path / "d0")
    assert names_of(LogManager.open([tmp_path / "d0", tmp_path / "d1"])) == ["t-0"]


def test_a_new_directory_is_empty_while_its_first_commit_is_open(tmp_path: Path) -> None:
    (tmp_path / ".segmentlog-commit").mkdir()
    (tmp_path / ".segmentlog-0-0-0-0.staged").touch()
    with pytest.raises(EmptyLogDirectoryError, match="holds no partition"):
        LogManager.open(tmp_path)


def test_an_open_commit_caps_partitions_and_hides_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 5)], [batch(5, 5)]])
    builder.partition("t", 1, [[batch(0, 5)]])
    builder.partition("new", 0, [[batch(0, 5)]])
    builder.log_start_offsets({("t", 0): 5})
    visible_ranges = {TopicPartition("t", 0): (2, 7), TopicPartition("new", 0): None}
    set_commit_states(monkeypatch, CommitState(3, "w", visible_ranges))
    manager = LogManager.open(tmp_path)
    assert manager.offset_bounds() == {
        TopicPartition("t", 0): (2, 7),
        TopicPartition("t", 1): (0, 5),
    }
    assert offsets(manager.partition_log(TopicPartition("t", 0))) == [2, 3, 4, 5, 6]
    assert offsets(open_one(tmp_path / "t-0")) == [2, 3, 4, 5, 6]
    assert names_of(LogManager.open(tmp_path / "t-1")) == ["t-1"]
    # The folder was there, but not yet what it holds.
    with pytest.raises(EmptyLogDirectoryError, match="holds no partition yet"):
        LogManager.open(tmp_path / "new-0")


def test_a_partition_is_written_while_a_commit_changes_or_makes_it() -> None:
    changed, made, other = (TopicPartition(topic, 0) for topic in ("t", "new", "other"))
    commit_state = CommitState(3, "w", {changed: (2, 7), made: None})
    state = LogDirectoryState(path="d0", commit_state=commit_state)
    assert [state.is_written(each) for each in (changed, made, other)] == [True, True, False]
    assert not LogDirectoryState(path="d0").is_written(changed)


def test_indexes_are_whole_below_the_recovery_point_and_all_after_a_clean_stop(
    tmp_path: Path,
) -> None:
    partition, other = TopicPartition("t", 0), TopicPartition("t", 1)
    builder = LogBuilder(tmp_path)
    assert not LogDirectoryState.read(str(tmp_path)).is_index_whole(partition, 5)
    builder.recovery_points({("t", 0): 5})
    state = LogDirectoryState.read(str(tmp_path))
    assert [state.is_index_whole(partition, bound) for bound in (5, 6, None)] == [
        True,
        False,
        False,
    ]
    assert (state.flushed_offset(partition), state.flushed_offset(other)) == (5, 0)
    assert not state.is_index_whole(other, 5)
    builder.clean_shutdown()
    assert LogDirectoryState.read(str(tmp_path)).is_index_whole(other, None)
