"""Reading ahead: while one piece is in hand, a thread reads and chooses the next."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES, ReadBuffer
from spark_segmentlog.log.segment.walk import HeaderWalk


class _ChosenPiece(Protocol):
    """What somebody made of a piece."""

    @property
    def is_last(self) -> bool:
        """Whether nothing after the piece is wanted."""


_Chosen = TypeVar("_Chosen", bound=_ChosenPiece)


def pieces_ahead(walk: HeaderWalk, pieces: Iterator[_Chosen]) -> Iterator[_Chosen]:
    """Give what is made of each piece of a walk; while one is in hand, a thread makes the next.

    Reading, walking, choosing and decoding hold no GIL. Nothing is read after a piece that
    `is_last`. To be closed before the file is.
    """
    chosen = next(pieces, None)
    if chosen is None:
        return
    if walk.file.size() - walk.position <= FIRST_READ_BYTES:
        yield chosen
        yield from pieces
        return
    spare = ReadBuffer()

    def read_next() -> _Chosen | None:
        nonlocal spare
        spare = walk.read_into(spare)
        return next(pieces, None)

    with ThreadPoolExecutor(1, "segmentlog-read-ahead") as reader:
        while chosen is not None:
            coming = None if chosen.is_last else reader.submit(read_next)
            yield chosen
            chosen = None if coming is None else coming.result()
