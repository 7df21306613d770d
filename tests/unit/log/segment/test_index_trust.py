"""An index whose last entry names a batch that a crash has cut off hides nothing before it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.index_trust import FAR_WINDOW_BYTES, offset_beyond_end
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    offset_index_bytes,
    v2_batch,
)
from tests.support.object_store import ObjectStore
from tests.support.reading import batch, build_log, log_file, offsets, open_one, timed

T = 1_700_000_000_000


# Indexes are hints


def _indexed_segment(**segment: Any) -> SegmentSpec:
    batches = [timed(10 * place, *range(T + place, T + place + 10)) for place in range(40)]
    return SegmentSpec(batches, index_interval_bytes=300, **segment)


def _indexed(path: Path, **segment: Any) -> PartitionLog:
    return build_log(path, _indexed_segment(**segment))


RUBBISH = bytes(range(256)) * 3


UNSORTED = b"".join(
    struct.pack(">ii", offset, position) for offset, position in [(300, 9), (5, 7000), (80, 1)]
)


LIES = b"".join(struct.pack(">ii", offset, 5000 + offset) for offset in range(0, 390, 10))


NEGATIVE = struct.pack(">iiii", -50, 300, -10, 600)


UNSORTED_TIMES = struct.pack(">qiqi", T + 500, 20, T + 3, 390)

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("cut_bytes", [1, 60])
def test_the_log_ends_before_an_indexed_batch_that_is_cut_off(
    tmp_path: Path, is_clean: bool, cut_bytes: int
) -> None:
    batches = [
        v2_batch([RecordSpec(value=b"v" * 90)], base_offset=offset) for offset in range(5, 9)
    ]
    index = offset_index_bytes(batches, 5, interval_bytes=1)
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [SegmentSpec(batches, base_offset=5, index=index, cut_bytes=cut_bytes)])
    if is_clean:
        log.clean_shutdown()
    assert LogManager.open(str(tmp_path)).offset_bounds() == {T0: (5, 8)}
    with open_log(str(tmp_path)) as opened:
        assert opened.log_end_offset("t", 0) == 8


@pytest.mark.parametrize(
    "index",
    [
        True,
        False,
        b"",
        bytes(8),
        bytes(10_485_760),
        RUBBISH,
        UNSORTED,
        LIES,
        NEGATIVE,
        b"\x00\x00\x00",
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else str(value),
)
def test_no_offset_index_changes_a_row(tmp_path: Path, index: bool | bytes) -> None:
    log = _indexed(tmp_path, index=index)
    assert log.log_end_offset == 400
    assert offsets(log) == list(range(400))
    for start in (0, 5, 10, 99, 100, 101, 255, 399):
        assert offsets(log, start=start) == list(range(start, 400))
        assert offsets(log, start=start, end=start + 1) == [start]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "time_index",
    [True, False, b"", bytes(10_485_756), UNSORTED_TIMES, b"\x00" * 5],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else str(value),
)
def test_no_time_index_changes_a_row(tmp_path: Path, time_index: bool | bytes, clean: bool) -> None:
    log = _indexed(tmp_path, time_index=time_index)
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
        log = open_one(tmp_path)
    times = [T + place + more for place in range(40) for more in range(10)]
    for low in (T - 5, T, T + 17, T + 48, T + 49):
        expected = [offset for offset, time in enumerate(times) if time >= low]
        assert offsets(log, min_ms=low) == expected
        found = log.offset_for_timestamp(low)
        assert (found and found[0]) == (expected[0] if expected else None)


def test_a_time_index_that_a_crash_left_short_hides_no_row(tmp_path: Path) -> None:
    batches = [timed(place, T + place) for place in range(50)]
    segment = SegmentSpec(
        batches, index_interval_bytes=400, final_time_entry=False, index_size_bytes=10_485_756
    )
    log = build_log(tmp_path, segment, clean=False, recovery_point=0)
    assert offsets(log, min_ms=T + 49) == [49]
    assert log.offset_for_timestamp(T + 49) == (49, T + 49)


def test_a_short_time_index_above_the_recovery_point_is_walked_behind(tmp_path: Path) -> None:
    """Only below the recovery point, or after a clean stop, the last entry tells the maximum."""
    segments = [
        SegmentSpec(
            [timed(base + place, T + base + place) for place in range(10)],
            index_interval_bytes=300,
            final_time_entry=False,
        )
        for base in (0, 10, 20)
    ]
    log = build_log(tmp_path, *segments, clean=False, recovery_point=10)
    assert offsets(log, min_ms=T + 19) == list(range(19, 30))
    trusted = [segment.is_index_trusted for segment in log.segments]
    assert trusted == [True, False, False]


def test_zeros_after_the_time_entries_of_a_rolled_segment_do_not_date_it_to_1970(
    tmp_path: Path,
) -> None:
    entries = struct.pack(">qiqiqi", T, 0, T + 1, 1, T + 2, 2) + bytes(12_000)
    log = build_log(
        tmp_path, SegmentSpec([timed(0, T, T + 1, T + 2)], time_index=entries), [timed(3, T + 3)]
    )
    entry = log.segments[0].last_time_entry()
    assert entry is not None
    assert entry.timestamp == T + 2
    assert offsets(log, min_ms=T + 2) == [2, 3]


@pytest.mark.parametrize(
    "state", [{"clean": True}, {"clean": False}, {"clean": False, "recovery_point": 0}]
)
def test_index_entries_past_the_end_of_a_cut_log_are_ignored(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    whole = build_log(tmp_path, _indexed_segment(), **state)
    size = whole.segments[0].size_bytes()
    with open(whole.segments[0].log_path, "r+b") as file:
        file.truncate(size * 6 // 10)
    log = open_one(tmp_path)
    end = log.log_end_offset
    assert 0 < end < 400
    assert end % 10 == 0
    assert offsets(log) == list(range(end))
    assert offsets(log, start=end - 3) == [end - 3, end - 2, end - 1]
    assert offsets(log, start=395) == []
    assert offsets(log, min_ms=T + end // 10 + 20) == []
    assert log.offset_for_timestamp(T + end // 10 + 20) is None
    assert log.offset_for_timestamp(T + 12) == (39, T + 12)
    assert offsets(log, min_ms=T + end // 10 + 8) == [end - 1]


def test_an_index_of_the_file_that_came_after_tells_of_no_loss(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5), batch(5, 5)], [batch(10, 5)])
    segment = log.segments[0]
    path = Path(log_file(log))
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1000, 9))
    whole = path.read_bytes()
    path.write_bytes(batch(0, 5))
    with segment.open_log() as half:
        assert offset_beyond_end(segment, half, half.size(), 5) == 9
        path.rename(path.with_suffix(".deleted"))
        path.write_bytes(whole)
        with pytest.raises(FileNotFoundError):
            offset_beyond_end(segment, half, half.size(), 5)


@pytest.mark.parametrize("zeros", [0, 3, 40])
@pytest.mark.parametrize("base_offset", [0, 3_000_000])
def test_values_that_end_with_zeros_keep_no_entry_from_being_believed(
    tmp_path: Path, zeros: int, base_offset: int
) -> None:
    value = bytes(range(200, 230)) + bytes(zeros)
    batches = [
        v2_batch([RecordSpec(value=value)] * 3, base_offset=base_offset + 3 * number)
        for number in range(6000)
    ]
    log = build_log(tmp_path, SegmentSpec(batches, base_offset=base_offset))
    size = log.segments[0].size_bytes()
    for number in (2000, 4000, 5999):
        assert log.segments[0].position_for(base_offset + 3 * number) > (number - 100) / 6000 * size


def test_an_entry_that_points_into_a_value_is_not_believed_far_away(tmp_path: Path) -> None:
    forged = v2_batch([RecordSpec(value=b"forged")] * 3, base_offset=1)
    for padding in (0, FAR_WINDOW_BYTES - 200):
        first = v2_batch([RecordSpec(value=bytes(range(1, 101)) * (padding // 100) + forged)])
        second = v2_batch([RecordSpec(value=b"x")] * 3, base_offset=1)
        index = struct.pack(">ii", 3, first.index(forged))
        folder = tmp_path / str(padding)
        LogBuilder(folder).partition("t", 0, [SegmentSpec([first, second], index=index)])
        store = ObjectStore(
            {f"b/t-0/{path.name}": path.read_bytes() for path in (folder / "t-0").iterdir()}
        )
        log = open_one(Path("b/t-0"), filesystem=store.fsspec_filesystem())
        segment = log.segments[0]
        assert segment.position_for(3) == 0
        assert offsets(log, start=2) == [2, 3]
