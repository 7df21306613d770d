"""Whose a log directory is, and folders in it that are no partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.findings import FindingKind, Severity
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.preflight import preflight
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.refusals import (
    WRITERS,
    append,
    findings,
    only,
    refused,
    retain,
)


@pytest.mark.parametrize("name", ["lost+found", "backup", "t-x", "t-0-delete", "-1", "a.b-stray"])
def test_a_folder_that_is_no_partition_stops_a_broker(cluster: Path, name: str) -> None:
    (cluster / name).mkdir()
    finding = only(FindingKind.FOREIGN_FOLDER, cluster)
    assert (finding.path, finding.severity) == (str(cluster / name), Severity.STOP)
    assert "does not start" in finding.broker
    append(cluster)


def test_a_folder_that_a_broker_alone_takes_for_a_partition_is_found(cluster: Path) -> None:
    (cluster / "t-007").mkdir()
    assert "-stray" in only(FindingKind.FOREIGN_FOLDER, cluster).broker


@pytest.mark.parametrize(
    "name", ["remote-log-index-cache", "t-3.0a1b2c3d4e5f-delete", "t-3.0a1b-future", "t-3.0a-stray"]
)
def test_a_brokers_own_folders_are_none_of_others(cluster: Path, name: str) -> None:
    (cluster / name).mkdir()
    assert findings(cluster) == {}


@pytest.mark.parametrize(
    ("data", "effect"),
    [(b"\0" * 90, "start"), (b"", "start"), (b"version=1\nnode.id=1\n", "offline")],
    ids=str,
)
def test_a_directory_that_does_not_tell_whose_it_is_is_not_written(
    cluster: Path, data: bytes, effect: str
) -> None:
    (cluster / "meta.properties").write_bytes(data)
    assert effect in only(FindingKind.META_PROPERTIES, cluster).broker
    refused(FindingKind.META_PROPERTIES, (*WRITERS, retain), cluster)


def test_a_directory_id_that_kafka_keeps_for_itself_is_found(cluster: Path) -> None:
    LogBuilder(cluster).meta_properties(directory_id="AAAAAAAAAAAAAAAAAAAAAQ")
    finding = only(FindingKind.DIRECTORY_ID, cluster)
    assert (finding.severity, finding.refuses_writes) == (Severity.STOP, False)


def test_log_directories_of_different_owners_are_found(cluster: Path, tmp_path: Path) -> None:
    other = LogBuilder(tmp_path / "d1")
    paths = [str(cluster), str(tmp_path / "d1")]
    assert [(finding.kind, "missing" in finding.detail) for finding in preflight(paths)] == [
        (FindingKind.META_PROPERTIES, True)
    ]
    other.meta_properties(node_id=2, directory_id="Z3hPaRdTEc6lPrkbjWq1cA")
    assert [finding.kind for finding in preflight(paths)] == [FindingKind.META_PROPERTIES]
    # Replicas of several brokers are verified together.
    assert list(verify(paths)) == []
    other.meta_properties()
    finding = only(FindingKind.DIRECTORY_ID, cluster, tmp_path / "d1")
    assert (finding.severity, "does not start" in finding.broker) == (Severity.STOP, True)
