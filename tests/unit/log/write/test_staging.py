"""What a task leaves in a log directory: few files, small reports, nothing that is too large."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.errors import InvalidRowError, RecordTooLargeError
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.staged_leftovers import (
    list_staged,
)
from spark_segmentlog.log.write.stamping import header_checksum_of
from spark_segmentlog.record.read.header_table import scan_headers
from tests.support.staging import extents_of, make_writer, rows, stage_partitions


def test_small_partitions_share_one_file(tmp_path: Path) -> None:
    staged = stage_partitions(tmp_path, 1000, 5000)
    (file,) = staged.files
    assert os.path.getsize(file.path) == file.size_bytes
    assert [partition_index for partition_index, _, _ in extents_of(staged)] == list(range(1000))
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
        indexes = chance.integers(0, 3, 10)
        chosen.extend(indexes.tolist())
        writer.write(rows(10), indexes)
    staged = writer.finish()
    for partition_index in range(3):
        staged_count = sum(count for at, count, _ in extents_of(staged) if at == partition_index)
        assert staged_count == chosen.count(partition_index)


def test_a_batch_that_fits_no_segment_is_refused(tmp_path: Path) -> None:
    writer = make_writer(config=SegmentConfig(segment_bytes=500))
    partition_index = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(1, value_bytes=600), np.full(1, partition_index))
    with pytest.raises(RecordTooLargeError, match=r"segment\.bytes is 500"):
        writer.finish()
    writer.abort()
    assert list(list_staged(str(tmp_path))) == []


def test_a_bad_row_is_named_by_its_number_in_the_task(tmp_path: Path) -> None:
    writer = make_writer(buffer_bytes=1000)
    partition_index = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(100), np.full(100, partition_index))
    bad = pa.record_batch(
        {
            "value": pa.array([b"v"] * 3),
            "headers": pa.array(
                [None, [], [{"key": None, "value": b"h"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )
    writer.write(bad, np.full(3, partition_index))
    with pytest.raises(InvalidRowError, match="row 102"):
        writer.finish()
    writer.abort()
    assert list(list_staged(str(tmp_path))) == []


def test_a_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    writer = make_writer()
    partition_index = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(0), np.empty(0, np.int64))
    staged = writer.finish()
    assert partition_index == 0
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


def test_offsets_count_through_all_that_a_task_stages_of_a_partition(tmp_path: Path) -> None:
    writer = make_writer(buffer_bytes=10_000)
    indexes = [writer.index_of(TopicPartition("t", number), str(tmp_path)) for number in range(2)]
    for count in (300, 300, 50):
        writer.write(rows(count), np.where(np.arange(count) % 3, *indexes))
    staged = writer.finish()
    next_offsets = [0, 0]
    for file in staged.files:
        table = scan_headers(np.fromfile(file.path, np.uint8), 0, file.size_bytes, file_position=0)
        first = 0
        for extent in file.unpack_extents():
            batches = slice(first, first + extent.batch_count)
            first = batches.stop
            assert table.base_offset[batches][0] == next_offsets[extent.partition_index]
            ends = table.last_offset[batches] + 1
            assert table.base_offset[batches][1:].tolist() == ends[:-1].tolist()
            next_offsets[extent.partition_index] = int(ends[-1])
    assert next_offsets == [433, 217]
