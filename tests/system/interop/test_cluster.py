"""On a standalone cluster, run by another user without a home, all does what it does elsewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.other_user import USER, WHO, OtherUser, other_user
from tests.support.pages import DOCS, blocks
from tests.support.project import PROJECT
from tests.support.spark_servers import standalone_cluster
from tests.support.whole_round import assert_whole, run_whole_round, write_source

pytestmark = pytest.mark.interop

ON_THE_CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    user: OtherUser
    master: str
    source: Path

    def run(self, name: str, **settings: str) -> dict[str, Any]:
        """Run the job by a driver of the same user, in a folder of its own."""
        return run_whole_round(
            {"spark.master": self.master, **ON_THE_CLUSTER, **settings},
            self.source,
            self.user.make_folder(name),
            prefix=self.user.prefix,
            environment=self.user.environment,
        )


@pytest.fixture(scope="module", params=[WHO])
def cluster() -> Iterator[Cluster]:
    with other_user() as user, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(user.folder / "kernels"))
        compile_kernels_as_the_page_says()
        source = user.folder / "source"
        write_source(source)
        with standalone_cluster(user) as master:
            yield Cluster(user, master, source)


def compile_kernels_as_the_page_says() -> None:
    page = (DOCS / "tuning.md").read_text()
    (program,) = (block.text for block in blocks(page) if "open_log" in block.text)
    subprocess.run([sys.executable, "-c", program], check=True)


def recommended() -> dict[str, str]:
    lines = (PROJECT / "conf" / "spark-defaults.conf").read_text().splitlines()
    return dict(line.split() for line in lines if line and line[0] != "#")


def assert_whole_on(cluster: Cluster, saw: dict[str, Any]) -> None:
    assert_whole(saw)
    assert {task["user"] for task in saw["tasks"]} == {USER}
    folders = {Path(task["folder"]) for task in saw["tasks"]}
    assert {folder.parents[1].name for folder in folders} == {"worker-0", "worker-1"}
    assert list(cluster.user.folder.glob("segmentlog-kernels-*/*")) == []


def test_a_new_process_for_every_task_gives_the_same_rows(cluster: Cluster) -> None:
    saw = cluster.run("new", **recommended(), **{"spark.python.worker.reuse": "false"})
    assert_whole_on(cluster, saw)
    assert len({task["process"] for task in saw["tasks"]}) == len(saw["tasks"])


def test_a_bound_on_the_memory_of_workers_gives_the_same_rows(cluster: Cluster) -> None:
    saw = cluster.run("bounded", **{"spark.executor.pyspark.memory": "1g"})
    assert_whole_on(cluster, saw)
    assert {task["memory"] for task in saw["tasks"]} == {1 << 30}
    assert len({task["process"] for task in saw["tasks"]}) == 2
