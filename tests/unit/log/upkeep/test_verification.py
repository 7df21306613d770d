"""One fault is one finding: what follows from it is not told again."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import DataLossError
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.testing.builder import SegmentSpec
from tests.support.reading import batch, timed
from tests.support.verifying import build, change, found, spec

SEGMENT = "00000000000000000000"


def test_a_bad_batch_that_indexes_name(tmp_path: Path) -> None:
    batches = [timed(0, 1), timed(1, 2), timed(2, 3)]
    directory = build(tmp_path, spec(batches), recovery_point=3)
    assert found(tmp_path) == []
    change(directory / f"{SEGMENT}.log", len(batches[0]) + 62, b"\xff")
    (one,) = found(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.CORRUPT_BATCH, 1, 2)


@pytest.mark.parametrize("kept", [0, 10])
def test_a_cut_log_whose_indexes_and_recovery_point_know_more(tmp_path: Path, kept: int) -> None:
    batches = [timed(0, 1), timed(1, 2), timed(2, 3)]
    directory = build(tmp_path, spec(batches), recovery_point=3)
    log = directory / f"{SEGMENT}.log"
    log.write_bytes(log.read_bytes()[: len(batches[0]) + kept])
    (one,) = found(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.LOST_OFFSETS, 1, 3)
    assert one.path == str(log)


def test_a_log_that_is_empty_and_was_not_is_a_loss(tmp_path: Path) -> None:
    directory = build(tmp_path, spec([batch(0, 5)]), recovery_point=5)
    (directory / f"{SEGMENT}.log").write_bytes(b"")
    with pytest.raises(DataLossError, match=r"\[0, 5\).*recovery point 5"):
        read_arrow(tmp_path).read_all()


def test_a_last_segment_that_is_empty_and_was_not_is_a_loss(tmp_path: Path) -> None:
    directory = build(
        tmp_path, spec([batch(0, 5)]), SegmentSpec([batch(5, 2)], base_offset=5), recovery_point=7
    )
    (directory / "00000000000000000005.log").write_bytes(b"")
    with pytest.raises(DataLossError, match=r"\[5, 7\)"):
        read_arrow(tmp_path).read_all()
    assert read_arrow(tmp_path, ending_offsets={"t": {"0": 4}}).read_all().num_rows == 4
