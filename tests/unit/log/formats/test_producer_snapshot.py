"""Producer snapshots: bytes that read as they were written, and damaged ones."""

from __future__ import annotations

from spark_segmentlog.log.formats.producer_snapshot import (
    ProducerState,
    format_producer_snapshot,
    parse_producer_snapshot,
)


def _state(producer_id: int, first: int) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=3,
        last_sequence=36,
        last_offset=134,
        offset_delta=1,
        timestamp_ms=1_795_813_158_670,
        coordinator_epoch=0,
        current_txn_first_offset=first,
    )


def test_a_snapshot_reads_as_it_was_written() -> None:
    states = [_state(0, -1), _state(3, 140)]
    data = format_producer_snapshot(states)
    assert len(data) == 10 + 2 * 46
    assert parse_producer_snapshot(data) == states
    assert [state.is_in_transaction for state in states] == [False, True]


def test_a_damaged_snapshot_is_as_good_as_none() -> None:
    data = format_producer_snapshot([_state(0, -1)])
    assert parse_producer_snapshot(b"") is None
    assert parse_producer_snapshot(data[:-1]) is None
    assert parse_producer_snapshot(data + b"\x00") is None
    assert parse_producer_snapshot(b"\x00\x09" + data[2:]) is None
    assert all(
        parse_producer_snapshot(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
        for at in range(len(data))
    )
