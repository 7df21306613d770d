"""A `<offset>.snapshot` file: what a broker knew of each producer when the log ended there.

Two bytes of version (1), a CRC-32C over all that follows it, a count, and 46 bytes a producer. A
damaged snapshot is as good as none: the headers of the log say the same,
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
    """Read a snapshot; None where `find_snapshot_fault` finds something."""
    if find_snapshot_fault(data):
        return None
    names = ProducerState.__dataclass_fields__
    return [
        ProducerState(**dict(zip(names, fields, strict=True)))
        for fields in ENTRY.iter_unpack(data[HEADER.size :])
    ]


def find_snapshot_fault(data: bytes) -> str:
    """Say what is wrong with the bytes of a snapshot; an empty text where nothing is."""
    if len(data) < HEADER.size:
        return f"has {len(data)} bytes, its header alone {HEADER.size}"
    version, crc, count = HEADER.unpack_from(data)
    if version != VERSION:
        return f"has version {version}, known is {VERSION}"
    wanted = HEADER.size + count * ENTRY.size
    if count < 0 or len(data) != wanted:
        return f"has {len(data)} bytes, its {count} entries make {wanted}"
    computed = crc32c(data[CRC_START:])
    return "" if computed == crc else f"crc mismatch: stored {crc:#010x}, computed {computed:#010x}"


def format_producer_snapshot(states: Sequence[ProducerState]) -> bytes:
    """Write a snapshot."""
    body = struct.pack(">i", len(states)) + b"".join(
        ENTRY.pack(*astuple(state)) for state in states
    )
    return struct.pack(">hI", VERSION, crc32c(body)) + body
