"""Wrappers of formats 0 and 1, and the messages in them."""

from __future__ import annotations

import pytest

from spark_segmentlog.errors import (
    CorruptRecordError,
    CrcMismatchError,
    InvalidBatchError,
    InvalidRecordError,
)
from spark_segmentlog.record.read import wrapper
from spark_segmentlog.testing.builder import (
    RecordSpec,
    compress,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    v2_batch,
)
from tests.support.decoding import (
    both,
    failure,
    read,
    scan,
)

V0_CODECS = ("gzip", "snappy", "snappy-raw", "lz4", "lz4-legacy-checksum")


V1_CODECS = ("gzip", "snappy", "snappy-raw", "lz4")


@pytest.mark.parametrize("codec", V0_CODECS)
def test_offsets_in_a_wrapper_of_format_0_are_absolute(codec: str) -> None:
    records = [RecordSpec(value=b"v" * 20) for _ in range(10)]
    data = legacy_message_set(0, records, base_offset=772034, codec=codec)
    assert [row[0] for row in both(data)] == list(range(772034, 772044))
    assert all(row[1:3] == (-1, -1) for row in both(data))


@pytest.mark.parametrize("codec", V1_CODECS)
def test_offsets_in_a_wrapper_of_format_1_count_from_its_own(codec: str) -> None:
    inner = b"".join(
        legacy_message(1, offset=offset, value=b"v" * 20, timestamp_ms=offset)
        for offset in (1, 3, 9)
    )
    data = legacy_wrapper(1, inner, offset=109, codec=codec)
    assert [row[:3] for row in both(data)] == [(101, 1, 0), (103, 3, 0), (109, 9, 0)]


def test_header_table_bounds_the_first_offset_of_a_wrapper_from_below() -> None:
    records = [RecordSpec(value=b"v")] * 3
    data = legacy_message(1, offset=4) + legacy_message_set(
        1, records, base_offset=100, codec="gzip"
    )
    table = scan(data)
    assert table.base_offset.tolist() == [4, 5]
    assert table.last_offset.tolist() == [4, 102]
    assert table.records_count.tolist() == [1, -1]
    assert scan(data[len(legacy_message(1, offset=4)) :], first_offset=50).base_offset[0] == 50


def test_append_time_of_a_wrapper_overrides_that_of_its_messages() -> None:
    inner = b"".join(
        legacy_message(1, offset=offset, timestamp_ms=time)
        for offset, time in enumerate([1, 2, -1])
    )
    stamped = legacy_wrapper(
        1, inner, offset=2, codec="gzip", timestamp_ms=5000, log_append_time=True
    )
    assert [row[1:3] for row in both(stamped)] == [(5000, 1)] * 3
    created = legacy_wrapper(1, inner, offset=2, codec="gzip", timestamp_ms=5000)
    assert [row[1:3] for row in both(created)] == [(1, 0), (2, 0), (-1, 0)]


def test_offset_0_of_a_wrapper_in_format_1_leaves_its_messages_alone() -> None:
    inner = b"".join(legacy_message(1, offset=offset) for offset in range(3))
    assert [row[0] for row in both(legacy_wrapper(1, inner, offset=0, codec="gzip"))] == [0, 1, 2]


@pytest.mark.parametrize("offset", [1, 5])
def test_messages_beyond_their_wrapper_are_an_error(offset: int) -> None:
    inner = b"".join(legacy_message(1, offset=inner) for inner in (7, 2 if offset == 5 else 8))
    data = legacy_wrapper(1, inner, offset=offset, codec="gzip")
    failure(data, InvalidRecordError, "in a wrapper of offset")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("make", "kind", "reason"),
    [
        (lambda magic: legacy_message(magic, offset=0, codec="gzip"), InvalidRecordError, "null"),
        (
            lambda magic: legacy_wrapper(magic, b"", offset=0, codec="gzip"),
            InvalidRecordError,
            "holds no message",
        ),
        (
            lambda magic: legacy_wrapper(
                magic,
                legacy_wrapper(
                    magic, legacy_message(magic, offset=0), offset=0, codec="snappy-raw"
                ),
                offset=0,
                codec="gzip",
            ),
            InvalidRecordError,
            "is compressed .snappy.",
        ),
        (
            lambda magic: legacy_message(
                magic,
                offset=0,
                attributes=4,
                value=compress("zstd", legacy_message(magic, offset=0)),
            ),
            InvalidBatchError,
            "compression codec 4 in format",
        ),
        (
            lambda magic: legacy_wrapper(
                magic, legacy_message(1 - magic, offset=0), offset=0, codec="gzip"
            ),
            InvalidRecordError,
            "in a wrapper of format",
        ),
        (
            lambda magic: legacy_wrapper(
                magic, v2_batch([RecordSpec(value=b"v")]), offset=0, codec="gzip"
            ),
            InvalidRecordError,
            "magic 2",
        ),
        (
            lambda magic: legacy_wrapper(
                magic, legacy_message(magic, offset=0)[:-1], offset=0, codec="gzip"
            ),
            InvalidRecordError,
            "message size",
        ),
        (
            lambda magic: legacy_wrapper(
                magic, legacy_message(magic, offset=0, value=b"v", crc=1), offset=0, codec="gzip"
            ),
            CrcMismatchError,
            "stored 0x00000001",
        ),
        (
            lambda magic: legacy_wrapper(
                magic, legacy_message(magic, offset=-1, value=b"v"), offset=0, codec="gzip"
            ),
            InvalidRecordError,
            "offset -1",
        ),
    ],
)
def test_wrapper_that_is_none_is_a_corrupt_record_error(
    magic: int, make: object, kind: type[CorruptRecordError], reason: str
) -> None:
    assert callable(make)
    failure(make(magic), kind, reason)


@pytest.mark.parametrize("magic", [0, 1])
def test_wrong_checksum_of_message_and_wrapper(magic: int) -> None:
    plain = legacy_message(magic, offset=3, value=b"v", crc=5)
    error = failure(plain, CrcMismatchError, "message crc mismatch: stored 0x00000005")
    assert (error.base_offset, error.length) == (3, len(plain))
    assert read(plain, check_crcs=False)[0][4] == b"v"
    inner = legacy_message(magic, offset=0, value=b"v", crc=5)
    outer = legacy_wrapper(magic, inner, offset=0, codec="gzip", crc=6)
    failure(outer, CrcMismatchError, "stored 0x00000006")
    assert read(outer, check_crcs=False)[0][4] == b"v"


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_of_very_many_messages_is_read_piece_by_piece(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper, "MAX_PIECE_ENTRIES", 10)
    records = [RecordSpec(value=b"%d" % place) for place in range(95)]
    data = legacy_message_set(magic, records, base_offset=7, codec="gzip")
    assert [row[0] for row in both(data)] == list(range(7, 102))
    bad = b"".join(legacy_message(magic, offset=place) for place in range(40)) + b"x"
    failure(legacy_wrapper(magic, bad, offset=39, codec="gzip"), InvalidRecordError, "cut off")
