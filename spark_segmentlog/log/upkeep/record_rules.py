"""Which records compaction takes away: its rules (Kafka's Cleaner, KIP-534), in one table.

They judge records of data up to the offset that the map has reached, without those of aborted
transactions. A record goes where any of them says so; what lies above, and markers, stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_segmentlog.record.compact.batch_records import BatchRecords
from spark_segmentlog.record.types import Bools, Int64s


@dataclass(frozen=True, slots=True)
class JudgedRecords:
    """Records, and what is known of each.

    Attributes
    ----------
    latest : array of int64
        Offset of the latest record of its key.
    keeps_tombstones : array of bool
        Whether its batch keeps its tombstones: it has no delete horizon, or one that is not over;
        of formats 0 and 1, which have no place for one, whether its segment is young enough.
    """

    records: BatchRecords
    latest: Int64s
    keeps_tombstones: Bools


@dataclass(frozen=True, slots=True)
class RecordRule:
    """A reason why records go."""

    name: str
    applies: Callable[[JudgedRecords], Bools]


WITHOUT_KEY: Final = RecordRule("without a key", lambda judged: judged.records.key_length < 0)
RECORD_RULES: Final = [
    WITHOUT_KEY,
    RecordRule("not the latest", lambda judged: judged.records.offset < judged.latest),
    RecordRule(
        "tombstone that is over",
        lambda judged: (judged.records.value_length < 0) & ~judged.keeps_tombstones,
    ),
]


def find_taken_away(judged: JudgedRecords) -> Bools:
    """Tell which records some rule takes away."""
    taken: Bools = np.logical_or.reduce([rule.applies(judged) for rule in RECORD_RULES])
    return taken
