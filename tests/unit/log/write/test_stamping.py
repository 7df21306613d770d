"""Staged files as the driver takes them up: compared with their report, then stamped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import (
    StagingError,
)
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.committing import commit
from tests.support.scenarios import Writing, stage

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
