"""Compiled checksums."""

from __future__ import annotations

import zlib

import crc32c as library
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.record.kernels import checksum as kernels
from spark_segmentlog.record.plain.crc import crc32, crc32c


@pytest.mark.parametrize(
    "length",
    [
        0,
        1,
        7,
        8,
        9,
        63,
        64,
        79,
        80,
        127,
        128,
        200,
        767,
        768,
        769,
        1535,
        1536,
        6143,
        6144,
        6145,
        20_000,
    ],
)
def test_compiled_checksums_equal_the_libraries_at_every_switch_of_method(length: int) -> None:
    data = np.random.default_rng(length).integers(0, 256, length + 4, np.uint8)
    part = data[1 : 1 + length].tobytes()
    assert kernels.crc32c_of(data, 1, 1 + length) == library.crc32c(part)
    assert kernels.crc32_of(data, 1, 1 + length) == zlib.crc32(part)
    portable = kernels.crc_by_tables(data, 1, 1 + length, kernels._CRC32C_TABLES)
    assert portable == library.crc32c(part)
    portable = kernels.crc_by_tables(data, 1, 1 + length, kernels._CRC32_TABLES)
    assert portable == zlib.crc32(part)


@given(st.binary(max_size=3000), st.integers(0, 20))
def test_compiled_checksums_equal_their_plain_twins(data: bytes, start: int) -> None:
    start = min(start, len(data))
    array = np.frombuffer(data + b"\xff", np.uint8).copy()
    assert kernels.crc32c_of(array, start, len(data)) == crc32c(data[start:])
    assert kernels.crc32_of(array, start, len(data)) == crc32(data[start:])
    portable = kernels.crc_by_tables(array, start, len(data), kernels._CRC32C_TABLES)
    assert portable == crc32c(data[start:])
