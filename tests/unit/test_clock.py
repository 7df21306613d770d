"""The time of day in Kafka's unit."""

from __future__ import annotations

import time

import pytest

from spark_segmentlog.clock import now_ms


def test_now_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    assert now_ms() == 1_700_000_000_123
