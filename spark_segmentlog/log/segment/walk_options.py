"""How strict a walk over a segment is, and what it tells of bad bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Bytes that were stepped over, and the offsets that are missing for it.

    Attributes
    ----------
    length : int
        Up to the next good batch, or to the end of the file. 0 where the file ends and offsets that
        its indexes speak of are gone.
    start_offset, end_offset : int or None
        Offsets [start, end) that no good batch has; the end is None where nothing tells it.
    """

    topic_partition: TopicPartition
    path: str
    position: int
    length: int
    reason: str
    start_offset: int
    end_offset: int | None


OnCorrupt = Callable[[CorruptRange], None]
# Whether missing offsets [start, end) are to be reported.
IsReported = Callable[[int, int | None], bool]


def always(start_offset: int, end_offset: int | None) -> bool:
    """Have all missing offsets reported."""
    return True


def never(start_offset: int, end_offset: int | None) -> bool:
    """Have no missing offsets reported: somebody else does."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOptions:
    """How strict a walk is.

    Attributes
    ----------
    skip_corrupt : bool
        False: bad bytes are an error. True: they are stepped over and reported.
    check_crcs : bool
        Whether a walk that steps over bad bytes compares all checksums; another one compares none.
    compares_last : bool
        Whether the last batch of a log is compared where a crash can have left it half written, and
        is then no part of the walk.
    is_growing : bool
        Whether the file may be written at this moment: half a batch is its end.
    on_corrupt : callable, optional
        Told of bytes that are stepped over.
    is_reported : callable
        Tells of which missing offsets [start, end) it is told, and the log file warned.
    first_read_bytes : int
        Size of the first piece.
    """

    skip_corrupt: bool = False
    check_crcs: bool = True
    compares_last: bool = False
    is_growing: bool = False
    on_corrupt: OnCorrupt | None = None
    is_reported: IsReported = always
    first_read_bytes: int = FIRST_READ_BYTES


STRICT: Final = WalkOptions()
TOLERANT: Final = WalkOptions(skip_corrupt=True)
# Steps over bad bytes, of which somebody else tells.
QUIET: Final = WalkOptions(skip_corrupt=True, is_reported=never)
