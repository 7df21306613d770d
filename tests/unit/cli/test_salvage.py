"""``segmentlog salvage``: what it prints, and its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.running import batches, contents, flip, objects, run
from tests.support.store_data import Store, read_rows


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log with a bad batch, at offset 2."""
    data = batches(5)
    folder = LogBuilder(tmp_path / "a").partition("t", 0, [data])
    flip(next(folder.glob("*.log")), 2 * len(data[0]) + 100)
    return tmp_path / "a"


def test_offsets_that_are_gone_are_lines_and_an_exit_code(damaged: Path, tmp_path: Path) -> None:
    before = contents(damaged)
    ran = run("salvage", damaged, tmp_path / "new")
    assert (ran.exit_code, ran.stderr) == (1, "")
    assert ran.lines[1].split()[:2] == ["t", "0"]
    assert ran.lines[2].startswith("t-0: offset 2 is missing: ")
    assert contents(damaged) == before
    assert run("verify", tmp_path / "new").exit_code == 0


def test_objects_say_the_same(damaged: Path, tmp_path: Path) -> None:
    (found,) = objects("salvage", damaged, tmp_path / "new", exit_code=1)
    (lost,) = found.pop("lost")
    assert (lost["startOffset"], lost["endOffset"]) == (2, 3)
    assert str(damaged) in lost["detail"]
    assert found == {
        "topic": "t",
        "partition": 0,
        "segments": 1,
        "sizeBytes": 4 * len(batches(1)[0]),
        "logStartOffset": 0,
        "lastStableOffset": 5,
        "logEndOffset": 5,
        "sources": [f"{damaged}/t-0"],
        "directory": f"{tmp_path}/new/t-0",
    }


def test_a_second_source_makes_it_whole(damaged: Path, tmp_path: Path) -> None:
    LogBuilder(tmp_path / "b").partition("t", 0, [batches(5)])
    ran = run("salvage", damaged, tmp_path / "b", tmp_path / "new")
    assert (ran.exit_code, len(ran.lines)) == (0, 2)


def test_a_target_that_holds_something_is_refused(damaged: Path, tmp_path: Path) -> None:
    ran = run("salvage", damaged, tmp_path)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "holds something" in ran.stderr


def test_a_store_is_a_source(open_store: Callable[[str], Store], tmp_path: Path) -> None:
    store = open_store("aiven-zstd-aes")
    keys = [part for key in store.keys.items() for part in ("--remote-key", *key)]
    tier = ["--topic", "t.tx", "--remote-storage", store.remote, *keys]
    ran = run("salvage", store.log_directory, tmp_path / "new", *tier)
    assert ran.exit_code == 0
    assert [line.split()[:2] for line in ran.lines[1:]] == [["t.tx", "0"], ["t.tx", "1"]]
    assert read_rows(str(tmp_path / "new")).keys() == {
        key for key in store.truth("read_uncommitted") if key[0] == "t.tx"
    }
