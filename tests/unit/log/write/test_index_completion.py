"""Entries of index files as they lie on disk, byte for byte: numbers are big-endian.

A time entry is the timestamp in 8 bytes and the offset relative to the segment's in 4, an offset
entry the relative offset in 4 and the position in 4, whatever way a writer comes to write them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.recovery import reindex
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    time_index_bytes,
    v2_batch,
)
from tests.support.cleaning import split_log
from tests.support.committing import commit
from tests.support.scenarios import Writing, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

T = 0x018B_CFE5_6800
BASE = 1000


def append(directory: Path, *timestamps_ms: int) -> None:
    """Append batches of one record, of about 70 bytes each."""
    with open_log(str(directory), index_interval_bytes=100) as log:
        for timestamp_ms in timestamps_ms:
            columns = {"value": pa.array([b"v"]), "timestamp": pa.array([timestamp_ms])}
            log.append("t", pa.record_batch(columns))


def index_hex(directory: Path, suffix: str, base_offset: int = BASE) -> str:
    return (directory / "t-0" / f"{base_offset:020d}{suffix}").read_bytes().hex(" ", 4)


def test_entries_of_an_append_and_those_after_them(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec([], base_offset=BASE)])
    append(tmp_path, T, T + 1, T + 2, T + 3)
    # The batch after the first 100 bytes, and the largest timestamp at the end.
    expected = "0000018b cfe56802 00000002 0000018b cfe56803 00000003"
    assert index_hex(tmp_path, ".timeindex") == expected
    size_bytes = (tmp_path / "t-0" / f"{BASE:020d}.log").stat().st_size // 4
    assert index_hex(tmp_path, ".index") == f"00000002 {2 * size_bytes:08x}"
    append(tmp_path, T + 4, T + 5)
    expected = "0000018b cfe56802 00000002 0000018b cfe56804 00000004 0000018b cfe56805 00000005"
    assert index_hex(tmp_path, ".timeindex") == expected


def test_entries_made_anew(tmp_path: Path) -> None:
    far = BASE + 0x0102_0304
    batches = [
        v2_batch([RecordSpec(value=b"v" * 0x0205, timestamp_ms=T)], base_offset=BASE),
        v2_batch([RecordSpec(value=b"v", timestamp_ms=0x0102_0304_0506_0708)], base_offset=far),
    ]
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [SegmentSpec(batches, index=False, time_index=False, base_offset=BASE)])
    reindex(str(tmp_path), index_interval_bytes=100)
    assert index_hex(tmp_path, ".timeindex") == "01020304 05060708 01020304"
    assert index_hex(tmp_path, ".index") == f"01020304 {len(batches[0]):08x}"


def test_entries_of_a_commit(tmp_path: Path) -> None:
    config = SegmentConfig(index_interval_bytes=100)
    partition = TopicPartition("t", 0)
    for _ in range(2):
        request = stage([str(tmp_path)], [Writing({partition: 40})], config=config)
        commit_staged_batches(request)
    batches = split_log((tmp_path / "t-0" / f"{0:020d}.log").read_bytes())
    data = (tmp_path / "t-0" / f"{0:020d}.timeindex").read_bytes()
    assert data == time_index_bytes(batches, 0, interval_bytes=100)
    # 2023-11-14T22:13:20 and some ms.
    assert data[:7].hex() == "0000018bcfe568"


def test_timestamps_in_the_time_index_are_those_of_records(directory: str) -> None:
    commit(directory, {T0: 40}, config=SegmentConfig(index_interval_bytes=100))
    data = (Path(directory) / "t-0" / "00000000000000000000.timeindex").read_bytes()
    entries = np.frombuffer(data, np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
    assert len(entries)
    assert set((entries["timestamp"] - 1_700_000_000_000).tolist()) <= set(range(50))
