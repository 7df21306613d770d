"""The scan of a segment: which rows it gives, in batches of any size and kind."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog.errors import CrcMismatchError, DataLossError
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.scanner import ScanOptions, SegmentScanner
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.testing.builder import (
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message_set,
    v2_batch,
)
from tests.support.reading import (
    batch,
    build_log,
    column,
    flip_bit,
    log_file,
    offsets,
    open_one,
    scan_options,
)


def test_a_batch_without_records_gives_no_row_and_is_stepped_over(tmp_path: Path) -> None:
    empty = v2_batch([], base_offset=100, last_offset_delta=9, base_timestamp=-1, max_timestamp=-1)
    log = build_log(tmp_path, SegmentSpec([empty, batch(110, 2)], base_offset=100))
    assert offsets(log) == [110, 111]
    assert offsets(log, start=105) == [110, 111]
    assert log.log_end_offset == 112


def test_offsets_within_a_batch_are_its_records_deltas(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v", offset_delta=delta) for delta in (1, 3, 7, 9)]
    log = build_log(
        tmp_path,
        SegmentSpec([v2_batch(records, base_offset=100, last_offset_delta=9)], base_offset=100),
    )
    assert offsets(log) == [101, 103, 107, 109]
    assert offsets(log, start=103, end=108) == [103, 107]
    assert log.log_end_offset == 110


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


def test_a_file_cut_within_a_scan_is_data_loss(tmp_path: Path) -> None:
    big = [_large(place) for place in range(12)]
    log = build_log(tmp_path, big)
    rows = log.scan(options=scan_options(columns=("offset", "value")))
    found = next(rows).column("offset").to_pylist()
    with open(log_file(log), "r+b") as file:
        file.truncate(1_000_000)
    with pytest.raises(DataLossError, match=r", 12\) of"):
        found += [offset for batch in rows for offset in batch.column("offset").to_pylist()]
    assert found == list(range(len(found)))


def _large(offset: int) -> bytes:
    return v2_batch([RecordSpec(value=bytes([offset]) * 3_000_000)], base_offset=offset)


def test_batches_larger_than_the_buffer_are_read(tmp_path: Path) -> None:
    log = build_log(tmp_path, [_large(0), batch(1), _large(2)])
    scanner = SegmentScanner(log.topic_partition, ScanOptions(columns=("offset", "value")))
    scanner._buffer = ReadBuffer(4096)
    rows = [*scanner.scan(log.segments[0]), *scanner.flush()]
    assert [len(value) for value in column(rows, "value")] == [3_000_000, 2, 3_000_000]


def test_a_flipped_bit_in_a_value_is_found_and_check_crcs_can_be_turned_off(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 1), batch(1, 1)])
    flip_bit(log_file(log), len(batch(0, 1)) - 2)
    with pytest.raises(CrcMismatchError, match=r"stored 0x[0-9a-f]{8}, computed 0x[0-9a-f]{8}"):
        offsets(log)
    unchecked = scan_options(columns=("value",), check_crcs=False)
    assert column(log.scan(options=unchecked), "value") == [b"v1", b"v1"]


def test_a_range_that_ends_before_the_bad_bytes_is_no_error(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 2), b"\xff" * 100, batch(2, 2)], [batch(4)])
    assert offsets(log, end=2) == [0, 1]
    assert offsets(log, start=4) == [4]


def _emptied(base_offset: int, size_bytes: int) -> bytes:
    """Build the header of an empty batch that fills a hole of a sparse file."""
    header = bytearray(v2_batch([], base_offset=base_offset, last_offset_delta=1))
    header[8:12] = struct.pack(">i", size_bytes - 12)
    return bytes(header)


@pytest.mark.parametrize("size", [2**31 - 100, 2**31 + 5_000_000])
def test_positions_near_and_beyond_two_gigabytes_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 2)], index=False, time_index=False))
    first, middle, last = len(batch(0, 2)), 1_000_000_000, size - len(batch(7, 2))
    with open(log_file(log), "r+b") as file:
        file.seek(first)
        file.write(_emptied(2, middle - first))
        file.seek(middle)
        file.write(_emptied(4, last - middle))
        file.seek(last)
        file.write(batch(7, 2))
    with open(log_file(log).removesuffix(".log") + ".index", "wb") as file:
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
    monkeypatch.setattr(Segment, "position_for", lambda *_: last)
    rows = [*scanner.scan(segment), *scanner.flush()]
    assert column(rows, "offset") == [7, 8]


def test_offsets_that_span_more_than_31_bits_are_read(tmp_path: Path) -> None:
    bases = (0, 10, 3_000_000_000, 3_000_000_005)
    wrong = struct.pack(">ii", 10, 0) + struct.pack(">Ii", 3_000_000_000, 2 * len(batch(0)))
    log = build_log(tmp_path, SegmentSpec([batch(base) for base in bases], index=wrong))
    assert offsets(log) == list(bases)
    assert offsets(log, start=11, end=3_000_000_001) == [3_000_000_000]
    assert log.log_end_offset == 3_000_000_006
