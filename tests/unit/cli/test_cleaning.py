"""``segmentlog retain`` and ``compact``: they touch what they are told to, and tell of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.cli import cleaning
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.cleaning import DAY_MS, NOW_MS, kept, plain_batches, segment_offsets
from tests.support.running import contents, objects, run


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "now_ms", lambda: NOW_MS)


def days(path: Path, topic: str = "t") -> Path:
    """Three segments of four records, of two days ago, of one, and of now."""
    return LogBuilder(path).partition(
        topic,
        0,
        [
            plain_batches(
                [(b"k%d" % (number % 3), b"v%d" % number) for number in range(base, base + 4)],
                base_offset=base,
                timestamp_ms=NOW_MS - age * DAY_MS,
            )
            for base, age in ((0, 2), (4, 1), (8, 0))
        ],
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
        "deletedBytes": size_of(directory, 0) + size_of(directory, 4),
        "reasons": ["retention.ms"],
        "removedFiles": 0,
        "waitingFiles": 0,
    }
    arguments = ["retain", tmp_path, "--topic", "t", "--retention-ms", DAY_MS // 2]
    before = contents(tmp_path)
    assert objects(*arguments, "--dry-run") == [expected]
    assert contents(tmp_path) == before
    assert objects(*arguments) == [{**expected, "waitingFiles": 6}]
    assert segment_offsets(directory) == [8]
    assert [row["logStartOffset"] for row in objects("ls", tmp_path)] == [8]
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
    assert row == f"t 0 0 8 2 {2 * size} retention.bytes 6 0 {directory}"
    assert len(ran.lines) == 2
    assert segment_offsets(internal) == [0, 4, 8]


def test_a_dry_run_knows_where_a_log_would_end_that_goes_whole(tmp_path: Path) -> None:
    directory = days(tmp_path)
    arguments = ["retain", tmp_path, "--topic", "t", "--retention-ms", 0, "--retention-bytes", 0]
    (planned,) = objects(*arguments, "--dry-run")
    (done,) = objects(*arguments)
    assert (planned["logStartOffset"], planned["deletedSegments"]) == (12, 3)
    assert {**done, "waitingFiles": 0} == planned
    assert segment_offsets(directory) == [12]


def test_compaction_keeps_the_latest_record_of_each_key(tmp_path: Path) -> None:
    directory = days(tmp_path)
    (row,) = objects("compact", tmp_path, "--topic", "t", "--file-delete-delay-ms", 0)
    assert [offset for offset, _, _ in kept(directory)] == [5, 6, 7, 8, 9, 10, 11]
    shown = {name: row[name] for name in ("recordsRead", "recordsKept", "recordsWithoutKey")}
    assert shown == {"recordsRead": 8, "recordsKept": 3, "recordsWithoutKey": 0}
    assert (row["cleanedUpTo"], row["segmentsBefore"], row["segmentsAfter"]) == (8, 3, 2)
    assert run("verify", tmp_path).exit_code == 0


def test_compaction_leaves_young_records_and_segments_that_would_grow_too_large(
    tmp_path: Path,
) -> None:
    directory = days(tmp_path)
    lag = ["--min-compaction-lag-ms", DAY_MS + 1]
    ran = run("compact", tmp_path, "--all-topics", *lag, "--segment-bytes", 100)
    assert ran.exit_code == 0
    assert ran.lines[1].split()[:3] == ["t", "0", "4"]
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    assert run("compact", tmp_path, "--topic", "__consumer_offsets").exit_code == 2
