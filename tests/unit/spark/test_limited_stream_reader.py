"""Limits of a micro-batch, where Spark knows them and where it does not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_segmentlog.spark import versions
from spark_segmentlog.spark.stream_reader import SegmentLogStreamReader, make_stream_reader
from tests.support.stream import GrowingLog, batch, request_of


@pytest.fixture(autouse=True)
def _each_lack_is_said_anew() -> Iterator[None]:
    versions.warn_of_lack.cache_clear()
    yield
    versions.warn_of_lack.cache_clear()


def test_limits_that_spark_cannot_hand_over_are_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(versions, "LIMITS_MICRO_BATCHES", False)
    GrowingLog(tmp_path).append(batch(0))
    limited = request_of(tmp_path, maxOffsetsPerTrigger="5")
    with caplog.at_level(logging.WARNING):
        assert type(make_stream_reader(limited)) is SegmentLogStreamReader
        make_stream_reader(limited)
        make_stream_reader(request_of(tmp_path))
    told = [
        message
        for message in caplog.messages
        if "limits have no effect; Spark 4.2 and later can" in message
    ]
    assert len(told) == 1
