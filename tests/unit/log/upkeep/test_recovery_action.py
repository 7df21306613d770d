"""What recovery says of each thing that it does."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.log.directory.open_commit import read_open_commit
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.upkeep.recovery_action import (
    RecoveryAction,
    cut_action,
    cut_out_action,
    delete_action,
    end_commit_action,
    end_compaction_action,
    rebuild_action,
)
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey, survey_segment
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.running import batches, flip
from tests.support.scenarios import make_decided

SIZE = len(batches(1)[0])


def survey(path: Path) -> SegmentSurvey:
    """Look at a segment of three batches whose second one is bad."""
    folder = LogBuilder(path).partition("t", 0, [batches(3)])
    flip(next(folder.glob("*.log")), SIZE + 100)
    return survey_segment(PartitionLog.open(str(folder)).segments[0])


def text(action: RecoveryAction) -> str:
    return str(action).partition(" (file ")[0]


def test_a_cut_says_what_goes_and_what_goes_along(tmp_path: Path) -> None:
    told = cut_action(survey(tmp_path), takes_good=True, is_done=False, is_left=True)
    assert text(told).startswith(
        f"cut: not done, {2 * SIZE} bytes from position {SIZE} on (corrupt batch, record batch crc"
    )
    assert text(told).endswith("), good batches after them included")


def test_what_is_cut_out_is_told_with_its_offsets(tmp_path: Path) -> None:
    found = survey(tmp_path)
    told = cut_out_action(found, found.corrupt[0], is_done=True)
    assert text(told).startswith(f"cut out: {SIZE} bytes at position {SIZE} (record batch crc")
    assert text(told).endswith("), offset 1 is missing")
    assert (told.is_done, told.is_left) == (True, False)


def test_a_commit_is_told_with_its_partitions_or_as_what_is_left_of_one(tmp_path: Path) -> None:
    scenario = make_decided(tmp_path)
    (path, *_) = scenario.directories
    journal = read_open_commit(path)
    assert journal is not None
    told = end_commit_action(path, journal, is_done=False)
    assert text(told) == f"end commit: write {journal.write_id} of 2 partitions"
    assert (told.path, told.is_done) == (path, False)
    left = end_commit_action(path, None, is_done=True)
    assert text(left) == "end commit: what is left of a commit that never began or is over"
    assert left.is_done


def test_segments_that_go_are_one_line(tmp_path: Path) -> None:
    folder = LogBuilder(tmp_path).partition(
        "t", 0, [SegmentSpec(batches(1)), batches(1, base_offset=1)]
    )
    log = PartitionLog.open(str(folder))
    told = delete_action(list(log.segments), is_done=False, is_left=False)
    assert "2 segments after bad bytes, up to 00000000000000000001.log" in text(told)
    ended = end_compaction_action(log, is_done=False)
    assert str(ended).startswith("end compaction: segments of a compaction")
    assert not ended.is_done


def test_new_indexes_say_where_they_lack_transactions(tmp_path: Path) -> None:
    found = survey(tmp_path)
    for keeps, words in ((False, "offset, time and transaction index"), (True, "not the transac")):
        told = rebuild_action(found, is_done=True, is_left=False, keeps_transactions=keeps)
        assert words in text(told)
