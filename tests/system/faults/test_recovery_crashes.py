"""A cut that is killed, or loses power, at every file operation, and is then asked for again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog.log.upkeep.recovery import recover, reindex
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.local_log import open_log
from tests.support.fault_layer import Disk, Faults, Killed
from tests.support.scenarios import MARK, read_indexes, read_rows

CUT: dict[str, Any] = {"truncate": True, "delete_later": True, "index_interval_bytes": 200}
POWER_CUTS = [("lost", "lost"), ("kept", "lost"), ("kept", "torn"), ("lost", "torn")]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def make_damaged(folder: Path) -> Path:
    """Make a log of several segments, with bad bytes in the middle of the second."""
    template = folder / "template"
    with open_log(
        str(template), segment_bytes=700, batch_size=400, index_interval_bytes=200
    ) as log:
        for number in range(12):
            values = [f"{number}/{row}".encode() * 8 for row in range(4)]
            log.append("t", pa.record_batch({"value": pa.array(values, pa.binary())}))
    (template / ".kafka_cleanshutdown").write_bytes(MARK)
    second = sorted((template / "t-0").glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[len(data) // 2 + 80] ^= 0xFF
    second.write_bytes(data)
    assert len(list((template / "t-0").glob("*.log"))) > 3
    return template


def end_state(directory: Path) -> dict[str, bytes]:
    """Give all that a broker, or a reader, finds: what waits to be unlinked is no part of it."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and not path.name.endswith((".deleted", ".tmp"))
        and path.name not in (".lock", ".segmentlog-writer")
    }


def cut(directory: Path, operation: int, *, tear: bool = False, disk: Disk | None = None) -> int:
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, kill_at=operation, tear=tear, disk=disk)
        try:
            recover(str(directory), **CUT)
        except Killed:
            pass
    return faults.count


def fresh(folder: Path, template: Path) -> Path:
    directory = folder / "work"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(template, directory)
    return directory


def check_again(directory: Path, wanted: dict[str, bytes], operation: int) -> None:
    recover(str(directory), **CUT)
    assert end_state(directory) == wanted, operation


def test_killed_at_every_operation_a_cut_ends_as_one_that_was_not(tmp_path: Path) -> None:
    template = make_damaged(tmp_path)
    directory = fresh(tmp_path, template)
    count = cut(directory, -1)
    wanted = end_state(directory)
    assert [str(finding) for finding in verify(str(directory))] == []
    before = read_indexes([str(directory)])
    reindex(str(directory), index_interval_bytes=200)
    assert read_indexes([str(directory)]) == before
    assert sum(map(len, read_rows([str(directory)]).values())) > 0
    for operation in range(count):
        for tear in (False, True):
            directory = fresh(tmp_path, template)
            cut(directory, operation, tear=tear)
            check_again(directory, wanted, operation)


def test_losing_power_at_every_operation_a_cut_ends_as_one_that_was_not(tmp_path: Path) -> None:
    template = make_damaged(tmp_path)
    directory = fresh(tmp_path, template)
    count = cut(directory, -1)
    wanted = end_state(directory)
    number = 0
    for operation in range(count + 1):
        for names, data in POWER_CUTS:
            number += 1
            directory, links = fresh(tmp_path, template), tmp_path / f"links{number}"
            links.mkdir()
            disk = Disk(directory, links)
            cut(directory, operation, disk=disk)
            disk.lose_power(number, names=names, data=data)
            if operation == count:
                assert end_state(directory) == wanted, (operation, names, data)
            check_again(directory, wanted, operation)
