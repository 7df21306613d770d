"""The walk over a segment: its tables, and where it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import InvalidBatchError
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import STRICT, CorruptRange, WalkOptions
from spark_segmentlog.testing.builder import SegmentSpec
from tests.support.reading import batch, build_log, flip_bit, log_file

BATCHES = [batch(10 * place, 10) for place in range(20)]
BASES = list(range(0, 200, 10))
SIZE = len(b"".join(BATCHES))


def walk_over(
    path: Path, data: list[bytes], options: WalkOptions = STRICT, *, buffer_bytes: int = 1 << 20
) -> tuple[list[int], int, int]:
    """Give the base offsets that a walk meets, its position at the end, and the next offset."""
    segment = build_log(path, data).segments[0]
    with segment.walk(options, buffer=ReadBuffer(buffer_bytes)) as walk:
        met = [offset for table in walk for offset in table.base_offset.tolist()]
        return met, walk.position, walk.next_offset


@pytest.mark.parametrize("buffer_bytes", [100, len(BATCHES[0]) + 1, SIZE])
def test_every_batch_is_met_once_whatever_the_memory(tmp_path: Path, buffer_bytes: int) -> None:
    assert walk_over(tmp_path, BATCHES, buffer_bytes=buffer_bytes) == (BASES, SIZE, 200)


def test_zeros_and_half_a_batch_end_a_walk(tmp_path: Path) -> None:
    for name, rest in (("zeros", bytes(5_000)), ("half", batch(200, 10)[:-1])):
        assert walk_over(tmp_path / name, [*BATCHES, rest]) == (BASES, SIZE, 200)


def test_an_empty_segment_ends_at_its_name(tmp_path: Path) -> None:
    assert walk_over(tmp_path, []) == ([], 0, 0)


def test_a_walk_that_compares_the_last_batch_leaves_a_half_written_one_out(tmp_path: Path) -> None:
    segment = build_log(tmp_path, BATCHES, clean=False, recovery_point=0).segments[0]
    flip_bit(segment.log_path, SIZE - 1)
    with segment.walk(WalkOptions(compares_last=True)) as walk:
        assert [len(table) for table in walk] == [19]
        assert walk.torn_end
    with segment.walk() as walk:
        assert sum(len(table) for table in walk) == 20


def test_bad_bytes_are_told_and_stepped_over(tmp_path: Path) -> None:
    segment = build_log(tmp_path, BATCHES).segments[0]
    position = sum(map(len, BATCHES[:3]))
    flip_bit(segment.log_path, position + 70)
    told: list[CorruptRange] = []
    with segment.walk(WalkOptions(skip_corrupt=True, on_corrupt=told.append)) as walk:
        met = [offset for table in walk for offset in table.base_offset.tolist()]
    assert met == [offset for offset in BASES if offset != 30]
    (bad,) = told
    assert (bad.position, bad.length) == (position, len(BATCHES[3]))
    assert (bad.start_offset, bad.end_offset) == (30, 40)


def test_a_closed_segment_is_whole_batches_to_its_end(tmp_path: Path) -> None:
    segment = build_log(tmp_path, [*BATCHES, bytes(100)], [batch(200, 10)]).segments[0]
    with segment.walk() as walk:
        assert sum(len(table) for table in walk) == 20
        with pytest.raises(InvalidBatchError, match=f"whole batches up to {SIZE} only"):
            walk.check_whole()


@pytest.mark.parametrize("options", [WalkOptions(), WalkOptions(skip_corrupt=True)])
@pytest.mark.parametrize("gone", [0, 10])
def test_bytes_of_a_file_that_was_replaced_are_not_bad(
    tmp_path: Path, options: WalkOptions, gone: int
) -> None:
    """A cleaner merges two segments and splits them again: who read the merged one reads again."""
    log = build_log(tmp_path, [batch(0, 10)], SegmentSpec([batch(10, 10)], base_offset=10))
    segment = log.segments[0]
    path = Path(log_file(log))
    half = path.read_bytes()
    path.write_bytes(half + Path(log_file(log, 10)).read_bytes())
    with segment.open_log() as merged:
        Path(log_file(log, gone)).rename(path.with_suffix(".deleted"))
        if gone == 0:
            path.write_bytes(half)
        with pytest.raises(FileNotFoundError):
            list(HeaderWalk(segment, merged, options))


def test_what_a_bad_batch_leaves_missing_is_told_wherever_the_walk_is(tmp_path: Path) -> None:
    segment = build_log(tmp_path, BATCHES).segments[0]
    with segment.walk(buffer=ReadBuffer(3 * len(BATCHES[0]))) as walk:
        pieces = list(walk.pieces())
        assert len(pieces) > 3
        for piece in pieces:
            for position, base in zip(piece.table.position, piece.table.base_offset, strict=True):
                after = int(base) + 10 if base < BASES[-1] else None
                assert walk.missing_offsets_in(piece, int(position)) == (base, after)
