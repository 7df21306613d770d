"""Where a log starts and ends, and its high watermark."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import (
    LogBuilder,
)
from tests.support.reading import batch, build_log, offsets, open_one


def test_the_log_starts_at_the_larger_of_checkpoint_and_first_segment(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(312, 100)], [batch(412, 10)]])
    assert open_one(tmp_path).log_start_offset == 312
    builder.log_start_offsets({("t", 0): 401})
    log = open_one(tmp_path)
    assert log.log_start_offset == 401
    assert offsets(log)[:2] == [401, 402]
    builder.log_start_offsets({("t", 0): 7})
    assert open_one(tmp_path).log_start_offset == 312


def test_a_log_start_beyond_all_records_is_the_end_too(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 10)]])
    builder.log_start_offsets({("t", 0): 50})
    log = open_one(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, offsets(log)) == (50, 50, [])


def test_a_partition_without_segments_is_empty(tmp_path: Path) -> None:
    log = build_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, offsets(log)) == (0, 0, [])
    assert log.last_stable_offset() == 0
    assert log.offset_for_timestamp(0) is None
    assert log.read(0, 100).record_batches == b""


def test_the_high_watermark_is_the_checkpoints_within_the_log(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 10)]])
    assert open_one(tmp_path).high_watermark is None
    for mark, expected in [(4, 4), (10, 10), (99, 10)]:
        builder.high_watermarks({("t", 0): mark})
        assert open_one(tmp_path).high_watermark == expected
    builder.high_watermarks({("other", 0): 3})
    assert open_one(tmp_path).high_watermark is None
