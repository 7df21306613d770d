"""A `<offset>.snapshot` file: what a broker knew of each producer when the log ended there.

Two bytes of version (1), a CRC-32C over all that follows it, a count, and 46 bytes a producer. A
snapshot that does not hold together is as good as none: the headers of the log say the same,
slower.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final

from spark_segmentlog.record.plain.crc import crc32c

VERSION: Final = 1
HEADER: Final = struct.Struct(
    ">"
    "h"  # version
    "I"  # crc of what follows
    "i"  # count of entries
)
CRC_START: Final = 6
ENTRY: Final = struct.Struct(
    ">"
    "q"  # producer id
    "h"  # producer epoch
    "i"  # last sequence
    "q"  # last offset
    "i"  # offset delta
    "q"  # timestamp
    "i"  # coordinator epoch
    "q"  # first offset of the current transaction
)
NO_TRANSACTION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """One producer; `current_txn_first_offset` is -1 where no transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of this producer was open."""
        return self.current_txn_first_offset != NO_TRANSACTION


def parse_producer_snapshot(data: bytes) -> list[ProducerState] | None:
    """Read a snapshot; None where its version is unknown or its bytes do not hold together."""
    if len(data) < HEADER.size:
        return None
    version, crc, count = HEADER.unpack_from(data)
    body = data[HEADER.size :]
    if version != VERSION or count < 0 or len(body) != count * ENTRY.size:
        return None
    if crc32c(data[CRC_START:]) != crc:
        return None
    return [_producer_state(fields) for fields in ENTRY.iter_unpack(body)]


def format_producer_snapshot(states: Sequence[ProducerState]) -> bytes:
    """Write a snapshot."""
    body = struct.pack(">i", len(states)) + b"".join(
        ENTRY.pack(*astuple(state)) for state in states
    )
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def _producer_state(fields: tuple[int, ...]) -> ProducerState:
    return ProducerState(
        producer_id=fields[0],
        producer_epoch=fields[1],
        last_sequence=fields[2],
        last_offset=fields[3],
        offset_delta=fields[4],
        timestamp_ms=fields[5],
        coordinator_epoch=fields[6],
        current_txn_first_offset=fields[7],
    )
