"""Where a log starts and ends, lookups by offset and time, indexes that mislead, fetches."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import (
    LogBuilder,
    segment_file_name,
)
from tests.support.reading import batch, offsets, open_one


def test_a_reader_of_a_partition_directory_looks_for_checkpoints_in_its_parent(
    tmp_path: Path,
) -> None:
    builder = LogBuilder(tmp_path)
    directory = builder.partition("t", 0, [[batch(0, 10)]])
    builder.log_start_offsets({("t", 0): 4})
    assert offsets(open_one(directory)) == [4, 5, 6, 7, 8, 9]
    assert offsets(open_one(directory / segment_file_name(0))) == [4, 5, 6, 7, 8, 9]
