"""read_committed: what is aborted, and the last stable offset, told by batches and markers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import CorruptRecordError, CrcMismatchError, InvalidRecordError
from spark_segmentlog.log.partition.listed_log import ListedLog
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    AbortedTransactionSpec,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    transaction_index_bytes,
    v2_batch,
)
from tests.support.noting import note_calls
from tests.support.reading import batch, build_log, column, offsets, open_one, scan_options


def _data(base_offset: int, producer_id: int, count: int = 1, epoch: int = 0) -> bytes:
    return batch(
        base_offset, count, producer_id=producer_id, producer_epoch=epoch, transactional=True
    )


def _commit(base_offset: int, producer_id: int, epoch: int = 0) -> bytes:
    return control_batch(
        COMMIT, base_offset=base_offset, producer_id=producer_id, producer_epoch=epoch
    )


def _abort(base_offset: int, producer_id: int, epoch: int = 0) -> bytes:
    return control_batch(
        ABORT, base_offset=base_offset, producer_id=producer_id, producer_epoch=epoch
    )


def _entry(producer_id: int, first: int, last: int, stable: int) -> bytes:
    spec = AbortedTransactionSpec(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
    )
    return transaction_index_bytes([spec])


def _by_segment(log: ListedLog) -> list[int]:
    """Read each segment as a task of its own, knowing nothing but its segment."""
    end = log.last_stable_offset()
    rows = []
    for segment in log.segments_between(log.log_start_offset, end):
        bound = end if segment.end_offset_bound is None else min(end, segment.end_offset_bound)
        wanted = scan_options(start=segment.base_offset, end=bound, committed=True)
        rows += column(scan_segments([segment], wanted), "offset")
    return rows


STATES = [
    pytest.param({"clean": True}, id="clean"),
    pytest.param({"clean": True, "snapshots": True}, id="clean with snapshots"),
    pytest.param({"clean": False}, id="no checkpoint"),
    pytest.param({"clean": False, "recovery_point": 0, "snapshots": True}, id="crashed"),
    pytest.param({"clean": False, "recovery_point": 5}, id="crashed, flushed to 5"),
    pytest.param({"clean": False, "recovery_point": 5, "snapshots": True}, id="... snapshots"),
    pytest.param({"clean": False, "recovery_point": 99, "snapshots": True}, id="flushed"),
]


@pytest.mark.parametrize("state", STATES)
def test_a_commit_marker_does_not_end_the_range_that_is_aborted_later(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    batches = [_data(1, 1), _commit(2, 1), _data(3, 1), _abort(4, 1), _data(5, 1), _commit(6, 1)]
    log = build_log(tmp_path, SegmentSpec(batches, base_offset=0), **state)
    assert offsets(log, committed=True) == [1, 5]
    assert offsets(log) == [1, 3, 5]


@pytest.mark.parametrize("state", STATES)
def test_aborts_are_known_that_stand_in_later_segments(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    log = build_log(
        tmp_path,
        [_data(0, 7), batch(1)],
        [_data(2, 7), batch(3), _data(4, 7)],
        [batch(5), _abort(6, 7), _data(7, 7), _commit(8, 7)],
        **state,
    )
    assert offsets(log, committed=True) == [1, 3, 5, 7]
    assert _by_segment(log) == [1, 3, 5, 7]
    assert log.last_stable_offset() == 9


@pytest.mark.parametrize("state", STATES)
def test_interleaved_transactions_apply_in_whatever_order_they_end(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    batches = [
        *[_data(10, 1), batch(11), _data(20, 2), batch(21), _data(30, 2), _abort(31, 2)],
        *[batch(32), _data(50, 1), _abort(51, 1), batch(52)],
    ]
    log = build_log(
        tmp_path, SegmentSpec(batches[:4], base_offset=0), batches[4:7], batches[7:], **state
    )
    assert offsets(log, committed=True) == [11, 21, 32, 52]
    assert _by_segment(log) == [11, 21, 32, 52]


@pytest.mark.parametrize("state", STATES)
def test_an_open_transaction_holds_the_last_stable_offset(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    open_data = [_data(place, 7) for place in range(100, 105)]
    plain = [batch(place) for place in range(105, 111)]
    log = build_log(
        tmp_path, SegmentSpec([batch(98), batch(99), *open_data], base_offset=0), plain, **state
    )
    assert log.last_stable_offset() == 100
    assert log.log_end_offset == 111
    assert offsets(log, committed=True) == [98, 99]
    assert offsets(log) == list(range(98, 111))


@pytest.mark.parametrize("state", STATES)
def test_an_abort_that_ends_after_the_last_stable_offset_hides_what_lies_before(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    log = build_log(
        tmp_path,
        [batch(0), _data(1, 1), batch(2)],
        [_data(3, 2), batch(4)],
        [_abort(5, 1), batch(6)],
        **state,
    )
    assert log.last_stable_offset() == 3
    assert offsets(log, committed=True) == [0, 2]
    assert _by_segment(log) == [0, 2]


@pytest.mark.parametrize("state", STATES)
def test_markers_with_the_epoch_after_the_datas_end_its_transaction(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    """As a producer of transaction.version 2 has them."""
    batches = [
        *[_data(0, 4, epoch=0), _abort(1, 4, epoch=1), _data(2, 4, epoch=1)],
        *[_commit(3, 4, epoch=2), _data(4, 4, epoch=2)],
    ]
    log = build_log(tmp_path, batches[:2], batches[2:], **state)
    assert log.last_stable_offset() == 4
    assert offsets(log, committed=True) == [2]


@pytest.mark.parametrize("state", STATES)
def test_records_of_an_aborting_producer_outside_of_its_transaction_stay(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    plain = batch(2, producer_id=9, producer_epoch=0)
    log = build_log(tmp_path, [_data(0, 9), _data(1, 9), plain, _abort(3, 9), batch(4)], **state)
    assert offsets(log, committed=True) == [2, 4]


GARBLED_INDEXES = [
    pytest.param(False, id="missing"),
    pytest.param(b"", id="empty"),
    pytest.param(_entry(1, 0, 1, 2)[:20], id="cut"),
    pytest.param(bytes(34), id="zeros"),
    pytest.param(_entry(2, 2, 9, 10), id="of another producer, after the end"),
    pytest.param(_entry(1, 1, 1, 99), id="begins late, all below 99 decided"),
    pytest.param(_entry(7, 0, 6, 7), id="hides what is committed"),
    pytest.param(b"\xff" * 68, id="ones"),
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("index", GARBLED_INDEXES)
def test_rows_are_told_by_the_markers_whatever_a_transaction_index_holds(
    tmp_path: Path, state: dict[str, Any], index: bool | bytes
) -> None:
    segments = [
        SegmentSpec([_data(0, 1), _abort(1, 1), batch(2)], transaction_index=index),
        SegmentSpec([_data(3, 7), _data(4, 1)], transaction_index=index),
        SegmentSpec([_abort(5, 1), _commit(6, 7)], transaction_index=index),
    ]
    log = build_log(tmp_path, *segments, **state)
    assert offsets(log, committed=True) == [2, 3]
    assert _by_segment(log) == [2, 3]


@pytest.mark.parametrize(
    "open_transactions",
    [
        pytest.param({}, id="none"),
        pytest.param({9: 0}, id="of a producer that is not there"),
        pytest.param({1: 1}, id="that has ended"),
        pytest.param({2: 5}, id="that begins later"),
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_that_lies_neither_hides_nor_shows_rows(
    tmp_path: Path, open_transactions: dict[int, int], clean: bool
) -> None:
    segments = [[_data(0, 1), batch(1), _commit(2, 1)], [_data(3, 2), batch(4)], [batch(5)]]
    states = [
        ProducerStateSpec(producer_id=producer_id, current_txn_first_offset=first)
        for producer_id, first in open_transactions.items()
    ]
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, segments, snapshots=dict.fromkeys((3, 5, 6), states))
    if clean:
        builder.clean_shutdown()
    log = open_one(tmp_path)
    assert log.last_stable_offset() == 3
    assert offsets(log, committed=True) == [0, 1]


@pytest.mark.parametrize("state", STATES)
def test_a_range_that_begins_inside_of_an_aborted_batch_gives_none_of_it(
    tmp_path: Path, state: dict[str, Any]
) -> None:
    log = build_log(
        tmp_path, [_data(0, 1, 4), batch(4)], [_data(5, 1, 3), _abort(8, 1), batch(9)], **state
    )
    for start in range(11):
        for end in range(start, 11):
            expected = [offset for offset in (4, 9) if start <= offset < end]
            assert offsets(log, start=start, end=end, committed=True) == expected


@pytest.mark.parametrize("position", range(21, 61))
def test_a_flipped_bit_of_a_marker_after_the_range_is_an_error_of_the_read(
    tmp_path: Path, position: int
) -> None:
    """Whatever of its header is flipped: the read of what it ended must not go by it."""
    log = build_log(tmp_path, [_data(0, 1), _abort(1, 1), batch(2)], [batch(3)])
    path = tmp_path / "t-0" / f"{0:020d}.log"
    whole = bytearray(path.read_bytes())
    at = len(_data(0, 1)) + position
    for bit in range(8):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        wanted = scan_options(start=0, end=1, committed=True)
        with pytest.raises(CorruptRecordError):
            list(scan_segments([log.segments[0]], wanted))


@pytest.mark.parametrize("position", [22, 50])
def test_rows_are_not_hidden_by_a_marker_that_a_flipped_bit_has_lost(
    tmp_path: Path, position: int
) -> None:
    """Of the attributes (control, transactional) and of the producer id."""
    build_log(tmp_path, [_data(0, 1), _abort(1, 1), batch(2)], [batch(3)])
    path = tmp_path / "t-0" / f"{0:020d}.log"
    whole = path.read_bytes()
    at = len(_data(0, 1)) + position
    for bit in (4, 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        with pytest.raises(CrcMismatchError):
            open_one(tmp_path).last_stable_offset()
        assert open_one(tmp_path, check_crcs=False).last_stable_offset() in (0, 4)


def test_the_last_stable_offset_is_told_by_the_log_with_snapshots_and_without(
    tmp_path: Path,
) -> None:
    segments = [
        [_data(0, 1), batch(1)],
        [_commit(2, 1), _data(3, 2)],
        [batch(4), _data(5, 3), _commit(6, 2)],
    ]
    for name, snapshots in [("all", True), ("none", False)]:
        log = build_log(tmp_path / name, *segments, clean=False, snapshots=snapshots)
        assert log.last_stable_offset() == 5
    # The snapshot at the end is gone, as after a crash, and the one before is damaged.
    for file in sorted((tmp_path / "all" / "t-0").glob("*.snapshot"))[-1:]:
        file.unlink()
    sorted((tmp_path / "all" / "t-0").glob("*.snapshot"))[-1].write_bytes(b"\x00\x01rubbish")
    assert open_one(tmp_path / "all").last_stable_offset() == 5


def test_a_snapshot_from_beyond_the_end_of_a_cut_log_is_left_out(tmp_path: Path) -> None:
    log = build_log(tmp_path, [_data(0, 1), batch(1)], [_commit(2, 1), batch(3)], snapshots=True)
    with open(log.segments[1].log_path, "r+b") as file:
        file.truncate(0)
    cut = open_one(tmp_path)
    assert (cut.log_end_offset, cut.last_stable_offset()) == (2, 0)


def test_an_emptied_marker_ends_nothing_and_an_emptied_batch_is_no_row(tmp_path: Path) -> None:
    emptied = v2_batch(
        [], base_offset=0, last_offset_delta=0, producer_id=1, producer_epoch=0, transactional=True
    )
    marker = v2_batch(
        [], base_offset=3, last_offset_delta=0, producer_id=2, transactional=True, control=True
    )
    log = build_log(tmp_path, [emptied, _commit(1, 1), _data(2, 2), marker, batch(4)], clean=False)
    assert log.last_stable_offset() == 2
    assert offsets(log) == [2, 4]


def test_ranges_that_begin_or_end_on_markers_or_hold_nothing_else(tmp_path: Path) -> None:
    log = build_log(
        tmp_path, [_data(0, 1), _commit(1, 1), _commit(2, 2), _data(3, 1), _abort(4, 1), batch(5)]
    )
    ranges = {(1, 3): [], (2, 4): [], (0, 2): [0], (1, 6): [5], (0, 6): [0, 5], (4, 5): []}
    for (start, end), expected in ranges.items():
        assert offsets(log, start=start, end=end, committed=True) == expected


def test_a_marker_that_cannot_be_read_is_our_error_or_none(tmp_path: Path) -> None:
    short_key = v2_batch(
        [RecordSpec(key=b"\x00", value=b"v")],
        base_offset=1,
        producer_id=1,
        transactional=True,
        control=True,
    )
    log = build_log(tmp_path, [_data(0, 1), short_key, batch(2)], clean=False)
    with pytest.raises(InvalidRecordError, match="control record key is 1 bytes"):
        log.last_stable_offset()
    assert open_one(tmp_path, skip_corrupt=True).last_stable_offset() == 0


def test_a_partition_is_listed_again_only_for_markers_that_stand_in_later_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = build_log(tmp_path, [batch(0)], [_data(1, 1), _commit(2, 1), _data(3, 1)], [_abort(4, 1)])
    first, second, _ = log.segments
    listed: list[str] = []
    note_calls(monkeypatch, ListedLog, "open", lambda directory, **_: listed.append(directory))
    wanted = scan_options(end=1, committed=True)
    assert column(scan_segments([first], wanted), "offset") == [0]
    wanted = scan_options(start=1, end=4, committed=True)
    assert listed == []
    assert column(scan_segments([second], wanted), "offset") == [1]
    assert len(listed) == 1
