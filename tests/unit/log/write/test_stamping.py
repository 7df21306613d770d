"""Staged files as the driver takes them up: compared with their report, then stamped."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from spark_segmentlog.errors import (
    StagingError,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write import stamping
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.stamping import StagedHeaders
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.committing import commit
from tests.support.scenarios import Writing, read_rows, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_last_leader_epoch_is_used_and_never_another(directory: str) -> None:
    log = LogBuilder(directory)
    log.partition("t", 0, [[v2_batch([RecordSpec(value=b"x")])]], leader_epochs=[(0, 0), (7, 1)])
    log.partition("t", 1, [[v2_batch([RecordSpec(value=b"x")] * 3)]], leader_epochs=[])
    before = (Path(directory) / "t-0" / "leader-epoch-checkpoint").read_bytes()
    commit(directory, {T0: 1, T1: 1})
    assert (Path(directory) / "t-0" / "leader-epoch-checkpoint").read_bytes() == before
    assert (Path(directory) / "t-1" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    data = (Path(directory) / "t-0" / "00000000000000000000.log").read_bytes()
    last = data[len(v2_batch([RecordSpec(value=b"x")])) :]
    assert int.from_bytes(last[:8], "big") == 1
    assert int.from_bytes(last[12:16], "big") == 7


def test_staged_files_that_differ_from_their_report_stop_the_commit(directory: str) -> None:
    request = stage([directory], [Writing({T0: 50})])
    path = Path(request.staged[0].files[0].path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[20] ^= 1
    for data, message in (
        (whole[:-1], "bytes, its task reported"),
        (bytes(flipped), "checksum over the batch headers"),
        (bytes(len(whole)), "no record batch"),
        (None, "missing"),
    ):
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        with pytest.raises(StagingError, match=message):
            commit_staged_batches(request)
    assert set(os.listdir(directory)) == {".lock", ".segmentlog-writer"}


@pytest.fixture
def stamped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many batches of a file are stamped, for each file that is."""
    counts: list[int] = []
    write_stamps = stamping._write_stamps

    def noted(descriptor: int, headers: StagedHeaders, stamps: npt.NDArray[np.void]) -> None:
        counts.append(len(stamps))
        write_stamps(descriptor, headers, stamps)

    monkeypatch.setattr(stamping, "_write_stamps", noted)
    return counts


def offsets_of(directory: str, topic_partition: TopicPartition) -> list[int]:
    return [offset for offset, _, _ in read_rows([directory])[topic_partition]]


def test_a_file_that_has_its_final_offsets_is_left_as_it_is(
    directory: str, stamped: list[int]
) -> None:
    commit_staged_batches(stage([directory], [Writing({T0: 50}), Writing({T1: 50})]))
    assert stamped == []
    assert offsets_of(directory, T0) == offsets_of(directory, T1) == list(range(50))
    commit_staged_batches(stage([directory], [Writing({T0: 50}), Writing({T1: 50})]))
    assert len(stamped) == 2
    assert offsets_of(directory, T0) == offsets_of(directory, T1) == list(range(100))


def test_offsets_that_came_after_the_task_are_written_over(
    directory: str, stamped: list[int]
) -> None:
    request = stage([directory], [Writing({T0: 50})])
    path = Path(request.staged[0].files[0].path)
    data = bytearray(path.read_bytes())
    data[7] = 3
    path.write_bytes(data)
    commit_staged_batches(request)
    assert len(stamped) == 1
    assert offsets_of(directory, T0) == list(range(50))


def test_stamps_whose_sync_failed_are_written_again(
    directory: str, stamped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(directory, {T0: 3})
    request = stage([directory], [Writing({T0: 50})])
    stamped.clear()

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(files, "fsync", fail)
        with pytest.raises(StagingError):
            commit_staged_batches(request)
    commit_staged_batches(request)
    assert len(stamped) == 2
    assert offsets_of(directory, T0) == list(range(53))
