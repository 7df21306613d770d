"""When a segment is full and what its indexes gain, against the builder's reading of the rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.segment.growth import (
    BatchExtents,
    SegmentConfig,
    SegmentEnd,
    append_batches,
    final_time_entry,
    must_roll,
)
from spark_segmentlog.testing.builder import (
    RecordSpec,
    offset_index_bytes,
    time_index_bytes,
    v2_batch,
)

HOUR_MS = 3_600_000


def extents(*rows: tuple[int, int, int]) -> BatchExtents:
    sizes, offsets, timestamps = zip(*rows, strict=True) if rows else ((), (), ())
    return BatchExtents(
        np.array(sizes, np.int64), np.array(offsets, np.int64), np.array(timestamps, np.int64)
    )


batch_shapes = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(0, 300),
        st.sampled_from([-1, 0, 5, 7, 1000, 2000, 1_700_000_000_000]),
    ),
    max_size=30,
)


@given(shapes=batch_shapes, interval=st.integers(0, 400), cuts=st.integers(1, 5))
def test_entries_equal_those_built_from_the_whole_log(
    shapes: list[tuple[int, int, int]], interval: int, cuts: int
) -> None:
    batches, rows, offset = [], [], 40
    for count, value_bytes, timestamp in shapes:
        records = [RecordSpec(value=b"v" * value_bytes, timestamp_ms=timestamp)] * count
        data = v2_batch(records, base_offset=offset)
        offset += count
        batches.append(data)
        rows.append((len(data), offset - 1, timestamp))
    segment_end = SegmentEnd.empty(40, created_ms=0)
    offset_bytes = time_bytes = b""
    for start in range(0, len(rows), cuts):
        added = append_batches(
            segment_end, extents(*rows[start : start + cuts]), index_interval_bytes=interval
        )
        offset_bytes += added.offset_entries.tobytes()
        time_bytes += added.time_entries.tobytes()
        segment_end = added.segment_end
    time_bytes += final_time_entry(segment_end).tobytes()
    assert offset_bytes == offset_index_bytes(batches, 40, interval_bytes=interval)
    assert time_bytes == time_index_bytes(batches, 40, interval_bytes=interval)
    assert segment_end.next_offset == offset
    assert segment_end.size_bytes == sum(map(len, batches))
    assert segment_end.offset_entries * 8 == len(offset_bytes)


FULL = SegmentEnd(
    base_offset=100,
    next_offset=200,
    size_bytes=900,
    rolling_timestamp=10 * HOUR_MS,
    created_ms=0,
    largest_timestamp=11 * HOUR_MS,
    offset_of_largest_timestamp=150,
    offset_entries=3,
    time_entries=2,
)
CONFIG = SegmentConfig(
    segment_bytes=1000, segment_ms=HOUR_MS, segment_index_bytes=80, index_interval_bytes=100
)


@pytest.mark.parametrize(
    ("change", "rolls"),
    [
        ({}, False),
        ({"size_bytes": 100}, False),
        ({"size_bytes": 101}, True),
        ({"largest_timestamp": 11 * HOUR_MS}, False),
        ({"largest_timestamp": 11 * HOUR_MS + 1}, True),
        ({"now_ms": 100 * HOUR_MS}, False),
        ({"last_offset": 100 + MAX_RELATIVE_OFFSET}, False),
        ({"last_offset": 101 + MAX_RELATIVE_OFFSET}, True),
        ({"index_entries": 2}, False),
        ({"index_entries": 7}, True),
    ],
)
def test_a_segment_rolls_when_full_or_old_or_its_index_is(
    change: dict[str, int], rolls: bool
) -> None:
    appended = {
        "size_bytes": 50,
        "last_offset": 201,
        "largest_timestamp": 10 * HOUR_MS,
        "now_ms": 0,
    }
    assert must_roll(FULL, CONFIG, **(appended | change)) is rolls


def test_a_segment_without_timestamps_rolls_by_the_wall_clock() -> None:
    segment_end = SegmentEnd(base_offset=0, next_offset=1, size_bytes=10, created_ms=500)
    for now_ms, rolls in ((500 + HOUR_MS, False), (501 + HOUR_MS, True)):
        assert (
            must_roll(
                segment_end,
                CONFIG,
                size_bytes=1,
                last_offset=1,
                largest_timestamp=-1,
                now_ms=now_ms,
            )
            is rolls
        )


def test_an_empty_segment_never_rolls_but_for_an_offset_it_cannot_say() -> None:
    segment_end = SegmentEnd.empty(0, created_ms=0)
    for last_offset, rolls in ((MAX_RELATIVE_OFFSET, False), (MAX_RELATIVE_OFFSET + 1, True)):
        assert (
            must_roll(
                segment_end,
                CONFIG,
                size_bytes=10_000,
                last_offset=last_offset,
                largest_timestamp=100 * HOUR_MS,
                now_ms=100 * HOUR_MS,
            )
            is rolls
        )


def test_a_segment_ends_below_two_gib_whatever_segment_bytes_says() -> None:
    segment_end = SegmentEnd(base_offset=0, next_offset=1, size_bytes=2**31 - 100)
    config = SegmentConfig(segment_bytes=2**40)
    appended = {"last_offset": 1, "largest_timestamp": -1, "now_ms": 0}
    assert not must_roll(segment_end, config, size_bytes=99, **appended)
    assert must_roll(segment_end, config, size_bytes=100, **appended)
