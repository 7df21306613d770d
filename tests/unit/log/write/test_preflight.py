"""Whose directory it is: what a broker would stop at, drop or cut is told, and not written to."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_segmentlog.errors import PreflightError, UnsafeTargetError
from spark_segmentlog.log.findings import Finding, FindingKind, Severity
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.upkeep.recovery import RecoveryKind, recover
from spark_segmentlog.log.upkeep.retention import RetentionConfig, apply_retention
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.preflight import preflight
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from tests.support.metadata_log import identifier, metadata_log, partition, topic
from tests.support.running import objects, run
from tests.support.scenarios import Writing, read_rows, stage

T0 = TopicPartition("t", 0)


def text_of(number: int) -> str:
    return base64.urlsafe_b64encode(identifier(number)).rstrip(b"=").decode()


def rows(start: int, count: int = 3) -> list[bytes]:
    return [
        v2_batch([RecordSpec(value=b"row %d" % offset)], base_offset=offset)
        for offset in range(start, start + count)
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The log directory of a stopped broker, node 1, with t-0, and t-1 that it has not made yet."""
    path = tmp_path / "d0"
    metadata_log(path, topic("t", 1), partition(0, 1, 1), partition(1, 1, 1))
    LogBuilder(path).partition("t", 0, [rows(0)], topic_id=text_of(1))
    LogBuilder(path).clean_shutdown()
    return path


def findings(*paths: Path) -> dict[FindingKind, Finding]:
    return {finding.kind: finding for finding in preflight([str(path) for path in paths])}


def only(kind: FindingKind, *paths: Path) -> Finding:
    """Give the one finding of some paths, and see that verification names it too."""
    (finding,) = preflight([str(path) for path in paths])
    assert finding.kind is kind
    is_verified = finding in list(verify([str(path) for path in paths]))
    assert is_verified == (kind is not FindingKind.CLUSTER_METADATA)
    return finding


def append(*paths: Path) -> None:
    with open_log(list(paths)) as log:
        log.append("t", pa.record_batch({"value": [b"new"]}), partition=0)


def commit(*paths: Path) -> None:
    directories = [str(path) for path in paths]
    commit_staged_batches(stage(directories, [Writing({T0: 7})]))


def retain(*paths: Path) -> None:
    apply_retention([str(path) for path in paths], ["t"], RetentionConfig(retention_ms=1), 10**15)


WRITERS = (append, commit)


def contents(path: Path) -> dict[str, bytes]:
    """All files but those that a writer locks, and what it staged."""
    return {
        str(it.relative_to(path)): it.read_bytes()
        for it in path.rglob("*")
        if it.is_file() and not it.name.startswith((".lock", ".segmentlog-"))
    }


def refused(kind: FindingKind, writers: tuple[Callable[..., None], ...], *paths: Path) -> None:
    """See that writers are refused by such a finding, and leave everything as it was."""
    before = [contents(path) for path in paths]
    for write in writers:
        with pytest.raises(PreflightError) as caught:
            write(*paths)
        assert {finding.kind for finding in caught.value.findings} == {kind}
        assert [contents(path) for path in paths] == before


def test_a_brokers_directory_as_it_left_it_has_no_findings(cluster: Path) -> None:
    assert findings(cluster) == {}
    append(cluster)
    commit(cluster)
    assert findings(cluster) == {}
    assert list(verify(str(cluster))) == []
    assert len(read_rows([str(cluster)])[T0]) == 11


# Topic ids


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


@pytest.mark.parametrize("write", WRITERS)
def test_a_write_writes_a_topic_id_that_is_missing(
    cluster: Path, write: Callable[..., None]
) -> None:
    path = cluster / "t-0" / "partition.metadata"
    right = path.read_bytes()
    path.unlink()
    write(cluster)
    assert path.read_bytes() == right
    assert findings(cluster) == {}


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


def test_a_partition_of_nobody_or_of_another_broker_is_stray(tmp_path: Path) -> None:
    path = tmp_path / "d0"
    metadata_log(path, topic("t", 1), partition(0, 1, 2))
    log = LogBuilder(path)
    log.partition("t", 0, [rows(0)], topic_id=text_of(1))
    log.partition("t", 5, [rows(0)], topic_id=text_of(1))
    log.partition("gone", 0, [rows(0)], topic_id=text_of(3))
    found = [it for it in preflight(str(path)) if it.kind is FindingKind.STRAY_PARTITION]
    assert [str(it.topic_partition) for it in found] == ["gone-0", "t-0", "t-5"]
    refused(FindingKind.STRAY_PARTITION, WRITERS, path)


def test_a_topic_id_is_compared_only_where_there_is_a_cluster(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [rows(0)], topic_id="")
    assert findings(tmp_path) == {}
    append(tmp_path)
    assert len(read_rows([str(tmp_path)])[T0]) == 4


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


# One partition twice


def test_a_partition_that_stands_twice_is_not_written(tmp_path: Path) -> None:
    for name, count in (("d0", 3), ("d1", 7)):
        LogBuilder(tmp_path / name).partition("t", 0, [rows(0, count)])
    paths = tmp_path / "d0", tmp_path / "d1"
    found = list(preflight([str(it) for it in paths]))
    assert [it.kind for it in found] == [FindingKind.PARTITION_TWICE] * 2
    assert [it.path for it in found] == [str(path / "t-0") for path in paths]
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


@pytest.mark.parametrize("alias", ["d0/t-1", "d0/a-0", "d1/a-0"])
def test_a_link_that_makes_one_folder_two_partitions_is_found_and_not_written(
    tmp_path: Path, alias: str
) -> None:
    paths = [tmp_path / name for name in ("d0", "d1")]
    path = LogBuilder(paths[0]).partition("t", 0, [rows(0)])
    LogBuilder(paths[1]).partition("u", 0, [rows(0)])
    (tmp_path / alias).symlink_to(path)
    found = findings(*paths)
    assert set(found) == {FindingKind.PARTITION_TWICE, FindingKind.LINK}
    refused(FindingKind.PARTITION_TWICE, (*WRITERS, retain), *paths)
    (tmp_path / alias).unlink()
    append(*paths)


def test_a_link_in_another_directory_of_the_broker_is_not_written(
    cluster: Path, tmp_path: Path
) -> None:
    LogBuilder(tmp_path / "d1").meta_properties(directory_id="Z3hPaRdTEc6lPrkbjWq1cA")
    (tmp_path / "d1" / "gone-0").symlink_to(cluster / "t-0")
    refused(FindingKind.PARTITION_TWICE, (*WRITERS, retain), cluster)


# Folders and files of others


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


# Checkpoints and meta.properties


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
    assert [(it.kind, "missing" in it.detail) for it in preflight(paths)] == [
        (FindingKind.META_PROPERTIES, True)
    ]
    other.meta_properties(node_id=2, directory_id="Z3hPaRdTEc6lPrkbjWq1cA")
    assert [it.kind for it in preflight(paths)] == [FindingKind.META_PROPERTIES]
    # Replicas of several brokers are verified together.
    assert list(verify(paths)) == []
    other.meta_properties()
    finding = only(FindingKind.DIRECTORY_ID, cluster, tmp_path / "d1")
    assert (finding.severity, "does not start" in finding.broker) == (Severity.STOP, True)


# What recovery would cut


def crashed(path: Path, *, cut_bytes: int = 5, recovery_point: int | None = None) -> Path:
    log = LogBuilder(path)
    log.partition("t", 0, [rows(0), SegmentSpec(rows(3), cut_bytes=cut_bytes), rows(6)])
    if recovery_point is not None:
        log.recovery_points({("t", 0): recovery_point})
    return path


@pytest.mark.parametrize("recovery_point", [None, 0, 5])
def test_nothing_is_appended_behind_what_a_broker_would_cut(
    tmp_path: Path, recovery_point: int | None
) -> None:
    path = crashed(tmp_path / "d0", recovery_point=recovery_point)
    finding = findings(path)[FindingKind.TORN_SEGMENT]
    size = (path / "t-0" / "00000000000000000003.log").stat().st_size
    batch = len(rows(3)[0])
    assert (finding.severity, finding.position) == (Severity.LOSS, 2 * batch)
    assert (size, finding.path[-8:]) == (3 * batch - 5, "0003.log")
    (verified,) = (it for it in verify(str(path)) if it.refuses_writes)
    assert (verified.kind, verified.severity) == (FindingKind.CORRUPT_BATCH, Severity.LOSS)
    assert (verified.position, verified.broker) == (finding.position, finding.broker)
    refused(FindingKind.TORN_SEGMENT, WRITERS, path)
    recover(str(path), truncate=True, delete_later=True)
    assert findings(path) == {}
    append(path)
    assert [offset for offset, _, _ in read_rows([str(path)])[T0]] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_broker_cuts_nothing_below_the_recovery_point_or_after_a_clean_stop(
    tmp_path: Path, is_clean: bool
) -> None:
    path = crashed(tmp_path / "d0", recovery_point=0 if is_clean else 6)
    if is_clean:
        LogBuilder(path).clean_shutdown()
    assert findings(path) == {}
    append(path)


def test_closed_segments_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = crashed(tmp_path / "d0", cut_bytes=0)
    append(path)
    opened: list[str] = []
    real = type(LOCAL).open_input

    def note(storage: object, name: str) -> object:
        opened.append(name)
        return real(LOCAL, name)

    monkeypatch.setattr(type(LOCAL), "open_input", note)
    commit(path)
    assert [name for name in opened if "0000.log" in name or "0003.log" in name] == []


def test_a_log_that_ends_below_its_start_is_not_written(cluster: Path) -> None:
    LogBuilder(cluster).log_start_offsets({("t", 0): 30})
    assert "deletes all" in only(FindingKind.LOG_START, cluster).broker
    refused(FindingKind.LOG_START, WRITERS, cluster)


# Links and owners


def test_a_partition_on_another_disk_is_told(cluster: Path, tmp_path: Path) -> None:
    (cluster / "t-0").rename(tmp_path / "elsewhere")
    (cluster / "t-0").symlink_to(tmp_path / "elsewhere")
    finding = only(FindingKind.LINK, cluster)
    assert (finding.is_harmless, finding.path) == (True, str(cluster / "t-0"))


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
    made = {str(it.relative_to(path)): os.lstat(it).st_ino for it in path.rglob("*")}
    assert {"t-0", ".lock", "t-0/partition.metadata", ".segmentlog-versions"} <= set(made)
    assert [name for name, inode in made.items() if inode not in owners.given] == []


def test_a_file_that_its_broker_could_not_open_is_told(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Owners(monkeypatch, cluster, user=1001)
    found = [it for it in preflight(str(cluster)) if it.kind is FindingKind.OWNER]
    partitions = {T0, TopicPartition("__cluster_metadata", 0)}
    assert {it.topic_partition for it in found} == {None, *partitions}
    assert all("offline" in it.broker and it.severity is Severity.STOP for it in found)


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
