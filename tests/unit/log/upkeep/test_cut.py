"""What is cut goes last, and what is good beside it stays byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.io import files
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep import cut
from spark_segmentlog.log.upkeep.segment_survey import survey_segment
from spark_segmentlog.testing.builder import LogBuilder, offset_index_bytes, time_index_bytes
from tests.support.running import batches, flip

SIZE = len(batches(1)[0])


def damaged(path: Path) -> tuple[PartitionLog, Segment, Path]:
    """A log of two segments, the first with a bad batch in its middle."""
    builder = LogBuilder(path)
    folder = builder.partition("t", 0, [batches(3), batches(2, base_offset=3)], snapshots=True)
    builder.clean_shutdown()
    first = min(folder.glob("*.log"))
    flip(first, SIZE + 100)
    log = PartitionLog.open(str(folder))
    return log, log.segments[0], first


def test_good_batches_alone_take_the_place_with_their_own_indexes(tmp_path: Path) -> None:
    _, segment, first = damaged(tmp_path)
    before, modified = first.read_bytes(), first.stat().st_mtime_ns
    cut.cut_out(segment, None, index_interval_bytes=100)
    good = [batches(3)[0], batches(3)[2]]
    assert first.read_bytes() == b"".join(good)
    assert first.stat().st_mtime_ns == modified
    index, times = first.with_suffix(".index"), first.with_suffix(".timeindex")
    assert index.read_bytes() == offset_index_bytes(good, 0, interval_bytes=100)
    assert times.read_bytes() == time_index_bytes(good, 0, interval_bytes=100)
    assert first.with_name(f"{first.name}.deleted").read_bytes() == before


def test_an_end_is_cut_off_where_bad_bytes_begin(tmp_path: Path) -> None:
    _, segment, first = damaged(tmp_path)
    cut.cut_off(survey_segment(segment))
    assert first.read_bytes() == batches(1)[0]


def test_the_mark_goes_and_later_snapshots_do(tmp_path: Path) -> None:
    log, _, _ = damaged(tmp_path)
    cut.take_mark_away(log)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    cut.end_snapshots(log, 3, ())
    names = sorted(snapshot.name for snapshot in (tmp_path / "t-0").glob("*.snapshot*"))
    assert names == [f"{0:020d}.snapshot", f"{3:020d}.snapshot", f"{5:020d}.snapshot.deleted"]


def test_segments_go_from_the_last_one_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _, _ = damaged(tmp_path)
    renamed: list[str] = []
    rename = files.rename

    def noted(source: str, target: str) -> None:
        renamed.append(Path(source).name)
        rename(source, target)

    monkeypatch.setattr(files, "rename", noted)
    cut.delete_segments(list(log.segments))
    assert [name for name in renamed if name.endswith(".log")] == [f"{3:020d}.log", f"{0:020d}.log"]
