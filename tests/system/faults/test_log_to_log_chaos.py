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
from spark_segmentlog.log.write.staged_leftovers import list_staged
from tests.support.project import PROJECT
from tests.support.stream import GrowingLog, batch

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

SEED = int(os.environ.get("STREAM_CHAOS_SEED", str(random.SystemRandom().randrange(2**32))))
KILLS = int(os.environ.get("STREAM_CHAOS_KILLS", "30"))
MICRO_BATCHES = 200
OFFSETS_A_MICRO_BATCH = 50
PARTITIONS = 3
START_TIMEOUT_S = 180
LONGEST_WAIT_S = 1.5
WORKER_KILLS_A_SECOND = 0.3
FAILED_RUNS_ALLOWED = 40


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
            [sys.executable, "-m", "tests.support.log_to_log_job", *arguments],
            cwd=PROJECT,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._has_started = threading.Event()
        self._reading = threading.Thread(target=self._read_output)
        self._reading.start()

    def has_started(self) -> bool:
        """Wait until the query runs; False, and the run is over, where it does not come to that."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._has_started.wait(0.2):
            if self.has_ended() or time.monotonic() > deadline:
                self.kill()
                return False
        return True

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> bool:
        """Wait for a run to end by itself, and tell whether it ended well."""
        self._process.wait()
        self._reading.join()
        return self._process.returncode == 0

    def kill_a_worker(self, rng: random.Random) -> bool:
        """Kill the Python worker of a task: a child of a daemon that is a daemon itself.

        Those that plan and commit have daemons of their own; Spark does not try them again.
        """
        workers = [
            process
            for process in self._family()
            if _is_daemon(process) and _is_daemon(_parent(process))
        ]
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
        return {"pyspark.daemon", "pyspark.worker"} <= set(process.cmdline())
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


def live(job: Job, rng: random.Random, checkpoint: Path, micro_batch: int) -> int:
    """Let a run live until some time after the start of a micro-batch; count killed workers."""
    begun = checkpoint / "offsets" / str(micro_batch)
    end = float("inf")
    killed = 0
    while time.monotonic() < end and not job.has_ended():
        time.sleep(0.05)
        if end == float("inf") and begun.exists():
            end = time.monotonic() + rng.uniform(0, LONGEST_WAIT_S)
        if rng.random() < WORKER_KILLS_A_SECOND / 20:
            killed += job.kill_a_worker(rng)
    return killed


def test_the_sink_holds_every_record_once_and_in_order(tmp_path: Path) -> None:
    print(f"STREAM_CHAOS_SEED={SEED}")
    rng = random.Random(SEED)
    source, sink, checkpoint = tmp_path / "source", tmp_path / "sink", tmp_path / "checkpoint"
    written = build_source(source, rng)
    sink.mkdir()
    worker_kills = driver_kills = failed_runs = 0
    kill_points = sorted(rng.sample(range(1, MICRO_BATCHES - 20), KILLS))
    while driver_kills < KILLS:
        job = Job(source, sink, checkpoint)
        if job.has_started():
            worker_kills += live(job, rng, checkpoint, kill_points[driver_kills])
        if job.has_ended():
            # One task may have lost its worker four times in a row.
            assert not job.end(), "the query ended before all of its deaths"
            failed_runs += 1
            assert failed_runs <= FAILED_RUNS_ALLOWED, "".join(job.lines[-60:])
        else:
            job.kill()
            driver_kills += 1
    last = Job(source, sink, checkpoint)
    assert last.has_started(), "".join(last.lines[-60:])
    assert last.end(), "".join(last.lines[-60:])
    micro_batches = 1 + max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    print(
        f"{micro_batches} micro-batches; {driver_kills} drivers and {worker_kills} workers "
        f"killed, {failed_runs} runs failed"
    )
    assert micro_batches >= MICRO_BATCHES
    assert copied_values(sink) == written
    assert list(list_staged(str(sink))) == []


def copied_values(sink: Path) -> dict[int, list[int]]:
    """Read the values of the copy by partition, in the order of their offsets, which are dense."""
    table = spark_segmentlog.read_arrow(str(sink), subscribe="copy").read_all()
    copied: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for row in table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist():
        assert row["offset"] == len(copied[row["partition"]])
        copied[row["partition"]].append(int(row["value"]))
    return copied
