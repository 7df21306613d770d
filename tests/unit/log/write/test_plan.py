"""Where extents go: which become segments, which are copied, and where a segment is full."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.log.directory.commit_steps import AdoptStep, CopyStep
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.append_state import absent_append_state
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.plan import StagedSpan, plan_partition
from spark_segmentlog.log.write.staged_file import StagedExtent
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.committing import commit, keys, segment_names
from tests.support.scenarios import START_MS, Writing, read_rows, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_large_staged_file_becomes_a_segment_without_a_copy(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SegmentConfig(segment_bytes=128 * 1024)
    tasks = [Writing({T0: 1200}) for _ in range(8)]
    request = stage(
        [directory], tasks, config=config, new_partition_count=1, batch_size_bytes=16 * 1024
    )
    inodes = {os.stat(file.path).st_ino for write in request.staged for file in write.files}
    assert len(inodes) == 8

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("bytes were copied")

    written: list[int] = []
    write_all = files.write_all

    def note(descriptor: int, data: bytes, position: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".staged"):
            written.append(len(data))
        write_all(descriptor, data, position)

    monkeypatch.setattr(files, "copy_range", refuse)
    monkeypatch.setattr(files, "write_all", note)
    commit_staged_batches(request)
    logs = list((Path(directory) / "t-0").glob("*.log"))
    assert {path.stat().st_ino for path in logs} == inodes
    # The first task wrote final offsets.
    batches = sum(file.batch_count for write in request.staged[1:] for file in write.files)
    assert written == [16] * batches
    assert len(read_rows([directory])[T0]) == 9600
    assert list(verify(directory, deep=True)) == []


def test_the_first_file_of_a_new_partition_becomes_its_segment_and_what_follows_is_copied_behind(
    directory: str,
) -> None:
    tasks = [Writing({T0: 30}), Writing({T0: 20})]
    config = SegmentConfig()
    request = stage([directory], tasks, config=config, new_partition_count=1)
    first, _ = (os.stat(write.files[0].path) for write in request.staged)
    commit_staged_batches(request)
    assert segment_names(directory, T0) == [f"{0:020d}.log"]
    segment = os.stat(Path(directory) / "t-0" / f"{0:020d}.log")
    assert (segment.st_ino, segment.st_nlink) == (first.st_ino, 1)
    commit(directory, {T0: 5}, config=config)
    assert segment_names(directory, T0) == [f"{0:020d}.log"]
    assert len(keys(directory, T0)) == 55
    assert list(verify(directory, deep=True)) == []


@pytest.mark.parametrize(
    ("segment_mib", "staged_mib", "is_renamed"),
    [(1024, 32, True), (1024, 31, False), (64, 16, True), (64, 15, False)],
)
def test_a_file_after_a_segment_is_renamed_from_a_size_on(
    segment_mib: int, staged_mib: int, is_renamed: bool
) -> None:
    extent = StagedExtent(
        partition_index=0,
        size_bytes=staged_mib << 20,
        batch_count=1,
        offset_count=10,
        first_timestamp=START_MS,
        largest_timestamp=START_MS,
    )
    placed = [
        StagedSpan(
            extent=extent,
            staged_path=f"/logs/{number}",
            position=0,
            inode=number,
            first_header=bytes(61),
            header_checksum=0,
            is_whole_file=True,
        )
        for number in range(2)
    ]
    planned = plan_partition(
        absent_append_state("/logs", T0),
        placed,
        config=SegmentConfig(segment_bytes=segment_mib << 20),
        exists=False,
        overwrite=False,
        partition_metadata=None,
        now_ms=START_MS,
    )
    assert planned.base_offsets == (0, 10)
    kinds = [AdoptStep, AdoptStep if is_renamed else CopyStep]
    assert [type(step) for step in planned.plan.steps] == kinds


def test_small_extents_fill_segments_and_roll_where_they_are_full(directory: str) -> None:
    config = SegmentConfig(segment_bytes=3000, index_interval_bytes=100)
    for number in range(12):
        commit(directory, {T0: 10}, config=config, label=f"{number}:", new_partition_count=1)
    sizes = [
        os.path.getsize(Path(directory) / "t-0" / name) for name in segment_names(directory, T0)
    ]
    assert len(sizes) > 2
    assert max(sizes) <= 3000
    assert len(keys(directory, T0)) == 120
    assert list(verify(directory)) == []


def test_a_segment_that_is_too_old_is_rolled(directory: str) -> None:
    config = SegmentConfig(segment_ms=20)
    commit(directory, {T0: 7}, config=config)
    assert len(segment_names(directory, T0)) == 2
    commit(directory, {T0: 1}, config=config)
    assert len(segment_names(directory, T0)) == 2
    assert list(verify(directory)) == []


def test_an_offset_that_an_index_cannot_say_rolls(directory: str) -> None:
    near = 2**31 - 5
    first = [
        v2_batch([RecordSpec(timestamp_ms=START_MS)], base_offset=offset) for offset in (0, near)
    ]
    LogBuilder(directory).partition("t", 0, [first])
    for _ in range(3):
        commit(directory, {T0: 3}, config=SegmentConfig())
    assert segment_names(directory, T0) == [f"{base:020}.log" for base in (0, 2**31 - 1)]
    found = [offset for offset, _, _ in read_rows([directory])[T0]]
    assert found == [0, *range(near, near + 10)]
    assert list(verify(directory)) == []
