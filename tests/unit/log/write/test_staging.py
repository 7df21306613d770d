"""What a task leaves in a log directory: few files, small reports, nothing that is too large."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.errors import InvalidRowError, RecordTooLargeError
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.staged_leftovers import (
    discard_staged,
    list_staged,
    new_write_id,
    sweep_staged,
)
from spark_segmentlog.log.write.staging import StagedWrite, StagingWriter
from spark_segmentlog.log.write.stamping import header_checksum_of
from spark_segmentlog.record.write.encoder import RecordBatchEncoder

DAY_SECONDS = 24 * 60 * 60


def make_writer(
    *,
    config: SegmentConfig | None = None,
    buffer_bytes: int = 1 << 20,
    batch_size_bytes: int = 1000,
    write_id: str = "",
    task_id: int = 3,
) -> StagingWriter:
    return StagingWriter(
        write_id=write_id or new_write_id(),
        task_id=task_id,
        attempt_id=7,
        config=config or SegmentConfig(),
        encoder=RecordBatchEncoder(batch_size_bytes=batch_size_bytes),
        buffer_bytes=buffer_bytes,
    )


def rows(count: int, *, value_bytes: int = 100, timestamps: object = None) -> pa.RecordBatch:
    columns = {"value": pa.array([b"v" * value_bytes] * count, pa.binary())}
    if timestamps is not None:
        columns["timestamp"] = pa.array(timestamps, pa.int64())
    return pa.record_batch(columns)


def stage_partitions(
    directory: Path, partition_count: int, row_count: int, **settings: Any
) -> StagedWrite:
    writer = make_writer(**settings)
    slots = [
        writer.index_of(TopicPartition("t", partition), str(directory))
        for partition in range(partition_count)
    ]
    assert slots == list(range(partition_count))
    for start in range(0, row_count, 1000):
        count = min(1000, row_count - start)
        writer.write(rows(count), (np.arange(count) + start) % partition_count)
    return writer.finish()


def extents_of(staged: StagedWrite) -> list[tuple[int, int, int]]:
    return [
        (extent.partition_index, extent.offset_count, extent.size_bytes)
        for file in staged.files
        for extent in file.unpack_extents()
    ]


def test_small_partitions_share_one_file(tmp_path: Path) -> None:
    staged = stage_partitions(tmp_path, 1000, 5000)
    (file,) = staged.files
    assert os.path.getsize(file.path) == file.size_bytes
    assert [slot for slot, _, _ in extents_of(staged)] == list(range(1000))
    assert {count for _, count, _ in extents_of(staged)} == {5}
    assert sum(size for _, _, size in extents_of(staged)) == file.size_bytes
    assert header_checksum_of(file.path, file.size_bytes) == file.header_checksum


def test_reports_of_200_tasks_into_1000_partitions_are_small(tmp_path: Path) -> None:
    staged = stage_partitions(tmp_path, 1000, 100_000, buffer_bytes=1 << 20)
    assert len(extents_of(staged)) > 5_000
    assert len(staged.files) == 1
    assert 200 * len(pickle.dumps(staged)) < 100 * 1000 * 1000


def test_rows_keep_their_order_and_partitions_their_rows(tmp_path: Path) -> None:
    writer = make_writer(buffer_bytes=3000)
    for partition in range(3):
        writer.index_of(TopicPartition("t", partition), str(tmp_path))
    chance = np.random.default_rng(1)
    chosen = []
    for _ in range(20):
        slots = chance.integers(0, 3, 10)
        chosen.extend(slots.tolist())
        writer.write(rows(10), slots)
    staged = writer.finish()
    for slot in range(3):
        staged_count = sum(count for at, count, _ in extents_of(staged) if at == slot)
        assert staged_count == chosen.count(slot)


def test_a_partition_gets_its_own_file_from_a_quarter_of_a_segment(tmp_path: Path) -> None:
    config = SegmentConfig(segment_bytes=100_000)
    writer = make_writer(config=config)
    small = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    large = writer.index_of(TopicPartition("t", 1), str(tmp_path))
    writer.write(rows(10), np.full(10, small))
    writer.write(rows(1500), np.full(1500, large))
    staged = writer.finish()
    assert all(file.size_bytes <= config.segment_bytes for file in staged.files)
    slots = [{extent.partition_index for extent in file.unpack_extents()} for file in staged.files]
    assert slots == [{small}, {large}, {large}]
    assert all(len(file.unpack_extents()) == 1 for file in staged.files)


def test_a_partition_that_grows_to_a_quarter_goes_on_in_its_own_file(tmp_path: Path) -> None:
    config = SegmentConfig(segment_bytes=1_000_000)
    writer = make_writer(config=config, buffer_bytes=100_000)
    for partition in range(10):
        writer.index_of(TopicPartition("t", partition), str(tmp_path))
    for _ in range(40):
        writer.write(rows(1000), np.arange(1000) % 10)
    staged = writer.finish()
    slots = [{extent.partition_index for extent in file.unpack_extents()} for file in staged.files]
    assert sum(len(used) > 1 for used in slots) == 3
    assert sorted(min(used) for used in slots if len(used) == 1) == list(range(10))
    assert max(file.size_bytes for file in staged.files) <= config.segment_bytes


def test_an_extent_ends_where_a_segment_would_have_to_roll(tmp_path: Path) -> None:
    config = SegmentConfig(segment_ms=1000)
    writer = make_writer(config=config, batch_size_bytes=300)
    slot = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(6, timestamps=[0, 0, 1000, 1000, 1001, 2002]), np.full(6, slot))
    extents = [extent for file in writer.finish().files for extent in file.unpack_extents()]
    assert [extent.offset_count for extent in extents] == [4, 2]
    assert [extent.first_timestamp for extent in extents] == [0, 2002]
    assert [extent.largest_timestamp for extent in extents] == [1000, 2002]


def test_a_batch_that_fits_no_segment_is_refused(tmp_path: Path) -> None:
    writer = make_writer(config=SegmentConfig(segment_bytes=500))
    slot = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(1, value_bytes=600), np.full(1, slot))
    with pytest.raises(RecordTooLargeError, match=r"segment\.bytes is 500"):
        writer.finish()
    writer.abort()
    assert list(list_staged(str(tmp_path))) == []


def test_a_bad_row_is_named_by_its_number_in_the_task(tmp_path: Path) -> None:
    writer = make_writer(buffer_bytes=1000)
    slot = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(100), np.full(100, slot))
    bad = pa.record_batch(
        {
            "value": pa.array([b"v"] * 3),
            "headers": pa.array(
                [None, [], [{"key": None, "value": b"h"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    writer.write(bad, np.full(3, slot))
    with pytest.raises(InvalidRowError, match="row 102"):
        writer.finish()
    writer.abort()
    assert list(list_staged(str(tmp_path))) == []


def test_a_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    writer = make_writer()
    slot = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(0), np.empty(0, np.int64))
    staged = writer.finish()
    assert slot == 0
    assert staged.files == ()
    assert os.listdir(tmp_path) == []


def test_all_is_synced_before_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    fsync, fsync_directory = files.fsync, files.fsync_directory
    folders: list[str] = []

    def note(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def note_folder(path: str) -> None:
        folders.append(path)
        fsync_directory(path)

    monkeypatch.setattr(files, "fsync", note)
    monkeypatch.setattr(files, "fsync_directory", note_folder)
    config = SegmentConfig(segment_bytes=20_000)
    staged = stage_partitions(tmp_path, 4, 2000, config=config)
    assert len(staged.files) > 10
    assert {os.stat(file.path).st_ino for file in staged.files} == synced
    assert folders == [str(tmp_path)]


def test_many_open_files_are_closed_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_segmentlog.log.write.staging.MAX_OPEN_FILES", 2)
    config = SegmentConfig(segment_bytes=2000)
    staged = stage_partitions(tmp_path, 5, 200, config=config, buffer_bytes=4000)
    assert sum(count for _, count, _ in extents_of(staged)) == 200
    for file in staged.files:
        assert header_checksum_of(file.path, file.size_bytes) == file.header_checksum


def test_old_staging_is_swept_and_younger_is_not(tmp_path: Path) -> None:
    staged = stage_partitions(tmp_path, 1, 10)
    (tmp_path / ".segmentlog-not-one-of-ours").touch()
    path = Path(staged.files[0].path)
    mtime = path.stat().st_mtime
    sweep_staged([str(tmp_path)], now_seconds=mtime + 7 * DAY_SECONDS - 1)
    assert path.exists()
    sweep_staged([str(tmp_path)], now_seconds=mtime + 7 * DAY_SECONDS + 1)
    assert os.listdir(tmp_path) == [".segmentlog-not-one-of-ours"]


def test_staging_of_earlier_versions_of_an_application_is_swept(tmp_path: Path) -> None:
    for application, version in (("a", 1), ("a", 2), ("a", 3), ("b", 1)):
        stage_partitions(tmp_path, 1, 10, write_id=new_write_id(application, version))
    stage_partitions(tmp_path, 1, 10)
    sweep_staged([str(tmp_path)], application="a", version=2)
    assert len(list(list_staged(str(tmp_path)))) == 3


def test_a_write_is_discarded_by_its_id(tmp_path: Path) -> None:
    write_id = new_write_id()
    stage_partitions(tmp_path, 1, 10, write_id=write_id)
    stage_partitions(tmp_path, 1, 10, write_id=write_id, task_id=4)
    other = stage_partitions(tmp_path, 1, 10)
    discard_staged([str(tmp_path)], [write_id])
    assert [path for path, _ in list_staged(str(tmp_path))] == [other.files[0].path]
