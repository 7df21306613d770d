"""Dumps of indexes, snapshots and transactions."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.dumping import of_type, one_partition
from tests.support.running import NAME, batches, objects, run


def test_open_transactions_are_listed_after_those_that_ended(tmp_path: Path) -> None:
    def data(offset: int, producer_id: int, count: int) -> bytes:
        return v2_batch(
            [RecordSpec(value=b"x")] * count,
            base_offset=offset,
            transactional=True,
            producer_id=producer_id,
            producer_epoch=1,
        )

    directory = one_partition(
        tmp_path,
        [
            data(90, 3, 2),
            data(92, 4, 1),
            control_batch(ABORT, base_offset=93, producer_id=3, producer_epoch=2),
            control_batch(COMMIT, base_offset=94, producer_id=4, producer_epoch=1),
            data(100, 7, 5),
            v2_batch([RecordSpec(value=b"y")] * 6, base_offset=105),
        ],
    )
    assert run("dump", directory, "--transactions").lines == [
        f"Transactions in {directory}",
        (
            "producerId: 3 producerEpoch: 1 state: aborted firstOffset: 90 lastOffset: 91 count: 2 "
            "markerOffset: 93"
        ),
        (
            "producerId: 4 producerEpoch: 1 state: committed firstOffset: 92 lastOffset: 92 "
            "count: 1 markerOffset: 94"
        ),
        (
            "producerId: 7 producerEpoch: 1 state: open firstOffset: 100 lastOffset: 104 count: 5 "
            "markerOffset: none"
        ),
    ]
    last = objects("dump", directory, "--transactions")[-1]
    assert (last["state"], last["firstOffset"], last["markerOffset"]) == ("open", 100, None)


def test_indexes(tmp_path: Path) -> None:
    aborted = [
        v2_batch([RecordSpec(value=b"x")], base_offset=20, transactional=True, producer_id=7),
        control_batch(ABORT, base_offset=21, producer_id=7),
    ]
    size = len(batches(1)[0])
    directory = one_partition(
        tmp_path, SegmentSpec(batches(20), index_size_bytes=4096), SegmentSpec(aborted, index=False)
    )
    first, second = f"{directory}/{NAME}", f"{directory}/00000000000000000020"
    assert run("dump", directory, "--indexes").lines == [
        f"Dumping {first}.index",
        f"offset: 8 position: {8 * size}",
        f"offset: 16 position: {16 * size}",
        f"Dumping {first}.timeindex",
        "timestamp: 1008 offset: 8",
        "timestamp: 1016 offset: 16",
        "timestamp: 1019 offset: 19",
        f"Dumping {second}.timeindex",
        "timestamp: 1700000000000 offset: 20",
        f"Dumping {second}.txnindex",
        "version: 0 producerId: 7 firstOffset: 20 lastOffset: 21 lastStableOffset: 22",
    ]
    entries = objects("dump", directory, "--indexes", "--batches", "--offsets", "20:")
    assert [entry["type"] for entry in entries] == [
        "segment",
        "batch",
        "batch",
        "largestTimestamp",
        "index",
        "timeIndexEntry",
        "index",
        "abortedTransaction",
    ]


def test_an_index_of_zeros_is_empty_and_not_an_error(tmp_path: Path) -> None:
    spec = SegmentSpec(batches(1, base_offset=2076), index_size_bytes=10_000, index=bytes(10_000))
    directory = one_partition(tmp_path, spec)
    path = f"{directory}/00000000000000002076.index"
    ran = run("dump", directory, "--indexes")
    assert ran.exit_code == 0
    assert ran.lines[:2] == [f"Dumping {path}", f"{path} is empty."]


def test_snapshots(tmp_path: Path) -> None:
    open_one = ProducerStateSpec(
        producer_id=7,
        producer_epoch=1,
        last_sequence=1,
        last_offset=9,
        offset_delta=3,
        timestamp_ms=55,
        coordinator_epoch=2,
        current_txn_first_offset=6,
    )
    directory = one_partition(
        tmp_path,
        batches(10),
        snapshots={10: [open_one, ProducerStateSpec(producer_id=8)], 12: []},
    )
    (directory / "00000000000000000012.snapshot").write_bytes(b"\x00\x01rubbish")
    ran = run("dump", directory, "--snapshots")
    damaged = f"{directory}/00000000000000000012.snapshot"
    assert ran.lines == [
        f"Dumping {directory}/00000000000000000010.snapshot",
        (
            "producerId: 7 producerEpoch: 1 coordinatorEpoch: 2 "
            "currentTxnFirstOffset: OptionalLong[6] "
            f"lastTimestamp: 55 firstSequence: {2**31 - 2} lastSequence: 1 lastOffset: 9 "
            "offsetDelta: 3 timestamp: 55"
        ),
        (
            "producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 "
            "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: -1"
        ),
        f"Dumping {damaged}",
        f"{damaged} is damaged: a broker leaves it out.",
    ]
    assert ran.exit_code == 1
    assert [
        entry["isValid"]
        for entry in of_type(
            run("dump", directory, "--snapshots", "--format", "json").objects, "snapshot"
        )
    ] == [True, False]
