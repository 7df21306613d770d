"""Where a stream starts, and how far each trigger goes."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from spark_segmentlog.errors import (
    DataLossError,
    OptionValueError,
    UnknownTopicOrPartitionError,
)
from tests.support.stream import GrowingLog, Stream, batch, offsets


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "earliest"}, (0, 0)),
        ({"startingOffsets": "latest"}, (6, 2)),
        ({"startingOffsets": '{"t":{"0":4,"1":-2}}'}, (4, 0)),
        ({"startingOffsets": '{"t":{"0":-1,"1":-1}}'}, (6, 2)),
        ({"startingTimestamp": 3000}, (2, 1)),
        ({"startingOffsetsByTimestamp": '{"t":{"0":5000,"1":1000}}'}, (4, 0)),
        (
            {"startingTimestamp": 5500, "startingOffsetsByTimestampStrategy": "latest"},
            (5, 2),
        ),
    ],
)
def test_a_new_query_starts_where_its_options_say(
    log: GrowingLog, options: dict[str, Any], expected: tuple[int, int]
) -> None:
    log.append(*[batch(offset, timestamp_ms=1000 * (offset + 1)) for offset in range(6)])
    log.append(batch(0, timestamp_ms=1000), batch(1, timestamp_ms=4000), partition=1)
    stream = Stream(log.path, **options)
    assert stream.trigger() == []
    assert stream.committed == offsets(p0=expected[0], p1=expected[1])


def test_no_record_at_the_starting_timestamp_is_an_error_by_default(log: GrowingLog) -> None:
    log.append(batch(0, timestamp_ms=3000))
    log.append(batch(0, timestamp_ms=1000), partition=1)
    with pytest.raises(OptionValueError, match=r"no offset matched.*t-1 and timestamp 2000"):
        Stream(log.path, startingTimestamp=2000).trigger()


def test_starting_options_are_for_a_new_query_only(log: GrowingLog) -> None:
    log.append(batch(0, 6))
    stream = Stream(log.path, committed=offsets(p0=2), startingOffsets="latest")
    assert stream.trigger() == [2, 3, 4, 5]


@pytest.mark.parametrize("starting", ['{"t":{"0":5}}', '{"t":{"0":5,"1":0,"9":0}}'])
def test_specified_partitions_must_match_exactly(log: GrowingLog, starting: str) -> None:
    log.append(batch(0, 6))
    log.append(batch(0, 6), partition=1)
    with pytest.raises(OptionValueError, match=r"Specified: .* Assigned: "):
        Stream(log.path, startingOffsets=starting).trigger()


@pytest.mark.parametrize(
    "options",
    [
        {"endingOffsets": '{"t":{"0":4}}'},
        {"endingTimestamp": 500},
        {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
    ],
)
def test_a_start_above_its_end_is_refused(log: GrowingLog, options: dict[str, Any]) -> None:
    log.append(batch(0, 6))
    with pytest.raises(OptionValueError, match="START_OFFSET_GREATER_THAN_END_OFFSET"):
        Stream(log.path, **options).trigger()


@pytest.mark.parametrize(("start", "reset"), [(2, 3), (99, 6)])
def test_a_starting_offset_outside_of_the_log_is_a_loss(
    log: GrowingLog, start: int, reset: int
) -> None:
    log.append(batch(0, 6))
    log.builder.log_start_offsets({("t", 0): 3})
    starting = json.dumps(offsets(p0=start))
    with pytest.raises(DataLossError, match=r"KAFKA_DATA_LOSS.START_OFFSET_RESET.*t-0 was"):
        Stream(log.path, startingOffsets=starting).trigger()
    stream = Stream(log.path, startingOffsets=starting, failOnDataLoss=False)
    stream.trigger()
    assert stream.committed == offsets(p0=reset)


def test_a_topic_that_is_not_there_is_refused_by_a_new_query(log: GrowingLog) -> None:
    log.append(batch(0, 6))
    with pytest.raises(UnknownTopicOrPartitionError, match="missing"):
        Stream(log.path, subscribe="t,missing").trigger()


def test_the_high_watermark_bounds_what_is_read(log: GrowingLog) -> None:
    log.append(batch(0, 6))
    log.builder.high_watermarks({("t", 0): 4})
    stream = Stream(log.path, startingOffsets="earliest", untilHighWatermark=True)
    assert stream.run() == [[], [0, 1, 2, 3]]
    # A young partition is named by no checkpoint yet.
    log.append(batch(0, 2), partition=1)
    assert stream.run() == [[]]
    log.builder.high_watermarks({("t", 0): 6, ("t", 1): 2})
    assert stream.run() == [[4, 5, 0, 1]]


def test_a_high_watermark_that_nothing_tells_is_refused(log: GrowingLog) -> None:
    log.append(batch(0, 6))
    with pytest.raises(OptionValueError, match="replication-offset-checkpoint"):
        Stream(log.path, untilHighWatermark=True).trigger()


def test_max_offsets_are_shared_out_in_proportion(log: GrowingLog) -> None:
    for partition, count in enumerate((101, 11, 1)):
        log.append(batch(0, count), partition=partition)
    stream = Stream(log.path, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    stream.trigger()
    assert len(stream.trigger() or ()) == 10
    assert stream.committed == offsets(p0=8, p1=1, p2=1)


def test_a_new_partition_shares_from_its_log_start_offset(log: GrowingLog) -> None:
    log.append(batch(0, 10))
    stream = Stream(log.path, maxOffsetsPerTrigger=4)
    stream.trigger()
    log.append(batch(10, 10))
    log.append(batch(0, 10), partition=1)
    assert stream.trigger() == [10, 11, 0, 1]


def test_a_minimum_waits_after_the_first_trigger_and_no_longer_than_the_delay(
    log: GrowingLog,
) -> None:
    now = [0]
    log.append(batch(0, 5))
    stream = Stream(
        log.path,
        startingOffsets="earliest",
        minOffsetsPerTrigger=100,
        maxTriggerDelay="2s",
        clock_ms=lambda: now[0],
    )
    assert stream.trigger() == []
    assert stream.trigger() == [0, 1, 2, 3, 4]
    log.append(batch(5, 5))
    assert stream.trigger() is None
    now[0] = 1999
    assert stream.trigger() is None
    now[0] = 2000
    assert stream.trigger() == [5, 6, 7, 8, 9]
    log.append(batch(10, 100))
    assert len(stream.trigger() or ()) == 100


def test_minimum_and_maximum_hold_together(log: GrowingLog) -> None:
    log.append(batch(0, 30))
    stream = Stream(
        log.path,
        startingOffsets="earliest",
        minOffsetsPerTrigger=10,
        maxOffsetsPerTrigger=12,
        clock_ms=lambda: 0,
    )
    assert [len(rows) for rows in stream.run()] == [0, 12, 12]
    assert stream.committed == offsets(p0=24)


def test_a_stream_goes_on_after_retention_deleted_what_it_has_read(log: GrowingLog) -> None:
    log.append(batch(0, 5))
    log.append(batch(5, 5), base=5)
    stream = Stream(log.path, committed=offsets(p0=5))
    log.segment().rename(f"{log.segment()}.deleted")
    assert stream.trigger() == [5, 6, 7, 8, 9]


def test_retention_beyond_the_start_is_a_loss(log: GrowingLog, caplog: Any) -> None:
    log.append(batch(0, 5))
    log.append(batch(5, 5), base=5)
    log.segment().unlink()
    failing = Stream(log.path, committed=offsets(p0=3))
    with pytest.raises(DataLossError, match=r"offset \[3, 5\) for topic partition t-0") as info:
        failing.trigger()
    assert info.value.condition == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    stream = Stream(log.path, committed=offsets(p0=3), failOnDataLoss=False)
    with caplog.at_level(logging.WARNING):
        assert stream.run() == [[5, 6, 7, 8, 9]]
    assert caplog.text.count("COULD_NOT_READ_OFFSET_RANGE") == 1


def test_a_log_that_was_cut_goes_on_at_its_end(log: GrowingLog) -> None:
    log.append(batch(0, 5))
    size = log.segment().stat().st_size
    log.append(batch(5, 5))
    stream = Stream(log.path, committed=offsets(p0=0), failOnDataLoss=False)
    assert stream.run() == [list(range(10))]
    log.cut(size)
    assert stream.run() == [[]]
    assert stream.committed == offsets(p0=5)
    log.append(batch(5, 2))
    assert stream.run() == [[5, 6]]


def test_a_partition_that_appears_later_starts_at_earliest(log: GrowingLog) -> None:
    log.append(batch(0, 5))
    stream = Stream(log.path)
    stream.trigger()
    log.append(batch(0, 3), partition=1)
    log.append(batch(0, 2), topic="u")
    assert stream.trigger() == [0, 1, 2, 0, 1]
    assert stream.committed == {"t": {"0": 5, "1": 3}, "u": {"0": 2}}


def test_an_added_partition_that_does_not_start_at_zero_is_a_loss(log: GrowingLog) -> None:
    log.append(batch(0, 5))
    log.create(1, base=7)
    log.append(batch(7, 2), partition=1, base=7)
    with pytest.raises(DataLossError, match="Added partition t-1 starts from 7 instead of 0"):
        Stream(log.path, committed=offsets(p0=5)).trigger()
    stream = Stream(log.path, committed=offsets(p0=5), failOnDataLoss=False)
    assert stream.run() == [[7, 8]]
