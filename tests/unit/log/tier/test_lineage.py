"""Which offsets of which copies count, told by leader epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.tier.lineage import choose_pieces
from spark_segmentlog.log.tier.remote_segment import RemoteSegment

Epochs = list[tuple[int, int]]


def segment(name: str, start: int, end: int, *epochs: tuple[int, int]) -> RemoteSegment:
    return RemoteSegment(
        segment_id=name,
        places=(),
        base_offset=start,
        end_offset=end,
        leader_epochs=tuple(LeaderEpoch(*each) for each in epochs),
    )


@pytest.mark.parametrize(
    ("segments", "lineage", "pieces"),
    [
        pytest.param([], [(0, 0)], [], id="nothing"),
        pytest.param(
            [segment("b", 50, 90, (0, 50)), segment("a", 0, 50, (0, 0))],
            [(0, 0)],
            [("a", 0, 50), ("b", 50, 90)],
            id="a chain, in any order",
        ),
        pytest.param(
            [segment("a", 0, 50, (0, 0)), segment("b", 60, 90, (0, 60))],
            [(0, 0)],
            [("a", 0, 50), ("b", 60, 90)],
            id="a hole is a hole",
        ),
        pytest.param(
            [segment("old", 0, 50, (0, 0)), segment("new", 0, 50, (0, 0))],
            [(0, 0)],
            [("new", 0, 50)],
            id="of two copies the later one",
        ),
        pytest.param(
            [segment("a", 0, 60, (0, 0)), segment("b", 50, 90, (0, 50))],
            [(0, 0)],
            [("a", 0, 50), ("b", 50, 90)],
            id="an overlap is of the one that begins last",
        ),
        pytest.param(
            [segment("a", 0, 100, (0, 0)), segment("b", 50, 60, (0, 50))],
            [(0, 0)],
            [("a", 0, 50), ("b", 50, 60), ("a", 60, 100)],
            id="one within another",
        ),
        pytest.param(
            [
                segment("a1", 0, 50, (0, 0)),
                segment("a2", 50, 100, (0, 50)),
                segment("b1", 30, 60, (0, 30), (1, 40)),
                segment("b2", 60, 120, (1, 60)),
            ],
            [(0, 0), (1, 40)],
            [("a1", 0, 30), ("b1", 30, 60), ("b2", 60, 120)],
            id="what a new leader took back does not count",
        ),
        pytest.param(
            [segment("x", 60, 100, (0, 60)), segment("y", 0, 101, (0, 0), (1, 40))],
            [(0, 0), (1, 40)],
            [("y", 0, 101)],
            id="a deposed leader's copy within the right one",
        ),
        pytest.param(
            [segment("a", 0, 50, (0, 0)), segment("b", 50, 90, (2, 50))],
            [(2, 70)],
            [("a", 0, 50), ("b", 50, 90)],
            id="a lineage that was cut with the log contradicts nothing below it",
        ),
        pytest.param(
            [segment("a", 0, 50, (3, 0))],
            [(0, 0), (2, 10)],
            [],
            id="an epoch that the lineage does not know",
        ),
        pytest.param(
            [segment("a", 0, 50)], [(0, 0)], [("a", 0, 50)], id="a segment that tells no epoch"
        ),
    ],
)
def test_pieces(
    segments: list[RemoteSegment], lineage: Epochs, pieces: list[tuple[str, int, int]]
) -> None:
    found = choose_pieces(segments, [LeaderEpoch(*each) for each in lineage])
    assert [
        (piece.segment.segment_id, piece.start_offset, piece.end_offset) for piece in found
    ] == pieces


SEGMENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=12)


@given(SEGMENTS)
def test_each_offset_is_in_one_piece_of_a_segment_that_has_it(spans: list[tuple[int, int]]) -> None:
    segments = [
        segment(str(number), start, start + size, (0, start))
        for number, (start, size) in enumerate(spans)
    ]
    pieces = choose_pieces(segments, [LeaderEpoch(0, 0)])
    held = [
        offset for piece in pieces for offset in range(piece.start_offset, piece.end_offset or 0)
    ]
    assert held == sorted({o for start, size in spans for o in range(start, start + size)})
    for piece in pieces:
        for offset in range(piece.start_offset, piece.end_offset or 0):
            having = [
                segment
                for segment in segments
                if segment.base_offset <= offset < (segment.end_offset or 0)
            ]
            assert piece.segment.base_offset == max(segment.base_offset for segment in having)
