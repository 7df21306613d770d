"""Headers of batches by compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.record.header_fields import BASE_OFFSET, HEADER_FIELDS, POSITION, SIZE_BYTES
from spark_segmentlog.record.kernels.headers import (
    SCAN_END,
    SCAN_FULL,
    SCAN_INCOMPLETE,
    SCAN_INVALID,
    SCAN_ZERO,
    check_entry_crcs,
    is_zero,
    scan_entries,
)
from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.decoding import as_array

BATCHES = [v2_batch([RecordSpec(value=b"v")], base_offset=offset) for offset in (5, 6, 4)]
DATA = b"".join(BATCHES)
SIZE = len(BATCHES[0])


def scan(data: bytes, rows: int = 10) -> tuple[tuple[int, ...], np.ndarray]:
    table = np.zeros((rows, HEADER_FIELDS), np.int64)
    return scan_entries(as_array(data), 0, len(data), 1000, 0, table), table


def test_headers_are_listed_with_the_positions_of_the_file() -> None:
    (count, end, stop, needed, unordered), table = scan(DATA)
    assert (count, end, stop, needed) == (3, len(DATA), SCAN_END, 0)
    assert unordered == 2
    assert table[:3, POSITION].tolist() == [1000, 1000 + SIZE, 1000 + 2 * SIZE]
    assert table[:3, SIZE_BYTES].tolist() == [SIZE] * 3
    assert table[:3, BASE_OFFSET].tolist() == [5, 6, 4]


@pytest.mark.parametrize(
    ("data", "rows", "stop", "needed"),
    [
        (BATCHES[0] + bytes(100), 10, SCAN_ZERO, 0),
        (BATCHES[0] + bytes(100) + b"x", 10, SCAN_INVALID, 0),
        (BATCHES[0] + BATCHES[1][:-1], 10, SCAN_INCOMPLETE, SIZE),
        (BATCHES[0] + BATCHES[1][:10], 10, SCAN_INCOMPLETE, 0),
        (DATA, 1, SCAN_FULL, 0),
    ],
)
def test_a_scan_says_why_it_ended(data: bytes, rows: int, stop: int, needed: int) -> None:
    (count, end, found, bytes_needed, _), _ = scan(data, rows)
    assert (count, end, found, bytes_needed) == (1, SIZE, stop, needed)


def test_zeros_are_told_at_any_length() -> None:
    for length in range(20):
        data = bytearray(length + 1)
        assert is_zero(as_array(bytes(data)), 0, length)
        data[length] = 1
        assert is_zero(as_array(bytes(data)), 0, length)
        assert not is_zero(as_array(bytes(data)), 0, length + 1)


def test_checksums_are_compared_row_by_row() -> None:
    data = bytearray(DATA)
    data[SIZE + 40] ^= 1
    _, table = scan(bytes(data))
    good = np.zeros(3, np.bool_)
    check_entry_crcs(as_array(bytes(data)), table, np.arange(3), 1000, good)
    assert good.tolist() == [True, False, True]
