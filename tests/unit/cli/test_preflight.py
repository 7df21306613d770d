"""``segmentlog preflight``: tells what a broker would do, and counts it."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.running import batches, contents, flip, objects, run


def test_what_costs_records_is_told_and_counted(tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [batches(2), batches(2, base_offset=2)])
    flip(directory / f"{0:020d}.log", 100)
    before = contents(tmp_path)
    ran = run("preflight", tmp_path)
    assert ran.exit_code == 1
    assert ran.lines[-1] == "1 would lose records, 0 would stop a broker, 0 harmless"
    (found,) = objects("preflight", tmp_path, exit_code=1)
    assert (found["severity"], found["kind"]) == ("loss", "torn segment")
    assert contents(tmp_path) == before


def test_a_broker_that_starts_and_loses_nothing_is_exit_code_0(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [batches(2)])
    log.clean_shutdown()
    ran = run("preflight", tmp_path)
    assert ran.exit_code == 0
    assert ran.lines[-1].startswith("0 would lose records, 0 would stop a broker, ")
