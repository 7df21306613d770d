"""Batches whose header is wrong: where the log goes on after them, and what is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.forging import build, findings, flip, permissive
from tests.support.reading import batch, timed

# Lengths


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("row", [0, 3, 9])
def test_a_flipped_length_takes_no_other_batch_along(tmp_path: Path, row: int, bit: int) -> None:
    batches = [batch(5 * number, 5) for number in range(10)]
    log = build(tmp_path, batches, recovery_point=50)
    start = sum(map(len, batches[:row]))
    flip(log, start + 8 + bit // 8, 7 - bit % 8)
    given, bad = permissive(tmp_path)
    expected = [number for number in range(50) if number // 5 != row]
    assert given == expected
    if row < 9:
        assert [(finding["startOffset"], finding["endOffset"]) for finding in bad] == [
            (5 * row, 5 * row + 5)
        ]
    assert len(findings(tmp_path)) == 1
    with pytest.raises(CorruptRecordError if row < 9 else Exception, match="offset"):
        read_arrow(tmp_path).read_all()


def test_zeros_over_the_border_of_two_batches_are_one_fault(tmp_path: Path) -> None:
    batches = [batch(5 * number, 5) for number in range(4)]
    log = build(tmp_path, batches)
    data = bytearray(log.read_bytes())
    border = len(batches[0]) + len(batches[1])
    data[border - 20 : border + 20] = bytes(40)
    log.write_bytes(data)
    (one,) = findings(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.CORRUPT_BATCH, 5, 15)
    given, bad = permissive(tmp_path)
    assert given == [0, 1, 2, 3, 4, 15, 16, 17, 18, 19]
    assert len(bad) == 1


def test_bad_batches_beside_each_other_are_a_fault_each(tmp_path: Path) -> None:
    batches = [batch(5 * number, 5) for number in range(4)]
    log = build(tmp_path, batches)
    for row in (1, 2):
        flip(log, sum(map(len, batches[:row])) + 70, 0)
    told = [(finding.start_offset, finding.end_offset) for finding in findings(tmp_path)]
    assert told == [(5, 10), (10, 15)]


def test_a_log_that_ends_below_its_high_watermark_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build(tmp_path, [batch(0, 5)], recovery_point=0, high_watermark=9)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    assert read_arrow(tmp_path).read_all()["offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert "below its high watermark 9" in caplog.text
    (one,) = findings(tmp_path)
    assert (one.kind, one.start_offset, one.end_offset) == (FindingKind.LOST_OFFSETS, 5, 9)


@pytest.mark.parametrize("length", range(12, 27))
def test_a_file_that_ends_within_a_header_is_torn(tmp_path: Path, length: int) -> None:
    batches = [batch(0, 5), batch(5, 5)]
    log = build(tmp_path, batches)
    log.write_bytes(log.read_bytes()[: len(batches[0]) + length])
    (one,) = findings(tmp_path)
    assert one.position == len(batches[0])


# Transactions


def test_a_lost_marker_is_told_where_it_holds_rows_back(tmp_path: Path) -> None:
    data = [
        v2_batch([RecordSpec(value=b"v")], base_offset=0, producer_id=1, transactional=True),
        v2_batch([RecordSpec(value=b"v")], base_offset=1),
    ]
    markers = [control_batch(ABORT, base_offset=2, producer_id=1), batch(3, 1)]
    LogBuilder(tmp_path).partition(
        "t",
        0,
        [
            SegmentSpec(data),
            SegmentSpec(markers, base_offset=2, index_interval_bytes=0),
            SegmentSpec([batch(4, 1)], base_offset=4),
        ],
    )
    log = tmp_path / "t-0" / f"{2:020d}.log"
    committed: dict[str, Any] = {"kafka_isolation_level": "read_committed"}
    assert read_arrow(tmp_path, **committed).read_all()["offset"].to_pylist() == [1, 3, 4]
    log.write_bytes(b"")
    with pytest.raises(Exception, match=r"\[2, 4\)"):
        read_arrow(tmp_path, **committed).read_all()


def test_a_bad_marker_is_told_and_decides_nothing(tmp_path: Path) -> None:
    data = [
        v2_batch([RecordSpec(value=b"v")], base_offset=0, producer_id=1, transactional=True),
        control_batch(ABORT, base_offset=1, producer_id=1),
        v2_batch([RecordSpec(value=b"v")], base_offset=2, producer_id=2, transactional=True),
        control_batch(COMMIT, base_offset=3, producer_id=2),
    ]
    log = build(tmp_path, data)
    flip(log, len(data[0]) + 65, 0)
    given, bad = permissive(tmp_path, kafka_isolation_level="read_committed")
    assert given == []
    assert [(finding["startOffset"], finding["endOffset"]) for finding in bad] in ([], [(1, 2)])
    with pytest.raises(CorruptRecordError):
        read_arrow(tmp_path, kafka_isolation_level="read_committed").read_all()


def test_a_snapshot_of_another_partition_is_found(tmp_path: Path) -> None:
    def producer(first: int, producer_id: int) -> bytes:
        return v2_batch(
            [RecordSpec(value=b"v")] * 2,
            base_offset=first,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=first,
        )

    ours = build(tmp_path / "ours", [producer(0, 1), producer(2, 2), producer(4, 1)])
    theirs = build(tmp_path / "theirs", [producer(0, 2), producer(2, 1), producer(4, 3)])
    name = f"{6:020d}.snapshot"
    assert findings(tmp_path / "ours") == []
    (ours.parent / name).write_bytes((theirs.parent / name).read_bytes())
    (one,) = findings(tmp_path / "ours")
    assert (one.kind, one.path) == (FindingKind.PRODUCER_SNAPSHOT, str(ours.parent / name))


@pytest.mark.parametrize(("kind", "size"), [(".index", 8), (".timeindex", 12)])
def test_an_index_is_whole_entries_and_zeros(tmp_path: Path, kind: str, size: int) -> None:
    log = build(tmp_path, [timed(0, 1)])
    index = log.with_suffix(kind)
    zeros = bytes(100 * size)
    index.write_bytes(index.read_bytes() + zeros)
    assert findings(tmp_path) == []
    for content in (zeros[:-1], zeros[: 50 * size] + b"\x01" + zeros[50 * size + 1 :]):
        index.write_bytes(content)
        (one,) = [finding for finding in findings(tmp_path) if finding.path == str(index)]
        assert one.kind in (FindingKind.OFFSET_INDEX, FindingKind.TIME_INDEX)
