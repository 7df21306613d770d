"""Messages of formats 0 and 1, and wrappers: offsets, timestamps, checksums, what is no wrapper."""

from __future__ import annotations

import pytest

from spark_segmentlog.errors import (
    CorruptRecordError,
    CrcMismatchError,
    DecompressionError,
    InvalidBatchError,
    InvalidRecordError,
)
from spark_segmentlog.record.plain.legacy import iterate_messages
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
    outcomes_of_decoder,
    outcomes_of_twin,
    read,
    read_plainly,
    scan,
)

V0_CODECS = ("gzip", "snappy", "snappy-raw", "lz4", "lz4-legacy-checksum")
V1_CODECS = ("gzip", "snappy", "snappy-raw", "lz4")


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_keep_offset_time_key_and_value(magic: int) -> None:
    data = b"".join(
        legacy_message(magic, offset=offset, key=key, value=value, timestamp_ms=1000 + offset)
        for offset, key, value in [(5, None, b""), (7, b"", None), (8, b"k", b"v")]
    )
    time = (-1, -1) if magic == 0 else None
    assert both(data) == [
        (5, *(time or (1005, 0)), None, b"", None),
        (7, *(time or (1007, 0)), b"", None, None),
        (8, *(time or (1008, 0)), b"k", b"v", None),
    ]
    assert scan(data).last_offset.tolist() == [5, 7, 8]


def test_plain_message_with_log_append_time() -> None:
    data = legacy_message(1, offset=0, value=b"v", timestamp_ms=9, log_append_time=True)
    assert both(data)[0][1:3] == (9, 1)


def test_no_timestamp_in_format_1_is_minus_one_of_create_time() -> None:
    assert both(legacy_message(1, offset=0, timestamp_ms=-1))[0][1:3] == (-1, 0)


def test_timestamp_bit_of_format_0_means_nothing() -> None:
    data = legacy_message(0, offset=0, attributes=0x08)
    assert both(data)[0][1:3] == (-1, -1)
    assert scan(data).timestamp_type.tolist() == [-1]


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


def test_lz4_header_checksum_is_checked_from_format_1_on() -> None:
    inner = legacy_message(1, offset=0, value=b"v" * 50)
    data = legacy_wrapper(1, inner, offset=0, codec="lz4-legacy-checksum")
    failure(data, DecompressionError, "header checksum mismatch")
    batch = v2_batch([RecordSpec(value=b"v" * 50)], codec="lz4-legacy-checksum")
    failure(batch, DecompressionError, "header checksum mismatch")


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


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("length", [b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00", b"\x00\x00\x00\x63"])
def test_field_length_that_is_no_length_is_an_error(field: str, length: bytes) -> None:
    data = bytearray(legacy_message(1, offset=0, key=b"kk", value=b"vv"))
    at = 26 if field == "key" else 32
    data[at : at + 4] = length
    found = list(outcomes_of_decoder(bytes(data), check_crcs=False))
    assert found == list(outcomes_of_twin(bytes(data), check_crcs=False))
    with pytest.raises(InvalidRecordError, match=f"{field} length"):
        read(bytes(data), check_crcs=False)


def test_bytes_left_over_in_a_message_are_an_error() -> None:
    data = bytearray(legacy_message(0, offset=0, value=b"vv"))
    data[22:26] = b"\x00\x00\x00\x01"
    with pytest.raises(InvalidRecordError, match="1 bytes are left over"):
        read(bytes(data), check_crcs=False)


def test_one_file_may_hold_all_formats() -> None:
    data = (
        legacy_message(0, offset=0, value=b"0")
        + legacy_message_set(0, [RecordSpec(value=b"1")] * 2, base_offset=1, codec="snappy")
        + legacy_message(1, offset=3, value=b"3", timestamp_ms=3)
        + legacy_message_set(1, [RecordSpec(value=b"4")] * 2, base_offset=4, codec="lz4")
        + v2_batch([RecordSpec(value=b"6")], base_offset=6)
        + v2_batch([RecordSpec(value=b"7")], base_offset=7, codec="zstd")
        + legacy_message(1, offset=8, value=b"8", timestamp_ms=3)
    )
    assert [row[0] for row in both(data)] == list(range(9))
    assert scan(data).magic.tolist() == [0, 0, 1, 1, 2, 2, 1]


def test_plain_twin_refuses_what_is_no_message() -> None:
    with pytest.raises(InvalidBatchError, match="magic 2, allowed 0 and 1"):
        list(iterate_messages(v2_batch([RecordSpec(value=b"v")])))
    with pytest.raises(InvalidBatchError, match="message header cut off: 16 bytes"):
        list(iterate_messages(legacy_message(1, offset=0)[:16]))
    with pytest.raises(InvalidBatchError, match="message size 21, allowed 22"):
        list(iterate_messages(legacy_message(1, offset=0, size=21)))


def test_plain_twin_reads_what_the_decoder_reads_without_checksums() -> None:
    records = [RecordSpec(key=b"k", value=b"v" * 5)] * 5
    data = legacy_message_set(1, records, base_offset=7, codec="gzip")
    assert read(data, check_crcs=False) == read_plainly(data, check_crcs=False)


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
