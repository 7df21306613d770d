"""Where a log goes on after bytes that are no good batch."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog.errors import CorruptRecordError, CrcMismatchError, InvalidBatchError
from spark_segmentlog.log.segment.scanner import ScanOptions, SegmentScanner
from spark_segmentlog.testing.builder import (
    RecordSpec,
    compress,
    legacy_message,
    legacy_wrapper,
    v2_batch,
    v2_record,
)
from tests.support.reading import (
    batch,
    build_log,
    flip_bit,
    log_file,
    offsets,
    open_one,
    skipping,
)


def test_a_dirty_batch_in_the_middle_is_an_error_or_is_skipped_alone(tmp_path: Path) -> None:
    log = build_log(
        tmp_path, [batch(base, 2, crc=1 if base == 4 else None) for base in range(0, 10, 2)]
    )
    with pytest.raises(CrcMismatchError, match="base offset 4"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 1, 2, 3, 6, 7, 8, 9]
    size = len(batch(0, 2))
    assert [(skipped_range.position, skipped_range.length) for skipped_range in skipped] == [
        (2 * size, size)
    ]
    assert "crc mismatch" in skipped[0].reason
    assert skipped[0].path == log_file(log)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(v2_batch([RecordSpec()] * 2, base_offset=2, count=3), id="a record too many"),
        pytest.param(v2_batch([RecordSpec()] * 3, base_offset=2, count=2), id="a record too few"),
        pytest.param(
            v2_batch([v2_record(RecordSpec(), header_count=-1)], base_offset=2), id="headers"
        ),
        pytest.param(legacy_message(1, offset=2, codec="gzip"), id="a wrapper of nothing"),
        pytest.param(legacy_wrapper(1, b"", offset=2, codec="gzip"), id="an empty wrapper"),
        pytest.param(
            legacy_wrapper(
                0,
                legacy_wrapper(0, legacy_message(0, offset=2), offset=2, codec="gzip"),
                offset=2,
                codec="gzip",
            ),
            id="a wrapper in a wrapper",
        ),
        pytest.param(
            legacy_wrapper(1, legacy_message(0, offset=0), offset=2, codec="gzip"),
            id="another format inside",
        ),
        pytest.param(
            legacy_message(
                1, offset=2, attributes=4, value=compress("zstd", legacy_message(1, offset=0))
            ),
            id="zstd in an old format",
        ),
    ],
)
def test_an_entry_whose_checksum_is_right_and_whose_content_is_not_is_skipped_alone(
    tmp_path: Path, bad: bytes
) -> None:
    log = build_log(tmp_path, [batch(0, 2), bad, batch(5, 2)])
    place = rf"0\.log, position {len(batch(0, 2))}, base offset \d+, offsets 2 to 4 are missing\)"
    with pytest.raises(CorruptRecordError, match=place):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 1, 5, 6]
    assert [(skipped_range.position, skipped_range.length) for skipped_range in skipped] == [
        (len(batch(0, 2)), len(bad))
    ]


def test_a_length_that_is_too_large_does_not_swallow_what_follows(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0), batch(1), batch(2), batch(3)])
    flip_bit(log_file(log), len(batch(0)) + 8, 0x40)
    with pytest.raises(InvalidBatchError, match="good batches among them"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 2, 3]
    assert [(skipped_range.position, skipped_range.length) for skipped_range in skipped] == [
        (len(batch(0)), len(batch(1)))
    ]


def test_a_length_that_is_slightly_wrong_costs_one_batch(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0), batch(1), batch(2), batch(3)])
    flip_bit(log_file(log), len(batch(0)) + 11, 0x01)
    with pytest.raises(CorruptRecordError):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 2, 3]
    assert sum(skipped_range.length for skipped_range in skipped) == len(batch(1))


def test_rubbish_between_batches_is_skipped_and_told(tmp_path: Path) -> None:
    rubbish = b"\xde\xad\xbe\xef" * 20
    log = build_log(tmp_path, [batch(0, 2), rubbish, batch(2, 2)])
    with pytest.raises(InvalidBatchError, match="magic"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 1, 2, 3]
    assert [(skipped_range.position, skipped_range.length) for skipped_range in skipped] == [
        (len(batch(0, 2)), len(rubbish))
    ]


def test_rubbish_at_the_end_of_a_clean_log_is_an_error_and_is_told_when_skipped(
    tmp_path: Path,
) -> None:
    log = build_log(tmp_path, [batch(0, 2), b"\xde\xad\xbe\xef" * 20])
    with pytest.raises(InvalidBatchError):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 1]
    assert [(skipped_range.position, skipped_range.length) for skipped_range in skipped] == [
        (len(batch(0, 2)), 80)
    ]


def test_later_segments_are_read_when_an_earlier_one_is_bad(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0), b"\xff" * 100], [batch(3)], [batch(4)])
    with pytest.raises(InvalidBatchError):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 3, 4]
    assert [skipped_range.length for skipped_range in skipped] == [100]


def test_a_huge_length_in_a_sparse_file_takes_no_memory(tmp_path: Path) -> None:
    header = bytearray(batch(0))
    header[8:12] = struct.pack(">i", 300_000_000)
    log = build_log(tmp_path, [bytes(header)], clean=True)
    with open(log_file(log), "r+b") as file:
        file.truncate(300_000_012)
    scanner = SegmentScanner(log.topic_partition, ScanOptions(columns=("offset",)))
    with pytest.raises(InvalidBatchError, match="300000012 bytes with a wrong checksum"):
        list(scanner.scan(log.segments[0]))
    assert len(scanner._buffer.array) < 10_000_000


@pytest.mark.parametrize("flipped", range(3))
def test_one_bit_flip_anywhere_costs_at_most_its_own_batch(tmp_path: Path, flipped: int) -> None:
    """Every byte of one batch of three, one after the other."""
    size = len(batch(0, 2))
    log = build_log(tmp_path, [batch(0, 2), batch(2, 2), batch(4, 2)])
    path = log_file(log)
    others = [offset for offset in range(6) if offset // 2 != flipped]
    for at in range(size):
        # Base offset and leader epoch lie outside of the checksum.
        if 8 <= at < 12 or at >= 16:
            flip_bit(path, flipped * size + at)
            bad = open_one(tmp_path, skip_corrupt=True)
            assert skipping(bad)[0] == others, at
            flip_bit(path, flipped * size + at)
    assert offsets(log) == list(range(6))


def test_bad_batches_and_rubbish_next_to_each_other_cost_only_themselves(tmp_path: Path) -> None:
    """The header of a bad batch, which tells of huge offsets, hides no later batch."""
    lying = batch(2, crc=1, last_offset_delta=2**30)
    log = build_log(tmp_path, [batch(0, 2), lying, b"\xff" * 50, batch(3, 2)])
    rows, skipped = skipping(log)
    assert rows == [0, 1, 3, 4]
    assert sum(skipped_range.length for skipped_range in skipped) == len(lying) + 50


def test_cut_ranges_of_one_segment_report_bad_bytes_together_at_least_once(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 2), batch(2, 2), b"\xff" * 50, batch(6, 2), batch(8, 2)])
    reported = [
        skipping(open_one(tmp_path), start=start, end=end)[1] for start, end in [(0, 7), (7, 10)]
    ]
    assert [len(ranges) for ranges in reported] == [1, 0]
    assert skipping(log)[0] == [0, 1, 2, 3, 6, 7, 8, 9]
