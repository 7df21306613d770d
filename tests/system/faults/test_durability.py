"""What was reported done lasts, and is found by offset and by time, whatever the power takes."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.upkeep.compaction import compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.recovery import recover, reindex
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.open_commits import locked_for_writing
from tests.support.durability import RuleBrokenError, RuleKeeper
from tests.support.fault_layer import Disk, Faults, Killed
from tests.support.scenarios import (
    CONFIG,
    MARK,
    Scenario,
    Writing,
    assert_sound,
    make_scenario,
    stage,
)

T0 = TopicPartition("t", 0)
START_MS = 1_700_000_000_000
NOW_MS = START_MS + 86_400_000
OPTIONS: dict[str, Any] = {"segment_bytes": 3000, "batch_size": 400, "index_interval_bytes": 200}
POWER_CUTS = [("lost", "lost"), ("kept", "lost"), ("kept", "torn"), ("lost", "torn")]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def assert_times_are_found(directories: list[str]) -> int:
    """Compare every time lookup with a scan of all rows; give the number of rows."""
    manager = LogManager.open(directories)
    count = 0
    for topic_partition, (start, end) in manager.offset_bounds().items():
        log = manager.partition_log(topic_partition)
        rows: list[tuple[int, int]] = []
        options = ScanOptions(columns=("offset", "timestamp"))
        for batch in log.scan(start_offset=start, end_offset=end, options=options):
            times = batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000
            rows.extend(zip(batch.column("offset").to_pylist(), times.tolist(), strict=True))
        count += len(rows)
        for wanted in sorted({time for _, time in rows} | {0}):
            first = next(offset for offset, time in rows if time >= wanted)
            found = log.offset_for_timestamp(wanted)
            assert found is not None, (topic_partition, wanted)
            assert found[0] == first, (topic_partition, wanted)
        latest = max((time for _, time in rows), default=0)
        assert log.offset_for_timestamp(latest + 1) is None
    return count


def rows(number: int) -> pa.RecordBatch:
    values = [f"{number}/{row}".encode() * 8 for row in range(6)]
    times = START_MS + number * 100 + np.array([3, 9, 1, 4, 7, 2])
    return pa.record_batch({"value": pa.array(values, pa.binary()), "timestamp": pa.array(times)})


def append(directory: str, number: int = 0) -> None:
    with open_log(directory, **OPTIONS) as log:
        for turn in range(3):
            log.append("t", rows(10 * number + turn))


def commit(directory: str) -> None:
    commit_staged_batches(stage([directory], [Writing({T0: 5}), Writing({T0: 40})]))


def make_log(directory: Path) -> None:
    directory.mkdir()
    append(str(directory))
    (directory / ".kafka_cleanshutdown").write_bytes(MARK)


@pytest.mark.parametrize("write", [append, commit])
@pytest.mark.parametrize("cut", POWER_CUTS, ids="-".join)
def test_what_was_reported_done_is_found_by_time_after_a_power_cut(
    tmp_path: Path, write: Callable[[str], None], cut: tuple[str, str]
) -> None:
    directory, links = tmp_path / "log", tmp_path / "links"
    make_log(directory)
    links.mkdir()
    # A last segment whose indexes are made again, so that they are renamed to their names.
    last = sorted((directory / "t-0").glob("*.timeindex"))[-1]
    last.with_name(".segmentlog-tail").unlink(missing_ok=True)
    last.write_bytes(b"")
    last.with_suffix(".index").write_bytes(b"")
    before = 18
    disk = Disk(directory, links)
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, disk=disk)
        write(str(directory))
    disk.lose_power(1, names=cut[0], data=cut[1])
    assert (directory / ".kafka_cleanshutdown").read_bytes() == MARK
    assert assert_times_are_found([str(directory)]) > before


# The rules, on every operation of every path that writes


def write_by_commit(folder: Path) -> None:
    commit(str(folder))


def write_by_append(folder: Path) -> None:
    append(str(folder), 1)


def write_by_retention(folder: Path) -> None:
    apply_retention(
        [str(folder)],
        ["t"],
        RetentionConfig(retention_bytes=1500, file_delete_delay_ms=0),
        now_ms=NOW_MS,
    )


def write_by_compaction(folder: Path) -> None:
    compact([str(folder)], ["t"], CompactionConfig(file_delete_delay_ms=0), now_ms=NOW_MS)


def write_by_recovery(folder: Path) -> None:
    recover(str(folder), truncate=True, delete_later=True, index_interval_bytes=200)


def write_by_reindex(folder: Path) -> None:
    reindex(str(folder), index_interval_bytes=200)


def write_by_creation(folder: Path) -> None:
    with open_log(str(folder)) as log:
        log.create_topic("made", 3)


PATHS = [
    write_by_commit,
    write_by_append,
    write_by_retention,
    write_by_compaction,
    write_by_recovery,
    write_by_reindex,
    write_by_creation,
]


def make_keyed_log(directory: Path) -> None:
    directory.mkdir()
    with open_log(str(directory), **{**OPTIONS, "segment_bytes": 1200}) as log:
        for number in range(12):
            keys = pa.array([f"k{row}".encode() for row in range(6)], pa.binary())
            log.append("t", rows(number).append_column("key", keys))
    (directory / ".kafka_cleanshutdown").write_bytes(MARK)


@pytest.mark.parametrize("path", PATHS)
def test_the_rules_hold_at_every_operation(tmp_path: Path, path: Callable[[Path], None]) -> None:
    directory, links = tmp_path / "log", tmp_path / "links"
    make_keyed_log(directory)
    if path is write_by_recovery:
        second = sorted((directory / "t-0").glob("*.log"))[1]
        data = bytearray(second.read_bytes())
        data[len(data) // 2 + 80] ^= 0xFF
        second.write_bytes(data)
    links.mkdir()
    keeper = RuleKeeper(directory, links)
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, disk=keeper)
        path(directory)
    assert faults.count > 4
    assert [str(finding) for finding in verify(str(directory)) if not finding.is_harmless] == []


def test_the_rules_hold_for_a_commit_over_directories(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path / "scenario")
    links = tmp_path / "links"
    links.mkdir()
    keeper = RuleKeeper(scenario.root, links)
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, disk=keeper)
        scenario.commit()
    assert keeper.checked.keys() >= {
        "rename",
        "mark",
        "journal folder",
        "journal staging",
        "journal end",
        "change in place",
    }


@pytest.mark.parametrize("left_out", ["fsync", "fsync_directory"])
def test_a_sync_that_is_left_out_breaks_the_rules(tmp_path: Path, left_out: str) -> None:
    scenario = make_scenario(tmp_path / "scenario")
    links = tmp_path / "links"
    links.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, disk=RuleKeeper(scenario.root, links))
        patch.setattr(files, left_out, lambda _: None)
        with pytest.raises(RuleBrokenError):
            scenario.commit()


# Folders on other disks, and clocks


def renames_within_a_folder(patch: pytest.MonkeyPatch) -> None:
    """Make every partition folder a mount of its own."""
    rename = files.rename

    def across(source: str, target: str) -> None:
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
        rename(source, target)

    patch.setattr(files, "rename", across)


def test_what_cannot_be_renamed_to_its_folder_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario(tmp_path)
    scenario.reset()
    scenario.commit()
    after = scenario.rows()
    scenario.reset()
    renames_within_a_folder(monkeypatch)
    scenario.commit()
    assert scenario.rows() == after
    assert_sound(scenario.directories)


def test_killed_while_it_is_copied_it_is_copied_again(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    scenario.reset()
    before = scenario.rows()
    scenario.commit()
    after = scenario.rows()
    with pytest.MonkeyPatch.context() as patch:
        renames_within_a_folder(patch)
        faults = Faults(patch)
        scenario.reset()
        scenario.commit()
        first = faults.names.index("copy_range")
        last = len(faults.names) - faults.names[::-1].index("copy_range")
    for operation in range(first, last + 8, 3):
        scenario.reset()
        with pytest.MonkeyPatch.context() as patch:
            renames_within_a_folder(patch)
            Faults(patch, kill_at=operation)
            with pytest.raises(Killed):
                scenario.commit()
        assert scenario.rows() == before
        with pytest.MonkeyPatch.context() as patch:
            renames_within_a_folder(patch)
            with locked_for_writing(scenario.directories):
                pass
        assert scenario.rows() == after


@pytest.fixture
def linked(tmp_path: Path) -> Scenario:
    """A scenario in which a partition's folder is a link to another place."""
    scenario = make_scenario(tmp_path / "scenario")
    for number in range(2):
        for name in ("d0", "d1"):
            folder = scenario.template / name / f"old-{number}"
            if folder.is_dir():
                shutil.move(folder, tmp_path / f"pristine-{number}")
                folder.symlink_to(tmp_path / f"elsewhere-{number}")
    return scenario


def reset_linked(scenario: Scenario) -> None:
    shutil.rmtree(scenario.root, ignore_errors=True)
    shutil.copytree(scenario.template, scenario.root, symlinks=True)
    for number in range(2):
        place = scenario.root.parent.parent / f"elsewhere-{number}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(place.with_name(f"pristine-{number}"), place)


def test_a_folder_that_is_a_link_takes_a_commit_and_its_end(linked: Scenario) -> None:
    reset_linked(linked)
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch)
        linked.commit()
    after = linked.rows()
    places = [number for number, name in enumerate(faults.names) if name == "copy_range"]
    for operation in (places[0], places[-1]):
        reset_linked(linked)
        with pytest.MonkeyPatch.context() as patch:
            Faults(patch, kill_at=operation)
            with pytest.raises(Killed):
                linked.commit()
        with locked_for_writing(linked.directories):
            pass
        assert linked.rows() == after


def test_a_clock_that_jumps_back_changes_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = str(tmp_path)
    now = 1_800_000_000_000_000_000
    for turn, jump in enumerate((0, -(10**15), 10**15, -(10**18))):
        monkeypatch.setattr("time.time_ns", lambda jump=jump: now + jump)
        append(directory, turn)
        commit_staged_batches(stage([directory], [Writing({T0: 4})], config=CONFIG))
    assert assert_times_are_found([directory]) == 4 * (18 + 4)
    assert [str(finding) for finding in verify(directory) if not finding.is_harmless] == []
