"""The records of a walk's batches, checked by threads while the walk goes on."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from spark_segmentlog.log.io.closing import Closing
from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES, READ_BUFFER_BYTES, ReadBuffer
from spark_segmentlog.log.segment.scanned_piece import Spares
from spark_segmentlog.log.segment.scanner import APART_BYTES
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.read.record_check import RecordCheck

THREADS: Final = os.cpu_count() or 1
PIECES_AHEAD: Final = 2


class RecordChecks(Closing):
    """Checks every record that a walk meets, piece by piece; to be left before its file is closed.

    Small pieces, huge ones, and wrappers, whose offsets the walk compares, are checked while the
    walk waits. Others have their memory for themselves.

    Parameters
    ----------
    walk : HeaderWalk
        Compares all checksums itself.
    """

    def __init__(self, walk: HeaderWalk) -> None:
        self._walk = walk
        self._are_good = True
        self._checks = Spares(RecordCheck)
        self._buffers = Spares(partial(ReadBuffer, APART_BYTES))
        self._threads = ThreadPoolExecutor(THREADS, "segmentlog-check")
        self._running: deque[Future[bool]] = deque()
        self._read_elsewhere()

    def close(self) -> None:
        """Give up what is not checked yet, and wait for what is."""
        self._threads.shutdown(cancel_futures=True)

    def check(self, table: HeaderTable) -> None:
        """Check the records of the walk's table in hand; none after a bad one."""
        if not self._are_good:
            return
        walk = self._walk
        is_huge = len(walk.buffer) > READ_BUFFER_BYTES
        if is_huge or int(table.size_bytes.sum()) < FIRST_READ_BYTES or _may_have_wrappers(table):
            self._are_good = self._is_good_here(table)
            if is_huge:
                self._read_elsewhere()
            return
        if len(self._running) == THREADS + PIECES_AHEAD:
            self._wait()
        position = walk.file_position
        checked = self._threads.submit(self._is_good_apart, self._read_elsewhere(), table, position)
        self._running.append(checked)

    def are_good(self) -> bool:
        """Tell, when the walk is over, whether all records were good."""
        while self._running:
            self._wait()
        return self._are_good

    def _wait(self) -> None:
        """Take the answer about the piece that was handed over first."""
        self._are_good = self._running.popleft().result() and self._are_good

    def _read_elsewhere(self) -> ReadBuffer:
        return self._walk.read_into(self._buffers.borrow())

    def _is_good_apart(self, read_buffer: ReadBuffer, table: HeaderTable, position: int) -> bool:
        check = self._checks.borrow()
        is_good = check.is_good(read_buffer.array, table, file_position=position)
        self._checks.give_back(check)
        self._buffers.give_back(read_buffer)
        return is_good

    def _is_good_here(self, table: HeaderTable) -> bool:
        walk = self._walk
        check = self._checks.borrow()
        is_good = check.is_good(
            walk.buffer,
            table,
            file_position=walk.file_position,
            check_wrapper=partial(walk.check_wrapper, table),
        )
        self._checks.give_back(check)
        return is_good


def _may_have_wrappers(table: HeaderTable) -> bool:
    return bool(((table.magic < MAGIC_V2) & table.is_compressed).any())
