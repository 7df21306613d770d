"""Log directories as ending a commit leaves them: files that are foretold are those it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.commit_steps import CopyStep
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    format_offset_checkpoint,
)
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.names import TopicPartition, find_topic_partition
from spark_segmentlog.log.write.after_commit import storage_after
from spark_segmentlog.log.write.open_commits import find_open_commits, finish_open_commits
from tests.support.fault_layer import Faults, Killed
from tests.support.scenarios import Scenario, make_decided, make_scenario

OLD = TopicPartition("old", 0)


def seen(storage: Storage, log_directories: list[str]) -> dict[str, bytes | None]:
    """Read all that a broker, or a reader, finds."""
    found: dict[str, bytes | None] = {}
    for directory in log_directories:
        folders, names = storage.list_directories(directory)
        paths = [f"{directory}/{name}" for name in names]
        for folder in filter(find_topic_partition, folders):
            inner = f"{directory}/{folder}"
            paths += [f"{inner}/{name}" for name in storage.list_names(inner)]
        found |= {path: storage.read_file(path) for path in paths if not is_our_own(path)}
    return found


def is_our_own(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith((".segmentlog", ".lock")) or name.endswith(".tmp")


def after(scenario: Scenario) -> Storage:
    return storage_after(filter(None, find_open_commits(scenario.directories).values()))


@pytest.mark.parametrize("overwrite", [False, True], ids=["appended", "overwritten"])
def test_the_files_are_those_that_ending_the_commit_leaves(tmp_path: Path, overwrite: bool) -> None:
    scenario = make_scenario(tmp_path, overwrite=overwrite)
    operation, opened = 0, 0
    while True:
        scenario.reset()
        marks = format_offset_checkpoint({OLD: 3})
        Path(scenario.directories[1], HIGH_WATERMARK_CHECKPOINT).write_bytes(marks)
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, kill_at=operation, tear=True)
            try:
                scenario.commit()
            except Killed:
                pass
        commits = find_open_commits(scenario.directories)
        storage = after(scenario)
        told = seen(storage, scenario.directories)
        states = [LogDirectoryState.read(path, storage) for path in scenario.directories]
        finish_open_commits(commits)
        assert told == seen(LOCAL, scenario.directories)
        for path, state in zip(scenario.directories, states, strict=True):
            left = LogDirectoryState.read(path)
            assert left.commit_state.visible_ranges is None
            assert state == LogDirectoryState.read_checkpoints(path)
        opened += any(commits.values())
        if not faults.is_dead:
            break
        operation += 11
    assert opened > 3


def test_a_file_that_no_crash_leaves_is_refused(tmp_path: Path) -> None:
    scenario = make_decided(tmp_path)
    (changed, *_) = Path(scenario.directories[1]).glob("old-0/*.log")
    changed.write_bytes(b"")
    with pytest.raises(RecoveryError, match="no crash of the open commit leaves"):
        after(scenario)


def test_a_staged_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    scenario = make_decided(tmp_path)
    for journal in filter(None, find_open_commits(scenario.directories).values()):
        for plan in journal.partitions:
            for step in plan.steps:
                if isinstance(step, CopyStep):
                    Path(step.staged_path).unlink(missing_ok=True)
    with pytest.raises(RecoveryError, match="a staged file of the open commit is missing"):
        after(scenario)
