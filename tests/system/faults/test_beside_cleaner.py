"""Reads beside a cleaner that never rests: every row each time, no false loss, no error."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from tests.support.busy_cleaner import RECORDS_OF_A_BATCH, build
from tests.support.project import PROJECT
from tests.support.running import objects, run
from tests.support.stream import Stream

SEGMENTS = 60
KEPT = ("moved", "keyed")


@contextmanager
def busy_cleaner(path: Path, seed: int) -> Iterator[None]:
    """Let a cleaner work in another process for the time of a block; it must not fail."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.busy_cleaner", str(path), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "begun\n"
            yield
            process.stdin.close()
            print(f"{int(process.stdout.read())} steps of the cleaner")
            assert process.wait(60) == 0
        finally:
            process.kill()


class Reads:
    """Reads of all kinds over a log whose partitions hold every offset from 0 on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ends = dict.fromkeys(KEPT, 0)
        self._seen: dict[str, list[Any]] = {topic: [] for topic in KEPT}
        subscribe = ",".join(KEPT)
        self._stream = Stream(path, subscribe=subscribe, startingOffsets="earliest")

    def _check(self, topic: str, offsets: list[int], *, step: int = 1) -> None:
        """Compare the offsets of rows with those that there are at least."""
        end = len(offsets) * step
        assert offsets == list(range(0, end, step))
        assert end >= self._ends[topic]
        self._ends[topic] = end

    def rows(self) -> None:
        table = read_arrow(self._path, subscribe=list(KEPT)).read_all()
        found: dict[str, list[int]] = {topic: [] for topic in KEPT}
        for topic, offset in zip(
            table["topic"].to_pylist(), table["offset"].to_pylist(), strict=True
        ):
            found[topic].append(offset)
        for topic, offsets in found.items():
            self._check(topic, offsets)

    def rows_that_age(self) -> None:
        """Read what retention takes meanwhile; what it never took is there."""
        before = self._bounds("aged")
        table = read_arrow(self._path, subscribe="aged", fail_on_data_loss=False).read_all()
        offsets = table["offset"].to_pylist()
        start, end = self._bounds("aged")[0], before[1]
        assert offsets == sorted(set(offsets))
        assert [offset for offset in offsets if start <= offset < end] == list(range(start, end))

    def stream(self) -> None:
        rows = self._stream.trigger_batches() or []
        for batch in rows:
            for topic, offset in zip(
                batch["topic"].to_pylist(), batch["offset"].to_pylist(), strict=True
            ):
                self._seen[topic].append(offset)
        for topic, offsets in self._seen.items():
            assert offsets == list(range(len(offsets))), topic

    def batches(self) -> None:
        view = read_arrow(self._path, subscribe="moved", view="batches").read_all()
        self._check("moved", view["baseOffset"].to_pylist(), step=RECORDS_OF_A_BATCH)

    def segments(self) -> None:
        view = read_arrow(self._path, subscribe=list(KEPT), view="segments").read_all()
        for topic in KEPT:
            self._check_chain([row for row in view.to_pylist() if row["topic"] == topic])

    def ls(self) -> None:
        for row in objects("ls", self._path, "--partitions"):
            assert row["topic"] not in KEPT or row["logStartOffset"] == 0
        rows = objects("ls", self._path, "--segments")
        for topic in KEPT:
            self._check_chain([row for row in rows if row["topic"] == topic])

    def dump(self) -> None:
        entries = objects("dump", self._path / "moved-0", "--records")
        self._check("moved", [entry["offset"] for entry in entries if entry["type"] == "record"])
        assert not [entry for entry in entries if entry["type"] == "corruptBytes"]

    def verify(self) -> None:
        ran = run("verify", self._path, "--deep")
        assert ran.lines[-1].startswith("0 wrong"), ran.stdout

    def recover(self) -> None:
        ran = run("recover", self._path)
        assert ran.stdout == "0 done, 0 left\n"

    def _bounds(self, topic: str) -> tuple[int, int]:
        (row,) = objects("ls", self._path, "--topic", topic, "--fast", "--partitions")
        return row["logStartOffset"], row["logEndOffset"]

    def _check_chain(self, rows: list[dict[str, Any]]) -> None:
        ends = [0, *(row["endOffset"] for row in rows)]
        assert [row["baseOffset"] for row in rows] == ends[:-1]
        assert not any(row["isActive"] for row in rows[:-1])


READS = int(os.environ.get("BESIDE_CLEANER_READS", "1000"))
EACH_ROUND = ("rows", "rows_that_age", "stream")
IN_TURN = ("batches", "segments", "ls", "dump", "verify", "recover")


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(len(IN_TURN), id="few"),
        pytest.param(READS, id="many", marks=[pytest.mark.faults, pytest.mark.timeout(3600)]),
    ],
)
def test_every_read_beside_a_cleaner_is_whole(
    tmp_path: Path, rounds: int, caplog: pytest.LogCaptureFixture
) -> None:
    seed = int(os.environ.get("SEGMENTLOG_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    build(tmp_path, SEGMENTS)
    reads = Reads(tmp_path)
    draw = random.Random(seed)
    with caplog.at_level(logging.ERROR), busy_cleaner(tmp_path, seed):
        for number in range(rounds):
            kinds = [*EACH_ROUND, IN_TURN[number % len(IN_TURN)]]
            draw.shuffle(kinds)
            for kind in kinds:
                getattr(reads, kind)()
            if number % 100 == 99:
                print(f"{number + 1} rounds", flush=True)
