"""A commit that meets a broken disk at each of its steps: its error tells what became of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import CommitPendingError, StagingError
from spark_segmentlog.log.write.open_commits import locked_for_writing
from tests.support.fault_layer import Faults
from tests.support.scenarios import (
    MARK,
    Rows,
    Scenario,
    assert_sound,
    make_scenario,
)

QUICK_STRIDE = 41


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


def check_reopened(scenario: Scenario, outcomes: Outcomes, *, must_be: str) -> None:
    """Read before anyone mends, then open for writing, then try the write again."""
    assert outcomes.name(scenario.rows()) in ("before", must_be)
    with locked_for_writing(scenario.directories):
        pass
    assert outcomes.name(scenario.rows()) == must_be
    assert (scenario.root / "d0" / ".kafka_cleanshutdown").read_bytes() == MARK
    assert scenario.commit().is_skipped == (must_be == "after")
    assert outcomes.name(scenario.rows()) == "after"
    assert_sound(scenario.directories)


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
