"""The order of offsets in a segment: what repeats, and what is out of place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
)
from spark_segmentlog.testing.legacy import legacy_message_set
from tests.support.forging import build, findings, flip, permissive
from tests.support.reading import batch


def wrappers(magic: int) -> list[bytes]:
    """Messages in three wrappers of ten, that stand in the block of snappy as they are."""
    noise = np.random.default_rng(7)
    return [
        legacy_message_set(
            magic,
            [RecordSpec(value=noise.bytes(40)) for _ in range(10)],
            base_offset=10 * number,
            codec="snappy",
        )
        for number in range(3)
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("place", [8, 9, 10, 11, 12, 16, 17, 40, 200, 400])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_the_messages_of_a_bad_wrapper_are_no_entries_of_the_log(
    tmp_path: Path, magic: int, place: int, row: int
) -> None:
    blocks = wrappers(magic)
    log = build(tmp_path, blocks, recovery_point=30)
    flip(log, sum(map(len, blocks[:row])) + place, 1)
    given, _ = permissive(tmp_path)
    assert given == [number for number in range(30) if number // 10 != row]
    assert len(findings(tmp_path)) == 1


def test_a_wrapper_that_ends_too_high_hides_nothing_of_the_next_one(tmp_path: Path) -> None:
    blocks = wrappers(1)
    log = build(tmp_path, blocks)
    flip(log, len(blocks[0]) + 7, 2)
    given, bad = permissive(tmp_path)
    assert given == [*range(10), *range(20, 30)]
    assert [(finding["startOffset"], finding["endOffset"]) for finding in bad] == [(10, 20)]


@pytest.mark.parametrize("bit", [3, 4, 12])
def test_a_last_batch_does_not_jump_over_where_the_log_was(tmp_path: Path, bit: int) -> None:
    batches = [batch(0, 5), batch(5, 2)]
    log = build(tmp_path, batches, high_watermark=7)
    flip(log, len(batches[0]) + 7 - bit // 8, bit % 8)
    with pytest.raises(CorruptRecordError, match=r"the log had offset 6.*position"):
        read_arrow(tmp_path).read_all()
    assert permissive(tmp_path)[0] == [0, 1, 2, 3, 4]
    assert len(findings(tmp_path)) == 1


def test_a_last_batch_does_not_go_back_where_the_log_was_longer(tmp_path: Path) -> None:
    batches = [batch(0, 5), batch(5, 2), batch(7, 2)]
    log = build(tmp_path, batches, high_watermark=9)
    flip(log, len(batches[0]) + len(batches[1]) + 7, 2)
    with pytest.raises(CorruptRecordError, match="offsets 3 to 4 again"):
        read_arrow(tmp_path).read_all()
    assert permissive(tmp_path)[0] == [0, 1, 2, 3, 4, 5, 6]
    assert len(findings(tmp_path)) == 1


@pytest.mark.parametrize("is_wrapper", [False, True])
@pytest.mark.parametrize("is_alone", [False, True])
def test_only_a_logs_first_segment_may_begin_inside_a_batch(
    tmp_path: Path, is_wrapper: bool, is_alone: bool
) -> None:
    """A replica that began inside a batch has it whole; a later segment starts where one ends."""
    eight = [RecordSpec(value=b"v", offset_delta=delta) for delta in range(8)]
    reaching = (
        legacy_message_set(1, eight, base_offset=6, codec="gzip") if is_wrapper else batch(6, 8)
    )
    segments = [SegmentSpec([batch(0, 10)], base_offset=0), SegmentSpec([reaching], base_offset=10)]
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, segments[1:] if is_alone else segments)
    builder.high_watermarks({("t", 0): 14})
    builder.clean_shutdown()
    if is_alone:
        assert permissive(tmp_path) == ([10, 11, 12, 13], [])
        return
    with pytest.raises(CorruptRecordError, match="offsets 6 to 13, the segment starts at 10"):
        read_arrow(tmp_path).read_all()
    assert permissive(tmp_path)[0] == list(range(10))
    assert [finding.kind for finding in findings(tmp_path)] == [FindingKind.CORRUPT_BATCH]


@pytest.mark.parametrize("is_wrapper", [False, True])
@pytest.mark.parametrize("reached", [0, 17])
def test_a_last_batch_that_repeats_some_offsets_is_believed_where_the_log_ends_with_it(
    tmp_path: Path, is_wrapper: bool, reached: int
) -> None:
    """No checksum covers a base offset: one that went down leaves the log too short."""
    eight = [RecordSpec(value=b"v", offset_delta=delta) for delta in range(8)]
    reaching = legacy_message_set(1, eight, base_offset=6, codec="gzip")
    first = batch(0, 10)
    if is_wrapper:
        first = legacy_message_set(
            1, [RecordSpec(value=b"v", offset_delta=number) for number in range(10)]
        )
    builder = LogBuilder(tmp_path)
    last = reaching if is_wrapper else batch(6, 8)
    builder.partition("t", 0, [SegmentSpec([first, last], base_offset=0)])
    builder.clean_shutdown()
    if reached:
        builder.high_watermarks({("t", 0): reached})
    assert permissive(tmp_path)[0] == list(range(10))
    builder.high_watermarks({("t", 0): 14})
    assert permissive(tmp_path) == (list(range(14)), [])
