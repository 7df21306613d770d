"""Where the options end a stream."""

from __future__ import annotations

from tests.support.stream import GrowingLog, Stream, batch, offsets


def test_ending_offsets_stop_the_stream(log: GrowingLog) -> None:
    log.append(batch(0, 2))
    stream = Stream(log.path, startingOffsets="earliest", endingOffsets='{"t":{"0":5}}')
    assert stream.run() == [[], [0, 1]]
    log.append(batch(2, 6))
    log.append(batch(0, 2), partition=1)
    assert stream.run() == [[2, 3, 4]]
    # A partition that the option does not name is not read.
    assert stream.committed == offsets(p0=5, p1=0)


def test_an_ending_timestamp_stops_the_stream_at_the_first_record_that_late(
    log: GrowingLog,
) -> None:
    log.append(batch(0, timestamp_ms=1000))
    stream = Stream(log.path, startingOffsets="earliest", endingTimestamp=5000)
    assert stream.run() == [[], [0]]
    log.append(batch(1, timestamp_ms=4000), batch(2, timestamp_ms=2000))
    assert stream.run() == [[1, 2]]
    log.append(batch(3, timestamp_ms=4999), batch(4, timestamp_ms=5000), batch(5, timestamp_ms=1))
    assert stream.run() == [[3]]
    log.append(batch(6, timestamp_ms=2), base=6)
    assert stream.run() == []


def test_ending_timestamps_by_partition(log: GrowingLog) -> None:
    for partition in (0, 1):
        log.append(
            *[batch(number, timestamp_ms=1000 * number) for number in range(6)], partition=partition
        )
    ending = '{"t":{"0":2000,"1":9000}}'
    stream = Stream(log.path, startingOffsets="earliest", endingOffsetsByTimestamp=ending)
    assert stream.run() == [[], [0, 1, 0, 1, 2, 3, 4, 5]]


def test_an_ending_timestamp_names_the_earliest_and_latest_offset_as_an_offset_does(
    log: GrowingLog,
) -> None:
    for partition in (0, 1):
        log.append(batch(0, 2), partition=partition)
    ending = '{"t":{"0":-1,"1":-2}}'
    stream = Stream(log.path, startingOffsets="earliest", endingOffsetsByTimestamp=ending)
    assert stream.run() == [[], [0, 1]]
    assert stream.committed == offsets(p0=2, p1=0)
    log.append(batch(2))
    assert stream.run() == [[2]]
