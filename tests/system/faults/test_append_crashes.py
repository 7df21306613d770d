"""An open log whose process dies, or whose power goes, at every file operation of its appends."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.recovery import reindex
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.local_log import open_log
from tests.support.fault_layer import Disk, Faults, Killed
from tests.support.scenarios import MARK, read_indexes, read_rows

T0 = TopicPartition("t", 0)
OPTIONS: dict[str, Any] = {"segment_bytes": 700, "batch_size": 400, "index_interval_bytes": 200}
APPENDS = 8
FLUSH_EVERY = 3
QUICK_STRIDE = 13
POWER_CUTS = [("lost", "lost"), ("kept", "lost"), ("kept", "torn"), ("lost", "torn")]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def rows(label: str) -> pa.RecordBatch:
    values = [f"{label}/{row}".encode() * 8 for row in range(4)]
    return pa.record_batch(
        {"value": pa.array(values, pa.binary()), "timestamp": pa.array([3, 9, 1, 4])}
    )


def values(directory: Path) -> list[bytes | None]:
    return [value for _, _, value in read_rows([str(directory)]).get(T0, [])]


def expected_values(labels: list[str]) -> list[bytes]:
    return [value for label in labels for value in rows(label).column("value").to_pylist()]


def make_template(folder: Path) -> Path:
    template = folder / "template"
    with open_log(str(template), **OPTIONS) as log:
        log.append("t", rows("before"))
    (template / ".kafka_cleanshutdown").write_bytes(MARK)
    return template


class Progress:
    """What a process that appends has been told of its appends and flushes."""

    def __init__(self) -> None:
        self.begun = 0
        self.appended = 0
        self.flushed = 0


def append_all(directory: Path, progress: Progress) -> None:
    with open_log(str(directory), **OPTIONS) as log:
        for number in range(APPENDS):
            progress.begun = number + 1
            log.append("t", rows(str(number)))
            progress.appended = number + 1
            if number % FLUSH_EVERY == FLUSH_EVERY - 1:
                log.flush()
                progress.flushed = number + 1


def check_after_crash(directory: Path, progress: Progress, *, kept: int) -> None:
    """Open again: what was promised is there in its order, behind it whole appends or batches."""
    assert not (directory / ".kafka_cleanshutdown").exists() or progress.begun in (0, APPENDS)
    labels = ["before", *(str(number) for number in range(APPENDS))]
    with open_log(str(directory), **OPTIONS) as log:
        assert log.log_end_offset("t", 0) >= 4 * (1 + kept)
        found = values(directory)
        everything = expected_values(labels)
        assert found == everything[: len(found)]
        assert len(found) >= 4 * (1 + kept)
        assert len(found) <= 4 * (1 + progress.begun)
        log.append("t", rows("after"))
    assert values(directory) == found + expected_values(["after"])
    assert list(verify(str(directory))) == []
    before = read_indexes([str(directory)])
    reindex(str(directory), index_interval_bytes=OPTIONS["index_interval_bytes"])
    assert read_indexes([str(directory)]) == before


def count_operations(folder: Path, template: Path) -> int:
    directory = folder / "count"
    shutil.copytree(template, directory)
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch)
        append_all(directory, Progress())
    assert len(list((directory / "t-0").glob("*.log"))) > 2
    assert (directory / ".kafka_cleanshutdown").read_bytes() == MARK
    return faults.count


def die_at(directory: Path, operation: int, *, tear: bool, disk: Disk | None = None) -> Progress:
    progress = Progress()
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, kill_at=operation, tear=tear, disk=disk)
        try:
            append_all(directory, progress)
        except Killed:
            pass
        else:
            progress.flushed = APPENDS
    return progress


def run_kills(folder: Path, stride: int) -> None:
    template = make_template(folder)
    for operation in range(0, count_operations(folder, template) + 1, stride):
        for tear in (False, True):
            directory = folder / "work"
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(template, directory)
            progress = die_at(directory, operation, tear=tear)
            check_after_crash(directory, progress, kept=progress.appended)


def run_power_cuts(folder: Path, stride: int) -> None:
    template = make_template(folder)
    number = 0
    for operation in range(0, count_operations(folder, template) + 1, stride):
        for names, data in POWER_CUTS:
            number += 1
            directory, links = folder / "work", folder / f"links{number}"
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(template, directory)
            links.mkdir()
            disk = Disk(directory, links)
            progress = die_at(directory, operation, tear=False, disk=disk)
            disk.lose_power(number, names=names, data=data)
            check_after_crash(directory, progress, kept=progress.flushed)


def test_killed_at_some_operations_all_that_was_appended_is_there(tmp_path: Path) -> None:
    run_kills(tmp_path, QUICK_STRIDE)


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_killed_at_every_operation_all_that_was_appended_is_there(tmp_path: Path) -> None:
    run_kills(tmp_path, 1)


def test_losing_power_at_some_operations_all_that_was_flushed_is_there(tmp_path: Path) -> None:
    run_power_cuts(tmp_path, QUICK_STRIDE)


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_losing_power_at_every_operation_all_that_was_flushed_is_there(tmp_path: Path) -> None:
    run_power_cuts(tmp_path, 1)
