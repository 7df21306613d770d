"""How far consumer groups are behind, from offsets on disk."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import lag
from spark_segmentlog.errors import UnknownTopicOrPartitionError
from spark_segmentlog.query.group_lag import LAG_SCHEMA
from spark_segmentlog.testing.builder import ABORT, COMMIT, LogBuilder, RecordSpec, control_batch
from spark_segmentlog.testing.builder import v2_batch as batch_of
from spark_segmentlog.testing.system_records import offset_commit


def make_log(path: Path, *commits: RecordSpec) -> Path:
    """Topic t: ten records in partition 0, four in partition 1; commits in one partition."""
    log = LogBuilder(path)
    for partition, count in ((0, 10), (1, 4)):
        log.partition("t", partition, [[batch_of([RecordSpec(value=b"v")] * count)]])
    log.partition("__consumer_offsets", 0, [[batch_of(list(commits))]])
    return path


def lags(path: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lag(path, **options).to_pylist()]


def test_the_last_commit_of_each_group_counts(tmp_path: Path) -> None:
    make_log(
        tmp_path,
        offset_commit("b", "t", 0, 2),
        offset_commit("b", "t", 0, 7),
        offset_commit("b", "t", 1, 4),
        offset_commit("a", "t", 0, 12),
        offset_commit("gone", "t", 0, 1),
        offset_commit("gone", "t", 0, None),
        offset_commit("b", "elsewhere", 3, 5),
        RecordSpec(key=b"\x00\x02\x00\x01b", value=None),
        RecordSpec(key=b"\x00\x00\x00\x01o\x00\x01t" + bytes(4), value=bytes(20)[:2] + bytes(18)),
    )
    table = lag(tmp_path)
    assert table.schema == LAG_SCHEMA
    assert lags(tmp_path) == [
        ("a", "t", 0, 12, 10, -2),
        ("b", "elsewhere", 3, 5, None, None),
        ("b", "t", 0, 7, 10, 3),
        ("b", "t", 1, 4, 4, 0),
        ("o", "t", 0, 0, 10, 10),
    ]


def test_directories_of_one_broker_are_one_log(tmp_path: Path) -> None:
    make_log(tmp_path / "d0", offset_commit("g", "t", 0, 4), offset_commit("g", "u", 0, 1))
    LogBuilder(tmp_path / "d1").partition("u", 0, [[batch_of([RecordSpec(value=b"v")] * 3)]])
    paths = [tmp_path / "d0", str(tmp_path / "d1")]
    assert lags(paths) == [("g", "t", 0, 4, 10, 6), ("g", "u", 0, 1, 3, 2)]
    assert lags(str(tmp_path / "d0")) == [("g", "t", 0, 4, 10, 6), ("g", "u", 0, 1, None, None)]


def test_a_commit_in_a_transaction_counts_once_that_is_committed(tmp_path: Path) -> None:
    """The open transaction of one group holds back no commit of another group behind it."""
    make_log(tmp_path, offset_commit("first", "t", 0, 1))

    def data(producer_id: int, base_offset: int, group: str, offset: int) -> bytes:
        return batch_of(
            [offset_commit(group, "t", 0, offset)],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def marker(kind: int, producer_id: int, base_offset: int) -> bytes:
        return control_batch(
            kind, base_offset=base_offset, producer_id=producer_id, producer_epoch=0
        )

    entries = [
        batch_of([offset_commit(group, "t", 0, 1) for group in ("aborted", "open")]),
        data(7, 2, "open", 9),
        data(8, 3, "aborted", 9),
        data(9, 4, "committed", 9),
        marker(COMMIT, 9, 5),
        marker(ABORT, 8, 6),
        data(8, 7, "aborted and then committed", 9),
        marker(COMMIT, 8, 8),
        batch_of([offset_commit("behind", "t", 0, 9)], base_offset=9),
    ]
    LogBuilder(tmp_path).partition("__consumer_offsets", 1, [entries])
    assert {row[0]: row[3] for row in lags(tmp_path)} == {
        "aborted": 1,
        "aborted and then committed": 9,
        "behind": 9,
        "committed": 9,
        "first": 1,
        "open": 1,
    }


def test_where_a_log_ends_is_as_a_reader_sees_it(tmp_path: Path) -> None:
    make_log(tmp_path, offset_commit("g", "t", 0, 4))
    log = LogBuilder(tmp_path)
    open_transaction: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    entries = [
        batch_of([RecordSpec(value=b"v")] * 6),
        batch_of(
            [RecordSpec(value=b"v")] * 2, base_offset=6, transactional=True, **open_transaction
        ),
    ]
    log.partition("t", 0, [entries])
    assert lags(tmp_path) == [("g", "t", 0, 4, 8, 4)]
    committed = lags(tmp_path, kafka_isolation_level="read_committed")
    assert committed == [("g", "t", 0, 4, 6, 2)]


def test_commits_that_cannot_be_read_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commit = offset_commit("g", "t", 0, 4)
    bad = RecordSpec(key=commit.key, value=b"\x00\x09")
    make_log(tmp_path, commit, bad, RecordSpec(key=b"\x00\x63", value=b"a kind of the future"))
    with caplog.at_level(logging.WARNING):
        assert lags(tmp_path) == [("g", "t", 0, 4, 10, 6)]
    (warning,) = caplog.messages
    assert warning.startswith("1 records of __consumer_offsets cannot be read")
    assert "partition 0, offset 1: version 9 of OffsetCommitValue is not known" in warning


def test_without_the_offsets_topic_nothing_is_known(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[batch_of([RecordSpec(value=b"v")])]])
    with pytest.raises(UnknownTopicOrPartitionError, match="__consumer_offsets"):
        lag(tmp_path)


def test_a_real_brokers_groups(broker_log: Any) -> None:
    log = broker_log("kafka-4.3.1", "clean")
    assert lags(log.log_directories) == [
        ("g1", "orders", 0, 119, 786, 667),
        ("g1", "orders", 1, 209, 921, 712),
        ("g1", "orders", 2, 224, 993, 769),
    ]
