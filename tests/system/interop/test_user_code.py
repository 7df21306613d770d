"""A user's own functions see no difference by the daemon, the reader and the frozen heap."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

from tests.support.user_code import LEFT, PAYLOAD_BYTES, TASKS, Saw, run_user_code

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("is_ours", [False, True], ids=["Spark alone", "with ours"])
def test_garbage_of_tasks_is_collected_and_memory_stays(tmp_path: Path, is_ours: bool) -> None:
    saw = run_user_code(tmp_path, is_ours=is_ours)
    assert len(saw) == TASKS
    assert {task["alive"] for task in saw} == {0}
    for tasks in by_worker(saw):
        # One collection by the task, one by Spark after it, and those that Python does itself.
        counts = [task["collections"] for task in tasks]
        collections = (counts[-1] - counts[0]) / (len(tasks) - 1)
        quarter = len(tasks) // 4
        early = median(task["memory"] for task in tasks[quarter : 2 * quarter])
        late = median(task["memory"] for task in tasks[-quarter:])
        print(f"{len(tasks)} tasks: {collections} collections each, {early:,} to {late:,} bytes")
        assert 2 <= collections < 2.5
        assert late - early < 20 * LEFT * PAYLOAD_BYTES


def by_worker(saw: list[Saw]) -> list[list[Saw]]:
    """Give the tasks of each worker that had a good share of them, in their order."""
    tasks = defaultdict(list)
    for task in sorted(saw, key=lambda task: task["made"]):
        tasks[task["process"]].append(task)
    return [shared for shared in tasks.values() if len(shared) >= TASKS // 10]
