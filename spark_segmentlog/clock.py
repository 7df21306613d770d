"""The time of day in Kafka's unit."""

from __future__ import annotations

import time
from typing import Final

DAY_MS: Final = 24 * 60 * 60 * 1000


def now_ms() -> int:
    """Tell the wall clock, in ms since 1970."""
    return time.time_ns() // 1_000_000
