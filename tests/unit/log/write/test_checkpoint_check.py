"""Checkpoints that a broker cannot read, or reads as something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.findings import FindingKind, Severity
from tests.support.refusals import (
    WRITERS,
    findings,
    only,
    refused,
    retain,
)


@pytest.mark.parametrize("data", [b"\0" * 50, b"garbage\n", b"7\n0\n", b"0\n2\nt 0 1\n"], ids=str)
@pytest.mark.parametrize("name", ["recovery-point", "replication", "cleaner", "log-start"])
def test_a_checkpoint_that_cannot_be_read_takes_a_directory_offline(
    cluster: Path, name: str, data: bytes
) -> None:
    file_name = f"{name}-offset-checkpoint"
    (cluster / file_name).write_bytes(data)
    finding = only(FindingKind.CHECKPOINT, cluster)
    assert (finding.path, finding.severity) == (str(cluster / file_name), Severity.STOP)
    assert "offline" in finding.broker
    if name == "log-start":
        refused(FindingKind.CHECKPOINT, (*WRITERS, retain), cluster)


@pytest.mark.parametrize("data", [b"\0" * 50, b"garbage\n", b"7\n0\n"], ids=str)
def test_leader_epochs_that_cannot_be_read_are_not_gone_on_from(cluster: Path, data: bytes) -> None:
    (cluster / "t-0" / "leader-epoch-checkpoint").write_bytes(data)
    assert "offline" in only(FindingKind.CHECKPOINT, cluster).broker
    refused(FindingKind.CHECKPOINT, WRITERS, cluster)


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("log-start", "takes it for empty"),
        ("recovery-point", "takes it for empty"),
        ("replication", "serves no partition"),
        ("cleaner", "log cleaner dies"),
    ],
)
def test_a_checkpoint_with_what_is_no_number_says_what_becomes_of_it(
    cluster: Path, name: str, effect: str
) -> None:
    (cluster / f"{name}-offset-checkpoint").write_text("0\n1\nt 0 x\n")
    assert effect in only(FindingKind.CHECKPOINT, cluster).broker


def test_a_leader_epoch_that_is_no_number_stops_a_broker(cluster: Path) -> None:
    (cluster / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n4294967296 0\n")
    assert "does not start" in only(FindingKind.CHECKPOINT, cluster).broker
    refused(FindingKind.CHECKPOINT, WRITERS, cluster)


def test_an_empty_checkpoint_is_one_without_entries(cluster: Path) -> None:
    (cluster / "cleaner-offset-checkpoint").write_bytes(b"")
    (cluster / "t-0" / "leader-epoch-checkpoint").write_bytes(b"")
    assert findings(cluster) == {}
