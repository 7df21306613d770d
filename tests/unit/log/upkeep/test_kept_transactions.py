"""Aborted records go, markers when no data of theirs is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from spark_segmentlog.log.formats.transaction_index import parse_transaction_index
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    control_batch,
)
from tests.support.cleaning import (
    DAY_MS,
    NOW_MS,
    build,
    check_indexes,
    headers,
    kept,
    log_bytes,
    plain_batches,
    split_log,
)
from tests.support.compacting import CONFIG, active, data, run
from tests.support.transaction_batches import marker


def transaction_entries(directory: Path, base_offset: int) -> list[tuple[int, int, int]]:
    path = directory / f"{base_offset:020d}.txnindex"
    if not path.exists():
        return []
    return [
        (entry.producer_id, entry.first_offset, entry.last_offset)
        for entry in parse_transaction_index(path.read_bytes())
    ]


def test_aborted_records_go_and_never_hide_older_ones(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [
                *plain_batches([(b"a", b"old")]),
                data(7, 1, (b"a", b"aborted"), (b"b", b"aborted")),
                marker(ABORT, 7, 3),
                data(8, 4, (b"c", b"committed")),
                marker(COMMIT, 8, 5),
            ],
            active(6),
        ],
    )
    run(directory)
    assert kept(directory)[:-1] == [(0, b"a", b"old"), (4, b"c", b"committed")]
    check_indexes(directory)


def test_a_marker_in_the_last_segment_decides_about_data_in_closed_ones(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [*plain_batches([(b"a", b"old")]), data(7, 1, (b"a", b"aborted"))],
            [marker(ABORT, 7, 2)],
        ],
    )
    # The producer's last batch stays as a header: its sequence must not be lost.
    run(directory)
    assert kept(directory) == [(0, b"a", b"old")]
    empty = headers(directory)[1]
    assert (empty.base_offset, empty.last_offset, empty.records_count) == (1, 1, 0)
    assert (empty.producer_id, empty.is_transactional) == (7, True)


def test_a_marker_goes_when_its_data_is_gone_and_its_horizon_is_over(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [
                data(7, 0, (b"a", b"1")),
                marker(COMMIT, 7, 1),
                data(7, 2, (b"a", b"2"), sequence=1),
                marker(COMMIT, 7, 3),
            ],
            active(4),
        ],
    )
    run(directory)
    # Its data was seen in this pass, so the first marker stays as it is.
    assert [(header.base_offset, header.is_control) for header in headers(directory)] == [
        (1, True),
        (2, False),
        (3, True),
        (4, False),
    ]
    assert headers(directory)[0].delete_horizon_ms is None

    again = plain_batches([(b"n", b"1")], base_offset=4)
    (directory / f"{4:020d}.log").write_bytes(b"".join(again))
    (directory / f"{5:020d}.log").write_bytes(b"".join(active(5)))
    run(directory, now_ms=NOW_MS + 10)
    first = headers(directory)[0]
    assert (first.base_offset, first.is_control) == (1, True)
    assert first.delete_horizon_ms == NOW_MS + 10 + DAY_MS

    run(directory, now_ms=NOW_MS + 10 + DAY_MS)
    assert [(header.base_offset, header.is_control) for header in headers(directory)][:2] == [
        (2, False),
        (3, True),
    ]


def test_the_abort_entry_stays_as_long_as_a_batch_of_the_transaction_does(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [
                data(7, 0, (b"a", b"1")),
                marker(ABORT, 7, 1),
                *plain_batches([(b"b", b"1")], base_offset=2),
            ],
            active(3),
        ],
    )
    run(directory)
    # The header of the producer's last batch is still there, in the transaction.
    assert transaction_entries(directory, 0) == [(7, 0, 1)]
    day = replace(CONFIG, producer_id_expiration_ms=DAY_MS)
    (directory / f"{3:020d}.log").write_bytes(
        b"".join(plain_batches([(b"n", b"1")], base_offset=3))
    )
    (directory / f"{4:020d}.log").write_bytes(b"".join(active(4)))
    run(directory, day, now_ms=NOW_MS + 2 * DAY_MS)
    # The producer is silent for too long: its batch goes, the marker gets its horizon next.
    assert headers(directory)[0].base_offset == 1


def test_control_records_of_other_kinds_stay(tmp_path: Path) -> None:
    other = control_batch(99, base_offset=0, transactional=False)
    directory = build(
        tmp_path, [[other, *plain_batches([(b"a", b"1"), (b"a", b"2")], base_offset=1)], active(3)]
    )
    run(directory)
    assert split_log(log_bytes(directory, 0))[0] == other
