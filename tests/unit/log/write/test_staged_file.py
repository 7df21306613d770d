"""One staged file: the extents in it, and where each has to end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.stamping import header_checksum_of
from tests.support.staging import extents_of, make_writer, rows, stage_partitions


def test_a_partition_gets_its_own_file_from_a_quarter_of_a_segment(tmp_path: Path) -> None:
    config = SegmentConfig(segment_bytes=100_000)
    writer = make_writer(config=config)
    small = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    large = writer.index_of(TopicPartition("t", 1), str(tmp_path))
    writer.write(rows(10), np.full(10, small))
    writer.write(rows(1500), np.full(1500, large))
    staged = writer.finish()
    assert all(file.size_bytes <= config.segment_bytes for file in staged.files)
    used = [{extent.partition_index for extent in file.unpack_extents()} for file in staged.files]
    assert used == [{small}, {large}, {large}]
    assert all(len(file.unpack_extents()) == 1 for file in staged.files)


def test_a_partition_that_grows_to_a_quarter_goes_on_in_its_own_file(tmp_path: Path) -> None:
    config = SegmentConfig(segment_bytes=1_000_000)
    writer = make_writer(config=config, buffer_bytes=100_000)
    for partition in range(10):
        writer.index_of(TopicPartition("t", partition), str(tmp_path))
    for _ in range(40):
        writer.write(rows(1000), np.arange(1000) % 10)
    staged = writer.finish()
    used = [{extent.partition_index for extent in file.unpack_extents()} for file in staged.files]
    assert sum(len(indexes) > 1 for indexes in used) == 3
    assert sorted(min(indexes) for indexes in used if len(indexes) == 1) == list(range(10))
    assert max(file.size_bytes for file in staged.files) <= config.segment_bytes


def test_an_extent_ends_where_a_segment_would_have_to_roll(tmp_path: Path) -> None:
    config = SegmentConfig(segment_ms=1000)
    writer = make_writer(config=config, batch_size_bytes=300)
    partition_index = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    writer.write(rows(6, timestamps=[0, 0, 1000, 1000, 1001, 2002]), np.full(6, partition_index))
    extents = [extent for file in writer.finish().files for extent in file.unpack_extents()]
    assert [extent.offset_count for extent in extents] == [4, 2]
    assert [extent.first_timestamp for extent in extents] == [0, 2002]
    assert [extent.largest_timestamp for extent in extents] == [1000, 2002]


def test_many_open_files_are_closed_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_segmentlog.log.write.staging.MAX_OPEN_FILES", 2)
    config = SegmentConfig(segment_bytes=2000)
    staged = stage_partitions(tmp_path, 5, 200, config=config, buffer_bytes=4000)
    assert sum(count for _, count, _ in extents_of(staged)) == 200
    for file in staged.files:
        assert header_checksum_of(file.path, file.size_bytes) == file.header_checksum


def test_a_file_that_grows_has_as_much_again_laid_out_and_gives_back_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out: list[tuple[int, int]] = []
    lay_out = files.lay_out

    def noted(descriptor: int, position: int, length: int) -> None:
        laid_out.append((position, length))
        lay_out(descriptor, position, length)

    monkeypatch.setattr(files, "lay_out", noted)
    monkeypatch.setattr("spark_segmentlog.log.write.staged_file.MAX_LAID_OUT_BYTES", 60_000)
    writer = make_writer(buffer_bytes=10_000)
    partition_index = writer.index_of(TopicPartition("t", 0), str(tmp_path))
    sizes_bytes = []
    for count in [200] * 40:
        writer.write(rows(count), np.full(count, partition_index))
        sizes_bytes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    (file,) = writer.finish().files

    first, *later = laid_out
    assert first == (sizes_bytes[0], sizes_bytes[0])
    ends = [position + length for position, length in laid_out]
    assert [position for position, _ in later] == ends[:-1]
    assert all(length <= 60_000 for _, length in laid_out)
    assert len(later) < len(sizes_bytes) / 2
    assert file.size_bytes == sizes_bytes[-1] < ends[-1]
    status = Path(file.path).stat()
    assert status.st_size == file.size_bytes
    assert status.st_blocks * 512 < file.size_bytes + 16_384


def test_what_is_written_at_once_has_nothing_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out: list[int] = []
    monkeypatch.setattr(files, "lay_out", lambda *arguments: laid_out.append(1))
    stage_partitions(tmp_path, 1, 1000)
    assert laid_out == []
