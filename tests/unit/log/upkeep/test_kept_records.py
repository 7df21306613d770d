"""What is written of a batch of which some records stay: headers, horizons, old formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_segmentlog.errors import (
    InvalidRecordError,
)
from spark_segmentlog.testing.builder import (
    ABORT,
    RecordSpec,
    SegmentSpec,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    v2_batch,
)
from tests.support.cleaning import (
    DAY_MS,
    NOW_MS,
    build,
    check_indexes,
    headers,
    kept,
    log_bytes,
    plain_batches,
    record,
    rows,
    split_log,
    temporary_names,
)
from tests.support.compacting import CODECS, CONFIG, active, data, old_format_log, run
from tests.support.transaction_batches import marker


def test_a_batch_keeps_its_offsets_when_its_records_go(tmp_path: Path) -> None:
    values = [(b"a", b"1"), (b"x", b"1"), (b"a", b"2"), (b"y", b"1"), (b"a", b"3"), (b"a", b"4")]
    directory = build(tmp_path, [plain_batches(values, batch_size=5), active(6)])
    run(directory)
    first = headers(directory)[0]
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 4, 2)
    assert [offset for offset, _, _ in kept(directory)] == [1, 3, 5, 6]


def test_headers_and_timestamps_stay_exact(tmp_path: Path) -> None:
    specs = [
        RecordSpec(key=b"a", value=b"", timestamp_ms=NOW_MS, headers=(("h", None), ("i", b""))),
        RecordSpec(key=b"b", value=b"old", timestamp_ms=NOW_MS + 5),
        RecordSpec(key=b"c", value=b"x", timestamp_ms=NOW_MS - 60_000),
        RecordSpec(key=b"b", value=b"new", timestamp_ms=NOW_MS + 1),
    ]
    directory = build(tmp_path, [[v2_batch(specs)], active(4)])
    before = rows(directory)
    run(directory)
    assert rows(directory) == [before[0], before[2], before[3], before[4]]
    assert headers(directory)[0].max_timestamp == NOW_MS + 1


def test_an_unchanged_batch_is_copied_byte_by_byte(tmp_path: Path) -> None:
    untouched = v2_batch(
        [record(b"k", b"v")], base_offset=2, codec="gzip", partition_leader_epoch=7
    )
    directory = build(
        tmp_path, [[*plain_batches([(b"a", b"1"), (b"a", b"2")]), untouched], active(3)]
    )
    run(directory)
    assert untouched in split_log(log_bytes(directory, 0))


def test_the_last_batch_of_a_round_stays_as_a_header_to_keep_its_offset(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [plain_batches([(b"a", b"1"), (None, b"x"), (None, b"y")], batch_size=1), active(3)],
    )
    run(directory)
    first, last, _ = headers(directory)
    assert (first.base_offset, first.records_count) == (0, 1)
    assert (last.base_offset, last.last_offset, last.records_count) == (2, 2, 0)


def test_a_delete_horizon_is_set_once_and_keeps_record_timestamps(tmp_path: Path) -> None:
    first = plain_batches([(b"a", None), (b"b", b"1")], timestamp_ms=NOW_MS - 1000)
    directory = build(tmp_path, [first, active(2)])
    run(directory)
    written = log_bytes(directory, 0)
    tombstone = v2_batch(
        [record(b"a", None, NOW_MS - 1000), record(b"b", b"1", NOW_MS - 1000)],
        delete_horizon_ms=NOW_MS + DAY_MS,
    )
    assert written == tombstone
    (directory / f"{2:020d}.log").unlink()
    build(tmp_path, [[written], plain_batches([(b"c", b"1")], base_offset=2), active(3)])
    run(directory, now_ms=NOW_MS + 1000)
    assert split_log(log_bytes(directory, 0))[0] == tombstone


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_before_1970_is_copied_and_never_written_again(tmp_path: Path, codec: str) -> None:
    early = v2_batch(
        [record(b"a", b"1", -2), record(b"b", b"1", -1), record(b"c", b"1")], codec=codec
    )
    following = plain_batches([(b"x", b"1")], base_offset=3)
    directory = build(tmp_path / "copied", [[early, *following], active(4)])
    run(directory)
    assert split_log(log_bytes(directory, 0))[0] == early

    following = plain_batches([(b"c", b"2")], base_offset=3)
    directory = build(tmp_path / "refused", [[early], following, active(4)])
    with pytest.raises(InvalidRecordError, match=r"offset 0 has the timestamp -2 ms, before 1970"):
        run(directory)
    assert split_log(log_bytes(directory, 0)) == [early]
    assert not temporary_names(directory)


def test_a_record_before_1970_that_goes_is_no_hindrance(tmp_path: Path) -> None:
    batch = v2_batch([record(b"a", b"1", -2), record(b"b", b"1", -1), record(b"c", b"1")])
    more = plain_batches([(b"a", b"2")], base_offset=3)
    directory = build(tmp_path, [[batch], more, active(4)])
    run(directory)
    assert [offset for offset, _, _ in kept(directory)] == [1, 2, 3, 4]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_what_stays_of_old_formats_becomes_format_2(tmp_path: Path, magic: int, codec: str) -> None:
    directory = old_format_log(tmp_path, magic, codec)
    before = rows(directory)
    run(directory)
    assert kept(directory)[:-1] == [
        (2, b"a", None),
        (3, b"c", b""),
        (4, b"b", b"2"),
        (5, b"d", b"1"),
    ]
    assert rows(directory) == [record for record in before if record.offset >= 2]
    found = headers(directory)
    assert [header.magic for header in found] == [2] * len(found)
    assert found[0].base_offset == 2
    assert found[0].codec_id == CODECS.index(codec)
    # A tombstone has a place for its horizon now.
    assert found[0].delete_horizon_ms == NOW_MS + DAY_MS
    check_indexes(directory)
    run(directory, now_ms=NOW_MS + DAY_MS)
    assert (2, b"a", None) not in kept(directory)


@pytest.mark.parametrize("offsets", [(5, 3), (0, 2**31)])
def test_a_wrapper_that_no_batch_can_take_the_place_of_is_refused(
    tmp_path: Path, offsets: tuple[int, int]
) -> None:
    inner = b"".join(legacy_message(0, offset=offset, key=b"%d" % offset) for offset in offsets)
    wrapper = legacy_wrapper(0, inner, offset=max(offsets), codec="gzip")
    segment = SegmentSpec([wrapper], base_offset=0, index=False, time_index=False)
    directory = build(tmp_path, [segment, active(max(offsets) + 1)])
    with pytest.raises(InvalidRecordError, match="are not ascending, or more than 2147483647"):
        run(directory)
    assert log_bytes(directory, 0) == wrapper


def test_messages_of_old_formats_that_all_stay_become_format_2_too(tmp_path: Path) -> None:
    messages = legacy_message_set(1, [record(b"a", b"1"), record(b"b", b"1")])
    directory = build(tmp_path, [[messages], active(2)])
    run(directory)
    assert [header.magic for header in headers(directory)] == [2, 2, 2]
    assert kept(directory)[:-1] == [(0, b"a", b"1"), (1, b"b", b"1")]


def test_a_producers_last_batch_stays_as_a_header_with_its_sequence(tmp_path: Path) -> None:
    def idempotent(base: int, sequence: int, value: bytes) -> bytes:
        return v2_batch(
            [record(b"k", value)] * 2,
            base_offset=base,
            producer_id=5,
            producer_epoch=3,
            base_sequence=sequence,
        )

    directory = build(
        tmp_path,
        [
            [idempotent(0, 0, b"1"), idempotent(2, 2, b"2")],
            plain_batches([(b"k", b"3")], base_offset=4),
            active(5),
        ],
    )
    run(directory)
    first = headers(directory)[0]
    assert (first.base_offset, first.last_offset, first.records_count) == (2, 3, 0)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (5, 3, 2)
    assert kept(directory)[0] == (4, b"k", b"3")
    run(directory, replace(CONFIG, producer_id_expiration_ms=0), now_ms=NOW_MS)


def test_the_marker_of_a_bumped_epoch_stays_for_fencing(tmp_path: Path) -> None:
    directory = build(
        tmp_path,
        [
            [data(7, 0, (b"a", b"1")), marker(ABORT, 7, 1, epoch=1)],
            plain_batches([(b"b", b"1")], base_offset=2),
            active(3),
        ],
    )
    run(directory)
    # Its data is of an older epoch and goes; the marker alone says the present one.
    assert [
        (header.base_offset, header.is_control, header.records_count)
        for header in headers(directory)
    ][:1] == [(1, True, 1)]
    later = NOW_MS + DAY_MS // 2
    run(directory, replace(CONFIG, delete_retention_ms=0), now_ms=later)
    assert headers(directory)[0].is_control


def test_an_emptied_marker_tells_the_present_epoch_of_its_producer(tmp_path: Path) -> None:
    emptied = v2_batch(
        base_offset=1,
        max_timestamp=NOW_MS,
        transactional=True,
        control=True,
        producer_id=7,
        producer_epoch=1,
    )
    horizon = v2_batch(
        [RecordSpec(key=b"\0\0\0\0", value=bytes(6), timestamp_ms=NOW_MS)],
        delete_horizon_ms=NOW_MS,
        transactional=True,
        control=True,
        producer_id=7,
        producer_epoch=0,
    )
    directory = build(
        tmp_path, [[horizon, emptied, *plain_batches([(b"a", b"1")], base_offset=2)], active(3)]
    )
    run(directory)
    assert [(header.base_offset, header.producer_epoch) for header in headers(directory)][:2] == [
        (1, 1),
        (2, -1),
    ]
