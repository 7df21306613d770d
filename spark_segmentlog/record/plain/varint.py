"""Base 128 varints, least significant group first, zigzag where signed: the numbers of a record.

A varint holds 32 bits in at most 5 bytes, a varlong 64 in at most 10. Longer ones, ones that do
not end before the bytes that hold them do, and varints above 32 bits are refused. This is the
plain twin of the readers in `kernels`.

Encoding: https://protobuf.dev/programming-guides/encoding/#varints
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_segmentlog.record.types import ByteSource

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10
_UINT32_MAX = 0xFFFFFFFF
_UINT64_MAX = 0xFFFFFFFFFFFFFFFF


class VarintError(ValueError):
    """A varint that is cut off, too long, or too large; turned into an error with a place above."""


def read_varint(buffer: ByteSource, position: int, limit: int) -> tuple[int, int]:
    """Read a zigzag number of 32 bits.

    Parameters
    ----------
    limit : int
        Index that it may not reach (exclusive), at most the length of `buffer`.

    Returns
    -------
    tuple of (int, int)
        The number, and the index after it.

    Raises
    ------
    VarintError
        When it is cut off at `limit`, longer than 5 bytes or above 32 bits.
    """
    raw, position = read_unsigned_varint(buffer, position, limit)
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(buffer: ByteSource, position: int, limit: int) -> tuple[int, int]:
    """Read a zigzag number of 64 bits; as `read_varint`, with at most 10 bytes.

    Bits of the tenth byte above the 64th are dropped, as Kafka's own reader drops them.
    """
    raw, position = _read_unsigned(buffer, position, limit, MAX_VARLONG_BYTES)
    raw &= _UINT64_MAX
    return (raw >> 1) ^ -(raw & 1), position


def read_unsigned_varint(buffer: ByteSource, position: int, limit: int) -> tuple[int, int]:
    """Read a number of 32 bits without a sign; as `read_varint`."""
    raw, position = _read_unsigned(buffer, position, limit, MAX_VARINT_BYTES)
    if raw > _UINT32_MAX:
        raise VarintError(f"varint above 32 bits: {raw:#x}")
    return raw, position


def _read_unsigned(
    buffer: ByteSource, position: int, limit: int, max_bytes: int
) -> tuple[int, int]:
    start = position
    value = 0
    while position < limit and position - start < max_bytes:
        byte = buffer[position]
        value |= (byte & 0x7F) << (7 * (position - start))
        position += 1
        if byte < 0x80:
            return value, position
    if position - start == max_bytes:
        raise VarintError(f"varint longer than the {max_bytes} bytes that are allowed")
    raise VarintError(f"varint cut off after {position - start} bytes")
