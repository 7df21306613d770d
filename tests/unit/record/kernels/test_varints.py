"""Compiled varints."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.record.kernels import varints as kernels
from spark_segmentlog.record.plain.varint import VarintError, read_varint, read_varlong

# Bytes of which most go on, so that long varints are common.
continued = st.lists(st.one_of(st.integers(0x80, 0xFF), st.integers(0, 0xFF)), max_size=14).map(
    bytes
)


@given(continued, st.integers(0, 14), st.integers(0, 14), st.booleans())
def test_compiled_reader_equals_the_plain_one(
    data: bytes, position: int, limit: int, is_long: bool
) -> None:
    limit = min(limit, len(data))
    read, bits = (read_varlong, 70) if is_long else (read_varint, 35)
    array = np.frombuffer(data + b"\x00" * 16, np.uint8).copy()
    value, after = kernels.read_varint(array, position, limit, bits)
    try:
        expected = read(data, position, limit)
    except VarintError:
        # The compiled one leaves values above 32 bits to its caller, who compares with the bytes.
        in_range = -(2**31) <= value < 2**31
        assert after > len(data) or (not is_long and not in_range)
    else:
        assert (value, after) == expected
