"""Files that are renamed, merged, deleted or grow while they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.log.formats.checkpoints import CLEANER_OFFSET_CHECKPOINT
from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep import verification
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, segment_file_name
from tests.support.directories import KINDS, rename_segment
from tests.support.noting import note_calls
from tests.support.reading import batch, column, offsets, open_one, scan_options


def _merge(log: PartitionLog, *bases: int) -> None:
    """Do what a cleaner does: the first segment takes over what the others hold."""
    directory = Path(log.directory)
    data = b"".join((directory / segment_file_name(base)).read_bytes() for base in bases)
    for base in bases:
        rename_segment(log, base)
    (directory / segment_file_name(bases[0])).write_bytes(data)


def test_a_segment_that_compaction_merged_is_found_in_the_other(log: PartitionLog) -> None:
    segments = list(log.segments_between(0, 30))
    _merge(log, 0, 10)
    wanted = scan_options(end=30)
    assert column(scan_segments(segments, wanted), "offset") == list(range(30))
    assert column(scan_segments(segments[1:2], scan_options(start=10, end=20)), "offset") == list(
        range(10, 20)
    )


def test_a_segment_beside_those_that_it_is_split_into_is_whole(log: PartitionLog) -> None:
    """As a cleaner leaves them for a moment: the old one is renamed away when all new ones are."""
    directory = Path(log.directory)
    merged = b"".join((directory / segment_file_name(base)).read_bytes() for base in (0, 10))
    for kind in KINDS:
        path = directory / segment_file_name(10, kind)
        path.rename(f"{path}.swap")
    (directory / segment_file_name(0)).write_bytes(merged)
    for kind in KINDS[1:]:
        (directory / segment_file_name(0, kind)).unlink()
    assert offsets(PartitionLog.open(log.directory)) == list(range(30))
    view = read_arrow(log.directory, view="batches").read_all()
    assert view["baseOffset"].to_pylist() == list(range(0, 30, 5))
    kinds = {finding.kind for finding in verification.verify(log.directory)}
    assert kinds <= {FindingKind.MISSING_INDEX}


def test_a_merge_within_a_scan_repeats_no_row(log: PartitionLog) -> None:
    rows = log.scan(options=scan_options(columns=("offset",)), end_offset=30)
    segments = list(log.segments)
    scanned = scan_segments(segments, scan_options(end=30, columns=("offset",)))
    _merge(log, 10, 20)
    assert column(scanned, "offset") == list(range(30))
    assert column(rows, "offset") == list(range(30))


def test_a_segment_that_became_a_swap_file_is_found(log: PartitionLog) -> None:
    segments = list(log.segments)
    rename_segment(log, 10, ".swap")
    assert column(scan_segments(segments, scan_options(end=30)), "offset") == list(range(30))


def test_a_segment_that_was_split_since_it_was_listed_is_read_whole(log: PartitionLog) -> None:
    segments = list(log.segments)
    directory = Path(log.directory)
    (directory / segment_file_name(10)).write_bytes(batch(10, 5))
    (directory / segment_file_name(15)).write_bytes(batch(15, 5))
    assert column(scan_segments(segments, scan_options(end=30)), "offset") == list(range(30))
    assert column(scan_segments(segments[1:2], scan_options(start=10, end=20)), "offset") == list(
        range(10, 20)
    )


def test_a_segment_that_took_the_next_one_over_is_no_damage(log: PartitionLog) -> None:
    """The listing is old, so that the first segment reaches beyond where it was to end."""
    segments = list(log.segments)
    _merge(log, 0, 10)
    rows = column(scan_segments(segments[:1], scan_options(end=10)), "offset")
    assert rows == list(range(10))


def test_renames_without_end_are_an_error_and_no_loss(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = list(log.segments)

    def gone(segment: Segment) -> None:
        raise FileNotFoundError(2, "No such file or directory", segment.log_path)

    monkeypatch.setattr(type(segments[0]), "open_log", gone)
    with pytest.raises(SegmentLogError, match="offset 0 of t-0 was not found in 100 listings"):
        column(scan_segments(segments, scan_options(end=30)), "offset")


def test_an_index_that_vanishes_changes_no_row(log: PartitionLog) -> None:
    for kind in KINDS[1:]:
        Path(log.directory, segment_file_name(10, kind)).unlink()
    assert offsets(log, start=12, min_ms=1) == list(range(12, 30))


def test_the_end_is_looked_up_again_when_the_last_segment_was_renamed(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [[batch(0, 5)], [batch(5, 5)]])
    log = open_one(tmp_path)
    for kind in KINDS:
        Path(log.directory, segment_file_name(5, kind)).unlink()
    assert log.log_end_offset == 5
    assert offsets(log) == [0, 1, 2, 3, 4]


def test_lookups_list_again_when_a_segment_is_gone(log: PartitionLog) -> None:
    _merge(log, 0, 10)
    assert log.offset_for_timestamp(1) is not None
    assert log.read(12, 1).record_batches == batch(10, 5)


def test_rows_appended_after_the_end_was_taken_are_not_read(log: PartitionLog) -> None:
    with open(log.segments[-1].log_path, "ab") as file:
        file.write(batch(30, 5))
    assert offsets(log) == list(range(30))
    assert offsets(open_one(Path(log.directory))) == list(range(35))


def test_a_new_segment_beside_the_listing_is_not_read(log: PartitionLog) -> None:
    LogBuilder(Path(log.directory).parent).partition(
        "t", 0, [SegmentSpec([batch(30, 5)], base_offset=30)]
    )
    assert offsets(log) == list(range(30))


@pytest.mark.parametrize("grows", [True, False])
def test_a_cleaner_that_has_come_to_the_end_of_a_log_that_grew_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    builder = LogBuilder(tmp_path)
    directory = builder.partition("t", 0, [[batch(0, 5)]])

    def grow(storage: Storage, folder: str, name: str) -> None:
        if grows and name == CLEANER_OFFSET_CHECKPOINT:
            with open(directory / segment_file_name(0), "ab") as file:
                file.write(batch(5, 5))

    note_calls(monkeypatch, verification, "read_text", grow)
    builder._offset_checkpoint("cleaner-offset-checkpoint", {("t", 0): 10})
    found = [finding.detail for finding in verification.verify(str(tmp_path))]
    assert found == ([] if grows else ["names offset 10 of a log that ends at 5"])
