"""Varints: values, bounds, and the compiled reader against the plain one."""

from __future__ import annotations

import pytest

from spark_segmentlog.record.plain.varint import VarintError, read_varint, read_varlong
from spark_segmentlog.testing.builder import unsigned_varint, varint


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0),
        (b"\x01", -1),
        (b"\x02", 1),
        (b"\x7f", -64),
        (b"\x80\x01", 64),
        (b"\xfe\xff\xff\xff\x0f", 2**31 - 1),
        (b"\xff\xff\xff\xff\x0f", -(2**31)),
        (b"\x80\x00", 0),
    ],
)
def test_varint_has_the_value_that_kafka_gives_it(data: bytes, value: int) -> None:
    assert read_varint(data, 0, len(data)) == (value, len(data))
    assert read_varlong(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**40, -1])
def test_varlong_holds_64_bits(value: int) -> None:
    data = varint(value)
    assert read_varlong(b"x" + data, 1, 1 + len(data)) == (value, 1 + len(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut off after 0 bytes"),
        (b"\x80\x80", "cut off after 2 bytes"),
        (b"\x80\x80\x80\x80\x80\x00", "longer than the 5 bytes"),
        (b"\xff\xff\xff\xff\x1f", "above 32 bits"),
    ],
)
def test_bad_varint_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(VarintError, match=message):
        read_varint(data, 0, len(data))


def test_varlong_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(VarintError, match="longer than the 10 bytes"):
        read_varlong(b"\x80" * 10 + b"\x00", 0, 11)


def test_varint_does_not_reach_beyond_its_limit() -> None:
    data = unsigned_varint(300)
    with pytest.raises(VarintError):
        read_varint(data, 0, 1)
