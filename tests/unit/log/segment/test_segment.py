"""Framing, gaps, tails and corruption of one segment: the exact rows that survive."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import pytest

from spark_segmentlog.errors import CorruptRecordError, CrcMismatchError, InvalidBatchError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.index_trust import offset_beyond_end
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.scanner import ScanOptions, SegmentScanner
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import WalkOptions
from spark_segmentlog.testing.builder import (
    RecordSpec,
    SegmentSpec,
    compress,
    control_batch,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    segment_file_name,
    v2_batch,
    v2_record,
)
from tests.support.reading import (
    batch,
    build_log,
    column,
    offsets,
    open_one,
    scan_options,
    skipping,
)


def _file(log: PartitionLog, base_offset: int = 0) -> str:
    return log.directory + "/" + segment_file_name(base_offset)


def _flip(path: str, position: int, bit: int = 1) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ bit]))


# Offsets


def test_a_batch_without_records_gives_no_row_and_is_stepped_over(tmp_path: Path) -> None:
    empty = v2_batch([], base_offset=100, last_offset_delta=9, base_timestamp=-1, max_timestamp=-1)
    log = build_log(tmp_path, SegmentSpec([empty, batch(110, 2)], base_offset=100))
    assert offsets(log) == [110, 111]
    assert offsets(log, start=105) == [110, 111]
    assert log.log_end_offset == 112


def test_the_end_of_a_log_of_one_empty_batch_is_behind_it(tmp_path: Path) -> None:
    empty = v2_batch([], base_offset=100, last_offset_delta=9)
    log = build_log(tmp_path, SegmentSpec([empty], base_offset=100))
    assert (offsets(log), log.log_end_offset) == ([], 110)


def test_next_offset_comes_from_the_header_when_the_last_records_were_removed(
    tmp_path: Path,
) -> None:
    records = [RecordSpec(value=b"v", offset_delta=delta) for delta in (0, 2, 4)]
    compacted = v2_batch(records, base_offset=10, last_offset_delta=9)
    log = build_log(tmp_path, SegmentSpec([compacted], base_offset=10))
    assert log.log_end_offset == 20
    assert offsets(log, start=15) == []
    two = build_log(tmp_path / "two", SegmentSpec([compacted, batch(20)], base_offset=10))
    assert offsets(two, start=15) == [20]


def test_an_offset_in_the_removed_tail_of_a_segment_reads_on_in_the_next(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v", offset_delta=3)]
    last = v2_batch(records, base_offset=8737, last_offset_delta=10)
    log = build_log(tmp_path, SegmentSpec([last], base_offset=0), [batch(8748, 2)])
    assert offsets(log, start=8745) == [8748, 8749]
    assert log.read(8745, 1).next_offset == 8748
    assert log.read(8748, 1).next_offset == 8750


def test_offsets_within_a_batch_are_its_records_deltas(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v", offset_delta=delta) for delta in (1, 3, 7, 9)]
    log = build_log(
        tmp_path,
        SegmentSpec([v2_batch(records, base_offset=100, last_offset_delta=9)], base_offset=100),
    )
    assert offsets(log) == [101, 103, 107, 109]
    assert offsets(log, start=103, end=108) == [103, 107]
    assert log.log_end_offset == 110


def test_an_empty_segment_ends_at_its_base_offset(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5)], SegmentSpec([], base_offset=7))
    assert log.log_end_offset == 7
    assert offsets(log) == [0, 1, 2, 3, 4]


def test_ranges_are_exact_across_segments(tmp_path: Path) -> None:
    log = build_log(tmp_path, *[[batch(base, 5), batch(base + 5, 5)] for base in (0, 10, 20)])
    assert offsets(log) == list(range(30))
    for start, end in [(0, 1), (3, 12), (9, 10), (10, 20), (29, 30), (13, 13), (28, 99)]:
        assert offsets(log, start=start, end=end) == list(range(start, min(end, 30)))


def test_a_swapped_segment_gives_no_row_beyond_the_next_plain_one(tmp_path: Path) -> None:
    """Compaction merged 0 and 10 into 0.swap, and was stopped before it took 10 away."""
    merged = SegmentSpec([batch(0, 10), batch(10, 10)], suffix=".swap")
    log = build_log(tmp_path, merged, [batch(10, 10)])
    assert offsets(log) == list(range(20))


def test_the_checksum_leaves_base_offset_and_leader_epoch_out(tmp_path: Path) -> None:
    first = batch(0, 2)
    stamped = struct.pack(">q", 1000) + first[8:12] + struct.pack(">i", 7) + first[16:]
    assert first[17:21] == stamped[17:21]
    log = build_log(tmp_path, [first, stamped])
    assert offsets(log) == [0, 1, 1000, 1001]


def test_control_batches_of_any_type_are_no_rows_and_no_error(tmp_path: Path) -> None:
    markers = [control_batch(kind, base_offset=kind) for kind in (2, 3, 4)]
    made_up = control_batch(99, base_offset=5, key_version=1)
    log = build_log(tmp_path, SegmentSpec([*markers, made_up, batch(6)], base_offset=2))
    assert offsets(log) == [6]
    assert log.last_stable_offset() == 7


def test_formats_0_1_and_2_stand_in_one_file(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v")] * 3
    log = build_log(
        tmp_path,
        [
            legacy_message_set(0, records, base_offset=0, codec="none"),
            legacy_message_set(0, records, base_offset=3, codec="gzip"),
            legacy_message_set(1, records, base_offset=6, codec="snappy"),
            batch(9, 3, codec="zstd"),
        ],
    )
    assert offsets(log) == list(range(12))
    assert offsets(log, start=4, end=8) == [4, 5, 6, 7]
    assert log.log_end_offset == 12


# Tails


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("cut", [1, 5, 16, 17, 30, 60, 61, 75])
def test_a_torn_last_batch_ends_the_log_before_it(tmp_path: Path, cut: int, clean: bool) -> None:
    torn = batch(5, 3)
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=torn[: len(torn) - cut]), clean=clean)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert log.log_end_offset == 5


@pytest.mark.parametrize("length", range(1, 17))
def test_part_of_a_header_at_the_end_is_no_error(tmp_path: Path, length: int) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=batch(5)[:length]))
    assert offsets(log) == [0, 1, 2, 3, 4]


def test_a_torn_batch_is_read_once_it_is_whole(tmp_path: Path) -> None:
    whole = batch(5, 5)
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=whole[:70]), clean=False)
    assert offsets(log) == [0, 1, 2, 3, 4]
    with open(_file(log), "ab") as file:
        file.write(whole[70:])
    assert offsets(open_one(tmp_path), start=log.log_end_offset) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("zeros", [1, 12, 17, 61, 1 << 20])
def test_zeros_of_a_preallocated_segment_are_its_end(tmp_path: Path, zeros: int) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=bytes(zeros)), clean=False)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert log.log_end_offset == 5


@pytest.mark.parametrize("zeros", [100, 1_000_000])
def test_zeros_with_data_behind_them_are_an_error(tmp_path: Path, zeros: int) -> None:
    log = build_log(tmp_path, [batch(0, 5), bytes(zeros), batch(5, 5)])
    with pytest.raises(InvalidBatchError, match=r"length 0|zeros where a batch should start"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == list(range(10))
    assert [(it.position, it.length) for it in skipped] == [(len(batch(0, 5)), zeros)]


def test_a_bad_last_batch_is_the_end_where_a_crash_can_have_left_it(tmp_path: Path) -> None:
    bad = batch(5, 3, crc=1)
    log = build_log(
        tmp_path, SegmentSpec([batch(0, 5), bad], tail=bytes(50)), clean=False, recovery_point=5
    )
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert log.log_end_offset == 5


def test_a_single_bad_batch_of_a_crashed_log_leaves_it_empty(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5, crc=1)], clean=False, recovery_point=0)
    assert (offsets(log), log.log_end_offset) == ([], 0)


@pytest.mark.parametrize(
    ("clean", "recovery_point", "behind"),
    [
        (True, 0, b""),  # a clean shutdown leaves nothing half written
        (False, 6, b""),  # what lies below the recovery point was flushed
        (False, 0, batch(8)),  # another batch follows
        (False, None, b""),  # nothing tells of a crash
    ],
)
def test_a_bad_batch_is_an_error_anywhere_else(
    tmp_path: Path, clean: bool, recovery_point: int | None, behind: bytes
) -> None:
    log = build_log(
        tmp_path,
        [batch(0, 5), batch(5, 3, crc=1) + behind],
        clean=clean,
        recovery_point=recovery_point,
    )
    with pytest.raises(CrcMismatchError, match=r"0\.log, position \d+, base offset 5, ") as raised:
        offsets(log)
    assert pickle.loads(pickle.dumps(raised.value)).position == len(batch(0, 5))


def test_a_bad_last_batch_of_a_segment_that_is_not_the_last_is_an_error(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5, crc=1)], [batch(5)], clean=False, recovery_point=0)
    with pytest.raises(CrcMismatchError):
        offsets(log)


def test_a_file_cut_beside_the_reader_is_a_torn_tail(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5), batch(5, 5), batch(10, 5)])
    assert log.log_end_offset == 15
    with open(_file(log), "r+b") as file:
        file.truncate(2 * len(batch(0, 5)) - 7)
    assert offsets(log) == [0, 1, 2, 3, 4]


def test_a_file_cut_within_a_scan_ends_it(tmp_path: Path) -> None:
    big = [_large(place) for place in range(12)]
    log = build_log(tmp_path, big)
    rows = log.scan(options=scan_options(columns=("offset", "value")))
    first = next(rows).column("offset").to_pylist()
    with open(_file(log), "r+b") as file:
        file.truncate(1_000_000)
    rest = column(rows, "offset")
    assert first[0] == 0
    assert (first + rest) == list(range(len(first) + len(rest)))
    assert len(first) + len(rest) < 12


def _large(offset: int) -> bytes:
    return v2_batch([RecordSpec(value=bytes([offset]) * 3_000_000)], base_offset=offset)


def test_batches_larger_than_the_buffer_are_read(tmp_path: Path) -> None:
    log = build_log(tmp_path, [_large(0), batch(1), _large(2)])
    scanner = SegmentScanner(log.topic_partition, ScanOptions(columns=("offset", "value")))
    scanner._buffer = ReadBuffer(4096)
    rows = [*scanner.scan(log.segments[0]), *scanner.flush()]
    assert [len(value) for value in column(rows, "value")] == [3_000_000, 2, 3_000_000]


# Corruption


def test_a_dirty_batch_in_the_middle_is_an_error_or_is_skipped_alone(tmp_path: Path) -> None:
    log = build_log(
        tmp_path, [batch(base, 2, crc=1 if base == 4 else None) for base in range(0, 10, 2)]
    )
    with pytest.raises(CrcMismatchError, match="base offset 4"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 1, 2, 3, 6, 7, 8, 9]
    size = len(batch(0, 2))
    assert [(it.position, it.length) for it in skipped] == [(2 * size, size)]
    assert "crc mismatch" in skipped[0].reason
    assert skipped[0].path == _file(log)


def test_a_flipped_bit_in_a_value_is_found_and_check_crcs_can_be_turned_off(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 1), batch(1, 1)])
    _flip(_file(log), len(batch(0, 1)) - 2)
    with pytest.raises(CrcMismatchError, match=r"stored 0x[0-9a-f]{8}, computed 0x[0-9a-f]{8}"):
        offsets(log)
    unchecked = scan_options(columns=("value",), check_crcs=False)
    assert column(log.scan(options=unchecked), "value") == [b"v1", b"v1"]


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
    assert [(it.position, it.length) for it in skipped] == [(len(batch(0, 2)), len(bad))]


def test_a_length_that_is_too_large_does_not_swallow_what_follows(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0), batch(1), batch(2), batch(3)])
    _flip(_file(log), len(batch(0)) + 8, 0x40)
    with pytest.raises(InvalidBatchError, match="good batches among them"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 2, 3]
    assert [(it.position, it.length) for it in skipped] == [(len(batch(0)), len(batch(1)))]


def test_a_length_that_is_slightly_wrong_costs_one_batch(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0), batch(1), batch(2), batch(3)])
    _flip(_file(log), len(batch(0)) + 11, 0x01)
    with pytest.raises(CorruptRecordError):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 2, 3]
    assert sum(it.length for it in skipped) == len(batch(1))


def test_rubbish_between_batches_is_skipped_and_told(tmp_path: Path) -> None:
    rubbish = b"\xde\xad\xbe\xef" * 20
    log = build_log(tmp_path, [batch(0, 2), rubbish, batch(2, 2)])
    with pytest.raises(InvalidBatchError, match="magic"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 1, 2, 3]
    assert [(it.position, it.length) for it in skipped] == [(len(batch(0, 2)), len(rubbish))]


def test_rubbish_at_the_end_of_a_clean_log_is_an_error_and_is_told_when_skipped(
    tmp_path: Path,
) -> None:
    log = build_log(tmp_path, [batch(0, 2), b"\xde\xad\xbe\xef" * 20])
    with pytest.raises(InvalidBatchError):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 1]
    assert [(it.position, it.length) for it in skipped] == [(len(batch(0, 2)), 80)]


def test_later_segments_are_read_when_an_earlier_one_is_bad(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0), b"\xff" * 100], [batch(3)], [batch(4)])
    with pytest.raises(InvalidBatchError):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 3, 4]
    assert [it.length for it in skipped] == [100]


def test_a_range_that_ends_before_the_bad_bytes_is_no_error(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 2), b"\xff" * 100, batch(2, 2)], [batch(4)])
    assert offsets(log, end=2) == [0, 1]
    assert offsets(log, start=4) == [4]


def test_an_offset_that_falls_back_is_an_error(tmp_path: Path) -> None:
    """The checksum does not cover the base offset, so only the order tells."""
    log = build_log(tmp_path, [batch(0, 2), batch(2, 2), batch(4, 2)])
    _flip(_file(log), len(batch(0, 2)) + 1, 0x10)
    with pytest.raises(
        InvalidBatchError, match=r"more than 2147483647 above .* from 2 on are missing|between"
    ):
        offsets(log)


def test_a_marker_with_a_wrong_checksum_is_an_error(tmp_path: Path) -> None:
    marker = bytearray(control_batch(1, base_offset=1, producer_id=5))
    marker[-1] ^= 1
    log = build_log(tmp_path, [batch(0), bytes(marker), batch(2)])
    with pytest.raises(CrcMismatchError, match="base offset 1"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 2]
    assert len(skipped) == 1


def test_a_huge_length_in_a_sparse_file_takes_no_memory(tmp_path: Path) -> None:
    header = bytearray(batch(0))
    header[8:12] = struct.pack(">i", 300_000_000)
    log = build_log(tmp_path, [bytes(header)], clean=True)
    with open(_file(log), "r+b") as file:
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
    path = _file(log)
    others = [offset for offset in range(6) if offset // 2 != flipped]
    for at in range(size):
        # Base offset and leader epoch lie outside of the checksum.
        if 8 <= at < 12 or at >= 16:
            _flip(path, flipped * size + at)
            bad = open_one(tmp_path, skip_corrupt=True)
            assert skipping(bad)[0] == others, at
            _flip(path, flipped * size + at)
    assert offsets(log) == list(range(6))


# Positions beyond 31 bits


def _emptied(base_offset: int, size_bytes: int) -> bytes:
    """Build the header of an empty batch that fills a hole of a sparse file."""
    header = bytearray(v2_batch([], base_offset=base_offset, last_offset_delta=1))
    header[8:12] = struct.pack(">i", size_bytes - 12)
    return bytes(header)


@pytest.mark.parametrize("size", [2**31 - 100, 2**31 + 5_000_000])
def test_positions_near_and_beyond_two_gigabytes_are_found(tmp_path: Path, size: int) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 2)], index=False, time_index=False))
    first, middle, last = len(batch(0, 2)), 1_000_000_000, size - len(batch(7, 2))
    with open(_file(log), "r+b") as file:
        file.seek(first)
        file.write(_emptied(2, middle - first))
        file.seek(middle)
        file.write(_emptied(4, last - middle))
        file.seek(last)
        file.write(batch(7, 2))
    with open(_file(log).removesuffix(".log") + ".index", "wb") as file:
        file.write(struct.pack(">iIiI", 5, middle, 8, last))
    segment = open_one(tmp_path).segments[0]
    assert segment.size_bytes() == size
    # A position beyond 31 bits is negative in the index, which is then no help.
    assert segment.position_for(8) == (last if last < 2**31 else 0)
    # Nor is a position where no batch with a right checksum stands.
    assert segment.position_for(5) == 0
    (table,) = segment.headers(last)
    assert (table.position.tolist(), table.last_offset.tolist()) == ([last], [8])
    scanner = SegmentScanner(segment.topic_partition, ScanOptions(columns=("offset",)))
    rows = [*scanner.scan(segment, start_position=last), *scanner.flush()]
    assert column(rows, "offset") == [7, 8]


def test_offsets_that_span_more_than_31_bits_are_read(tmp_path: Path) -> None:
    bases = (0, 10, 3_000_000_000, 3_000_000_005)
    wrong = struct.pack(">ii", 10, 0) + struct.pack(">Ii", 3_000_000_000, 2 * len(batch(0)))
    log = build_log(tmp_path, SegmentSpec([batch(base) for base in bases], index=wrong))
    assert offsets(log) == list(bases)
    assert offsets(log, start=11, end=3_000_000_001) == [3_000_000_000]
    assert log.log_end_offset == 3_000_000_006


def test_a_segment_pickles_small(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 2)])
    data = pickle.dumps(log.segments[0])
    assert len(data) < 600
    assert pickle.loads(data) == log.segments[0]


def test_bad_batches_and_rubbish_next_to_each_other_cost_only_themselves(tmp_path: Path) -> None:
    """The header of a bad batch, which tells of huge offsets, hides no later batch."""
    lying = batch(2, crc=1, last_offset_delta=2**30)
    log = build_log(tmp_path, [batch(0, 2), lying, b"\xff" * 50, batch(3, 2)])
    rows, skipped = skipping(log)
    assert rows == [0, 1, 3, 4]
    assert sum(it.length for it in skipped) == len(lying) + 50


def test_cut_ranges_of_one_segment_report_bad_bytes_together_at_least_once(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 2), batch(2, 2), b"\xff" * 50, batch(6, 2), batch(8, 2)])
    reported = [
        skipping(open_one(tmp_path), start=start, end=end)[1] for start, end in [(0, 7), (7, 10)]
    ]
    assert [len(it) for it in reported] == [1, 0]
    assert skipping(log)[0] == [0, 1, 2, 3, 6, 7, 8, 9]


# Files that are replaced while they are read


@pytest.mark.parametrize("options", [WalkOptions(), WalkOptions(skip_corrupt=True)])
@pytest.mark.parametrize("gone", [0, 10])
def test_bytes_of_a_file_that_was_replaced_are_not_bad(
    tmp_path: Path, options: WalkOptions, gone: int
) -> None:
    """A cleaner merges two segments and splits them again: who read the merged one reads again."""
    log = build_log(tmp_path, [batch(0, 10)], SegmentSpec([batch(10, 10)], base_offset=10))
    segment = log.segments[0]
    path = Path(_file(log))
    half = path.read_bytes()
    path.write_bytes(half + Path(_file(log, 10)).read_bytes())
    with segment.open_log() as merged:
        Path(_file(log, gone)).rename(path.with_suffix(".deleted"))
        if gone == 0:
            path.write_bytes(half)
        with pytest.raises(FileNotFoundError):
            list(HeaderWalk(segment, merged, options))


def test_an_index_of_the_file_that_came_after_tells_of_no_loss(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5), batch(5, 5)], [batch(10, 5)])
    segment = log.segments[0]
    path = Path(_file(log))
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1000, 9))
    whole = path.read_bytes()
    path.write_bytes(batch(0, 5))
    with segment.open_log() as half:
        assert offset_beyond_end(segment, half, half.size(), 5) == 9
        path.rename(path.with_suffix(".deleted"))
        path.write_bytes(whole)
        with pytest.raises(FileNotFoundError):
            offset_beyond_end(segment, half, half.size(), 5)
