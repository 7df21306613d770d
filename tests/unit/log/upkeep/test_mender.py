"""Bad batches cut out alone: what is good stays where it is, told before as it is done."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction, RecoveryKind
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    control_batch,
    v2_batch,
)
from tests.support.broker_data import ISOLATION_LEVELS
from tests.support.running import batches, contents, flip
from tests.support.store_data import read_rows

SIZE = len(batches(1)[0])
CUT_OUT, CUT, REBUILD = RecoveryKind.CUT_OUT, RecoveryKind.CUT, RecoveryKind.REBUILD_INDEXES


def make_log(path: Path, *, marked: bool = True) -> list[Path]:
    log = LogBuilder(path)
    log.partition("t", 0, [batches(5, base_offset=at) for at in (0, 5, 10)], snapshots=True)
    if marked:
        log.clean_shutdown()
    return sorted((path / "t-0").glob("*.log"))


def offsets(path: Path) -> list[int]:
    return sorted(offset for _, _, offset in read_rows(str(path)))


def cut_out(path: Path, **options: Any) -> list[RecoveryAction]:
    """Mend, and check that it was told in the same lines before, and that nothing is wrong then."""
    before = contents(path)
    told = recover(str(path), truncate=True, cut_bad_batches=True, dry_run=True, **options)
    assert contents(path) == before
    done = recover(str(path), truncate=True, cut_bad_batches=True, **options)
    assert list(map(str, told)) == list(map(str, done))
    assert not any(action.is_done for action in told)
    assert all(action.is_done for action in done)
    assert [
        str(finding) for finding in verify(str(path), deep=True) if not finding.is_harmless
    ] == []
    assert recover(str(path), truncate=True, cut_bad_batches=True, dry_run=True) == []
    return done


def test_what_is_good_stays_before_and_after(tmp_path: Path) -> None:
    logs = make_log(tmp_path)
    good = logs[1].read_bytes()
    for batch in (1, 3):
        flip(logs[1], batch * SIZE + 100)
    actions = cut_out(tmp_path)
    assert [action.kind for action in actions] == [CUT_OUT, CUT_OUT, REBUILD]
    assert offsets(tmp_path) == [*range(6), 7, *range(9, 15)]
    assert logs[1].read_bytes() == b"".join(good[number * SIZE :][:SIZE] for number in (0, 2, 4))
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    damaged = logs[1].with_name(f"{logs[1].name}.deleted").read_bytes()
    assert len(damaged) == len(good)


def test_a_segment_without_a_good_batch_is_left_empty(tmp_path: Path) -> None:
    logs = make_log(tmp_path)
    logs[1].write_bytes(b"\xff" * 700)
    assert [action.kind for action in cut_out(tmp_path)] == [CUT_OUT, REBUILD]
    assert offsets(tmp_path) == [*range(5), *range(10, 15)]
    assert logs[1].read_bytes() == b""


def test_the_end_of_a_log_that_is_bad_too_goes_with_it(tmp_path: Path) -> None:
    logs = make_log(tmp_path, marked=False)
    flip(logs[2], SIZE + 100)
    logs[2].write_bytes(logs[2].read_bytes()[:-60])
    assert [action.kind for action in cut_out(tmp_path)] == [CUT_OUT, CUT, REBUILD]
    assert offsets(tmp_path) == [*range(11), 12, 13]
    assert not list((tmp_path / "t-0").glob("*15.snapshot"))


def test_at_the_very_end_nothing_is_cut_out(tmp_path: Path) -> None:
    logs = make_log(tmp_path)
    flip(logs[2], 4 * SIZE + 100)
    assert [action.kind for action in cut_out(tmp_path)] == [CUT, REBUILD]
    assert offsets(tmp_path) == list(range(14))


def test_a_log_that_is_whole_is_left_as_it_is(tmp_path: Path) -> None:
    make_log(tmp_path)
    before = contents(tmp_path / "t-0")
    assert cut_out(tmp_path) == []
    assert contents(tmp_path / "t-0") == before


def test_transactions_are_those_of_the_batches_that_stay(tmp_path: Path) -> None:
    def written(producer_id: int, offset: int) -> bytes:
        return v2_batch(
            [RecordSpec(value=b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=offset,
            transactional=True,
        )

    def ended(kind: int, producer_id: int, offset: int) -> bytes:
        return control_batch(kind, base_offset=offset, producer_id=producer_id, producer_epoch=0)

    first = [written(1, 0), ended(ABORT, 1, 1), written(2, 2), written(3, 3)]
    second = [ended(ABORT, 2, 4), ended(COMMIT, 3, 5), written(1, 6), ended(COMMIT, 1, 7)]
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [first, second], snapshots=True)
    # The record of producer 2 goes, and the end of its transaction speaks of nothing.
    flip(next((tmp_path / "t-0").glob("*0.log")), len(first[0]) + len(first[1]) + 66)
    cut_out(tmp_path)
    seen = {
        level: sorted(row[2] for row in read_rows(str(tmp_path), kafka_isolation_level=level))
        for level in ISOLATION_LEVELS
    }
    assert seen == {"read_uncommitted": [0, 3, 6], "read_committed": [3, 6]}


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_bad_only_that_goes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    logs = make_log(tmp_path, marked=chance.random() < 0.5)
    good = {offset: row for (_, _, offset), row in read_rows(str(tmp_path)).items()}
    bad = chance.sample(range(15), chance.randrange(1, 8))
    for offset in bad:
        # Within what the checksum covers.
        flip(logs[offset // 5], offset % 5 * SIZE + chance.randrange(21, SIZE))
    cut_out(tmp_path)
    found = {offset: row for (_, _, offset), row in read_rows(str(tmp_path)).items()}
    assert found == {offset: row for offset, row in good.items() if offset not in bad}
