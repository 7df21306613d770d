"""A commit over two log directories that dies at every one of its operations, and what becomes of
each directory alone, of a copy of it, and of journals that older releases left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.journal import (
    COMMIT_DIRECTORY_NAME,
    CommitPhase,
    Journal,
    journal_path,
)
from spark_segmentlog.log.directory.open_commit import read_commit_state
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.open_commits import locked_for_writing
from spark_segmentlog.log.write.staged_leftovers import list_staged
from tests.support.fault_layer import Faults, Killed
from tests.support.first_format import to_first_format
from tests.support.scenarios import (
    Scenario,
    Writing,
    assert_sound,
    make_scenario,
    read_rows,
    stage,
)

QUICK_STRIDE = 23


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def kill_at(scenario: Scenario, operation: int) -> int:
    scenario.reset()
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, kill_at=operation)
        try:
            scenario.commit()
        except Killed:
            pass
    return faults.count


def some_partition(directory: str) -> TopicPartition:
    """Name a partition of an old topic that lies in this directory."""
    number = next(number for number in range(2) if Path(directory, f"old-{number}").is_dir())
    return TopicPartition("old", number)


def write_alone(directory: str) -> None:
    commit_staged_batches(stage([directory], [Writing({some_partition(directory): 3})]))


def assert_sound_but_for_staging(directories: Sequence[str]) -> None:
    """Check all but that staged files are gone, which a crash leaves to the sweep."""
    for directory in directories:
        for path, _ in list_staged(directory):
            Path(path).unlink()
    assert_sound(directories)


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def run_each_alone(scenario: Scenario, stride: int) -> None:
    count = kill_at(scenario, -1)
    after = {partition: len(rows) for partition, rows in scenario.rows().items()}
    scenario.reset()
    before = {partition: len(rows) for partition, rows in scenario.rows().items()}
    for operation in range(0, count, stride):
        for first in (0, 1):
            kill_at(scenario, operation)
            one, other = (scenario.directories[(first + turn) % 2] for turn in (0, 1))
            write_alone(one)
            write_alone(other)
            write_alone(one)
            found = {partition: len(rows) for partition, rows in scenario.rows().items()}
            for directory, times in ((one, 2), (other, 1)):
                found[some_partition(directory)] -= 3 * times
            assert found in (before, after), (operation, first)
            recover(scenario.directories)
            for directory in scenario.directories:
                assert not Path(directory, COMMIT_DIRECTORY_NAME).exists()


def test_killed_at_some_operations_each_directory_can_be_written_alone(tmp_path: Path) -> None:
    run_each_alone(make_scenario(tmp_path), QUICK_STRIDE)


def test_killed_near_its_end_each_directory_can_be_written_alone(tmp_path: Path) -> None:
    """One directory's journal is gone by then, the visible one is still there."""
    scenario = make_scenario(tmp_path)
    count = kill_at(scenario, -1)
    for operation in range(count - 16, count):
        kill_at(scenario, operation)
        write_alone(scenario.directories[1])
        write_alone(scenario.directories[0])
        recover(scenario.directories)
        assert len(scenario.rows()[some_partition(scenario.directories[0])]) > 0
        assert_sound_but_for_staging(scenario.directories)


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_killed_at_every_operation_each_directory_can_be_written_alone(tmp_path: Path) -> None:
    run_each_alone(make_scenario(tmp_path), 1)


def run_copies(scenario: Scenario, folder: Path, stride: int) -> None:
    count = kill_at(scenario, -1)
    after = scenario.rows()
    scenario.reset()
    before = scenario.rows()
    mended = refused = 0
    for operation in range(0, count, stride):
        kill_at(scenario, operation)
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(scenario.root, copy)
        beside = scenario.root / "d1-copy"
        shutil.copytree(scenario.root / "d1", beside)
        original = contents(scenario.root)
        directories = [str(copy / name) for name in ("d0", "d1")]
        recover(directories)
        assert read_rows(directories) in (before, after)
        assert_sound_but_for_staging(directories)
        watched = {
            path: content for path, content in original.items() if not path.startswith(str(beside))
        }
        for alone in (folder / "elsewhere" / "d1", beside):
            shutil.rmtree(folder / "elsewhere", ignore_errors=True)
            if alone != beside:
                shutil.copytree(scenario.root / "d1", alone)
            try:
                recover(str(alone))
                mended += 1
            except RecoveryError as error:
                if "to go on alone" not in str(error):
                    raise
                shutil.rmtree(alone / COMMIT_DIRECTORY_NAME)
                refused += 1
            found = read_rows([str(alone)])
            for wanted in (before, after):
                if found == {
                    partition: rows for partition, rows in wanted.items() if partition in found
                }:
                    break
            else:
                pytest.fail(f"operation {operation}: half a commit in {alone}")
            write_alone(str(alone))
        now = contents(scenario.root)
        assert {path: now.get(path) for path in watched} == watched, operation
        shutil.rmtree(beside)
    assert mended
    assert refused or stride > 1


def test_copies_from_some_operations_are_mended_and_the_original_stays(tmp_path: Path) -> None:
    run_copies(make_scenario(tmp_path / "scenario"), tmp_path, QUICK_STRIDE)


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_copies_from_every_operation_are_mended_and_the_original_stays(tmp_path: Path) -> None:
    run_copies(make_scenario(tmp_path / "scenario"), tmp_path, 1)


# Format 1


def leave_first_format(scenario: Scenario, copies: int, **options: Any) -> None:
    """Stop a commit once the journals are there and some copies are done."""
    scenario.reset()
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch)
        scenario.commit()
        places = [number for number, name in enumerate(faults.names) if name == "copy_range"]
    kill_at(scenario, places[copies])
    to_first_format(scenario.directories, **options)


def test_journals_of_the_first_format_are_ended(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    scenario.reset()
    before = scenario.rows()
    scenario.commit()
    after = scenario.rows()
    for copies in (0, 1, 2):
        for named in ([0, 1], [0], [1]):
            leave_first_format(scenario, copies)
            assert scenario.rows() == before
            with locked_for_writing([scenario.directories[name] for name in named]):
                pass
            assert scenario.rows() == after
            assert_sound(scenario.directories)


def test_a_copy_with_a_journal_of_the_first_format_leaves_the_original_alone(
    tmp_path: Path,
) -> None:
    scenario = make_scenario(tmp_path / "scenario")
    leave_first_format(scenario, 1)
    copy = tmp_path / "copy"
    shutil.copytree(scenario.root, copy)
    original = contents(scenario.root)
    recover(str(copy / "d0"))
    write_alone(str(copy / "d0"))
    with pytest.raises(RecoveryError, match="is a copy of a log directory with a commit open"):
        recover(str(copy / "d1"))
    assert contents(scenario.root) == original
    shutil.rmtree(scenario.root)
    with pytest.raises(RecoveryError, match="bring that log directory back"):
        recover(str(copy / "d1"))


def test_a_visible_journal_of_the_first_format_blocks_nobody(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    count = kill_at(scenario, -1)
    for operation in range(count - 20, count):
        kill_at(scenario, operation)
        paths = [Path(journal_path(directory)) for directory in scenario.directories]
        if not all(path.exists() for path in paths):
            continue
        phase = Journal.from_bytes(
            paths[0].read_bytes(), scenario.directories[0], source="journal"
        ).phase
        if phase is CommitPhase.VISIBLE:
            break
    else:
        pytest.fail("no operation after which the deciding journal is visible, the other there")
    to_first_format(scenario.directories, visible=True)
    shutil.rmtree(paths[1].parent)
    write_alone(scenario.directories[1])
    write_alone(scenario.directories[0])
    assert_sound_but_for_staging(scenario.directories)
    assert read_commit_state(scenario.directories[0]).visible_ranges is None
