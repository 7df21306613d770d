"""Servers of Spark, run as another user: a standalone cluster, and one of Spark Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
import pyspark

from tests.support.other_user import OtherUser
from tests.support.project import PROJECT

_BIN: Final = Path(pyspark.__file__).parent / "bin"
_SPARK: Final = "org.apache.spark"
_WORKERS: Final = 2
_DEADLINE_SECONDS: Final = 180


@contextmanager
def standalone_cluster(user: OtherUser) -> Iterator[str]:
    """Run a master and two workers of one core each, for the time of a ``with`` block.

    Yields
    ------
    str
        The URL of the master.
    """
    with ExitStack() as running:
        here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = ["spark-class", f"{_SPARK}.deploy.master.Master", *here]
        log = running.enter_context(_process(user, "master", master))
        url = _wait_for(log, r"Starting Spark master at (spark://\S+)")
        size = ["--cores", "1", "--memory", "1g"]
        worker = ["spark-class", f"{_SPARK}.deploy.worker.Worker", *here, *size, url]
        logs = [
            running.enter_context(_process(user, f"worker-{number}", worker))
            for number in range(_WORKERS)
        ]
        for log in logs:
            _wait_for(log, "(Successfully registered) with master")
        yield url


@contextmanager
def connect_server(user: OtherUser) -> Iterator[str]:
    """Run Spark Connect on two cores for the time of a ``with`` block.

    Yields
    ------
    str
        The URL for its clients.
    """
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
    }
    command = ["spark-submit", "--class", f"{_SPARK}.sql.connect.service.SparkConnectServer"]
    command += [f"--conf={name}={value}" for name, value in settings.items()]
    with _process(user, "connect", [*command, "spark-internal"]) as log:
        yield f"sc://127.0.0.1:{_wait_for(log, r'Spark Connect server started at: .*:([0-9]+)')}"


@contextmanager
def _process(user: OtherUser, name: str, command: list[str]) -> Iterator[Path]:
    """Run a command of Spark's in a folder of its own; what it started ends with it."""
    folder = user.make_folder(name)
    log = folder / "log"
    with open(log, "wb") as output:
        process = psutil.Popen(
            [*user.prefix, _BIN / command[0], *command[1:]],
            cwd=folder,
            env={
                **os.environ,
                **user.environment,
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": str(PROJECT),
                "SPARK_WORKER_DIR": str(folder),
                "SPARK_LOCAL_DIRS": str(folder),
                "SPARK_NO_DAEMONIZE": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        _end(process)


def _end(process: psutil.Popen) -> None:
    family = [process, *process.children(recursive=True)]
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=30)
    for one in alive:
        one.kill()
    psutil.wait_procs(alive)


def _wait_for(log: Path, pattern: str) -> str:
    """Wait until a log says something, and give the group of it."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text())
        if found:
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"{pattern} is not in {log}:\n{log.read_text()}")
