"""``segmentlog compact``: keeps the latest record of each key, where a topic is meant to be so."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.cleaning import DAY_MS, NOW_MS, kept
from tests.support.running import contents, objects, run
from tests.support.three_days import SETTINGS, cluster, days


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_segmentlog.cli.compact.now_ms", lambda: NOW_MS)


def test_compaction_keeps_the_latest_record_of_each_key(tmp_path: Path) -> None:
    directory = days(tmp_path)
    arguments = ["compact", tmp_path, "--topic", "t", "--file-delete-delay-ms", 0, *SETTINGS]
    before = contents(tmp_path)
    (planned,) = objects(*arguments, "--dry-run")
    assert contents(tmp_path) == before
    (row,) = objects(*arguments)
    assert {**row, "removedFiles": 0} == planned
    assert [offset for offset, _, _ in kept(directory)] == [5, 6, 7, 8, 9, 10, 11]
    shown = {name: row[name] for name in ("recordsRead", "recordsKept", "recordsWithoutKey")}
    assert shown == {"recordsRead": 8, "recordsKept": 3, "recordsWithoutKey": 0}
    assert (row["cleanedUpTo"], row["segmentsBefore"], row["segmentsAfter"]) == (8, 3, 2)
    assert run("verify", tmp_path).exit_code == 0


def test_compaction_leaves_young_records_and_segments_that_would_grow_too_large(
    tmp_path: Path,
) -> None:
    directory = days(tmp_path)
    lag = ["--min-compaction-lag-ms", DAY_MS + 1, "--delete-retention-ms", DAY_MS]
    ran = run("compact", tmp_path, "--all-topics", *lag, "--segment-bytes", 100)
    assert ran.exit_code == 0
    assert ran.lines[1].split()[:3] == ["t", "0", "4"]
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert run("compact", tmp_path, "--topic", "__consumer_offsets").exit_code == 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log directory that has no other one beside it."""
    return tmp_path / "logs"


@pytest.mark.parametrize("policy", [{}, {"cleanup_policy": "delete"}])
def test_a_topic_that_is_not_to_be_compacted_is_refused(path: Path, policy: dict[str, str]) -> None:
    directory = cluster(path, **policy)
    before = contents(path / "t-0")
    for more in ([], ["--dry-run"]):
        ran = run("compact", path, "--topic", "t", *SETTINGS, *more)
        assert ran.exit_code == 2
        assert "compaction takes away all records but the latest of each key" in ran.stderr
    assert objects("compact", path, "--all-topics") == []
    assert contents(path / "t-0") == before
    (row,) = objects("compact", path, "--topic", "t", "--force")
    assert row["recordsKept"] == 3
    assert len(kept(directory)) == 7


def test_compaction_is_what_the_cluster_says_of_the_topic(path: Path) -> None:
    settings = {"delete_retention_ms": "7", "min_compaction_lag_ms": str(DAY_MS + 1)}
    cluster(path, cleanup_policy="compact", **settings)
    (row,) = objects("compact", path, "--all-topics", "--dry-run")
    assert (row["deleteRetentionMs"], row["minCompactionLagMs"]) == (7, DAY_MS + 1)
    assert row["cleanedUpTo"] == 4
    (row,) = objects("compact", path, "--topic", "t", "--min-compaction-lag-ms", 0)
    assert (row["deleteRetentionMs"], row["cleanedUpTo"]) == (7, 8)


@pytest.mark.parametrize(
    ("name", "value"), [("cleanup_policy", "shred"), ("delete_retention_ms", "soon")]
)
def test_a_setting_that_is_none_is_an_error(path: Path, name: str, value: str) -> None:
    cluster(path, **{"cleanup_policy": "compact", name: value})
    ran = run("compact", path, "--topic", "t")
    assert ran.exit_code == 2
    assert f"has {name.replace('_', '.')} '{value}' for topic t" in ran.stderr


def test_a_dry_run_of_compaction_leaves_out_what_lies_below_the_log_start(path: Path) -> None:
    days(path)
    LogBuilder(path).log_start_offsets({("t", 0): 4})
    arguments = ["compact", path, "--topic", "t", *SETTINGS, "--file-delete-delay-ms", 0]
    (planned,) = objects(*arguments, "--dry-run")
    (done,) = objects(*arguments)
    assert {**done, "removedFiles": 0} == planned
    assert planned["segmentsBefore"] == 2
