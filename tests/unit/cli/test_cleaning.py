"""``segmentlog retain`` and ``compact``: they touch what they are told to, and tell of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.cli import cleaning
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.cleaning import DAY_MS, NOW_MS, kept, plain_batches, segment_offsets
from tests.support.metadata_log import metadata_log, partition, setting, topic
from tests.support.running import contents, objects, run

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SETTINGS = ("--delete-retention-ms", DAY_MS, "--min-compaction-lag-ms", 0)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "now_ms", lambda: NOW_MS)


def days(path: Path, name: str = "t", topic_id: str | None = None) -> Path:
    """Three segments of four records, of two days ago, of one, and of now."""
    return LogBuilder(path).partition(
        name,
        0,
        [
            plain_batches(
                [(b"k%d" % (number % 3), b"v%d" % number) for number in range(base, base + 4)],
                base_offset=base,
                timestamp_ms=NOW_MS - age * DAY_MS,
            )
            for base, age in ((0, 2), (4, 1), (8, 0))
        ],
        topic_id=topic_id,
    )


def size_of(directory: Path, base_offset: int) -> int:
    return (directory / f"{base_offset:020d}.log").stat().st_size


@pytest.mark.parametrize("verb", ["retain", "compact"])
def test_topics_are_named_or_all_asked_for(tmp_path: Path, verb: str) -> None:
    days(tmp_path)
    before = contents(tmp_path)
    for arguments in ([], ["--topic", "t", "--all-topics"]):
        ran = run(verb, tmp_path, *arguments)
        assert ran.exit_code == 2
        assert "name topics by --topic, or give --all-topics" in ran.stderr
    assert contents(tmp_path) == before


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


# Settings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log directory that has no other one beside it."""
    return tmp_path / "logs"


def cluster(path: Path, **settings: str) -> Path:
    """Topic t of three days in a cluster's directory, which names these settings of it."""
    metadata_log(
        path,
        topic("t", 1),
        partition(0, 1, 1),
        *(setting(2, "t", name.replace("_", "."), value) for name, value in settings.items()),
    )
    return days(path, topic_id=TOPIC_ID)


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


@pytest.mark.parametrize("verb", ["retain", "compact"])
def test_no_default_decides_over_records(path: Path, verb: str) -> None:
    days(path)
    before = contents(path / "t-0")
    ran = run(verb, path, "--topic", "t")
    assert ran.exit_code == 2
    assert "is not known: no metadata of a cluster tells it; give" in ran.stderr
    assert contents(path / "t-0") == before


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
