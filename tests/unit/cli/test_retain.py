"""``segmentlog retain``: deletes what is told to go, by settings of its own or of the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cleaning import DAY_MS, NOW_MS, segment_offsets
from tests.support.metadata_log import metadata_log, partition, setting, topic
from tests.support.running import contents, objects, run
from tests.support.three_days import TOPIC_ID, cluster, days


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_segmentlog.cli.retain.now_ms", lambda: NOW_MS)


def size_of(directory: Path, base_offset: int) -> int:
    return (directory / f"{base_offset:020d}.log").stat().st_size


def test_a_dry_run_of_retention_tells_what_the_run_then_does(tmp_path: Path) -> None:
    directory = days(tmp_path)
    expected = {
        "topic": "t",
        "partition": 0,
        "directory": str(directory),
        "logStartOffsetBefore": 0,
        "logStartOffset": 8,
        "deletedSegments": 2,
        "deletedRecords": 8,
        "deletedBytes": size_of(directory, 0) + size_of(directory, 4),
        "reasons": ["retention.ms"],
        "cleanupPolicy": ["delete"],
        "retentionMs": DAY_MS // 2,
        "retentionBytes": -1,
        "removedFiles": 0,
        "waitingFiles": 0,
    }
    arguments = ["retain", tmp_path, "--topic", "t", "--retention-ms", DAY_MS // 2]
    before = contents(tmp_path)
    assert objects(*arguments, "--dry-run") == [expected]
    assert contents(tmp_path) == before
    expected["deletedRecords"] = None
    assert objects(*arguments) == [{**expected, "waitingFiles": 6}]
    assert segment_offsets(directory) == [8]
    assert [row["logStartOffset"] for row in objects("ls", tmp_path, "--partitions")] == [8]
    again = {**expected, "logStartOffsetBefore": 8, "deletedSegments": 0, "deletedBytes": 0}
    assert objects(*arguments, "--file-delete-delay-ms", 0) == [
        {**again, "reasons": [], "removedFiles": 6}
    ]


def test_retention_by_size_of_every_topic_as_a_table(tmp_path: Path) -> None:
    directory = days(tmp_path)
    internal = days(tmp_path, "__consumer_offsets")
    size = size_of(directory, 0)
    ran = run("retain", tmp_path, "--all-topics", "--retention-ms", "-1", "--retention-bytes", size)
    assert ran.exit_code == 0
    row = " ".join(ran.lines[1].split())
    assert row == f"t 0 0 8 2 - {2 * size} retention.bytes delete 6 0 {directory}"
    assert len(ran.lines) == 2
    assert segment_offsets(internal) == [0, 4, 8]


def test_a_dry_run_knows_where_a_log_would_end_that_goes_whole(tmp_path: Path) -> None:
    directory = days(tmp_path)
    arguments = ["retain", tmp_path, "--topic", "t", "--retention-ms", 0, "--retention-bytes", 0]
    (planned,) = objects(*arguments, "--dry-run")
    (done,) = objects(*arguments)
    assert (planned["logStartOffset"], planned["deletedSegments"]) == (12, 3)
    assert {**done, "waitingFiles": 0, "deletedRecords": 12} == planned
    assert segment_offsets(directory) == [12]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log directory that has no other one beside it."""
    return tmp_path / "logs"


def test_retention_is_what_the_cluster_says_of_the_topic(path: Path) -> None:
    cluster(path, retention_ms=str(DAY_MS + DAY_MS // 2), cleanup_policy="compact,delete")
    (row,) = objects("retain", path, "--topic", "t", "--dry-run")
    shown = {name: row[name] for name in ("logStartOffset", "cleanupPolicy", "retentionMs")}
    assert shown == {
        "logStartOffset": 4,
        "cleanupPolicy": ["compact", "delete"],
        "retentionMs": DAY_MS + DAY_MS // 2,
    }
    (row,) = objects("retain", path, "--all-topics", "--retention-ms", DAY_MS // 2)
    assert (row["logStartOffset"], row["retentionMs"]) == (8, DAY_MS // 2)


def test_a_topic_that_is_compacted_alone_keeps_its_records_unless_forced(path: Path) -> None:
    cluster(path, retention_ms="1", cleanup_policy="compact")
    arguments = ["retain", path, "--topic", "t", "--dry-run"]
    assert [row["deletedSegments"] for row in objects(*arguments)] == [0]
    assert [row["deletedSegments"] for row in objects(*arguments, "--force")] == [2]


def test_what_a_brokers_own_file_says_of_retention_is_not_known(path: Path) -> None:
    cluster(path)
    ran = run("retain", path, "--topic", "t")
    assert ran.exit_code == 2
    assert "the cluster's metadata has neither retention.ms nor retention.bytes" in ran.stderr


def test_settings_of_all_brokers_stand_for_those_of_a_topic(path: Path) -> None:
    metadata_log(
        path, topic("t", 1), partition(0, 1, 1), setting(4, "", "log.retention.bytes", "1")
    )
    days(path, topic_id=TOPIC_ID)
    (row,) = objects("retain", path, "--topic", "t", "--dry-run")
    assert (row["retentionMs"], row["retentionBytes"], row["deletedSegments"]) == (-1, 1, 2)
