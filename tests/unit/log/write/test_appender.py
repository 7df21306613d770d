"""Appending to one partition: rolling, flushing, and disks that fail."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog.errors import (
    InvalidRowError,
    SegmentLogError,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import OffsetRange
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.appending import T0, records, values_of
from tests.support.fault_layer import Faults
from tests.support.noting import note_calls
from tests.support.scenarios import read_indexes, read_rows

SMALL: dict[str, Any] = {"segment_bytes": 2000, "batch_size": 300, "index_interval_bytes": 200}


def test_segments_roll_and_their_indexes_equal_rebuilt_ones(directory: str) -> None:
    for _ in range(3):
        with open_log(directory, **SMALL) as log:
            for number in range(40):
                stamps = pa.array([number * 37 % 100, number])
                log.append("t", records(b"x" * 40, b"y" * 40, timestamp=stamps))
    logs = sorted((Path(directory) / "t-0").glob("*.log"))
    assert len(logs) > 5
    assert max(path.stat().st_size for path in logs) <= 2000
    assert list(verify(directory)) == []
    from spark_segmentlog.log.upkeep.recovery import reindex

    before = read_indexes([directory])
    reindex(directory, index_interval_bytes=200)
    assert read_indexes([directory]) == before


def test_old_segments_roll_by_their_first_timestamp(directory: str) -> None:
    with open_log(directory, segment_ms=1000) as log:
        for stamp in (5000, 5500, 6000, 6001, 6500):
            log.append("t", records(b"v", timestamp=pa.array([stamp])))
    names = [path.name for path in sorted((Path(directory) / "t-0").glob("*.log"))]
    assert names == ["00000000000000000000.log", "00000000000000000003.log"]


def test_a_full_index_rolls(directory: str) -> None:
    options: dict[str, Any] = {"segment_index_bytes": 48, "index_interval_bytes": 1}
    with open_log(directory, **options) as log:
        for number in range(12):
            log.append("t", records(b"v" * 10, timestamp=pa.array([number])))
    for path in (Path(directory) / "t-0").glob("*index"):
        assert path.stat().st_size <= 48
    assert list(verify(directory)) == []


def test_an_offset_that_an_index_cannot_say_rolls(directory: str) -> None:
    near = 2**31 - 5
    first = [v2_batch([RecordSpec(timestamp_ms=1)], base_offset=offset) for offset in (0, near)]
    LogBuilder(directory).partition("t", 0, [first])
    with open_log(directory) as log:
        ranges = [
            found
            for _ in range(3)
            for found in log.append("t", records(b"a", b"b", b"c", timestamp=pa.array([1] * 3)))
        ]
    assert [found.start_offset - near for found in ranges] == [1, 4, 7]
    assert sorted(path.name for path in Path(directory, "t-0").glob("*.log")) == [
        f"{base:020}.log" for base in (0, 2**31 - 1)
    ]
    assert [offset for offset, _, _ in read_rows([directory])[T0]] == [
        0,
        *range(near, near + 10),
    ]
    assert list(verify(directory)) == []


def count_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    synced: list[int] = []
    note_calls(monkeypatch, files, "fsync", synced.append)
    return synced


def test_flush_messages_syncs_after_so_many(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(directory, flush_messages=3) as log:
        log.append("t", records(b"v"))
        synced = count_syncs(monkeypatch)
        log.append("t", records(b"v"))
        assert synced == []
        log.append("t", records(b"v"))
        assert len(synced) == 1
        log.append("t", records(b"v", b"v"))
        assert len(synced) == 1
        log.flush()
        assert len(synced) == 2


def test_flush_ms_syncs_without_another_append(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = count_syncs(monkeypatch)
    with open_log(directory, flush_ms=20) as log:
        log.append("t", records(b"v"))
        log.append("t", records(b"v"))
        before = len(synced) - 1
        deadline = time.monotonic() + 60
        while len(synced) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(synced) > before


def test_a_disk_that_takes_few_bytes_at_a_time_gets_them_all(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:7], at))
    written = [b"%d" % number * 40 for number in range(30)]
    with open_log(directory, **SMALL) as log:
        for value in written:
            log.append("t", records(value))
    assert values_of(directory) == written
    assert list(verify(directory, deep=True)) == []


@pytest.mark.parametrize("taken", [0, 7, 70, 150])
def test_a_disk_that_fills_up_within_a_batch_leaves_none_of_it(
    directory: str, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    pwrite, left = os.pwrite, [taken]

    def take_some(descriptor: int, data: memoryview, position: int) -> int:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = pwrite(descriptor, data[: min(7, left[0])], position)
        left[0] -= count
        return count

    with open_log(directory) as log:
        log.append("t", records(b"before"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", take_some)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                log.append("t", records(b"x" * 90))
        log.append("t", records(b"after"))
    assert values_of(directory) == [b"before", b"after"]
    assert list(verify(directory)) == []


@pytest.mark.parametrize("error_code", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_leaves_whole_batches_and_the_log_usable(
    directory: str, error_code: int
) -> None:
    """Fail at each operation of an append that rolls twice: all of it is there, or nothing."""
    operation = 0
    while True:
        path = os.path.join(directory, str(operation))
        with open_log(path, **SMALL) as log:
            log.append("t", records(*[b"before"] * 5))
            with pytest.MonkeyPatch.context() as patch:
                faults = Faults(patch, fail_at=operation, error_code=error_code)
                try:
                    log.append("t", records(*[b"x" * 90] * 40))
                    expected = 45
                except OSError:
                    expected = 5
            assert log.log_end_offset("t", 0) == expected
            log.append("t", records(b"after"))
        assert len(values_of(path)) == expected + 1
        assert list(verify(path)) == []
        if faults.count <= operation:
            break
        operation += 1
    assert operation > 10


def test_a_failed_flush_is_not_tried_again(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(directory)
    log.append("t", records(b"v"))
    with monkeypatch.context() as patch:

        def broken(descriptor: int) -> None:
            raise OSError(errno.EIO, "broken")

        patch.setattr(files, "fsync", broken)
        with pytest.raises(OSError, match="broken"):
            log.flush()
    with pytest.raises(SegmentLogError, match="takes no more"):
        log.append("t", records(b"v"))
    log.close()
    with open_log(directory) as again:
        assert again.append("t", records(b"w")) == [OffsetRange(T0, 1, 2)]


def test_an_append_refuses_times_before_1970(directory: str) -> None:
    with open_log(directory) as log:
        with pytest.raises(InvalidRowError, match="column timestamp, row 1: -5000 ms"):
            log.append("t", records(b"a", b"b", timestamp=pa.array([5, -5000])))
        log.append("t", records(b"c", timestamp=pa.array([-1])))
    assert values_of(directory) == [b"c"]
