"""Fields of a header table's row, one int64 each: numbers that kernels and columns share."""

from __future__ import annotations

(
    POSITION,
    SIZE_BYTES,
    BASE_OFFSET,
    LAST_OFFSET,
    MAGIC,
    ATTRIBUTES,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PARTITION_LEADER_EPOCH,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    RECORDS_COUNT,
    CRC,
) = range(14)
HEADER_FIELDS = 14
