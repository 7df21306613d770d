"""Damaged logs: what is read of them, which error there is else, and what verification says."""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CorruptRecordError, DataLossError, InvalidBatchError
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.record.read.header_table import find_covering_entries
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from spark_segmentlog.testing.legacy import legacy_message, legacy_message_set, legacy_wrapper
from tests.support.reading import batch, open_one, read_offsets

ZERO_LOG = "t-0/00000000000000000000.log"


def corrupt(path: Path, **options: Any) -> list[dict[str, object]]:
    columns = ["offset", "_corrupt_record"]
    table = read_arrow(path, columns=columns, mode="PERMISSIVE", **options).read_all()
    return [row for row in table["_corrupt_record"].to_pylist() if row is not None]


def findings(path: Path) -> list[Finding]:
    return [finding for finding in verify(str(path), deep=True) if not finding.is_harmless]


def put(path: Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def ten_batches(base_offset: int = 0, **fields: object) -> list[bytes]:
    return [batch(base_offset + 10 * index, 10, **fields) for index in range(10)]


def three_segments(path: Path, **spec: Any) -> list[Path]:
    """Offsets 0 to 299 in three segments of ten batches, each batch indexed."""
    interval: dict[str, Any] = {"index_interval_bytes": 1}
    LogBuilder(path).partition(
        "t",
        0,
        [
            SegmentSpec(ten_batches(0), **interval, **spec),
            SegmentSpec(ten_batches(100), **interval, **spec),
            SegmentSpec(ten_batches(200), **interval, **spec),
        ],
    )
    return sorted((path / "t-0").glob("*.log"))


def fits(buffer: bytes, start: int, magic: int, size: int) -> bool:
    """Tell whether the fields of an entry agree with its size, as far as they are there."""
    if magic == 2:
        header = buffer[start : start + 61]
        delta, count = (int.from_bytes(header[at : at + 4], "big", signed=True) for at in (23, 57))
        return len(header) < 61 or (delta >= 0 and count > 0)
    position = start + (18, 26)[magic]
    for _ in range(2):
        length = buffer[position : position + 4]
        if len(length) < 4:
            return True
        position += 4 + max(int.from_bytes(length, "big", signed=True), 0)
        if position > start + size:
            return False
    return position == start + size


@given(st.data())
def test_covering_entries_are_those_of_a_plain_search(data: st.DataObject) -> None:
    entries = st.builds(
        lambda base, count, pad: pad + batch(lowest + base, count),
        st.integers(0, 20),
        st.integers(0, 3),
        st.binary(max_size=5) | st.builds(bytes, st.integers(0, 2000)),
    )
    lowest = data.draw(st.sampled_from([0, 2**32 - 10, 2**40]))
    buffer = b"".join(data.draw(st.lists(entries, min_size=1, max_size=4)))
    at = data.draw(st.integers(0, len(buffer) - 17))
    low = lowest + data.draw(st.integers(0, 10))
    high = lowest + data.draw(st.integers(0, 30))
    found = find_covering_entries(
        np.frombuffer(buffer, np.uint8), at, left=len(buffer) - at, min_offset=low, end_offset=high
    )
    expected = [
        start
        for start in range(at)
        if low <= (base := int.from_bytes(buffer[start : start + 8], "big", signed=True)) < high
        and (magic := buffer[start + 16]) <= 2
        and (size := 12 + int.from_bytes(buffer[start + 8 : start + 12], "big", signed=True))
        >= 12 + (14, 22, 49)[magic]
        and at - start < size <= len(buffer) - start
        and base >= 0
        and fits(buffer, start, magic, size)
    ]
    assert found is not None
    assert sorted(found.tolist()) == expected


# Where a segment ends


@pytest.mark.parametrize("cut", [1, 30, 100])
def test_a_closed_segment_that_is_torn_is_bad_bytes(tmp_path: Path, cut: int) -> None:
    first = three_segments(tmp_path)[0]
    size = first.stat().st_size
    with open(first, "r+b") as file:
        file.truncate(size - cut)
    with pytest.raises(InvalidBatchError, match="offsets 90 to 99 are missing"):
        read_offsets(tmp_path)
    kept = [*range(90), *range(100, 300)]
    assert read_offsets(tmp_path, mode="DROPMALFORMED") == kept
    (bad,) = corrupt(tmp_path)
    assert (bad["startOffset"], bad["endOffset"]) == (90, 100)
    (finding,) = findings(tmp_path)
    assert (finding.start_offset, finding.end_offset) == (90, 100)
    assert finding.kind is FindingKind.CORRUPT_BATCH


@pytest.mark.parametrize("zeroed", [False, True])
def test_a_closed_segment_that_ends_before_its_index_does_has_lost_records(
    tmp_path: Path, zeroed: bool
) -> None:
    first = three_segments(tmp_path)[0]
    size = first.stat().st_size
    half = sum(len(ten_batch) for ten_batch in ten_batches()[:5])
    if zeroed:
        put(first, half, bytes(size - half))
    else:
        with open(first, "r+b") as file:
            file.truncate(half)
    with pytest.raises(DataLossError, match=r"offset \[50, 100\)"):
        read_offsets(tmp_path)
    with pytest.raises(DataLossError, match=r"offset \[60, 70\)"):
        read_offsets(tmp_path, starting_offsets={"t": {"0": 60}}, ending_offsets={"t": {"0": 70}})
    assert read_offsets(tmp_path, ending_offsets={"t": {"0": 50}}) == list(range(50))
    kept = [*range(50), *range(100, 300)]
    assert read_offsets(tmp_path, fail_on_data_loss=False) == kept
    assert read_offsets(tmp_path, mode="DROPMALFORMED") == kept
    (bad,) = corrupt(tmp_path)
    assert (bad["startOffset"], bad["endOffset"], bad["position"]) == (50, 100, half)
    (finding,) = findings(tmp_path)
    assert finding.kind is FindingKind.LOST_OFFSETS
    assert (finding.start_offset, finding.end_offset) == (50, 100)


def test_recovery_says_which_offsets_are_lost_with_the_evidence(tmp_path: Path) -> None:
    first = three_segments(tmp_path)[0]
    with open(first, "r+b") as file:
        file.truncate(sum(len(ten_batch) for ten_batch in ten_batches()[:5]))
    told = [action.detail for action in recover(str(tmp_path), dry_run=True)]
    assert any("offsets 50 to 99 are missing" in detail for detail in told)
    done = [action.detail for action in recover(str(tmp_path), truncate=True)]
    assert any("offsets 50 to 99 are missing" in detail for detail in done)
    assert findings(tmp_path) == []
    assert read_offsets(tmp_path) == [*range(50), *range(100, 300)]


def test_zeros_that_no_index_reaches_into_are_padding(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition(
        "t", 0, [SegmentSpec(ten_batches(), tail=bytes(5000)), [batch(150, 5)]]
    )
    assert read_offsets(tmp_path) == [*range(100), *range(150, 155)]
    # Only a broker that recovers, which would delete what lies after them, makes something of it.
    assert [finding.kind for finding in findings(tmp_path)] == [FindingKind.TORN_SEGMENT]


def test_an_index_that_is_wrong_elsewhere_is_no_witness_of_a_loss(tmp_path: Path) -> None:
    data = ten_batches()
    index = struct.pack(">iiii", 9, 30, 120, sum(map(len, data)) + 100)
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, index=index), [batch(150, 5)]])
    assert read_offsets(tmp_path) == [*range(100), *range(150, 155)]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_segment_whose_log_is_gone_has_lost_its_records(tmp_path: Path, gone: int) -> None:
    three_segments(tmp_path)[gone].unlink()
    start, end = 100 * gone, 100 * gone + (100 if gone < 2 else 1)
    with pytest.raises(DataLossError, match=rf"\[{start}, {end}\).* its index is there"):
        read_offsets(tmp_path)
    kept = [offset for offset in range(300) if offset // 100 != gone]
    assert read_offsets(tmp_path, fail_on_data_loss=False) == kept
    assert read_offsets(tmp_path, mode="DROPMALFORMED") == kept
    (finding,) = findings(tmp_path)
    assert finding.kind is FindingKind.LOST_OFFSETS
    assert (finding.start_offset, finding.end_offset) == (start, end)
    asked = {"starting_offsets": {"t": {"0": 10}}, "ending_offsets": {"t": {"0": 20}}}
    if gone:
        assert read_offsets(tmp_path, **asked) == list(range(10, 20))


def test_a_lonely_index_below_the_log_start_is_no_loss(tmp_path: Path) -> None:
    three_segments(tmp_path)[0].unlink()
    LogBuilder(tmp_path).log_start_offsets({("t", 0): 100})
    assert read_offsets(tmp_path) == list(range(100, 300))
    assert findings(tmp_path) == []


def test_a_log_that_ends_below_its_recovery_point_has_lost_records(tmp_path: Path) -> None:
    last = three_segments(tmp_path)[-1]
    LogBuilder(tmp_path).recovery_points({("t", 0): 300})
    assert read_offsets(tmp_path) == list(range(300))
    with open(last, "r+b") as file:
        file.truncate(sum(len(ten_batch) for ten_batch in ten_batches(200)[:9]) + 30)
    for is_clean in (False, True):
        with pytest.raises(DataLossError, match=r"\[290, 300\).* recovery point 300"):
            read_offsets(tmp_path)
        assert read_offsets(tmp_path, ending_offsets={"t": {"0": 280}}) == list(range(280))
        assert read_offsets(tmp_path, fail_on_data_loss=False) == list(range(290))
        assert read_offsets(tmp_path, mode="DROPMALFORMED") == list(range(290))
        if is_clean:
            (tmp_path / ".kafka_cleanshutdown").touch()
    lost = [finding for finding in findings(tmp_path) if finding.kind is FindingKind.LOST_OFFSETS]
    assert [(lost_range.start_offset, lost_range.end_offset) for lost_range in lost] == [(290, 300)]


# Offsets that no checksum covers


@pytest.mark.parametrize("bit", range(63))
@pytest.mark.parametrize("row", [0, 4, 9])
def test_a_flipped_base_offset_drops_no_row_silently(tmp_path: Path, bit: int, row: int) -> None:
    first = three_segments(tmp_path)[0]
    position = sum(len(ten_batch) for ten_batch in ten_batches()[:row])
    put(first, position, struct.pack(">q", 10 * row ^ 1 << bit))
    whole = list(range(300))
    start, end = 10 * row, 10 * row + 10
    with pytest.raises(CorruptRecordError) as raised:
        read_offsets(tmp_path)
    assert (raised.value.position, raised.value.start_offset) == (position, start)
    kept = whole[:start] + whole[end:]
    assert read_offsets(tmp_path, mode="DROPMALFORMED") == kept
    (bad,) = corrupt(tmp_path)
    assert (bad["position"], bad["startOffset"], bad["endOffset"]) == (position, start, end)
    (finding,) = findings(tmp_path)
    assert (finding.position, finding.start_offset, finding.end_offset) == (position, start, end)


def test_a_segment_that_replaces_others_may_reach_into_them(tmp_path: Path) -> None:
    merged = SegmentSpec([batch(0, 2), batch(2, 2)], suffix=".swap")
    LogBuilder(tmp_path).partition("t", 0, [merged, [batch(2, 2)], [batch(4, 2)]])
    assert read_offsets(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_a_batch_far_above_its_segment_is_an_error_that_names_it(tmp_path: Path) -> None:
    data = [batch(0, 10), batch(2**40, 10)]
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, index=False, time_index=False)])
    with pytest.raises(InvalidBatchError, match="more than 2147483647 above"):
        read_offsets(tmp_path)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_record_offsets_count_where_the_last_offset_delta_does_not(
    tmp_path: Path, codec: str
) -> None:
    records = [RecordSpec(value=b"v") for _ in range(5)]
    data = v2_batch(records, base_offset=0, last_offset_delta=0, codec=codec)
    LogBuilder(tmp_path).partition("t", 0, [[data]])
    for mode in ("FAILFAST", "DROPMALFORMED"):
        assert read_offsets(tmp_path, mode=mode) == [0, 1, 2, 3, 4]
    assert open_one(tmp_path).log_end_offset == 5
    assert {finding.kind for finding in findings(tmp_path)} == {FindingKind.BATCH_HEADER}


def test_a_wrapper_of_offset_0_counts_up_from_0(tmp_path: Path) -> None:
    inner = b"".join(legacy_message(1, offset=offset, value=b"v") for offset in range(3))
    data = legacy_wrapper(1, inner, offset=0, codec="gzip")
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec([data], base_offset=0)])
    assert read_offsets(tmp_path) == [0, 1, 2]
    assert open_one(tmp_path).log_end_offset == 3
    (tmp_path / "t-0/00000000000000000000.index").unlink()
    assert read_offsets(tmp_path, starting_offsets={"t": {"0": 2}}) == [2]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("row", [1, 2])
@pytest.mark.parametrize("offset", range(5, 40))
def test_a_wrapper_of_another_offset_moves_no_row(
    tmp_path: Path, magic: int, row: int, offset: int
) -> None:
    records = [RecordSpec(value=b"v") for _ in range(10)]
    data = [
        legacy_message_set(magic, records, base_offset=10 * index, codec="gzip")
        for index in range(4)
    ]
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, base_offset=0), [batch(40, 5)]])
    path = tmp_path / ZERO_LOG
    put(path, sum(map(len, data[:row])), struct.pack(">q", offset))
    whole = list(range(45))
    if offset == 10 * row + 9:
        assert read_offsets(tmp_path) == whole
        return
    with pytest.raises(CorruptRecordError):
        read_offsets(tmp_path)
    kept = read_offsets(tmp_path, mode="DROPMALFORMED")
    assert set(whole[: 10 * row] + whole[10 * row + 20 :]) <= set(kept) <= set(whole)


# Offsets that are met again


def dip(kind: str, base_offset: int, count: int) -> bytes:
    if kind == "v2":
        return batch(base_offset, count)
    records = [RecordSpec(value=b"v") for _ in range(count)]
    return legacy_message_set(1, records, base_offset=base_offset, codec="gzip")


@pytest.mark.parametrize("kind", ["v1", "v2"])
@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED", "PERMISSIVE"])
@pytest.mark.parametrize(
    "spans",
    [
        [(0, 10), (5, 5), (10, 10)],
        [(0, 10), (5, 10), (15, 5)],
        [(0, 10), (5, 2), (7, 3), (10, 10)],
        [(0, 10), (0, 10)],
    ],
)
def test_offsets_that_dip_are_each_read_once(
    tmp_path: Path,
    kind: str,
    mode: str,
    spans: list[tuple[int, int]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = [dip(kind, base_offset, count) for base_offset, count in spans]
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, base_offset=0, index=False)])
    end = max(base_offset + count for base_offset, count in spans)
    with caplog.at_level(logging.WARNING):
        assert read_offsets(tmp_path, mode=mode) == list(range(end))
    is_seen = kind == "v2" or all(base + count <= 10 for base, count in spans[1:2])
    assert ("stand again" in caplog.text) == is_seen
    for start in range(end):
        assert read_offsets(tmp_path, mode=mode, starting_offsets={"t": {"0": start}}) == list(
            range(start, end)
        )
    assert open_one(tmp_path).log_end_offset == end
    assert {finding.kind for finding in findings(tmp_path)} <= {
        FindingKind.OFFSET_ORDER,
        FindingKind.TIME_INDEX,
    }
    assert (FindingKind.OFFSET_ORDER in {finding.kind for finding in findings(tmp_path)}) == is_seen


# One fault, one line


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 18, 60])
def test_a_bad_batch_is_one_row_however_the_read_is_cut(tmp_path: Path, parts: int) -> None:
    first = three_segments(tmp_path)[0]
    put(first, sum(len(ten_batch) for ten_batch in ten_batches()[:4]) + 70, b"\xff")
    assert [bad_range["startOffset"] for bad_range in corrupt(tmp_path, min_partitions=parts)] == [
        40
    ]


def test_every_bad_batch_of_a_segment_is_named(tmp_path: Path) -> None:
    first = three_segments(tmp_path)[0]
    positions = [sum(len(ten_batch) for ten_batch in ten_batches()[:row]) for row in (2, 5, 6)]
    for position in positions:
        put(first, position + 70, b"\xff")
    assert [finding.position for finding in findings(tmp_path)] == positions
    assert [finding.start_offset for finding in findings(tmp_path)] == [20, 50, 60]


@pytest.mark.parametrize("place", [70, 8, 17, 16])
def test_the_missing_offsets_are_named_whatever_of_the_batch_is_wrong(
    tmp_path: Path, place: int
) -> None:
    first = three_segments(tmp_path)[0]
    position = sum(len(ten_batch) for ten_batch in ten_batches()[:4])
    put(first, position + place, b"\x7f")
    with pytest.raises(CorruptRecordError, match="offsets 40 to 49 are missing") as raised:
        read_offsets(tmp_path)
    assert "base offset -1" not in str(raised.value)
    (bad,) = corrupt(tmp_path)
    assert (bad["startOffset"], bad["endOffset"]) == (40, 50)
