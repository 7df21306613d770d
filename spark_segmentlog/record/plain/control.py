"""Control records: the markers that end a transaction, and those that KRaft writes for itself.

A control batch is a batch of format 2 with bit 5 of its attributes set. The key of each of its
records is a version and a type (two int16); the value of a transaction marker is a version (int16)
and the epoch of the coordinator (int32). Control records occupy offsets and are never rows. A type
that is not known is no error: newer brokers add some (leader change, snapshot header and footer,
voters).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")


class ControlRecordType(IntEnum):
    """Type of a control record; `UNKNOWN` stands for whatever is not listed."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1

    @classmethod
    def _missing_(cls, value: object) -> ControlRecordType:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """A parsed control record.

    Parameters
    ----------
    version, type_id : int
        As they stand in the key.
    coordinator_epoch : int
        Of an end-of-transaction marker; -1 for all others.
    """

    version: int
    type_id: int
    coordinator_epoch: int

    @property
    def type(self) -> ControlRecordType:
        """The type by name, `UNKNOWN` for one that is not listed."""
        return ControlRecordType(self.type_id)

    @property
    def ends_transaction(self) -> bool:
        """Whether it is an ABORT or a COMMIT marker."""
        return self.type in (ControlRecordType.ABORT, ControlRecordType.COMMIT)


def parse_control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Parse the key and value of a record in a control batch.

    Raises
    ------
    ValueError
        When the key is shorter than its two fields; the caller knows the place.
    """
    if key is None or len(key) < _KEY.size:
        measured = "null" if key is None else f"{len(key)} bytes"
        raise ValueError(f"control record key is {measured}, at least {_KEY.size} bytes are needed")
    version, type_id = _KEY.unpack_from(key)
    epoch = -1
    is_marker = type_id in (ControlRecordType.ABORT, ControlRecordType.COMMIT)
    if is_marker and value is not None and len(value) >= _END_TRANSACTION_VALUE.size:
        epoch = _END_TRANSACTION_VALUE.unpack_from(value)[1]
    return ControlRecord(version=version, type_id=type_id, coordinator_epoch=epoch)
