"""Partitions that a broker would drop, rename or set aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import UnsafeTargetError
from spark_segmentlog.log.findings import FindingKind, Severity
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.preflight import preflight
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.metadata_log import metadata_log, partition, topic
from tests.support.refusals import (
    T0,
    WRITERS,
    append,
    findings,
    only,
    refused,
    retain,
    rows,
    text_of,
)
from tests.support.scenarios import read_rows


@pytest.mark.parametrize(
    ("metadata", "effect"),
    [
        (None, "-stray"),
        (b"\0" * 43, "offline"),
        (f"version: 0\ntopic_id: {text_of(9)}".encode(), "-stray"),
    ],
    ids=["missing", "zeros", "another"],
)
def test_a_partition_with_another_id_or_none_is_found(
    cluster: Path, metadata: bytes | None, effect: str
) -> None:
    path = cluster / "t-0" / "partition.metadata"
    path.unlink() if metadata is None else path.write_bytes(metadata)
    finding = only(FindingKind.TOPIC_ID, cluster)
    assert (finding.severity, finding.topic_partition) == (Severity.LOSS, T0)
    assert effect in finding.broker
    if metadata is not None:
        refused(FindingKind.TOPIC_ID, WRITERS, cluster)


def test_a_partition_of_nobody_or_of_another_broker_is_stray(tmp_path: Path) -> None:
    path = tmp_path / "d0"
    metadata_log(path, topic("t", 1), partition(0, 1, 2))
    log = LogBuilder(path)
    log.partition("t", 0, [rows(0)], topic_id=text_of(1))
    log.partition("t", 5, [rows(0)], topic_id=text_of(1))
    log.partition("gone", 0, [rows(0)], topic_id=text_of(3))
    found = [
        finding for finding in preflight(str(path)) if finding.kind is FindingKind.STRAY_PARTITION
    ]
    assert [str(finding.topic_partition) for finding in found] == ["gone-0", "t-0", "t-5"]
    refused(FindingKind.STRAY_PARTITION, WRITERS, path)


def test_a_topic_id_is_compared_only_where_there_is_a_cluster(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [rows(0)], topic_id="")
    assert findings(tmp_path) == {}
    append(tmp_path)
    assert len(read_rows([str(tmp_path)])[T0]) == 4


def test_a_partition_that_stands_twice_is_not_written(tmp_path: Path) -> None:
    for name, count in (("d0", 3), ("d1", 7)):
        LogBuilder(tmp_path / name).partition("t", 0, [rows(0, count)])
    paths = tmp_path / "d0", tmp_path / "d1"
    found = list(preflight([str(path) for path in paths]))
    assert [finding.kind for finding in found] == [FindingKind.PARTITION_TWICE] * 2
    assert [finding.path for finding in found] == [str(path / "t-0") for path in paths]
    assert str(paths[1] / "t-0") in found[0].detail
    refused(FindingKind.PARTITION_TWICE, (*WRITERS, retain), *paths)


def test_a_partition_in_another_directory_of_the_broker_is_neither_written_nor_made(
    cluster: Path, tmp_path: Path
) -> None:
    beside = LogBuilder(tmp_path / "d1")
    beside.meta_properties(directory_id="Z3hPaRdTEc6lPrkbjWq1cA")
    beside.partition("t", 1, [rows(0)], topic_id=text_of(1))
    with open_log(cluster) as log, pytest.raises(UnsafeTargetError, match=r"t-1 lies in .*d1"):
        log.create_topic("t", 2)
    beside.partition("t", 0, [rows(0)], topic_id=text_of(1))
    assert str(tmp_path / "d1" / "t-0") in only(FindingKind.PARTITION_TWICE, cluster).detail
    refused(FindingKind.PARTITION_TWICE, (*WRITERS, retain), cluster)


@pytest.mark.parametrize(
    "name", ["notes.log", "backup.index", ".timeindex", "a.0.txnindex", "x.snapshot", "y.swap"]
)
def test_a_file_that_ends_like_kafkas_stops_a_broker(cluster: Path, name: str) -> None:
    (cluster / "t-0" / name).write_bytes(b"")
    finding = only(FindingKind.FOREIGN_FILE, cluster)
    assert (finding.path, finding.severity) == (str(cluster / "t-0" / name), Severity.STOP)
    assert "does not start" in finding.broker


def test_an_offset_in_other_digits_is_found(cluster: Path) -> None:
    (cluster / "t-0" / "7.log").write_bytes(b"")
    assert "empty segment of offset 7" in only(FindingKind.FOREIGN_FILE, cluster).broker
    (cluster / "t-0" / "7.log").rename(cluster / "t-0" / "7.index")
    assert "deletes it" in only(FindingKind.FOREIGN_FILE, cluster).broker


@pytest.mark.parametrize("name", ["notes.txt", "t.log.gz", ".nfs0001", "README"])
def test_a_file_that_a_broker_does_not_look_at_is_none(cluster: Path, name: str) -> None:
    (cluster / "t-0" / name).write_bytes(b"text")
    (cluster / "notes.log").write_bytes(b"text")
    assert findings(cluster) == {}


def test_a_partition_on_another_disk_is_told(cluster: Path, tmp_path: Path) -> None:
    (cluster / "t-0").rename(tmp_path / "elsewhere")
    (cluster / "t-0").symlink_to(tmp_path / "elsewhere")
    finding = only(FindingKind.LINK, cluster)
    assert (finding.is_harmless, finding.path) == (True, str(cluster / "t-0"))
