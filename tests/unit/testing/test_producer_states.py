"""Producers and transactions that the builder follows."""

from __future__ import annotations

import struct
from pathlib import Path

from spark_segmentlog.testing.builder import (
    ABORT,
    DEFAULT_TIMESTAMP_MS,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    control_batch,
    producer_snapshot_bytes,
    v2_batch,
)


def test_aborted_transactions_are_indexed_where_their_marker_stands(tmp_path: Path) -> None:
    def data(offset: int, producer_id: int) -> bytes:
        return v2_batch(
            [RecordSpec(value=b"x")],
            base_offset=offset,
            transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )

    def abort(offset: int, producer_id: int) -> bytes:
        return control_batch(ABORT, base_offset=offset, producer_id=producer_id, producer_epoch=0)

    directory = LogBuilder(tmp_path).partition(
        "t", 0, [[data(0, 1), data(1, 2)], [abort(2, 2), abort(3, 1), abort(4, 1)]], snapshots=True
    )
    assert not (directory / "00000000000000000000.txnindex").exists()
    assert (directory / "00000000000000000002.txnindex").read_bytes() == struct.pack(
        ">hqqqqhqqqq", 0, 2, 1, 2, 0, 0, 1, 0, 3, 4
    )
    open_state = [
        ProducerStateSpec(
            producer_id=producer_id, producer_epoch=0, last_sequence=0, last_offset=producer_id - 1,
            timestamp_ms=DEFAULT_TIMESTAMP_MS, current_txn_first_offset=producer_id - 1,
        )
        for producer_id in (1, 2)
    ]  # fmt: skip
    snapshot = (directory / "00000000000000000002.snapshot").read_bytes()
    assert snapshot == producer_snapshot_bytes(open_state)
