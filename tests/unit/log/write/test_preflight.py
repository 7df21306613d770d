"""Whose directory it is: what a broker would stop at, drop or cut is told, and not written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import UnsafeTargetError
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.recovery_action import RecoveryKind
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.metadata_log import metadata_log, topic
from tests.support.refusals import (
    T0,
    append,
    commit,
    findings,
    only,
    rows,
    text_of,
)
from tests.support.running import objects, run
from tests.support.scenarios import read_rows


def test_a_brokers_directory_as_it_left_it_has_no_findings(cluster: Path) -> None:
    assert findings(cluster) == {}
    append(cluster)
    commit(cluster)
    assert findings(cluster) == {}
    assert list(verify(str(cluster))) == []
    assert len(read_rows([str(cluster)])[T0]) == 11


@pytest.mark.parametrize("metadata", [None, b"\0" * 43], ids=["missing", "zeros"])
def test_recovery_writes_a_topic_id_that_is_missing(cluster: Path, metadata: bytes | None) -> None:
    path = cluster / "t-0" / "partition.metadata"
    right = path.read_bytes()
    path.unlink() if metadata is None else path.write_bytes(metadata)
    (told,) = recover(str(cluster), dry_run=True)
    assert (told.kind, told.is_done) == (RecoveryKind.WRITE_TOPIC_ID, False)
    assert not path.exists() if metadata is None else path.read_bytes() == metadata
    (done,) = recover(str(cluster))
    assert (done.kind, done.is_done) == (RecoveryKind.WRITE_TOPIC_ID, True)
    assert path.read_bytes() == right
    assert findings(cluster) == {}
    append(cluster)


def test_recovery_leaves_the_id_of_another_topic(cluster: Path) -> None:
    path = cluster / "t-0" / "partition.metadata"
    path.write_text(f"version: 0\ntopic_id: {text_of(9)}")
    assert recover(str(cluster)) == []
    assert text_of(9) in path.read_text()


def test_metadata_that_is_not_there_is_told_and_harmless(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "d0")
    log.partition("t", 0, [rows(0)])
    log.meta_properties()
    assert only(FindingKind.CLUSTER_METADATA, tmp_path / "d0").is_harmless
    with pytest.raises(UnsafeTargetError, match="__cluster_metadata-0"):
        append(tmp_path / "d0")


def test_metadata_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    metadata_log(tmp_path / "d0", topic("t", 1)[:10])
    assert "cannot read" in only(FindingKind.CLUSTER_METADATA, tmp_path / "d0").detail


# The command


def test_the_command_tells_all_of_it(cluster: Path) -> None:
    ran = run("preflight", cluster)
    assert (ran.exit_code, ran.lines[-1]) == (
        0,
        "0 would lose records, 0 would stop a broker, 0 harmless",
    )
    (cluster / "lost+found").mkdir()
    (cluster / "t-0" / "partition.metadata").unlink()
    folder, lost = objects("preflight", cluster, exit_code=1)
    assert folder == {
        "type": "finding",
        "code": "foreign-folder",
        "level": "error",
        "mend": "by hand: move it out of the log directory",
        "kind": "foreign folder",
        "topic": None,
        "partition": None,
        "path": str(cluster / "lost+found"),
        "position": None,
        "startOffset": None,
        "endOffset": None,
        "detail": "a folder that is no topic, dash and partition",
        "severity": "stop",
        "broker": "a broker does not start",
        "refusesWrites": False,
        "isHarmless": False,
    }
    assert (lost["kind"], lost["severity"], lost["refusesWrites"]) == ("topic id", "loss", False)
    assert run("preflight", cluster).lines[-1].startswith("1 would lose records, 1 would stop")
    assert run("verify", cluster).exit_code == 1
    assert run("preflight", cluster / "nothing").exit_code == 2


def test_a_partition_directory_alone_is_looked_at(cluster: Path) -> None:
    (cluster / "t-0" / "notes.log").write_bytes(b"")
    assert set(findings(cluster / "t-0")) == {FindingKind.FOREIGN_FILE}
    assert len(LogManager.open(str(cluster)).topic_partitions) == 2
