"""One fault is one finding: what follows from it is not told again."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import DataLossError, InvalidBatchError
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.reading import batch, offsets, open_one, timed

SEGMENT = "00000000000000000000"


def build(path: Path, *segments: SegmentSpec, recovery_point: int = 0) -> Path:
    builder = LogBuilder(path)
    directory = builder.partition("t", 0, segments, snapshots=True)
    builder.recovery_points({("t", 0): recovery_point})
    builder.clean_shutdown()
    return directory


def found(path: Path) -> list[Finding]:
    return [it for it in verify(str(path), deep=True) if it.kind is not FindingKind.MISSING_INDEX]


def change(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def spec(batches: list[bytes]) -> SegmentSpec:
    return SegmentSpec(batches, base_offset=0, index_interval_bytes=0)


def test_a_bad_batch_that_indexes_name(tmp_path: Path) -> None:
    batches = [timed(0, 1), timed(1, 2), timed(2, 3)]
    directory = build(tmp_path, spec(batches), recovery_point=3)
    assert found(tmp_path) == []
    change(directory / f"{SEGMENT}.log", len(batches[0]) + 62, b"\xff")
    (one,) = found(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.CORRUPT_BATCH, 1, 2)


@pytest.mark.parametrize("kept", [0, 10])
def test_a_cut_log_whose_indexes_and_recovery_point_know_more(tmp_path: Path, kept: int) -> None:
    batches = [timed(0, 1), timed(1, 2), timed(2, 3)]
    directory = build(tmp_path, spec(batches), recovery_point=3)
    log = directory / f"{SEGMENT}.log"
    log.write_bytes(log.read_bytes()[: len(batches[0]) + kept])
    (one,) = found(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.LOST_OFFSETS, 1, 3)
    assert one.path == str(log)


def test_neighbouring_batches_of_another_segment(tmp_path: Path) -> None:
    first = [batch(0, 2), batch(2, 2)]
    second = [batch(4, 2), batch(6, 2), batch(8, 2)]
    directory = build(tmp_path, spec(first), SegmentSpec(second, base_offset=4), recovery_point=10)
    (directory / f"{SEGMENT}.log").write_bytes(b"".join(second))
    bad = [it for it in found(tmp_path) if it.kind is FindingKind.CORRUPT_BATCH]
    assert [(it.position, it.start_offset, it.end_offset) for it in bad] == [(0, 0, 4)]


def test_a_log_that_is_empty_and_was_not_is_a_loss(tmp_path: Path) -> None:
    directory = build(tmp_path, spec([batch(0, 5)]), recovery_point=5)
    (directory / f"{SEGMENT}.log").write_bytes(b"")
    with pytest.raises(DataLossError, match=r"\[0, 5\).*recovery point 5"):
        read_arrow(tmp_path).read_all()


def test_a_last_segment_that_is_empty_and_was_not_is_a_loss(tmp_path: Path) -> None:
    directory = build(
        tmp_path, spec([batch(0, 5)]), SegmentSpec([batch(5, 2)], base_offset=5), recovery_point=7
    )
    (directory / "00000000000000000005.log").write_bytes(b"")
    with pytest.raises(DataLossError, match=r"\[5, 7\)"):
        read_arrow(tmp_path).read_all()
    assert read_arrow(tmp_path, ending_offsets={"t": {"0": 4}}).read_all().num_rows == 4


def test_batches_below_the_name_of_their_segment_are_bad(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    segments = [spec([batch(0, 3)]), SegmentSpec([batch(0, 3), batch(3, 2)], base_offset=3)]
    builder.partition("t", 0, segments)
    with pytest.raises(InvalidBatchError, match="offsets 0 to 2, the segment starts at 3"):
        offsets(open_one(tmp_path))


def test_bad_bytes_up_to_the_zeros_of_a_closed_segment_end_where_the_next_starts(
    tmp_path: Path,
) -> None:
    batches = [batch(0, 2), batch(2, 2)]
    padded = SegmentSpec(batches, base_offset=0, tail=bytes(4096))
    directory = build(tmp_path, padded, SegmentSpec([batch(4, 1)], base_offset=4), recovery_point=5)
    change(directory / f"{SEGMENT}.log", len(batches[0]) + 62, b"\xff")
    (one,) = found(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.CORRUPT_BATCH, 2, 4)


def test_a_time_index_of_another_segment_makes_nothing_lost(tmp_path: Path) -> None:
    lying = struct.pack(">qiqi", 77, 1, 99, 7)
    closed = SegmentSpec([timed(0, 1, 2)], base_offset=0, time_index=lying)
    build(tmp_path, closed, SegmentSpec([timed(9, 3)], base_offset=9), recovery_point=10)
    assert offsets(open_one(tmp_path)) == [0, 1, 9]
    (one,) = found(tmp_path)
    assert one.kind is FindingKind.TIME_INDEX


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_with_half_an_entry(tmp_path: Path, suffix: str) -> None:
    directory = build(tmp_path, spec([timed(0, 1), timed(1, 2)]), recovery_point=2)
    path = directory / f"{SEGMENT}{suffix}"
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    (one,) = found(tmp_path)
    assert (one.path, one.detail) == (str(path), "3 bytes after the last whole entry")


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_producer_snapshot_that_does_not_hold_together(tmp_path: Path, damage: str) -> None:
    directory = build(tmp_path, spec([batch(0, 1)]), recovery_point=1)
    path = directory / "00000000000000000001.snapshot"
    content = path.read_bytes()
    path.write_bytes(content[:-1] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:])
    (one,) = found(tmp_path)
    assert (one.kind, one.path, one.is_harmless) == (
        FindingKind.PRODUCER_SNAPSHOT,
        str(path),
        True,
    )
