"""The two checksums of Kafka's formats: CRC-32 (formats 0 and 1) and CRC-32C (format 2).

These are the plain twins of the checksums in `kernels`; both are unsigned 32-bit numbers.
"""

from __future__ import annotations

import zlib

import crc32c as _crc32c

from spark_segmentlog.record.types import Bytes, ByteSource, bytes_view


def crc32(data: ByteSource | Bytes) -> int:
    """CRC-32 (IEEE 802.3), as formats 0 and 1 carry it."""
    return zlib.crc32(bytes_view(data))


def crc32c(data: ByteSource | Bytes) -> int:
    """CRC-32C (Castagnoli), as format 2 carries it."""
    return int(_crc32c.crc32c(bytes_view(data)))
