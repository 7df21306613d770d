"""What a directory tells of an open commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.open_commit import (
    CommitState,
    has_commit_directory,
    read_commit_state,
    read_journals,
    read_open_commit,
)
from spark_segmentlog.log.names import TopicPartition
from tests.support.scenarios import Scenario, make_decided


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return make_decided(tmp_path)


def test_a_directory_without_commits_says_so(tmp_path: Path) -> None:
    assert read_commit_state(tmp_path) == CommitState(0)
    assert read_journals(str(tmp_path)) == ()
    assert not has_commit_directory(str(tmp_path))


def test_every_directory_tells_of_all_partitions_what_they_were(scenario: Scenario) -> None:
    small, made = TopicPartition("old", 0), TopicPartition("new", 1)
    for directory in scenario.directories:
        state = read_commit_state(directory)
        assert has_commit_directory(directory)
        assert state.visible_ranges is not None
        assert state.visible_ranges[small] == (0, 30)
        assert state.visible_ranges[made] is None


def test_parts_of_a_commit_are_found_from_any_of_its_directories(scenario: Scenario) -> None:
    wanted = set(scenario.directories)
    for directory in scenario.directories:
        assert read_open_commit(directory) is not None
        assert {journal.log_directory for journal in read_journals(directory)} == wanted


def test_a_part_counts_once_the_directory_that_decides_is_found(
    scenario: Scenario, tmp_path: Path
) -> None:
    first, second = scenario.directories
    moved = str(tmp_path / "moved")
    Path(first).rename(moved)
    with pytest.raises(RecoveryError, match=f"once at {first}, which is not there"):
        read_journals(second)
    assert [journal.log_directory for journal in read_journals(second, [moved])] == [second]
