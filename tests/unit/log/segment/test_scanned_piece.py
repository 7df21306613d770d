from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from spark_segmentlog.log.segment.scanned_piece import SharedFile, Spares


def test_a_shared_file_is_closed_by_the_last_who_holds_it() -> None:
    class File:
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    file: Any = File()
    with SharedFile(file) as shared:
        held = ExitStack()
        held.enter_context(shared)
    assert not file.is_closed
    held.close()
    assert file.is_closed


def test_spares_are_made_where_there_are_none() -> None:
    spares: Spares[list[int]] = Spares(list)
    first = spares.borrow()
    assert spares.borrow() is not first
    spares.give_back(first)
    assert spares.borrow() is first
