"""Base 128 varints, zigzag: the compiled twin of `plain.varint`, one reader and one writer."""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.jit import inlined, int64, uint64
from spark_segmentlog.record.types import Bytes

VARINT_BITS = 35
VARLONG_BITS = 70
# A position that no read is allowed from: where a reader ends that found no varint.
NOWHERE = 1 << 62


@inlined
def read_varint(body: Bytes, position: int, limit: int, max_bits: int) -> tuple[int, int]:
    """Read a zigzag number, and the position after it: `NOWHERE` for one cut off or too long.

    One of `VARINT_BITS` may be above 32 bits. As a length it then points beyond its record; as any
    other number it has to be compared with a bound.
    """
    raw = uint64(0)
    shift = uint64(0)
    end = NOWHERE
    while position < limit and shift < uint64(max_bits):
        byte = body[position]
        position += 1
        raw |= uint64(byte & 0x7F) << shift
        shift += uint64(7)
        if byte < 0x80:
            end = position
            break
    return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), end


@inlined
def zigzag(value: int) -> np.uint64:
    """Fold the sign into the lowest bit."""
    return np.uint64((value << 1) ^ (value >> 63))


@inlined
def varint_size(value: int) -> int:
    """Bytes of a zigzag varint."""
    rest = zigzag(value)
    size = 1
    while rest > np.uint64(0x7F):
        rest >>= np.uint64(7)
        size += 1
    return size


@inlined
def write_varint(buffer: Bytes, position: int, value: int) -> int:
    """Write a zigzag varint; gives the position after it."""
    rest = zigzag(value)
    while rest > np.uint64(0x7F):
        buffer[position] = np.uint8(rest & np.uint64(0x7F) | np.uint64(0x80))
        rest >>= np.uint64(7)
        position += 1
    buffer[position] = np.uint8(rest)
    return position + 1
