"""Walks that tell of the transactions of a whole log, and of those open at an offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.errors import CrcMismatchError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.transactions.transaction_walk import (
    find_open_transactions,
    transaction_tracker,
    walk_transactions,
)
from spark_segmentlog.testing.builder import ABORT, COMMIT
from tests.support.reading import batch, build_log, open_one
from tests.support.transaction_batches import data, marker


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    first = [data(1, 0), data(2, 1, 2), marker(ABORT, 2, 3)]
    second = [batch(4), data(3, 5), marker(COMMIT, 1, 6), marker(COMMIT, 4, 7)]
    return build_log(tmp_path, first, second)


def test_transactions_come_by_their_ends_and_open_ones_last(log: PartitionLog) -> None:
    found = list(walk_transactions(log, log.log_end_offset))
    assert [(each.producer_id, each.state, each.first_offset) for each in found] == [
        (2, "aborted", 1),
        (1, "committed", 0),
        (3, "open", 5),
    ]
    assert [each.producer_id for each in walk_transactions(log, 1)] == [1]


@pytest.mark.parametrize(("end_offset", "first"), [(1, 0), (4, 0), (8, 5)])
def test_the_oldest_open_transaction_is_told_as_of_an_offset(
    log: PartitionLog, end_offset: int, first: int
) -> None:
    tracker = transaction_tracker(log, uncommitted_only=True)
    assert find_open_transactions(log, tracker, 0, end_offset) == first


def test_bad_bytes_after_an_open_transaction_are_an_error_or_told(log: PartitionLog) -> None:
    path = Path(log.segments[1].log_path)
    flipped = bytearray(path.read_bytes())
    flipped[len(batch(4)) - 1] ^= 1
    path.write_bytes(flipped)
    for skip_corrupt in (False, True):
        log = open_one(Path(log.directory), skip_corrupt=skip_corrupt)
        tracker = transaction_tracker(log, uncommitted_only=True)
        if skip_corrupt:
            assert find_open_transactions(log, tracker, 0, 6) == 0
        else:
            with pytest.raises(CrcMismatchError):
                find_open_transactions(log, tracker, 0, 6)
