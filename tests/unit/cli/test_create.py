"""``segmentlog create``: partition directories, spread over the log directories."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.running import batches, contents, objects, run


def test_partitions_are_spread_over_the_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "d0", tmp_path / "new" / "d1"
    LogBuilder(first).partition("full", 0, [batches(1)])
    mark = LogBuilder(first).clean_shutdown().read_bytes()
    rows = objects("create", "orders", first, second, "--partitions", 3)
    assert [(row["topic"], row["partition"]) for row in rows] == [
        ("orders", 0),
        ("orders", 1),
        ("orders", 2),
    ]
    assert sorted(row["directory"] for row in rows) == sorted(
        [f"{first}/orders-1", f"{second}/orders-0", f"{second}/orders-2"]
    )
    assert (first / ".kafka_cleanshutdown").read_bytes() == mark
    ids = {Path(row["directory"], "partition.metadata").read_text() for row in rows}
    assert len(ids) == 1
    listed = objects("ls", first, second, "--topic", "orders", "--partitions")
    assert [(row["logStartOffset"], row["logEndOffset"]) for row in listed] == [(0, 0)] * 3


def test_partitions_that_are_there_stay(tmp_path: Path) -> None:
    run("create", "orders", tmp_path)
    before = contents(tmp_path)
    assert run("create", "orders", tmp_path, "--partitions", 2).exit_code == 0
    assert {name: contents(tmp_path)[name] for name in before} == before
    ran = run("create", "orders", tmp_path)
    assert ran.exit_code == 2
    assert "exists with 2 partitions, asked for are 1" in ran.stderr


def test_names_and_directories_that_a_broker_would_punish_are_refused(tmp_path: Path) -> None:
    ran = run("create", "a/b", tmp_path)
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1)
    assert ran.stderr.startswith("Error: topic 'a/b': a name has 1 to 249 ASCII letters")
    LogBuilder(tmp_path / "d0").meta_properties()
    ran = run("create", "orders", tmp_path / "d0")
    assert ran.exit_code == 2
    assert "belongs to a cluster" in ran.stderr
    assert not (tmp_path / "d0" / "orders-0").exists()
