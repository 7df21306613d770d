"""Retention and compaction after a commit."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spark_segmentlog.query import clean_up
from tests.support.sink import (
    START_MS,
    Sink,
    at,
    rows,
    values,
)


def test_retention_that_is_asked_for_follows_the_commit(sink: Sink) -> None:
    old = rows(value=[b"v" * 100] * 60, timestamp=[at(START_MS)] * 60)
    options: dict[str, Any] = {"topic": "t", "segment.bytes": 3000, "batch.size": 500}
    sink.save(old, **options)
    assert len(sink.read()) == 60
    sink.save(old, **options, retention_bytes=6000)
    kept = sink.column("offset")
    assert 0 < len(kept) < 100
    assert kept[-1] == 119
    sink.save(rows(value=[b"new"]), **options, retention_ms=1000)
    assert sink.column("value")[-1] == b"new"
    assert len(sink.read()) < len(kept)
    assert list(sink.path.glob("t-0/*.deleted")) != []


def test_compaction_that_is_asked_for_follows_the_commit(sink: Sink) -> None:
    batch = rows(key=[b"%d" % (n % 3) for n in range(60)], value=[b"v" * 100] * 60)
    options: dict[str, Any] = {"topic": "t", "segment.bytes": 3000, "batch.size": 500}
    sink.save(batch, **options, cleanup_policy="compact")
    assert len(sink.read()) < 60
    assert {row["key"] for row in sink.read()} == {b"0", b"1", b"2"}
    assert sink.column("offset")[-1] == 59


def test_retention_that_fails_does_not_fail_what_is_committed(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(clean_up, "_retain", fail)
    with caplog.at_level(logging.WARNING):
        sink.save(values(2), topic="t", retention_ms=1)
    assert "the rows are committed" in caplog.text
    assert "disk on fire" in caplog.text
    assert len(sink.read()) == 2
