"""A commit that is killed, that loses power, or that meets a broken disk, at every one of its
steps."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import CommitPendingError, StagingError
from spark_segmentlog.log.write.commit import commit_staged_batches, writing
from tests.support.fault_layer import Disk, Faults, Killed
from tests.support.scenarios import (
    MARK,
    Rows,
    Scenario,
    Writing,
    assert_sound,
    make_scenario,
    stage,
)

QUICK_STRIDE = 41
POWER_CUTS = [
    ("lost", "lost"),
    ("kept", "lost"),
    ("kept", "torn"),
    ("lost", "torn"),
    ("lost", "kept"),
]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is synced is told by `Disk`; the real disk would only be slow."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=[False, True], ids=["append", "overwrite"])
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Scenario:
    return make_scenario(tmp_path, overwrite=request.param)


class Outcomes:
    """The rows before and after the write, and the number of file operations of its commit."""

    def __init__(self, scenario: Scenario) -> None:
        scenario.reset()
        self.before = scenario.rows()
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch)
            scenario.commit()
        self.operations = faults.names
        self.after = scenario.rows()
        assert self.before != self.after
        assert_sound(scenario.directories)
        assert (scenario.root / "d0" / ".kafka_cleanshutdown").read_bytes() == MARK

    def name(self, rows: Rows) -> str:
        """Tell which of the two it is; anything else fails."""
        if rows == self.before:
            return "before"
        assert rows == self.after
        return "after"


def check_reopened(
    scenario: Scenario,
    outcomes: Outcomes,
    *,
    must_be: str | None = None,
    power_was_lost: bool = False,
) -> str:
    """Read before anyone mends, then open for writing, then try the write again.

    What the power takes of the last segments' indexes, the next write to them makes anew.
    """
    seen = outcomes.name(scenario.rows())
    with writing(scenario.directories):
        pass
    mended = outcomes.name(scenario.rows())
    if must_be is not None:
        assert mended == must_be
    if seen == "after":
        assert mended == "after"
    assert (scenario.root / "d0" / ".kafka_cleanshutdown").read_bytes() == MARK
    if mended == "after":
        assert scenario.commit().is_skipped
        assert outcomes.name(scenario.rows()) == "after"
        if power_was_lost:
            counts = dict.fromkeys(outcomes.after, 1)
            commit_staged_batches(stage(scenario.directories, [Writing(counts)]))
        assert_sound(scenario.directories)
    return mended


def kill_at(scenario: Scenario, operation: int, *, tear: bool, disk: Disk | None = None) -> bool:
    """Commit until the process dies; tell whether the commit came to its end before."""
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, kill_at=operation, tear=tear, disk=disk)
        try:
            scenario.commit()
        except Killed:
            return False
    return True


def run_kills(scenario: Scenario, stride: int, first: int = 0) -> None:
    outcomes = Outcomes(scenario)
    ends = set()
    for operation in range(first, len(outcomes.operations) + 1, stride):
        for tear in (False, True):
            scenario.reset()
            is_done = kill_at(scenario, operation, tear=tear)
            ends.add(check_reopened(scenario, outcomes, must_be="after" if is_done else None))
            if ends != {"after"} or not is_done:
                scenario.reset()
    assert ends == {"before", "after"}


def test_killed_at_some_operations_it_is_whole_or_not_there(scenario: Scenario) -> None:
    run_kills(scenario, QUICK_STRIDE)


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_killed_at_every_operation_it_is_whole_or_not_there(scenario: Scenario) -> None:
    run_kills(scenario, 1)


def run_power_cuts(scenario: Scenario, stride: int, links: Path) -> None:
    outcomes = Outcomes(scenario)
    number = 0
    for operation in range(0, len(outcomes.operations) + 1, stride):
        for names, data in POWER_CUTS:
            number += 1
            scenario.reset()
            folder = links / str(number)
            folder.mkdir(parents=True)
            disk = Disk(scenario.root, folder)
            is_done = kill_at(scenario, operation, tear=False, disk=disk)
            disk.lose_power(number, names=names, data=data)
            must_be = "after" if is_done else None
            check_reopened(scenario, outcomes, must_be=must_be, power_was_lost=True)


def test_losing_power_at_some_operations_it_is_whole_or_not_there(
    scenario: Scenario, tmp_path: Path
) -> None:
    run_power_cuts(scenario, 3 * QUICK_STRIDE - 13, tmp_path / "links")


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_losing_power_at_every_operation_it_is_whole_or_not_there(
    scenario: Scenario, tmp_path: Path
) -> None:
    run_power_cuts(scenario, 1, tmp_path / "links")


def run_disk_errors(scenario: Scenario, stride: int, error_code: int) -> None:
    outcomes = Outcomes(scenario)
    for operation in range(0, len(outcomes.operations), stride):
        scenario.reset()
        raised = None
        with pytest.MonkeyPatch.context() as patch:
            Faults(patch, fail_at=operation, error_code=error_code)
            try:
                scenario.commit()
            except (StagingError, CommitPendingError, OSError) as error:
                raised = error
        if isinstance(raised, CommitPendingError) or raised is None:
            check_reopened(scenario, outcomes, must_be="after")
        else:
            check_reopened(scenario, outcomes, must_be="before")
            assert not scenario.commit().is_skipped
            assert outcomes.name(scenario.rows()) == "after"
            assert_sound(scenario.directories)


@pytest.mark.parametrize("error_code", [errno.ENOSPC, errno.EIO])
def test_a_disk_error_at_some_operations_is_an_error_and_nothing_half(
    scenario: Scenario, error_code: int
) -> None:
    run_disk_errors(scenario, QUICK_STRIDE, error_code)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error_code", [errno.ENOSPC, errno.EIO])
def test_a_disk_error_at_every_operation_is_an_error_and_nothing_half(
    scenario: Scenario, error_code: int
) -> None:
    run_disk_errors(scenario, 1, error_code)
