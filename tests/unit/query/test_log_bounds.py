"""Where a partition starts and ends for a read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.query.log_bounds import LogBounds
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.testing.builder import LogBuilder, control_batch
from tests.support.arrow_reading import batch, offsets, splits_of


def test_read_committed_hides_and_stops(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    transactional = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    log.partition(
        "t",
        0,
        [
            [
                batch(0, 1, 2, **transactional),
                control_batch(0, base_offset=2, producer_id=7),
                batch(3, 3),
                batch(4, 4, 5, **transactional),
                batch(6, 6),
            ]
        ],
        snapshots=True,
    )
    log.clean_shutdown()
    assert offsets(log.path) == [0, 1, 3, 4, 5, 6]
    committed = {"kafka_isolation_level": "read_committed"}
    assert offsets(log.path, **committed) == [3]
    assert offsets(log.path, ending_offsets={"t": {"0": 7}}, **committed) == [3]
    assert offsets(log.path, starting_offsets={"t": {"0": 4}}, **committed) == []
    above = r"RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET\].* 5 is greater .* 4"
    with pytest.raises(OptionValueError, match=above):
        offsets(log.path, starting_offsets={"t": {"0": 5}}, **committed)
    options: dict[str, Any] = {
        "startingOffsets": '{"t": {"0": 5}}',
        "kafka.isolation.level": "read_committed",
    }
    with pytest.raises(OptionValueError, match=above):
        splits_of(log.path, **options)


def test_high_watermark_bounds_the_read(three_segments: Path) -> None:
    with pytest.raises(
        OptionValueError, match=r"untilHighWatermark.*replication-offset-checkpoint.*t-0"
    ):
        read_arrow(three_segments, until_high_watermark=True)
    LogBuilder(three_segments).high_watermarks({("t", 0): 17})
    assert offsets(three_segments, until_high_watermark=True) == list(range(17))
    assert offsets(three_segments) == list(range(30))


def test_a_later_time_is_looked_for_from_where_an_earlier_one_is(
    three_segments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    found = {5: 7, 9: 11, 20: None}

    def look_up(log: PartitionLog, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
        asked.append((timestamp_ms, start_offset))
        offset = found[timestamp_ms]
        return None if offset is None else (offset, timestamp_ms)

    monkeypatch.setattr(PartitionLog, "offset_for_timestamp", look_up)
    log = PartitionLog.open(str(three_segments / "t-0"))
    bounds = LogBounds(log, parse_read_options({"path": str(three_segments)}))

    assert [bounds.offset_for_timestamp(ms) for ms in (9, 5, 20, 30)] == [11, 7, None, None]
    assert asked == [(9, 0), (5, 0), (20, 11)]
