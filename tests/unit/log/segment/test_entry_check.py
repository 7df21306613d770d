"""Index entries are believed only where a batch proves them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from spark_segmentlog.testing.legacy import legacy_message
from tests.support.reading import batch, open_one, read_offsets, timed


def test_entries_that_point_into_a_message_are_not_believed(tmp_path: Path) -> None:
    data = [
        legacy_message(0, offset=0, key=b"", value=None),
        v2_batch([RecordSpec(value=b"v")], base_offset=1),
    ]
    for entries in [[(3, 7), (1, 5)], [(0, 5)], [(1, 7)], [(1, 26)]]:
        index = b"".join(struct.pack(">ii", *entry) for entry in entries)
        LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, index=index)])
        assert read_offsets(tmp_path) == [0, 1]
        assert read_offsets(tmp_path, starting_offsets={"t": {"0": 1}}) == [1]


@pytest.mark.parametrize("offset", [4, 5, 9])
@pytest.mark.parametrize("after", [b"", b"!" * 50])
def test_a_whole_batch_inside_a_value_is_no_batch(
    tmp_path: Path, offset: int, after: bytes
) -> None:
    forged = v2_batch([RecordSpec(value=b"forged")], base_offset=offset)
    host = v2_batch([RecordSpec(value=b"x" * 9 + forged + after)] * 10, base_offset=0)
    position = host.index(forged)
    index = struct.pack(">ii", offset, position)
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec([host, batch(10, 5)], index=index)])
    log = open_one(tmp_path)
    assert log.log_end_offset == 15
    for start in range(15):
        assert read_offsets(tmp_path, starting_offsets={"t": {"0": start}}) == list(
            range(start, 15)
        )


def test_a_time_entry_of_another_segment_hides_no_record(tmp_path: Path) -> None:
    wrong = struct.pack(">qi", 50, 1)
    data = [timed(0, 100, 200), timed(2, 300, 400)]
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, time_index=wrong), [timed(4, 500)]])
    (tmp_path / ".kafka_cleanshutdown").touch()
    log = open_one(tmp_path)
    assert log.offset_for_timestamp(60) == (0, 100)
    assert read_offsets(tmp_path, starting_timestamp=60) == [0, 1, 2, 3, 4]
