"""Directories from somebody else: whatever their journals and links name, nothing outside of them
is touched, and only errors of this library are raised."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.directory.journal import Journal, journal_path
from spark_segmentlog.log.directory.open_commit import read_commit_state
from spark_segmentlog.log.directory.versions import VERSIONS_FILE_NAME, read_versions
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.append_state import TAIL_FILE_NAME
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.preflight import preflight
from spark_segmentlog.record.plain.crc import crc32c
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.fault_layer import Faults, Killed
from tests.support.first_format import to_first_format
from tests.support.scenarios import Scenario, Writing, make_scenario, stage


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """A commit over two directories that died with one copy done; beside them what is precious."""
    made = make_scenario(tmp_path / "scenario")
    precious = tmp_path / "scenario" / "precious"
    precious.mkdir()
    (precious / "precious.txt").write_text("precious")
    (precious / "00000000000000000000.log").write_bytes(b"precious" * 200)
    return made


def die(scenario: Scenario, copies: int = 1) -> None:
    scenario.reset()
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch)
        scenario.commit()
        places = [number for number, name in enumerate(faults.names) if name == "copy_range"]
    scenario.reset()
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, kill_at=places[copies])
        with pytest.raises(Killed):
            scenario.commit()


def outside(scenario: Scenario) -> dict[str, tuple[int, bytes]]:
    """Give all that lies beside the log directories."""
    found = {}
    for folder in (scenario.root.parent / "precious", scenario.template):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                found[str(path)] = (path.stat().st_mtime_ns, path.read_bytes())
    found["names"] = (0, repr(sorted(os.listdir(scenario.root.parent))).encode())
    found["roots"] = (0, repr(sorted(os.listdir(scenario.root))).encode())
    return found


def with_checksum(body: bytes) -> bytes:
    return b"%08x\n%s" % (crc32c(body), body)


def rewritten(directory: str, change: Callable[[dict[str, Any]], None]) -> None:
    path = Path(journal_path(directory))
    fields = json.loads(path.read_bytes().partition(b"\n")[2])
    change(fields)
    path.write_bytes(with_checksum(json.dumps(fields).encode()))


def rename_partition(topic: str, fields: dict[str, Any]) -> None:
    fields["partitions"][0]["topic"] = topic


def rename_staged(name: str, fields: dict[str, Any]) -> None:
    fields["staged"][0] = name


def try_everything(scenario: Scenario) -> None:
    for directory in scenario.directories:
        try:
            read_commit_state(directory)
            recover(directory)
        except SegmentLogError:
            continue


def test_a_partition_that_leads_out_of_the_directory_is_refused(scenario: Scenario) -> None:
    die(scenario)
    before = outside(scenario)
    for topic in ("../precious", "..", "a/../../precious", "/etc/x"):
        rewritten(
            scenario.directories[0],
            partial(rename_partition, topic),
        )
        with pytest.raises(SegmentLogError, match="no name of a partition"):
            recover(scenario.directories)
        assert outside(scenario) == before


def test_a_staged_file_that_leads_out_of_the_directory_is_refused(scenario: Scenario) -> None:
    die(scenario)
    before = outside(scenario)
    for name in ("../precious/precious.txt", "/etc/passwd", "t-0"):
        rewritten(
            scenario.directories[0],
            partial(rename_staged, name),
        )
        with pytest.raises(SegmentLogError, match="no name of a staged file"):
            recover(scenario.directories)
        assert outside(scenario) == before


def test_a_journal_that_was_changed_is_refused(scenario: Scenario) -> None:
    die(scenario)
    path = Path(journal_path(scenario.directories[0]))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(SegmentLogError, match="checksum"):
        recover(scenario.directories)


def test_a_journal_of_the_first_format_reaches_only_directories_that_name_it_back(
    scenario: Scenario,
) -> None:
    die(scenario)
    to_first_format(scenario.directories)
    precious = scenario.root.parent / "precious"
    path = Path(journal_path(scenario.directories[0]))
    fields = json.loads(path.read_bytes())
    fields["clean_shutdown_marks"][str(precious)] = None
    for plan in fields["partitions"]:
        plan["log_directory"] = str(precious)
    path.write_text(json.dumps(fields))
    before = outside(scenario)
    try_everything(scenario)
    assert outside(scenario) == before


def test_a_pointer_of_the_first_format_that_is_relative_is_refused(scenario: Scenario) -> None:
    die(scenario)
    to_first_format(scenario.directories)
    path = Path(journal_path(scenario.directories[1]))
    fields = json.loads(path.read_bytes())
    for name in ("..", "../precious", ""):
        path.write_text(json.dumps({**fields, "deciding_directory": name}))
        with pytest.raises(SegmentLogError, match="is no absolute path"):
            read_commit_state(scenario.directories[1])


@pytest.mark.parametrize("kind", ["partition", "segment", "commit", "journal", "staged", "tmp"])
def test_links_out_of_the_directory_are_not_followed(scenario: Scenario, kind: str) -> None:
    die(scenario)
    directory = Path(scenario.directories[0])
    precious = scenario.root.parent / "precious"
    journal = Journal.from_bytes(
        Path(journal_path(str(directory))).read_bytes(), str(directory), source="journal"
    )
    plan = next(
        partition
        for partition in journal.partitions
        if Path(partition.directory).exists() and partition.steps
    )
    segment = Path(plan.directory) / f"{plan.segments[0].base_offset:020d}.log"
    link, target = {
        "partition": (Path(plan.directory), precious),
        "segment": (segment, precious / segment.name),
        "commit": (directory / ".segmentlog-commit", precious),
        "journal": (Path(journal_path(str(directory))), precious / "precious.txt"),
        "staged": (Path(plan.steps[0].staged_path), precious / "precious.txt"),
        "tmp": (directory / f"{VERSIONS_FILE_NAME}.tmp", precious / "precious.txt"),
    }[kind]
    if kind == "segment":
        shutil.copy(segment, precious / segment.name)
    if link.is_dir():
        shutil.rmtree(link)
    else:
        link.unlink(missing_ok=True)
    link.symlink_to(target)
    before = outside(scenario)
    with pytest.raises((SegmentLogError, OSError)):
        recover(scenario.directories)
    assert outside(scenario) == before


def test_appends_follow_no_link_of_a_file(tmp_path: Path) -> None:
    with open_log(str(tmp_path / "log")) as log:
        log.create_topic("t", 1)
    precious = tmp_path / "precious.log"
    precious.write_bytes(b"")
    (tmp_path / "log" / "t-0" / f"{0:020d}.log").symlink_to(precious)
    rows = pa.record_batch({"value": pa.array([b"v"], pa.binary())})
    with pytest.raises(SegmentLogError, match="link"), open_log(str(tmp_path / "log")) as log:
        log.append("t", rows)
    assert precious.read_bytes() == b""
    # A commit puts the whole file in the link's place.
    commit_staged_batches(stage([str(tmp_path / "log")], [Writing({TopicPartition("t", 0): 3})]))
    assert precious.read_bytes() == b""


def test_deep_json_is_our_error(tmp_path: Path) -> None:
    (tmp_path / VERSIONS_FILE_NAME).write_bytes(b"[" * 100_000)
    with pytest.raises(SegmentLogError, match="not a commit file"):
        read_versions(str(tmp_path))


def test_a_pipe_in_the_place_of_a_file_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / VERSIONS_FILE_NAME)
    with pytest.raises(SegmentLogError, match="no plain file"):
        read_versions(str(tmp_path))
    assert LOCAL.exists(str(tmp_path))


SMALL_FILES = (
    ".kafka_cleanshutdown",
    ".lock",
    ".segmentlog-commit",
    ".segmentlog-versions",
    ".segmentlog-writer",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "t-0/.segmentlog-tail",
    "t-0/leader-epoch-checkpoint",
    "t-0/partition.metadata",
    "t-0/00000000000000000000.index",
    "t-0/00000000000000000000.log",
    "t-0/00000000000000000000.timeindex",
    "t-0/00000000000000000000.txnindex",
)


def _append(directory: str) -> None:
    with open_log(directory) as log:
        log.append("t", pa.record_batch({"value": [b"by us"]}))


WAYS: dict[str, Callable[[str], object]] = {
    "commit": lambda path: commit_staged_batches(
        stage([path], [Writing({TopicPartition("t", 0): 3})])
    ),
    "append": _append,
    "recover": lambda path: recover(path, truncate=True),
    "preflight": lambda path: list(preflight(path)),
    "verify": lambda path: list(verify(path)),
    "read": lambda path: read_arrow(path).read_all(),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", SMALL_FILES)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=("pipe", "folder"))
def test_what_is_no_file_holds_nobody_up(
    tmp_path: Path, make: Callable[[Path], None], name: str
) -> None:
    """Every way in ends: with what it does where the file does not matter, or with our error."""
    errors = {}
    for way, run in WAYS.items():
        directory = tmp_path / way
        LogBuilder(directory).partition("t", 0, [[v2_batch([RecordSpec(value=b"a")])]])
        path = directory / name
        path.unlink(missing_ok=True)
        make(path)
        try:
            run(str(directory))
        except SegmentLogError as error:
            errors[way] = str(error)
    assert all(str(tmp_path / way / name) in text for way, text in errors.items())


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"1",
        b"{}",
        b'{"format":1,"tail":[]}',
        b'{"format":1,"tail":{"base_offset":"x"}}',
        b"[",
    ],
)
def test_a_remembered_tail_that_no_release_wrote_is_as_good_as_none(
    tmp_path: Path, body: bytes
) -> None:
    folder = LogBuilder(tmp_path).partition("t", 0, [[v2_batch([RecordSpec(value=b"a")])]])
    (folder / TAIL_FILE_NAME).write_bytes(with_checksum(body))
    _append(str(tmp_path))
    assert read_arrow(tmp_path).read_all()["value"].to_pylist() == [b"a", b"by us"]
