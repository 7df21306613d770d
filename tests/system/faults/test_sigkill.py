"""A commit whose process is really killed: ``kill -9`` out of the blue, its locks with it."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_segmentlog.log.write.open_commits import locked_for_writing
from tests.support.scenarios import MARK, assert_sound, make_scenario

COMMIT_AND_DIE = """
import os, pickle, signal, sys
from spark_segmentlog.log.io import files
from spark_segmentlog.log.write.commit import commit_staged_batches
from tests.support.fault_layer import OPERATIONS

request = pickle.loads(sys.stdin.buffer.read())
left = int(sys.argv[1])

def dying(operation):
    def stand_in(*arguments, **keywords):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return operation(*arguments, **keywords)
    return stand_in

for name in OPERATIONS:
    setattr(files, name, dying(getattr(files, name)))
commit_staged_batches(request)
"""


def run_until_killed(tmp_path: Path, operations: range) -> None:
    scenario = make_scenario(tmp_path)
    before = scenario.rows()
    scenario.commit()
    after = scenario.rows()
    seen = set()
    for operation in operations:
        scenario.reset()
        process = subprocess.run(
            [sys.executable, "-c", COMMIT_AND_DIE, str(operation)],
            input=pickle.dumps(scenario.request),
            capture_output=True,
            check=False,
        )
        assert process.returncode in (0, -signal.SIGKILL), process.stderr.decode()
        with locked_for_writing(scenario.directories, timeout_ms=0):
            pass
        rows = scenario.rows()
        assert rows in (before, after)
        assert rows == after or process.returncode != 0
        seen.add(rows == after)
        assert scenario.commit().is_skipped == (rows == after)
        assert scenario.rows() == after
        assert_sound(scenario.directories)
        assert (scenario.root / "d0" / ".kafka_cleanshutdown").read_bytes() == MARK
    assert seen == {False, True}


def test_killed_twice_it_is_whole_or_not_there(tmp_path: Path) -> None:
    run_until_killed(tmp_path, range(20, 200, 110))


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_killed_at_many_places_it_is_whole_or_not_there(tmp_path: Path) -> None:
    run_until_killed(tmp_path, range(0, 220, 3))
