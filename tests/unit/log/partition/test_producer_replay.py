"""Producers followed from segment to segment, to make transaction indexes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
)
from spark_segmentlog.log.upkeep.recovery import recover, reindex
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction
from spark_segmentlog.testing.builder import (
    ABORT,
    RecordSpec,
    v2_batch,
)
from tests.support.transaction_batches import data, marker
from tests.support.transaction_indexes import (
    build,
    entries,
    remove,
    spanning,
    transaction_indexes,
)


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("mend", [recover, reindex])
def test_a_transaction_may_begin_segments_before_its_marker(
    mend: Callable[[str], list[RecoveryAction]], snapshots: bool, tmp_path: Path
) -> None:
    directory = build(tmp_path, *spanning(), snapshots=snapshots)
    before = transaction_indexes([tmp_path])
    assert len(before) == 3
    remove([tmp_path], "*.txnindex", "*.index")
    mend(str(tmp_path))
    assert transaction_indexes([tmp_path]) == before
    assert entries(directory, 8) == [
        AbortedTransaction(producer_id=1, first_offset=0, last_offset=9, last_stable_offset=10)
    ]


def test_a_snapshot_tells_what_began_in_a_segment_that_is_gone(tmp_path: Path) -> None:
    directory = build(tmp_path, *spanning(), snapshots=True)
    before = transaction_indexes([tmp_path])
    remove([tmp_path], f"{0:020d}.*")
    reindex(str(tmp_path))
    assert entries(directory, 5) == [
        AbortedTransaction(producer_id=2, first_offset=2, last_offset=6, last_stable_offset=0)
    ]
    del before[str(directory / f"{0:020d}.txnindex")]
    assert transaction_indexes([tmp_path]) == before
    # Without it, transactions begin with what is left of them, and those without data are none.
    remove([tmp_path], "*.snapshot")
    reindex(str(tmp_path))
    assert entries(directory, 5) == []
    assert [entry.first_offset for entry in entries(directory, 8)] == [5]


def test_after_bad_bytes_transaction_indexes_stay_up_to_the_next_snapshot(tmp_path: Path) -> None:
    directory = build(tmp_path, *spanning(), [data(5, 11), marker(ABORT, 5, 12)], snapshots=True)
    bad = directory / f"{0:020d}.log"
    whole = bad.read_bytes()
    bad.write_bytes(whole[:70] + bytes([whole[70] ^ 0xFF]) + whole[71:])
    before = transaction_indexes([tmp_path])
    for offset in (5, 8):
        (directory / f"{offset:020d}.snapshot").unlink()
    actions = {Path(action.path).name[:20]: action for action in reindex(str(tmp_path))}
    assert transaction_indexes([tmp_path]) == before
    assert [action.is_done for action in actions.values()] == [False, True, True, True]
    kept = "bad bytes before the segment may hide what was open"
    assert [kept in action.detail for action in actions.values()] == [False, True, True, False]
    # From the snapshot at 11 on all is known again.
    remove([tmp_path], "*.txnindex")
    reindex(str(tmp_path))
    assert [Path(path).name for path in transaction_indexes([tmp_path])] == [f"{11:020d}.txnindex"]


def test_a_marker_that_cannot_be_read_hides_what_was_open(tmp_path: Path) -> None:
    unreadable = v2_batch(
        [RecordSpec(key=b"?")], base_offset=5, control=True, transactional=True, producer_id=9
    )
    first, second, third = spanning()
    build(tmp_path, [*first, unreadable], [*second[1:]], third)
    before = transaction_indexes([tmp_path])
    actions = reindex(str(tmp_path))
    assert ["not the transaction index" in action.detail for action in actions] == [True] * 3
    assert transaction_indexes([tmp_path]) == before
