"""How much of what is new one micro-batch takes: the Kafka source's arithmetic over offsets.

A limit is shared out over partitions in proportion to what each has waiting, in Spark's own
floating point, so that a query moved here from ``format("kafka")`` cuts its micro-batches at the
same offsets. Spark hands a Python source one read limit and no composite ones: minimum, maximum
and delay therefore meet here, inside of ``latestOffset``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """The options that bound a micro-batch; None where an option was not given.

    Attributes
    ----------
    max_offsets : int or None
        ``maxOffsetsPerTrigger``, over all partitions.
    max_bytes : int or None
        ``maxBytesPerTrigger``: bytes of the `.log` files, over all partitions.
    min_offsets : int or None
        ``minOffsetsPerTrigger``: wait for so many, but no longer than `max_delay_ms`.
    max_delay_ms : int
        ``maxTriggerDelay``.
    """

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS


def share_out(limit: int, sizes: Mapping[Key, int]) -> dict[Key, int]:
    """Share a limit out in proportion to sizes.

    A share below one counts as one, so that small partitions are not starved; the others are
    rounded down. The shares may therefore add up to a little less, or more, than the limit. A
    size that is not positive gets no share.
    """
    waiting = {key: size for key, size in sizes.items() if size > 0}
    total = float(sum(waiting.values()))
    shares = {}
    for key, size in waiting.items():
        prorated = float(limit) * (float(size) / total)
        whole = math.ceil(prorated) if prorated < 1 else math.floor(prorated)
        shares[key] = min(size, whole)
    return shares


def limit_offsets(limit: int, begin: Mapping[Key, int], end: Mapping[Key, int]) -> dict[Key, int]:
    """Cut the ends of offset ranges so that together they hold about `limit` offsets.

    Parameters
    ----------
    limit : int
        ``maxOffsetsPerTrigger``.
    begin : mapping of partition to offset
        Where the micro-batch starts; the log start offset of a partition that is new.
    end : mapping of partition to offset
        What there is, exclusive. One without a beginning, or not above it, stays as it is.
    """
    sizes = {key: offset - begin[key] for key, offset in end.items() if key in begin}
    shares = share_out(limit, sizes)
    return {
        key: begin[key] + shares[key] if key in shares else offset for key, offset in end.items()
    }


def count_new_offsets(begin: Mapping[Key, int], end: Mapping[Key, int]) -> int:
    """Count the offsets between two maps; one that fell counts as none."""
    return sum(max(0, offset - begin.get(key, 0)) for key, offset in end.items())


class TriggerDelay:
    """Holds a micro-batch back until enough offsets wait, or it has waited long enough.

    The first call never holds back: as in the Kafka source, the last trigger of a query that has
    just started lies an age ago.
    """

    def __init__(self, clock_ms: Callable[[], int] | None = None) -> None:
        self._clock_ms = clock_ms or _monotonic_ms
        self._last_trigger_ms: int | None = None

    def holds_back(self, new_offsets_count: int, limits: AdmissionLimits) -> bool:
        """Tell whether to wait; else remember this moment as the last trigger."""
        if limits.min_offsets is None:
            return False
        now_ms = self._clock_ms()
        waited_enough = (
            self._last_trigger_ms is None or now_ms - self._last_trigger_ms >= limits.max_delay_ms
        )
        if not waited_enough and new_offsets_count < limits.min_offsets:
            return True
        self._last_trigger_ms = now_ms
        return False


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
