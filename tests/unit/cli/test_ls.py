"""``segmentlog ls``: partitions and segments, for eyes and for programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

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
    assert objects("ls", tmp_path) == [
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


def test_a_table_is_aligned_and_cuts_nothing_off_where_no_terminal_is(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "[bold]"
    two_partitions(path)
    ran = run("ls", path, COLUMNS="80")
    assert ran.exit_code == 0
    assert ran.lines[0].startswith("topic   partition  segments  ")
    rows = [line.split() for line in ran.lines[1:]]
    timestamps = [f"1970-01-01T00:00:0{text}Z" for text in ("1.003", "1.024", "0.050", "0.050")]
    size = str(25 * len(batches(1)[0]))
    flags = "unclean,open-transaction"
    assert [" ".join(row) for row in rows] == [
        f"orders 0 2 {size} 3 25 24 25 {timestamps[0]} {timestamps[1]} unclean {path}/orders-0",
        f"orders 1 1 69 0 1 0 0 {timestamps[2]} {timestamps[3]} {flags} {path}/orders-1",
    ]
    columns = [line.index(str(path)) for line in ran.lines[1:]]
    assert columns[0] == columns[1]


def test_a_table_is_folded_on_a_terminal_and_its_paths_are_no_markup(tmp_path: Path) -> None:
    path = tmp_path / "[bold]"
    LogBuilder(path).partition("t", 0, [batches(1)])
    ran = run("ls", path, FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="4000")
    assert "\x1b[1mtopic" in ran.stdout
    assert f"{path}/t-0" in ran.stdout
    folded = run("ls", path, FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="100")
    plain = re.sub(r"\x1b\[\d+m", "", folded.stdout).splitlines()
    assert max(len(line) for line in plain) <= 100
    assert len(plain) > 2


def test_fast_leaves_out_what_costs_reads(tmp_path: Path) -> None:
    two_partitions(tmp_path)
    assert [
        (row["lastStableOffset"], row["firstTimestampMs"], row["maxTimestampMs"], row["flags"])
        for row in objects("ls", tmp_path, "--fast")
    ] == [(None, None, None, ["unclean"])] * 2
    assert run("ls", tmp_path, "--fast").lines[1].split()[7:11] == ["-", "-", "-", "unclean"]


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
    assert run("ls", tmp_path, "--segments", "--fast").lines[2].split(maxsplit=11)[-8:] == [
        str(5 * size),
        "-",
        "0",
        "1",
        "0",
        "yes",
        "local",
        f"{tmp_path}/orders-0/00000000000000000020.log",
    ]


def test_topics_are_literal_and_several_paths_are_listed_in_their_order(tmp_path: Path) -> None:
    for name in ("d1", "d0"):
        log = LogBuilder(tmp_path / name)
        log.partition("audit.events", 0, [batches(1)])
        log.partition("audit-events", 0, [batches(1)])
    LogBuilder(tmp_path / "d2")
    ran = run("ls", *(tmp_path / it for it in ("d1", "d0", "d2")), "--topic", "audit.events")
    assert [line[line.index(str(tmp_path)) :] for line in ran.lines[1:]] == [
        f"{tmp_path}/d1/audit.events-0",
        f"{tmp_path}/d0/audit.events-0",
    ]
    assert ran.stderr.startswith(f"{tmp_path}/d2 holds no partition")


def test_flags_of_internal_and_deleted_topics(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("__consumer_offsets", 0, [batches(1)])
    log.partition("gone", 0, [batches(2)], directory_suffix=".0123-delete")
    rows = objects("ls", tmp_path, "--include-deleted")
    assert [(row["topic"], row["logEndOffset"], row["flags"]) for row in rows] == [
        ("__consumer_offsets", 1, ["unclean", "internal"]),
        ("gone", 2, ["unclean", "deleted"]),
    ]
    assert [row["topic"] for row in objects("ls", tmp_path)] == ["__consumer_offsets"]


def test_an_open_commit_shows_and_what_it_writes_does_not(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    before = {row["directory"]: row["logEndOffset"] for row in objects("ls", *scenario.directories)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "copy_range", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "x")))
        with pytest.raises(CommitPendingError):
            scenario.commit()
    rows = objects("ls", *scenario.directories)
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
    rows = run("ls", tmp_path, "--format", "json").objects
    fields = ("topic", "logStartOffset", "logEndOffset", "firstTimestampMs", "maxTimestampMs")
    assert [tuple(row[it] for it in fields) for row in rows] == [
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
    rows = {(it["topic"], it["partition"]): it for it in objects("ls", *log.log_directories)}
    for place, (low, high) in log.watermarks("read_uncommitted").items():
        assert (rows[place]["logStartOffset"], rows[place]["logEndOffset"]) == (low, high)
    for place, (_, stable) in log.watermarks("read_committed").items():
        assert rows[place]["lastStableOffset"] == stable
