"""Decoding by several threads: one walks and chooses pieces, others decode them, order is kept.

No task of these threads ever waits for anybody: a piece is read when there is room for one more,
and one that grows to more than `MAX_WAITING_BYTES` is decoded on when what there is of it is used.
So nothing holds up a process that ends, and memory is bounded: there are `PIECES_AHEAD` pieces more
than threads at once, each with its bytes as they lie in the file and twice `MAX_WAITING_BYTES` of
rows at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import Final

import pyarrow as pa

from spark_segmentlog.log.segment.scanned_piece import ScannedPiece

PIECES_AHEAD: Final = 2
MAX_WAITING_BYTES: Final = 32 * 1024 * 1024


def decode_pieces(pieces: Generator[ScannedPiece], threads_count: int) -> Generator[pa.RecordBatch]:
    """Decode pieces of scans in their order.

    Threads start with the first piece that may be decoded apart, so that there are none for a small
    log. None is left when the generator is used up or closed.

    Parameters
    ----------
    pieces : generator of ScannedPiece
        Run by one thread at a time; closed at the end.
    threads_count : int
        Threads that decode, beside the one that runs `pieces`.
    """
    with closing(pieces):
        for piece in pieces:
            if piece.held is not None:
                yield from _DecodeThreads(chain([piece], pieces), threads_count).rows()
                return
            yield from piece.decode()


class _DecodeThreads:
    """Pieces that are read and decoded ahead of whoever uses their rows."""

    def __init__(self, pieces: Iterator[ScannedPiece], threads_count: int) -> None:
        self._parts = self._read(pieces)
        self._ahead_count = threads_count + PIECES_AHEAD
        self._reader = ThreadPoolExecutor(1, "segmentlog-read")
        self._decoders = ThreadPoolExecutor(threads_count, "segmentlog-decode")
        # Those before them are decoded and used up.
        self._decoding: deque[_PieceDecoding] = deque(maxlen=self._ahead_count)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Give the rows of all pieces."""
        try:
            ahead = deque(self._reader.submit(self._next_part) for _ in range(self._ahead_count))
            while (part := ahead.popleft().result()) is not None:
                yield from part
                ahead.append(self._reader.submit(self._next_part))
        finally:
            self._reader.shutdown(cancel_futures=True)
            self._decoders.shutdown(cancel_futures=True)
            self._parts.close()
            for decoding in self._decoding:
                decoding.close()

    def _next_part(self) -> Iterator[pa.RecordBatch] | None:
        return next(self._parts, None)

    def _read(self, pieces: Iterator[ScannedPiece]) -> Generator[Iterator[pa.RecordBatch]]:
        """Have others decode what may be decoded apart, and decode what may not."""
        for piece in pieces:
            if piece.held is None:
                for arrow_batch in piece.decode():
                    yield iter([arrow_batch])
            else:
                decoding = _PieceDecoding(piece, self._decoders)
                self._decoding.append(decoding)
                yield decoding.rows()


class _PieceDecoding:
    """A piece that other threads decode."""

    def __init__(self, piece: ScannedPiece, decoders: ThreadPoolExecutor) -> None:
        self._piece = piece
        self._undecoded = piece.decode()
        self._decoders = decoders
        self._step = self._submit()

    def rows(self) -> Iterator[pa.RecordBatch]:
        is_over = False
        while not is_over:
            arrow_batches, is_over = self._step.result()
            if not is_over:
                self._step = self._submit()
            yield from arrow_batches

    def close(self) -> None:
        """Let go of memory and file, decoded or not."""
        assert self._piece.held is not None
        self._piece.held.close()

    def _submit(self) -> Future[tuple[list[pa.RecordBatch], bool]]:
        return self._decoders.submit(self._decode_some)

    def _decode_some(self) -> tuple[list[pa.RecordBatch], bool]:
        """Decode up to a size; tells whether the piece is used up."""
        arrow_batches: list[pa.RecordBatch] = []
        size_bytes = 0
        for arrow_batch in self._undecoded:
            arrow_batches.append(arrow_batch)
            size_bytes += arrow_batch.nbytes
            if size_bytes >= MAX_WAITING_BYTES:
                return arrow_batches, False
        self.close()
        return arrow_batches, True
