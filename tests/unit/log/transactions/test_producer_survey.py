"""What the headers of a log tell of producers and transactions, against Kafka's own snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_segmentlog.errors import CrcMismatchError, InvalidBatchError
from spark_segmentlog.log.formats.producer_snapshot import parse_producer_snapshot
from spark_segmentlog.log.formats.transaction_index import AbortedTransaction
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.transactions.producer_survey import ProducerSurvey, survey_producers
from spark_segmentlog.log.upkeep.swap import list_segment_files
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    SegmentSpec,
    v2_batch,
)
from tests.support.cleaning import NOW_MS, PARTITION, build, plain_batches
from tests.support.transaction_batches import data, marker


def survey(directory: Path, recovery_point: int | None = None) -> ProducerSurvey:
    found = list_segment_files(str(directory))
    bounds = [*(files.base_offset for files in found[1:]), None]
    return survey_producers(
        [
            Segment(
                topic_partition=PARTITION,
                directory=str(directory),
                base_offset=files.base_offset,
                end_offset_bound=bound,
                recovery_point=recovery_point,
            )
            for files, bound in zip(found, bounds, strict=True)
        ]
    )


def survey_of(tmp_path: Path, *batches: bytes) -> ProducerSurvey:
    return survey(build(tmp_path, [list(batches)]))


def test_aborted_transactions_are_told_in_the_order_of_their_markers(tmp_path: Path) -> None:
    found = survey_of(
        tmp_path,
        data(1, 0),
        data(2, 1),
        marker(ABORT, 2, 2),
        data(3, 3),
        marker(COMMIT, 3, 4),
        marker(ABORT, 1, 5),
        marker(ABORT, 9, 6),
    )
    # The first one ended while another transaction was open since 0.
    assert found.aborted == [
        AbortedTransaction(producer_id=2, first_offset=1, last_offset=2, last_stable_offset=0),
        AbortedTransaction(producer_id=1, first_offset=0, last_offset=5, last_stable_offset=6),
    ]
    assert (found.producers.last_stable_offset, found.next_offset) == (7, 7)


def test_the_earliest_open_transaction_is_the_last_stable_offset(tmp_path: Path) -> None:
    found = survey_of(tmp_path, *plain_batches([(b"a", b"b")]), data(1, 1), data(2, 2), data(1, 3))
    assert found.producers.last_stable_offset == 1


def test_a_marker_with_a_bumped_epoch_ends_the_transaction(tmp_path: Path) -> None:
    found = survey_of(tmp_path, data(1, 0, epoch=4), marker(ABORT, 1, 1, epoch=5))
    assert [transaction.last_offset for transaction in found.aborted] == [1]
    (state,) = found.producers.states
    assert (state.producer_epoch, state.last_offset, state.last_sequence) == (5, -1, -1)
    last = found.producers.last_batches(now_ms=NOW_MS, expiration_ms=1000)[1]
    assert (last.producer_epoch, last.last_data_offset) == (5, -1)


def test_an_empty_marker_says_nothing(tmp_path: Path) -> None:
    empty = v2_batch(
        [], base_offset=1, control=True, transactional=True, producer_id=1, producer_epoch=0
    )
    assert survey_of(tmp_path, data(1, 0), empty).producers.last_stable_offset == 0


def test_sequences_wrap_around_after_the_largest_one(tmp_path: Path) -> None:
    found = survey_of(tmp_path, data(1, 0, 5, sequence=2**31 - 3))
    assert found.producers.states[0].last_sequence == 1


@pytest.mark.parametrize(("silent_ms", "is_kept"), [(999, True), (1000, False)])
def test_a_silent_producer_is_forgotten(tmp_path: Path, silent_ms: int, is_kept: bool) -> None:
    found = survey_of(tmp_path, data(1, 0), marker(COMMIT, 1, 1))
    last = found.producers.last_batches(now_ms=NOW_MS + silent_ms, expiration_ms=1000)
    assert (1 in last) is is_kept


def test_a_half_written_marker_at_the_end_ends_nothing(tmp_path: Path) -> None:
    torn = bytearray(marker(COMMIT, 1, 1))
    torn[-4:] = bytes(4)
    torn[-8] ^= 0xFF
    directory = build(tmp_path, [[data(1, 0), bytes(torn)]])
    assert survey(directory, recovery_point=0).producers.last_stable_offset == 0
    for recovery_point in (None, 2):
        with pytest.raises(CrcMismatchError):
            survey(directory, recovery_point)
    with pytest.raises(CrcMismatchError):
        survey_of(tmp_path / "other", data(1, 0), bytes(torn), data(1, 2))


def test_a_closed_segment_that_reaches_into_the_next_one_is_refused(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            plain_batches([(b"a", b"b")] * 4),
            SegmentSpec(plain_batches([(b"a", b"b")], base_offset=2), base_offset=2),
        ],
    )
    with pytest.raises(InvalidBatchError, match="next segment starts at 2"):
        survey(directory)


def _snapshots(directory: Path) -> Sequence[tuple[int, list[object]]]:
    return [
        (int(path.name[:20]), sorted(parse_producer_snapshot(path.read_bytes()) or [], key=str))
        for path in sorted(directory.glob("*.snapshot"))
    ]


def test_the_states_are_those_of_the_builders_snapshots(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition(
        "t",
        0,
        [[data(1, 0, 2), data(2, 2, 3, sequence=7), marker(ABORT, 1, 5), data(3, 6)]],
        snapshots=True,
    )
    offset, states = _snapshots(directory)[-1]
    found = survey(directory)
    assert found.next_offset == offset
    assert sorted(found.producers.states, key=str) == states
