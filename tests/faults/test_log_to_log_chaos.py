"""Log to log under chaos: the driver and tasks' Python workers are killed at random moments.

The seed is printed, and ``STREAM_CHAOS_SEED`` sets it; ``STREAM_CHAOS_KILLS`` sets how often the
driver is killed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

import spark_segmentlog
from tests.spark.stream_fixtures import GrowingLog, batch

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

SEED = int(os.environ.get("STREAM_CHAOS_SEED", str(random.SystemRandom().randrange(2**32))))
KILLS = int(os.environ.get("STREAM_CHAOS_KILLS", "30"))
MICRO_BATCHES = 200
OFFSETS_A_MICRO_BATCH = 50
PARTITIONS = 3
PROJECT_DIRECTORY = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 180
LONGEST_LIFE_S = 8.0
WORKER_KILLS_A_SECOND = 0.7


def build_source(path: Path, rng: random.Random) -> dict[int, list[int]]:
    """Write a log of rolled segments with gaps; return the offsets of its records by partition."""
    log = GrowingLog(path)
    written: dict[int, list[int]] = {}
    for partition in range(PARTITIONS):
        log.create(partition)
        written[partition], base, offset = [], 0, 0
        while offset < MICRO_BATCHES * OFFSETS_A_MICRO_BATCH // PARTITIONS:
            count = rng.randint(1, 40)
            gap = rng.choice((0, 0, 5))
            data = batch(offset, count, last_offset_delta=count - 1 + gap)
            log.append(data, partition=partition, base=base)
            written[partition] += range(offset, offset + count)
            offset += count + gap
            if rng.random() < 0.1:
                base = offset
    return written


class Job:
    """One run of the query, with the processes that it started."""

    def __init__(self, source: Path, sink: Path, checkpoint: Path) -> None:
        arguments = [str(source), str(sink), str(checkpoint), str(OFFSETS_A_MICRO_BATCH)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.log_to_log_job", *arguments],
            cwd=PROJECT_DIRECTORY,
            env=os.environ
            | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT_DIRECTORY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._has_started = threading.Event()
        self._reading = threading.Thread(target=self._read_output)
        self._reading.start()

    def wait_until_started(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._has_started.wait(0.2):
            if self.has_ended() or time.monotonic() > deadline:
                self.kill()
                raise AssertionError("the query did not start:\n" + "".join(self.lines[-60:]))

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        """Wait for a run that has ended by itself, and check that it ended well."""
        self._process.wait()
        self._reading.join()
        assert self._process.returncode == 0, "".join(self.lines[-60:])

    def kill_a_worker(self, rng: random.Random) -> bool:
        """Kill the Python worker of a task: a child of a daemon that is a daemon itself."""
        workers = [it for it in self._family() if _is_daemon(it) and _is_daemon(_parent(it))]
        for worker in rng.sample(workers, min(1, len(workers))):
            _kill(worker)
        return bool(workers)

    def kill(self) -> None:
        """Kill the driver, its JVM and all workers, as a machine that loses power does."""
        for process in self._family():
            _kill(process)
        self._process.wait()
        self._reading.join()

    def _family(self) -> list[psutil.Process]:
        try:
            driver = psutil.Process(self._process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self.lines.append(line)
                if line.startswith("started"):
                    self._has_started.set()


def _is_daemon(process: psutil.Process | None) -> bool:
    if process is None:
        return False
    try:
        return "pyspark.daemon" in process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def live(job: Job, rng: random.Random, seconds: float) -> int:
    """Let a run live for some seconds, its workers dying now and then; count their deaths."""
    deadline = time.monotonic() + seconds
    killed = 0
    while time.monotonic() < deadline and not job.has_ended():
        time.sleep(0.1)
        if rng.random() < WORKER_KILLS_A_SECOND / 10:
            killed += job.kill_a_worker(rng)
    return killed


def test_the_sink_holds_every_record_once_and_in_order(tmp_path: Path) -> None:
    print(f"STREAM_CHAOS_SEED={SEED}")
    rng = random.Random(SEED)
    source, sink, checkpoint = tmp_path / "source", tmp_path / "sink", tmp_path / "checkpoint"
    written = build_source(source, rng)
    sink.mkdir()
    worker_kills = driver_kills = 0
    while driver_kills < KILLS:
        job = Job(source, sink, checkpoint)
        job.wait_until_started()
        worker_kills += live(job, rng, rng.uniform(0, LONGEST_LIFE_S))
        if job.has_ended():
            job.end()
            break
        job.kill()
        driver_kills += 1
    last = Job(source, sink, checkpoint)
    last.wait_until_started()
    last.end()
    commits = [it for it in (checkpoint / "commits").iterdir() if it.name.isdigit()]
    print(f"{driver_kills} drivers and {worker_kills} workers killed, {len(commits)} commits kept")
    table = spark_segmentlog.read_arrow(str(sink), subscribe="copy").read_all()
    copied: dict[int, list[int]] = {partition: [] for partition in written}
    for row in table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist():
        copied[row["partition"]].append(int(row["value"]))
    assert copied == written
