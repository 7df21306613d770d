"""Transaction indexes made again with the other indexes of a segment, from the markers."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.formats.producer_snapshot import parse_producer_snapshot
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.upkeep.recovery import recover, reindex
from spark_segmentlog.testing.builder import (
    ProducerStateSpec,
    SegmentSpec,
    producer_snapshot_bytes,
)
from tests.support.broker_data import PRODUCERS, STATES, unpack
from tests.support.cleaning import plain_batches
from tests.support.transaction_batches import data
from tests.support.transaction_indexes import (
    build,
    entries,
    remove,
    spanning,
    transaction_indexes,
)

# As brokers wrote them


@pytest.mark.parametrize("keeps_snapshots", [True, False])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_all_indexes_made_anew_hold_a_brokers_transactions(
    producer: str, state: str, keeps_snapshots: bool, tmp_path: Path
) -> None:
    log = unpack(producer, state, tmp_path)
    before = transaction_indexes(log.log_directories)
    assert bool(before) is (producer != "kafka-2.8.2")
    remove(log.log_directories, "*.txnindex", *([] if keeps_snapshots else ["*.snapshot"]))
    assert all(action.is_done for action in reindex(log.log_directories))
    assert transaction_indexes(log.log_directories) == before


@pytest.mark.parametrize("keeps_snapshots", [True, False])
def test_a_segment_that_is_mended_gets_a_brokers_transaction_index(
    keeps_snapshots: bool, tmp_path: Path
) -> None:
    log = unpack("kafka-4.3.1-java-transactions", "clean", tmp_path / "log")
    before = transaction_indexes(log.log_directories)
    if not keeps_snapshots:
        remove(log.log_directories, "*.snapshot")
    # Each alone, so that what was open at its start must be found in what lies before.
    for path in map(Path, before):
        path.unlink()
        path.with_suffix(".index").unlink()
        (action,) = recover(log.log_directories)
        assert (action.path, action.is_done) == (str(path.with_suffix(".log")), True)
        assert transaction_indexes(log.log_directories) == before


def test_a_segment_without_an_abort_loses_its_transaction_index(tmp_path: Path) -> None:
    lies = SegmentSpec(plain_batches([(b"k", b"v")]), transaction_index=bytes(34))
    directory = build(tmp_path, lies)
    reindex(str(tmp_path))
    assert list(directory.glob("*.txnindex")) == []


# Where a log is cut


def test_a_cut_takes_the_entries_and_snapshots_after_it(tmp_path: Path) -> None:
    first, second, third = spanning()
    directory = build(tmp_path, first, second, third, snapshots=True)
    torn = directory / f"{5:020d}.log"
    torn.write_bytes(second[0] + second[1][:-3])
    assert entries(directory, 5)
    before = entries(directory, 0)
    recover(str(tmp_path), truncate=True, delete_later=True)
    assert entries(directory, 0) == before
    assert entries(directory, 5) == []
    offsets = [int(path.name[:20]) for path in sorted(directory.glob("*.snapshot"))]
    assert offsets == [0, 5, 6]
    states = parse_producer_snapshot((directory / f"{6:020d}.snapshot").read_bytes()) or []
    assert {state.producer_id: state.current_txn_first_offset for state in states} == {
        1: 0,
        2: 2,
        3: -1,
    }
    assert PartitionLog.open(str(directory)).last_stable_offset() == 0


def test_what_a_snapshot_after_a_cut_says_does_not_outlive_it(tmp_path: Path) -> None:
    batches = plain_batches([(b"k", b"v")] * 4, batch_size=1)
    directory = build(tmp_path, [*batches, data(7, 4)[:-3]])
    path = directory / f"{5:020d}.snapshot"
    open_since_4 = ProducerStateSpec(producer_id=7, current_txn_first_offset=4)
    path.write_bytes(producer_snapshot_bytes([open_since_4]))
    recover(str(tmp_path), truncate=True)
    with (directory / f"{0:020d}.log").open("ab") as log:
        log.write(b"".join(plain_batches([(b"k", b"v")] * 2, base_offset=4)))
    assert PartitionLog.open(str(directory)).last_stable_offset() == 6


def test_zeros_after_a_closed_segment_hide_nothing(tmp_path: Path) -> None:
    first, second, third = spanning()
    build(tmp_path, SegmentSpec(first, tail=bytes(100)), second, third)
    before = transaction_indexes([tmp_path])
    remove([tmp_path], "*.txnindex")
    reindex(str(tmp_path))
    assert transaction_indexes([tmp_path]) == before


def test_a_compaction_that_was_cut_short_is_ended_before_indexes_are_made(tmp_path: Path) -> None:
    directory = build(tmp_path, *spanning())
    before = transaction_indexes([tmp_path])
    for path in directory.glob(f"{5:020d}.*"):
        path.rename(f"{path}.swap")
    told = recover(str(tmp_path), dry_run=True)
    assert [str(action.kind) for action in told] == ["end compaction"]
    actions = reindex(str(tmp_path))
    assert [str(action.kind) for action in actions] == ["end compaction", *["rebuild indexes"] * 3]
    assert transaction_indexes([tmp_path]) == before
