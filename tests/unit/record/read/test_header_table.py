"""Headers of the batches in a buffer, and where the next good batch stands."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.record.read.header_table import (
    HeaderTable,
    StopReason,
    check_crcs,
    find_next_batch,
    scan_headers,
)
from spark_segmentlog.testing.builder import legacy_message
from tests.support.decoding import as_array, decoder, scan, small_batch


def test_scan_ends_exactly_with_the_last_batch() -> None:
    data = small_batch(0) + small_batch(1)
    table = scan(data)
    assert (len(table), table.end_position, table.stop) == (2, len(data), StopReason.END)


def test_positions_are_those_of_the_file() -> None:
    data = small_batch(0) + small_batch(1)
    array = as_array(b"xxxx" + data)
    table = scan_headers(array, 4, len(array), file_position=1000)
    assert table.position.tolist() == [1004, 1004 + len(small_batch(0))]
    assert table.end_position == 1004 + len(data)
    reader = decoder()
    assert list(reader.decode(array, table, file_position=1000)) == []
    last = reader.flush()
    assert last is not None
    assert last.column("offset").to_pylist() == [0, 1]


def test_positions_beyond_31_bits() -> None:
    array = as_array(small_batch(0))
    place = 2**31 + 5
    table = scan_headers(array, 0, len(array), file_position=place)
    assert table.position.tolist() == [place]
    assert check_crcs(array, table, file_position=place).tolist() == [True]


def test_cut_header_and_cut_batch_are_incomplete() -> None:
    first, second = small_batch(0), small_batch(1)
    for size in range(1, len(second)):
        table = scan(first + second[:size])
        assert (len(table), table.end_position) == (1, len(first))
        assert table.stop is StopReason.INCOMPLETE
        assert table.needed_bytes == (len(second) if size >= 17 else 0)


@pytest.mark.parametrize("zeros", [17, 61, 1000])
def test_zero_tail_ends_the_scan(zeros: int) -> None:
    table = scan(small_batch(0) + bytes(zeros))
    assert (len(table), table.stop) == (1, StopReason.ZERO)


def test_zeros_with_something_after_are_invalid() -> None:
    table = scan(small_batch(0) + bytes(100) + b"x")
    assert table.stop is StopReason.INVALID
    assert table.reason == "length 0 of an entry of format 0, at least 14 is needed"


def test_scan_stops_when_the_table_is_full() -> None:
    data = b"".join(small_batch(offset) for offset in range(5))
    table = scan(data, max_entries=3)
    assert (len(table), table.stop) == (3, StopReason.FULL)
    rest = scan_headers(as_array(data), table.end_position, len(data), file_position=0)
    joined = HeaderTable.concat([table, rest])
    assert joined.base_offset.tolist() == list(range(5))
    assert joined.stop is StopReason.END


def test_selected_rows_of_a_table() -> None:
    data = small_batch(0) + small_batch(1, codec="zstd") + legacy_message(0, offset=2)
    table = scan(data)
    odd = table.select(np.array([False, True, True]))
    assert odd.base_offset.tolist() == [1, 2]
    assert odd.is_compressed.tolist() == [True, False]
    assert odd.codec.tolist() == [4, 0]
    assert odd.timestamp_type.tolist() == [0, -1]
    assert odd.end_position == table.end_position


def test_checksums_of_a_table_are_checked_entry_by_entry() -> None:
    bad = bytearray(small_batch(1, 50))
    bad[-1] ^= 1
    data = (
        small_batch(0)
        + bytes(bad)
        + legacy_message(1, offset=60)
        + legacy_message(0, offset=61, crc=1)
    )
    table = scan(data)
    assert check_crcs(as_array(data), table, file_position=0).tolist() == [True, False, True, False]


def test_table_of_other_bytes_is_refused() -> None:
    table = scan(small_batch(0))
    with pytest.raises(IndexError, match="other bytes"):
        check_crcs(as_array(small_batch(0)), table, file_position=10)
    with pytest.raises(IndexError, match="other bytes"):
        list(decoder().decode(as_array(small_batch(0)[:-1]), table, file_position=0))


def test_next_good_batch_is_found_after_garbage() -> None:
    wrong = bytearray(small_batch(5))
    wrong[-1] ^= 1
    data = b"\x01garbage" * 9 + bytes(wrong) + small_batch(3) + small_batch(7)
    array = as_array(data)

    def find(start: int, min_offset: int) -> int:
        return find_next_batch(array, start, len(array), file_position=100, min_offset=min_offset)

    third = 100 + 72 + len(wrong)
    assert find(0, 0) == third
    assert find(0, 4) == third + len(small_batch(3))
    assert find(third - 100 + 1, 0) == third + len(small_batch(3))
    assert find(0, 8) == -1


def test_next_good_message_is_found() -> None:
    data = b"\x00" * 33 + legacy_message(1, offset=4, value=b"v")
    assert find_next_batch(as_array(data), 1, len(data), file_position=0, min_offset=0) == 33


def test_search_among_crafted_headers_ends() -> None:
    # Every entry claims to reach the end, so each would have all that follows checksummed.
    count = 20_000
    data = bytearray()
    for index in range(count):
        header = bytearray(small_batch(0)[:61])
        header[8:12] = ((count - index) * 61 - 12).to_bytes(4, "big")
        data += header
    assert find_next_batch(as_array(bytes(data)), 0, len(data), file_position=0, min_offset=0) == -1
