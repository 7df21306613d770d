"""Commits that are open: ended by the next writer, and discarded only where none is."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from spark_segmentlog.errors import (
    CommitPendingError,
    LogLockedError,
)
from spark_segmentlog.log.directory.open_commit import read_commit_state
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.open_commits import (
    discard_write,
    finish_open_commits,
    locked_for_writing,
)
from tests.support.fault_layer import Faults, Killed
from tests.support.running import contents
from tests.support.scenarios import Writing, make_decided, make_scenario, read_rows, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_locked_directory_changes_nothing(directory: str) -> None:
    request = stage([directory], [Writing({T0: 5})], label="x")
    before = sorted(os.listdir(directory))
    with locked_for_writing([directory]), pytest.raises(LogLockedError):
        commit_staged_batches(replace(request, lock_timeout_ms=1))
    assert set(os.listdir(directory)) - set(before) == {".lock", ".segmentlog-writer"}
    assert not commit_staged_batches(request).is_skipped


def test_a_failed_commit_is_pending_and_its_staging_is_not_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario(tmp_path)
    before = scenario.rows()
    with pytest.MonkeyPatch.context() as patch:

        def broken(*_: object, **__: object) -> None:
            raise OSError(5, "broken")

        patch.setattr(files, "copy_range", broken)
        with pytest.raises(CommitPendingError, match="Do not write it again"):
            scenario.commit()
    assert scenario.rows() == before
    state = read_commit_state(scenario.directories[0])
    assert state.visible_ranges is not None
    assert state.visible_ranges[TopicPartition("new", 0)] is None
    assert read_commit_state(scenario.directories[1]).visible_ranges == state.visible_ranges
    discard_write(scenario.directories, scenario.request.write_ids)
    with locked_for_writing(scenario.directories[1:]):
        assert read_commit_state(scenario.directories[0]).visible_ranges is None
    assert scenario.rows() != before
    assert scenario.commit().is_skipped


def test_a_write_without_a_commit_is_discarded(directory: str) -> None:
    request = stage([directory], [Writing({T0: 5})])
    discard_write([directory], request.write_ids)
    assert os.listdir(directory) == []


@pytest.mark.parametrize("name", ["a0", "z0"])
def test_a_part_is_ended_though_the_directory_that_decides_was_renamed(
    tmp_path: Path, name: str
) -> None:
    """Also where that was cut short: the journal that decides stays until all others are gone."""
    scenario = make_decided(tmp_path)
    decided = contents(scenario.root)
    finish_open_commits(scenario.directories)
    whole = scenario.rows()
    moved = [str(scenario.root / name), scenario.directories[1]]
    operation = 0
    while True:
        shutil.rmtree(scenario.root)
        for path, data in decided.items():
            place = scenario.root / path.replace("d0/", f"{name}/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, kill_at=operation)
            with suppress(Killed):
                finish_open_commits(moved)
        finish_open_commits(moved)
        assert read_rows(moved) == whole
        if not faults.is_dead:
            break
        operation += 5
    assert operation > 20
