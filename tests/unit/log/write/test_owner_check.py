"""Files that a broker could not open, since another user made them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_segmentlog.errors import PreflightError
from spark_segmentlog.log.findings import FindingKind, Severity
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.write.preflight import preflight
from tests.support.refusals import (
    T0,
    append,
    commit,
    retain,
)


class Owners:
    """Stands in for users: who this process is, and whom a log directory belongs to.

    What lies in it belongs to this process until it is given away.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log_directory: Path, user: int) -> None:
        self.given: set[int] = set()
        self._user = user
        self._stat = os.stat
        self._log_directory = os.stat(log_directory).st_ino
        monkeypatch.setattr(os, "geteuid", lambda: user)
        monkeypatch.setattr(os, "stat", self.stat)
        monkeypatch.setattr(os, "chown", self.chown)

    def stat(self, path: int | str, **options: bool) -> SimpleNamespace:
        status = self._stat(path, **options)
        is_given = status.st_ino in {self._log_directory, *self.given}
        owner = 1002 if is_given else self._user
        fields = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
        return SimpleNamespace(**fields | {"st_uid": owner, "st_gid": owner})

    def chown(self, path: int | str, user: int, group: int) -> None:
        assert (user, group) == (1002, 1002)
        self.given.add(self._stat(path).st_ino)


def test_what_root_creates_belongs_to_the_owner_of_the_log_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "d0"
    path.mkdir()
    owners = Owners(monkeypatch, path, user=0)
    append(path)
    commit(path)
    retain(path)
    made = {
        str(made_path.relative_to(path)): os.lstat(made_path).st_ino
        for made_path in path.rglob("*")
    }
    assert {"t-0", ".lock", "t-0/partition.metadata", ".segmentlog-versions"} <= set(made)
    assert [name for name, inode in made.items() if inode not in owners.given] == []


def test_a_file_that_its_broker_could_not_open_is_told(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Owners(monkeypatch, cluster, user=1001)
    found = [finding for finding in preflight(str(cluster)) if finding.kind is FindingKind.OWNER]
    partitions = {T0, TopicPartition("__cluster_metadata", 0)}
    assert {finding.topic_partition for finding in found} == {None, *partitions}
    assert all(
        "offline" in finding.broker and finding.severity is Severity.STOP for finding in found
    )


def test_a_user_whose_files_a_broker_could_not_open_does_not_write(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(os.listdir(cluster))
    Owners(monkeypatch, cluster, user=1001)
    with pytest.raises(PreflightError, match="belongs to user 1002"):
        append(cluster)
    with pytest.raises(PreflightError):
        recover(str(cluster))
    assert sorted(os.listdir(cluster)) == before
