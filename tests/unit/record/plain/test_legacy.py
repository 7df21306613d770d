"""Messages of formats 0 and 1, and wrappers: offsets, timestamps, checksums, what is no wrapper."""

from __future__ import annotations

import pytest

from spark_segmentlog.errors import (
    DecompressionError,
    InvalidBatchError,
)
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.testing.builder import (
    RecordSpec,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    v2_batch,
)
from tests.support.decoding import (
    both,
    failure,
    read,
    read_plainly,
    scan,
)


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


def test_lz4_header_checksum_is_checked_from_format_1_on() -> None:
    inner = legacy_message(1, offset=0, value=b"v" * 50)
    data = legacy_wrapper(1, inner, offset=0, codec="lz4-legacy-checksum")
    failure(data, DecompressionError, "header checksum mismatch")
    batch = v2_batch([RecordSpec(value=b"v" * 50)], codec="lz4-legacy-checksum")
    failure(batch, DecompressionError, "header checksum mismatch")


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
