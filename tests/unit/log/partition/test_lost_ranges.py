"""Offsets that are gone though they were promised: an error, or told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_segmentlog.errors import DataLossError
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.scan import scan_segments
from tests.support.directories import rename_segment
from tests.support.reading import column, lost_ranges, offsets, open_one, scan_options


def test_a_segment_that_retention_took_is_data_loss(log: PartitionLog) -> None:
    segments = list(log.segments)
    rename_segment(log, 0)
    with pytest.raises(DataLossError, match=r"offset \[3, 10\) of topic partition t-0") as raised:
        column(scan_segments(segments, scan_options(start=3, end=30)), "offset")
    assert raised.value.condition == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"


def test_loss_that_does_not_fail_is_told_and_the_rest_is_read(
    log: PartitionLog, caplog: pytest.LogCaptureFixture
) -> None:
    segments = list(log.segments)
    rename_segment(log, 0)
    wanted = scan_options(start=3, end=30, fail_on_data_loss=False)
    assert column(scan_segments(segments, wanted), "offset") == list(range(10, 30))
    assert lost_ranges(caplog) == ["[3, 10)"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_partition_that_vanished_is_data_loss(
    log: PartitionLog, caplog: pytest.LogCaptureFixture, committed: bool
) -> None:
    segments = list(log.segments)
    shutil.rmtree(log.directory)
    with pytest.raises(DataLossError, match=r"offset \[3, 30\)"):
        list(scan_segments(segments, scan_options(start=3, end=30, committed=committed)))
    wanted = scan_options(start=3, end=30, committed=committed, fail_on_data_loss=False)
    assert list(scan_segments(segments, wanted)) == []
    assert lost_ranges(caplog) == ["[3, 30)"]


def test_a_hole_of_a_segment_in_the_middle_is_a_gap_like_compactions(log: PartitionLog) -> None:
    rename_segment(log, 10)
    fresh = open_one(Path(log.directory))
    assert offsets(fresh) == [*range(10), *range(20, 30)]
