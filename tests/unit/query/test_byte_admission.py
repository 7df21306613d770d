"""Micro-batches of about so many bytes."""

from __future__ import annotations

import pytest

from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.stream import GrowingLog, Stream, batch


def test_max_bytes_cut_at_the_end_of_a_batch(log: GrowingLog) -> None:
    one = batch(0, 2, size=400)
    log.append(*[batch(base, 2, size=400) for base in range(0, 20, 2)])
    log.append(*[batch(base, 2, size=400) for base in range(20, 40, 2)], base=20)
    stream = Stream(log.path, startingOffsets="earliest", maxBytesPerTrigger=len(one) * 7)
    read = stream.run()
    assert [offset for rows in read for offset in rows] == list(range(40))
    assert [len(rows) for rows in read] == [0, 14, 14, 12]


def test_max_bytes_take_one_batch_at_least(log: GrowingLog) -> None:
    log.append(batch(0, 3, size=400), batch(3, 3, size=400))
    stream = Stream(log.path, startingOffsets="earliest", maxBytesPerTrigger=1)
    assert stream.run() == [[], [0, 1, 2], [3, 4, 5]]


def test_max_bytes_and_max_offsets_hold_together(log: GrowingLog) -> None:
    log.append(*[batch(base, 2, size=400) for base in range(0, 20, 2)])
    by_offsets = Stream(
        log.path, startingOffsets="earliest", maxBytesPerTrigger=10_000, maxOffsetsPerTrigger=3
    )
    assert [len(rows) for rows in by_offsets.run()] == [0, 3, 3, 3, 3, 3, 3, 2]
    by_bytes = Stream(
        log.path, startingOffsets="earliest", maxBytesPerTrigger=1, maxOffsetsPerTrigger=5
    )
    assert max(len(rows) for rows in by_bytes.run()) == 2


@pytest.mark.parametrize("size", [1, 200, 330])
def test_a_number_of_bytes_never_reaches_into_a_torn_batch(log: GrowingLog, size: int) -> None:
    """Its value holds a batch, which must not be taken for one of the log."""
    log.append(batch(0, 2), batch(2, 2))
    torn = v2_batch([RecordSpec(value=batch(90, 2) + b"v" * 500)], base_offset=4)
    stream = Stream(log.path, startingOffsets="earliest", maxBytesPerTrigger=size)
    log.append(torn[:-10])
    assert [offset for rows in stream.run() for offset in rows] == [0, 1, 2, 3]
    log.append(torn[-10:])
    assert stream.run() == [[4]]
