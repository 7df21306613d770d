"""Framing, gaps, tails and corruption of one segment: the exact rows that survive."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path

import pytest

from spark_segmentlog.errors import CrcMismatchError, DataLossError, InvalidBatchError
from spark_segmentlog.log.io.as_listed import StorageAsListed, as_listed
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.io.remote_file import MOST_AHEAD_BYTES, PEEK_BYTES
from spark_segmentlog.log.partition.listed_log import ListedLog
from spark_segmentlog.log.segment.segment import SEGMENTS_AHEAD, Segment, opened_ahead
from spark_segmentlog.testing.builder import (
    RecordSpec,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.noting import note_calls
from tests.support.object_store import ObjectStore
from tests.support.reading import (
    batch,
    build_log,
    flip_bit,
    log_file,
    offsets,
    open_one,
    skipping,
)


def test_the_end_of_a_log_of_one_empty_batch_is_after_it(tmp_path: Path) -> None:
    empty = v2_batch([], base_offset=100, last_offset_delta=9)
    log = build_log(tmp_path, SegmentSpec([empty], base_offset=100))
    assert (offsets(log), log.log_end_offset) == ([], 110)


def test_next_offset_comes_from_the_header_when_the_last_records_were_removed(
    tmp_path: Path,
) -> None:
    records = [RecordSpec(value=b"v", offset_delta=delta) for delta in (0, 2, 4)]
    compacted = v2_batch(records, base_offset=10, last_offset_delta=9)
    log = build_log(tmp_path, SegmentSpec([compacted], base_offset=10))
    assert log.log_end_offset == 20
    assert offsets(log, start=15) == []
    two = build_log(tmp_path / "two", SegmentSpec([compacted, batch(20)], base_offset=10))
    assert offsets(two, start=15) == [20]


def test_an_offset_in_the_removed_tail_of_a_segment_reads_on_in_the_next(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v", offset_delta=3)]
    last = v2_batch(records, base_offset=8737, last_offset_delta=10)
    log = build_log(tmp_path, SegmentSpec([last], base_offset=0), [batch(8748, 2)])
    assert offsets(log, start=8745) == [8748, 8749]
    assert log.read(8745, 1).next_offset == 8748
    assert log.read(8748, 1).next_offset == 8750


def test_an_empty_segment_ends_at_its_base_offset(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5)], SegmentSpec([], base_offset=7))
    assert log.log_end_offset == 7
    assert offsets(log) == [0, 1, 2, 3, 4]


# Tails


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("cut", [1, 5, 16, 17, 30, 60, 61, 75])
def test_a_torn_last_batch_ends_the_log_before_it(tmp_path: Path, cut: int, clean: bool) -> None:
    torn = batch(5, 3)
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=torn[: len(torn) - cut]), clean=clean)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert log.log_end_offset == 5


@pytest.mark.parametrize("length", range(1, 17))
def test_part_of_a_header_at_the_end_is_no_error(tmp_path: Path, length: int) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=batch(5)[:length]))
    assert offsets(log) == [0, 1, 2, 3, 4]


def test_a_torn_batch_is_read_once_it_is_whole(tmp_path: Path) -> None:
    whole = batch(5, 5)
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=whole[:70]), clean=False)
    assert offsets(log) == [0, 1, 2, 3, 4]
    with open(log_file(log), "ab") as file:
        file.write(whole[70:])
    assert offsets(open_one(tmp_path), start=log.log_end_offset) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("zeros", [1, 12, 17, 61, 1 << 20])
def test_zeros_of_a_preallocated_segment_are_its_end(tmp_path: Path, zeros: int) -> None:
    log = build_log(tmp_path, SegmentSpec([batch(0, 5)], tail=bytes(zeros)), clean=False)
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert log.log_end_offset == 5


@pytest.mark.parametrize("zeros", [100, 1_000_000])
def test_zeros_with_data_after_them_are_an_error(tmp_path: Path, zeros: int) -> None:
    log = build_log(tmp_path, [batch(0, 5), bytes(zeros), batch(5, 5)])
    with pytest.raises(InvalidBatchError, match=r"length 0|zeros where a batch should start"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == list(range(10))
    assert [(skipped_range.position, skipped_range.length) for skipped_range in skipped] == [
        (len(batch(0, 5)), zeros)
    ]


def test_a_bad_last_batch_is_the_end_where_a_crash_can_have_left_it(tmp_path: Path) -> None:
    bad = batch(5, 3, crc=1)
    log = build_log(
        tmp_path, SegmentSpec([batch(0, 5), bad], tail=bytes(50)), clean=False, recovery_point=5
    )
    assert offsets(log) == [0, 1, 2, 3, 4]
    assert log.log_end_offset == 5


def test_a_single_bad_batch_of_a_crashed_log_leaves_it_empty(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5, crc=1)], clean=False, recovery_point=0)
    assert (offsets(log), log.log_end_offset) == ([], 0)


@pytest.mark.parametrize(
    ("clean", "recovery_point", "after"),
    [
        (True, 0, b""),  # a clean shutdown leaves nothing half written
        (False, 6, b""),  # what lies below the recovery point was flushed
        (False, 0, batch(8)),  # another batch follows
        (False, None, b""),  # nothing tells of a crash
    ],
)
def test_a_bad_batch_is_an_error_anywhere_else(
    tmp_path: Path, clean: bool, recovery_point: int | None, after: bytes
) -> None:
    log = build_log(
        tmp_path,
        [batch(0, 5), batch(5, 3, crc=1) + after],
        clean=clean,
        recovery_point=recovery_point,
    )
    with pytest.raises(CrcMismatchError, match=r"0\.log, position \d+, base offset 5, ") as raised:
        offsets(log)
    assert pickle.loads(pickle.dumps(raised.value)).position == len(batch(0, 5))


def test_a_bad_last_batch_of_a_segment_that_is_not_the_last_is_an_error(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5, crc=1)], [batch(5)], clean=False, recovery_point=0)
    with pytest.raises(CrcMismatchError):
        offsets(log)


def test_a_file_cut_beside_the_reader_is_data_loss(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 5), batch(5, 5), batch(10, 5)])
    assert log.log_end_offset == 15
    with open(log_file(log), "r+b") as file:
        file.truncate(2 * len(batch(0, 5)) - 7)
    with pytest.raises(DataLossError, match=r"\[5, 15\)"):
        offsets(log)
    assert offsets(log, fail_on_data_loss=False) == [0, 1, 2, 3, 4]


def test_an_offset_that_falls_back_is_an_error(tmp_path: Path) -> None:
    """The checksum does not cover the base offset, so only the order tells."""
    log = build_log(tmp_path, [batch(0, 2), batch(2, 2), batch(4, 2)])
    flip_bit(log_file(log), len(batch(0, 2)) + 1, 0x10)
    with pytest.raises(
        InvalidBatchError, match=r"more than 2147483647 above .* from 2 on are missing|between"
    ):
        offsets(log)


def test_a_marker_with_a_wrong_checksum_is_an_error(tmp_path: Path) -> None:
    marker = bytearray(control_batch(1, base_offset=1, producer_id=5))
    marker[-1] ^= 1
    log = build_log(tmp_path, [batch(0), bytes(marker), batch(2)])
    with pytest.raises(CrcMismatchError, match="base offset 1"):
        offsets(log)
    rows, skipped = skipping(log)
    assert rows == [0, 2]
    assert len(skipped) == 1


def test_a_segment_pickles_small(tmp_path: Path) -> None:
    log = build_log(tmp_path, [batch(0, 2)])
    data = pickle.dumps(log.segments[0])
    assert len(data) < 600
    assert pickle.loads(data) == log.segments[0]


def far_log(sizes: list[int]) -> ListedLog:
    """List a far log of zeros, with segments of some sizes at the offsets 0, 1, 2 and so on."""
    files = {f"b/t-0/{base:020d}.log": bytes(size) for base, size in enumerate(sizes)}
    store = ObjectStore(files)
    storage = as_listed(resolve_storage("b", store.fsspec_filesystem())[0])
    return ListedLog.open("b/t-0", storage=storage)


def opened_while_read(
    monkeypatch: pytest.MonkeyPatch, segments: Iterable[Segment], end_offset: int, part: float = 1.0
) -> list[tuple[int, int]]:
    """Read a part of each segment; gives base offsets, and the last one that was opened by then."""
    last_opened = 0

    def note(storage: StorageAsListed, path: str) -> None:
        nonlocal last_opened
        last_opened = int(path.rpartition("/")[2].partition(".")[0])

    note_calls(monkeypatch, StorageAsListed, "open_soon", note)
    found = []
    for segment in opened_ahead(segments, end_offset):
        with segment.open_log() as file:
            for position in range(0, int(file.size() * part), PEEK_BYTES):
                file.read_at(position, PEEK_BYTES)
        found.append((segment.base_offset, last_opened))
    return found


def test_small_segments_are_opened_as_soon_as_one_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segments = far_log([1] * 20).segments_between(0, 20)
    read = opened_while_read(monkeypatch, segments, 20)
    assert read == [(base, min(base + SEGMENTS_AHEAD, 19)) for base in range(20)]


def test_of_large_segments_the_next_one_is_opened_once_one_is_asked_for_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = far_log([2 * MOST_AHEAD_BYTES] * 3)
    assert opened_while_read(monkeypatch, log.segments_between(0, 2), 2, 0.9) == [(0, 1), (1, 1)]
    monkeypatch.undo()
    assert opened_while_read(monkeypatch, log.segments_between(0, 2), 2, 0.01) == [(0, 0), (1, 0)]


def test_a_segment_of_which_little_is_read_is_opened_ahead_if_it_is_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for size, last_opened in ((PEEK_BYTES, 1), (PEEK_BYTES + 1, 0)):
        # Where the last one ends is not known.
        log = far_log([1, size])
        assert opened_while_read(monkeypatch, log.segments_between(0, 2), 2)[0] == (0, last_opened)
        monkeypatch.undo()
    log = far_log([1, PEEK_BYTES + 1])
    assert log.log_end_offset == 1
    last = log.segments[-1]
    assert (last.is_read_whole(1), last.is_read_whole(0)) == (True, False)
