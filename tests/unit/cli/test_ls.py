"""``segmentlog ls``: partitions and segments, for eyes and for programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.cli.output import format_size
from spark_segmentlog.errors import CommitPendingError
from spark_segmentlog.log.io import files
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    legacy_message_set,
    v2_batch,
)
from tests.support.broker_data import BrokerLog
from tests.support.running import NAME, batches, flip, objects, run
from tests.support.scenarios import make_scenario


def two_partitions(path: Path) -> LogBuilder:
    log = LogBuilder(path)
    log.partition("orders", 0, [batches(20), batches(5, base_offset=20)])
    log.partition(
        "orders",
        1,
        [[v2_batch([RecordSpec(value=b"x", timestamp_ms=50)], transactional=True, producer_id=7)]],
    )
    log.log_start_offsets({("orders", 0): 3})
    log.high_watermarks({("orders", 0): 24, ("orders", 1): 0})
    return log


def test_partitions_as_objects(tmp_path: Path) -> None:
    two_partitions(tmp_path).clean_shutdown()
    size = len(batches(1)[0])
    assert objects("ls", tmp_path, "--partitions") == [
        {
            "topic": "orders",
            "partition": 0,
            "directory": f"{tmp_path}/orders-0",
            "segments": 2,
            "sizeBytes": 25 * size,
            "logStartOffset": 3,
            "logEndOffset": 25,
            "highWatermark": 24,
            "lastStableOffset": 25,
            "firstTimestampMs": 1003,
            "maxTimestampMs": 1024,
            "flags": ["clean"],
        },
        {
            "topic": "orders",
            "partition": 1,
            "directory": f"{tmp_path}/orders-1",
            "segments": 1,
            "sizeBytes": 69,
            "logStartOffset": 0,
            "logEndOffset": 1,
            "highWatermark": 0,
            "lastStableOffset": 0,
            "firstTimestampMs": 50,
            "maxTimestampMs": 50,
            "flags": ["clean", "open-transaction"],
        },
    ]


def test_topics_come_first_with_totals(tmp_path: Path) -> None:
    two_partitions(tmp_path).clean_shutdown()
    LogBuilder(tmp_path).partition("audit", 0, [batches(1)])
    assert objects("ls", tmp_path)[1] == {
        "topic": "orders",
        "partitions": 2,
        "segments": 3,
        "sizeBytes": 25 * len(batches(1)[0]) + 69,
        "offsets": 23,
        "maxTimestampMs": 1024,
        "flags": ["clean", "open-transaction"],
    }
    assert [line.split() for line in run("ls", tmp_path).lines] == [
        ["topic", "parts", "segments", "size", "offsets", "newest", "(UTC)", "flags"],
        ["audit", "1", "1", "570", "B", "1", "1970-01-01", "00:00", "clean"],
        [
            *("orders", "2", "3", "14.0", "KiB", "23", "1970-01-01", "00:00"),
            "clean,open-transaction",
        ],
    ]
    assert " 14319  " in run("ls", tmp_path, "--bytes").lines[2]


def test_copies_of_a_partition_count_as_one_partition(tmp_path: Path) -> None:
    for name in ("d0", "d1"):
        LogBuilder(tmp_path / name).partition("t", 0, [batches(1)])
    (row,) = objects("ls", tmp_path / "d0", tmp_path / "d1")
    assert (row["partitions"], row["segments"], row["offsets"]) == (1, 2, 2)


def test_partitions_are_listed_by_their_log_directory_and_nothing_is_cut_off(
    tmp_path: Path,
) -> None:
    path = tmp_path / ("long" * 40) / "[bold]"
    two_partitions(path)
    ran = run("ls", path, "--partitions", COLUMNS="80")
    assert ran.exit_code == 0
    assert ran.lines[0] == f"{path}:"
    assert ran.lines[1].startswith("topic   part  segs  ")
    newest = "1970-01-01 00:00"
    assert [" ".join(line.split()) for line in ran.lines[2:]] == [
        f"orders 0 2 13.9 KiB 3 25 25 {newest} unclean",
        f"orders 1 1 69 B 0 1 0 {newest} unclean,open-transaction",
    ]


@pytest.mark.parametrize("view", [[], ["--partitions"], ["--segments"]])
def test_a_row_is_one_line_of_80_columns_on_a_terminal(tmp_path: Path, view: list[str]) -> None:
    log = LogBuilder(tmp_path / ("long" * 40))
    log.partition("t" * 240, 0, [batches(1, base_offset=10**15), batches(1, base_offset=10**18)])
    log.partition("orders", 0, [batches(1)])
    ran = run("ls", log.path, *view, FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="80")
    plain = re.sub(r"\x1b\[\d+m", "", ran.stdout).splitlines()
    rows = [line for line in plain if line and not line.startswith(str(tmp_path))]
    assert max(map(len, rows)) <= 80
    assert len(rows) == {"[]": 3, "['--partitions']": 3, "['--segments']": 5}[str(view)]
    assert "\x1b[1m" in ran.stdout


def test_a_table_is_no_markup(tmp_path: Path) -> None:
    path = tmp_path / "[bold]"
    LogBuilder(path).partition("t", 0, [batches(1)])
    ran = run("ls", path, "--segments", FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="80")
    assert f"{path}/t-0:" in ran.stdout


def test_fast_leaves_out_what_costs_reads(tmp_path: Path) -> None:
    two_partitions(tmp_path)
    assert [
        (row["lastStableOffset"], row["firstTimestampMs"], row["maxTimestampMs"], row["flags"])
        for row in objects("ls", tmp_path, "--fast", "--partitions")
    ] == [(None, None, None, ["unclean"])] * 2
    assert run("ls", tmp_path, "--fast").lines[1].split()[-2:] == ["-", "unclean"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (102_348, "99.9 KiB"),
        (102_400, "100 KiB"),
        (1_023_999, "1.0 MiB"),
        (2**30, "1.0 GiB"),
        (2**50, "1024 TiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


def test_segments(tmp_path: Path) -> None:
    two_partitions(tmp_path)
    size = len(batches(1)[0])
    assert objects("ls", tmp_path / "orders-0", "--segments") == [
        {
            "topic": "orders",
            "partition": 0,
            "path": f"{tmp_path}/orders-0/{NAME}.log",
            "baseOffset": 0,
            "endOffset": 20,
            "sizeBytes": 20 * size,
            "maxTimestampMs": 1019,
            "offsetIndexEntries": 2,
            "timeIndexEntries": 3,
            "abortedTransactions": 0,
            "isActive": False,
            "tier": "local",
        },
        {
            "topic": "orders",
            "partition": 0,
            "path": f"{tmp_path}/orders-0/00000000000000000020.log",
            "baseOffset": 20,
            "endOffset": 25,
            "sizeBytes": 5 * size,
            "maxTimestampMs": 1024,
            "offsetIndexEntries": 0,
            "timeIndexEntries": 1,
            "abortedTransactions": 0,
            "isActive": True,
            "tier": "local",
        },
    ]
    ran = run("ls", tmp_path, "--segments", "--fast", "--bytes")
    assert ran.lines[0] == f"{tmp_path}/orders-0:"
    assert ran.lines[3].split() == [
        "20",
        "25",
        str(5 * size),
        *["-", "0", "1", "0", "yes", "local"],
    ]
    assert ran.lines[5] == f"{tmp_path}/orders-1:"


def test_topics_are_literal_and_partitions_are_listed_by_their_directories(tmp_path: Path) -> None:
    for name in ("d1", "d0"):
        log = LogBuilder(tmp_path / name)
        log.partition("audit.events", 0, [batches(1)])
        log.partition("audit-events", 0, [batches(1)])
    LogBuilder(tmp_path / "d2")
    directories = [tmp_path / name for name in ("d1", "d0", "d2")]
    ran = run("ls", *directories, "--topic", "audit.events", "--partitions")
    assert [line for line in ran.lines if line.endswith(":")] == [
        f"{tmp_path}/d0:",
        f"{tmp_path}/d1:",
    ]
    assert sum(line.startswith("audit.events ") for line in ran.lines) == 2
    assert "audit-events" not in ran.stdout
    assert ran.stderr.startswith(f"{tmp_path}/d2 holds no partition")


def test_topics_come_in_their_order_whatever_that_of_the_paths(tmp_path: Path) -> None:
    for name, topic in (("d0", "z"), ("d1", "a")):
        LogBuilder(tmp_path / name).partition(topic, 0, [batches(1)])
    rows = objects("ls", tmp_path / "d0", tmp_path / "d1")
    assert [row["topic"] for row in rows] == ["a", "z"]


def test_what_a_broker_has_left_is_listed_beside_what_lives(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [batches(3)])
    log.partition("t", 0, [batches(2)], directory_suffix=".0123-delete")
    log.partition("u", 0, [batches(1)], directory_suffix=".0123-stray")
    log.partition("v", 0, [batches(1)], directory_suffix=".0123-future")
    rows = objects("ls", tmp_path, "--include-deleted", "--partitions")
    assert sorted((row["topic"], row["logEndOffset"], row["flags"][1:]) for row in rows) == [
        ("t", 2, ["deleted"]),
        ("t", 3, []),
        ("u", 1, ["stray"]),
    ]
    assert [row["topic"] for row in objects("ls", tmp_path)] == ["t"]


def test_flags_of_internal_and_deleted_topics(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("__consumer_offsets", 0, [batches(1)])
    log.partition("gone", 0, [batches(2)], directory_suffix=".0123-delete")
    rows = objects("ls", tmp_path, "--include-deleted", "--partitions")
    assert [(row["topic"], row["logEndOffset"], row["flags"]) for row in rows] == [
        ("__consumer_offsets", 1, ["unclean", "internal"]),
        ("gone", 2, ["unclean", "deleted"]),
    ]
    assert [row["topic"] for row in objects("ls", tmp_path)] == ["__consumer_offsets"]


def test_an_open_commit_shows_and_what_it_writes_does_not(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    before = {
        row["directory"]: row["logEndOffset"]
        for row in objects("ls", *scenario.directories, "--partitions")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "copy_range", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "x")))
        with pytest.raises(CommitPendingError):
            scenario.commit()
    rows = objects("ls", *scenario.directories, "--partitions")
    assert {row["directory"]: row["logEndOffset"] for row in rows} == before
    assert {"open-commit" in row["flags"] for row in rows} == {True}


def test_old_formats_bad_bytes_and_empty_partitions_are_listed(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    records = [RecordSpec(value=b"a", timestamp_ms=9), RecordSpec(value=b"b", timestamp_ms=8)]
    log.partition("v0", 0, [[legacy_message_set(0, records, codec="gzip")]])
    log.partition("v1", 0, [[legacy_message_set(1, records, codec="gzip")]])
    log.partition("empty", 0, [SegmentSpec([], base_offset=7)])
    bad = log.partition("bad", 0, [batches(3)])
    flip(bad / f"{NAME}.log", len(batches(1)[0]) + 16)
    rows = run("ls", tmp_path, "--format", "json", "--partitions").objects
    fields = ("topic", "logStartOffset", "logEndOffset", "firstTimestampMs", "maxTimestampMs")
    assert [tuple(row[field] for field in fields) for row in rows] == [
        ("bad", 0, 3, 1000, None),
        ("empty", 7, 7, None, None),
        ("v0", 0, 2, None, None),
        ("v1", 0, 2, 9, 9),
    ]


@pytest.mark.parametrize("producer", ["kafka-4.3.1", "kafka-4.3.1-java-transactions"])
def test_offsets_are_those_a_brokers_consumer_was_told(
    broker_log: Callable[[str, str], BrokerLog], producer: str
) -> None:
    log = broker_log(producer, "clean")
    rows = {
        (row["topic"], row["partition"]): row
        for row in objects("ls", *log.log_directories, "--partitions")
    }
    for place, (low, high) in log.watermarks("read_uncommitted").items():
        assert (rows[place]["logStartOffset"], rows[place]["logEndOffset"]) == (low, high)
    for place, (_, stable) in log.watermarks("read_committed").items():
        assert rows[place]["lastStableOffset"] == stable
