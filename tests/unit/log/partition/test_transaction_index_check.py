"""Transaction indexes compared with the markers of their log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog.log.partition.transaction_index_check import (
    KnownAborts,
    find_transaction_index_fault,
)
from spark_segmentlog.log.transactions.producer_survey import survey_producers
from spark_segmentlog.testing.builder import ABORT, COMMIT, LogBuilder
from tests.support.reading import batch, open_one
from tests.support.transaction_batches import data, marker

BATCHES = [data(1, 0), marker(ABORT, 1, 1), data(2, 2), marker(COMMIT, 2, 3)]


def entry(producer: int, first: int, last: int, stable: int, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, producer, first, last, stable)


def fault(path: Path, index: bytes) -> str | None:
    LogBuilder(path).partition("t", 0, [BATCHES, [batch(4)]])
    (path / "t-0" / f"{0:020d}.txnindex").write_bytes(index)
    log = open_one(path)
    aborted = survey_producers(list(log.segments)).aborted
    known = KnownAborts(aborted=aborted, next_offset=4, is_damaged=False)
    return find_transaction_index_fault(log, log.segments[0], known)


def test_the_entry_of_an_abort_marker_is_right(tmp_path: Path) -> None:
    assert fault(tmp_path, entry(1, 0, 1, 2)) is None


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (b"", "lacks the aborted transaction"),
        (entry(1, 0, 1, 2)[:-1], "33 bytes, not a multiple of the 34"),
        (entry(1, 0, 1, 2, version=9), "has version 9, allowed is 0"),
        (entry(1, 0, 1, 2) * 2, "lies at or below offset 1"),
        (entry(1, 0, 1, 2) + entry(2, 2, 3, 4), "names no ABORT marker of its producer"),
        (entry(7, 0, 1, 2), "names a marker of producer 1"),
        (entry(1, 1, 1, 2), "first offset 0"),
        (entry(1, 0, 1, 3), "should have last stable offset 2"),
    ],
)
def test_what_contradicts_the_markers_is_told(tmp_path: Path, index: bytes, told: str) -> None:
    assert told in (fault(tmp_path, index) or "")
