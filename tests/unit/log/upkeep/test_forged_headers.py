"""Batches whose header is wrong: where the log goes on behind them, and what is told of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.batches import legacy_message_set
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.reading import batch, timed

SEGMENT = "00000000000000000000"


def build(path: Path, batches: list[bytes], **checkpoints: int) -> Path:
    """Write one segment of a log that was shut cleanly; gives its `.log`."""
    builder = LogBuilder(path)
    builder.partition("t", 0, [SegmentSpec(batches, base_offset=0)], snapshots=True)
    if "recovery_point" in checkpoints:
        builder.recovery_points({("t", 0): checkpoints["recovery_point"]})
    if "high_watermark" in checkpoints:
        builder.high_watermarks({("t", 0): checkpoints["high_watermark"]})
    builder.clean_shutdown()
    return path / "t-0" / f"{SEGMENT}.log"


def flip(path: Path, position: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def permissive(path: Path, **options: object) -> tuple[list[int], list[dict[str, object]]]:
    """Read the offsets, and what is told of bad bytes."""
    columns = ["offset", "_corrupt_record"]
    table = read_arrow(
        path, columns=columns, mode="PERMISSIVE", fail_on_data_loss=False, **options
    ).read_all()
    rows = table.to_pylist()
    bad = [it["_corrupt_record"] for it in rows if it["_corrupt_record"] is not None]
    return [it["offset"] for it in rows if it["offset"] is not None], bad


def findings(path: Path) -> list[Finding]:
    return list(verify(str(path), deep=True))


# Lengths


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("row", [0, 3, 9])
def test_a_flipped_length_takes_no_other_batch_along(tmp_path: Path, row: int, bit: int) -> None:
    batches = [batch(5 * it, 5) for it in range(10)]
    log = build(tmp_path, batches, recovery_point=50)
    start = sum(map(len, batches[:row]))
    flip(log, start + 8 + bit // 8, 7 - bit % 8)
    given, bad = permissive(tmp_path)
    expected = [it for it in range(50) if it // 5 != row]
    assert given == expected
    if row < 9:
        assert [(it["startOffset"], it["endOffset"]) for it in bad] == [(5 * row, 5 * row + 5)]
    assert len(findings(tmp_path)) == 1
    with pytest.raises(CorruptRecordError if row < 9 else Exception, match="offset"):
        read_arrow(tmp_path).read_all()


def test_zeros_over_the_border_of_two_batches_are_one_fault(tmp_path: Path) -> None:
    batches = [batch(5 * it, 5) for it in range(4)]
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
    batches = [batch(5 * it, 5) for it in range(4)]
    log = build(tmp_path, batches)
    for row in (1, 2):
        flip(log, sum(map(len, batches[:row])) + 70, 0)
    told = [(it.start_offset, it.end_offset) for it in findings(tmp_path)]
    assert told == [(5, 10), (10, 15)]


# Wrappers


def wrappers(magic: int) -> list[bytes]:
    """Messages in three wrappers of ten, that stand in the block of snappy as they are."""
    noise = np.random.default_rng(7)
    return [
        legacy_message_set(
            magic,
            [RecordSpec(value=noise.bytes(40)) for _ in range(10)],
            base_offset=10 * it,
            codec="snappy",
        )
        for it in range(3)
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
    assert given == [it for it in range(30) if it // 10 != row]
    assert len(findings(tmp_path)) == 1


def test_a_wrapper_that_ends_too_high_hides_nothing_of_the_next_one(tmp_path: Path) -> None:
    blocks = wrappers(1)
    log = build(tmp_path, blocks)
    flip(log, len(blocks[0]) + 7, 2)
    given, bad = permissive(tmp_path)
    assert given == [*range(10), *range(20, 30)]
    assert [(it["startOffset"], it["endOffset"]) for it in bad] == [(10, 20)]


# Offsets


@pytest.mark.parametrize("bit", [3, 4, 12])
def test_a_last_batch_does_not_jump_over_where_the_log_was(tmp_path: Path, bit: int) -> None:
    batches = [batch(0, 5), batch(5, 2)]
    log = build(tmp_path, batches, high_watermark=7)
    flip(log, len(batches[0]) + 7 - bit // 8, bit % 8)
    with pytest.raises(CorruptRecordError, match=r"the log had offset 6.*position"):
        read_arrow(tmp_path).read_all()
    assert permissive(tmp_path)[0] == [0, 1, 2, 3, 4]
    assert len(findings(tmp_path)) == 1


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
    committed = {"kafka_isolation_level": "read_committed"}
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
    assert [(it["startOffset"], it["endOffset"]) for it in bad] in ([], [(1, 2)])
    with pytest.raises(CorruptRecordError):
        read_arrow(tmp_path, kafka_isolation_level="read_committed").read_all()


# What no row tells: epochs, snapshots, indexes


def test_a_leader_epoch_between_others_is_found(tmp_path: Path) -> None:
    batches = [batch(5 * it, 5) for it in range(4)]
    log = build(tmp_path, batches)
    assert findings(tmp_path) == []
    flip(log, len(batches[0]) + 13, 0)
    (one,) = findings(tmp_path)
    assert (one.kind, one.path, one.position) == (
        FindingKind.LEADER_EPOCH,
        str(log),
        len(batches[0]),
    )
    assert read_arrow(tmp_path).read_all().num_rows == 20


@pytest.mark.parametrize(
    "text",
    ["", "0\n1\n3 0\n", "0\n2\n0 0\n1 7\n", "0\n2\n0 0\n1 99\n", "0\n2\n0 5\n1 3\n"],
    ids=["empty", "another epoch", "amid a batch", "behind the end", "out of order"],
)
def test_a_checkpoint_of_other_leader_epochs_is_found(tmp_path: Path, text: str) -> None:
    log = build(tmp_path, [batch(0, 5), batch(5, 5)])
    checkpoint = log.parent / "leader-epoch-checkpoint"
    checkpoint.write_text(text)
    (one,) = findings(tmp_path)
    assert (one.kind, one.path) == (FindingKind.LEADER_EPOCH, str(checkpoint))


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
        (one,) = [it for it in findings(tmp_path) if it.path == str(index)]
        assert one.kind in (FindingKind.OFFSET_INDEX, FindingKind.TIME_INDEX)


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
        first = legacy_message_set(1, [RecordSpec(value=b"v", offset_delta=it) for it in range(10)])
    builder = LogBuilder(tmp_path)
    last = reaching if is_wrapper else batch(6, 8)
    builder.partition("t", 0, [SegmentSpec([first, last], base_offset=0)])
    builder.clean_shutdown()
    if reached:
        builder.high_watermarks({("t", 0): reached})
    assert permissive(tmp_path)[0] == list(range(10))
    builder.high_watermarks({("t", 0): 14})
    assert permissive(tmp_path) == (list(range(14)), [])
