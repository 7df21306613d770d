from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.segment import piece_choice
from spark_segmentlog.log.segment.piece_choice import ChosenPiece, PieceChooser
from tests.support.reading import batch, build_log, scan_options

BATCHES = [batch(10 * place, 10) for place in range(4)]


@pytest.fixture
def chosen(tmp_path: Path) -> ChosenPiece:
    """What a scan of offsets 12 to 25 reads of a segment in one piece."""
    segment = build_log(tmp_path, BATCHES).segments[0]
    chooser = PieceChooser(
        scan_options(start=12, end=25),
        segment,
        start_offset=12,
        end_offset=25,
        outcomes=None,
        on_lost=None,
    )
    with segment.walk() as walk:
        (piece,) = walk.pieces()
        return chooser.choose(walk, piece)


def test_the_batches_of_a_range_are_chosen_and_the_last_piece_is_known(
    chosen: ChosenPiece,
) -> None:
    assert chosen.selected.tolist() == [False, True, True, False]
    assert chosen.is_last
    assert chosen.end_offset == 25


def test_a_piece_is_worth_a_thread_by_what_is_chosen_of_it(
    chosen: ChosenPiece, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen_bytes = sum(map(len, BATCHES[1:3]))
    for worth_bytes, is_worth in ((chosen_bytes, True), (chosen_bytes + 1, False)):
        monkeypatch.setattr(piece_choice, "WORTH_A_THREAD_BYTES", worth_bytes)
        assert chosen.is_worth_a_thread == is_worth
    monkeypatch.setattr(piece_choice, "WORTH_A_THREAD_BYTES", 1)
    monkeypatch.setattr(piece_choice, "READ_BUFFER_BYTES", len(chosen.piece.buffer) - 1)
    assert not chosen.is_worth_a_thread
