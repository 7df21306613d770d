"""Files are looked at before the steps of an open commit are taken on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.commit_steps import AdoptStep, CopyStep
from spark_segmentlog.log.directory.journal import Journal, journal_path
from spark_segmentlog.log.io import files
from spark_segmentlog.log.write import target_check
from spark_segmentlog.log.write.target_check import StagedSources, check_targets, log_path
from tests.support.noting import note_calls
from tests.support.scenarios import Scenario, make_decided


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return make_decided(tmp_path)


def journals(scenario: Scenario) -> list[Journal]:
    return [
        Journal.from_bytes(Path(journal_path(directory)).read_bytes(), directory, source="journal")
        for directory in scenario.directories
    ]


def steps(scenario: Scenario) -> list[tuple[Path, AdoptStep | CopyStep]]:
    """List the steps, each with the log that it is taken on."""
    return [
        (Path(log_path(plan, step.base_offset)), step)
        for journal in journals(scenario)
        for plan in journal.partitions
        for step in plan.steps
    ]


def leave(scenario: Scenario, data: bytes) -> None:
    """Let some bytes stand where a copy to the end of a log begins."""
    path, position = next(
        (path, step.position)
        for path, step in steps(scenario)
        if isinstance(step, CopyStep) and path.exists()
    )
    with open(path, "ab") as file:
        file.truncate(position)
        file.write(data)


def check(scenario: Scenario) -> None:
    for journal in journals(scenario):
        check_targets(journal)


def test_files_as_they_were_pass(scenario: Scenario) -> None:
    check(scenario)


def test_a_copy_that_a_crash_cut_short_or_left_as_zeros_passes(scenario: Scenario) -> None:
    leave(scenario, bytes(100))
    check(scenario)


def test_bytes_of_somebody_else_after_the_end_are_refused(scenario: Scenario) -> None:
    leave(scenario, b"\xff" * 50)
    with pytest.raises(RecoveryError, match="bytes that are not of the open commit"):
        check(scenario)


def test_a_staged_file_of_other_bytes_is_no_segment(scenario: Scenario) -> None:
    step = next(step for _, step in steps(scenario) if isinstance(step, AdoptStep))
    staged = Path(step.staged_path)
    data = bytearray(staged.read_bytes())
    data[20] ^= 1
    staged.write_bytes(data)
    with pytest.raises(RecoveryError):
        check(scenario)


def test_few_staged_files_are_open_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_check, "MAX_OPEN_STAGED", 2)
    paths = [tmp_path / str(number) for number in range(4)]
    for path in paths:
        path.touch()
    closed: list[int] = []
    note_calls(monkeypatch, files, "close", closed.append)
    with StagedSources() as sources:
        assert sources.open(str(paths[0])) == sources.open(str(paths[0]))
        for path in paths[1:]:
            sources.open(str(path))
        assert len(closed) == 2
        with pytest.raises(RecoveryError, match="is missing"):
            sources.open(str(tmp_path / "gone"))
