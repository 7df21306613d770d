"""Messages byte by byte, against other readers."""

from __future__ import annotations

import struct
import zlib

import pytest

from spark_segmentlog.testing.batches import DEFAULT_TIMESTAMP_MS, RecordSpec
from spark_segmentlog.testing.legacy import legacy_message, legacy_message_set
from tests.support.aiokafka_records import decoded

RECORDS = [RecordSpec(key=b"k", value=b"v" * 500), RecordSpec(value=b""), RecordSpec(key=b"")] * 50


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "snappy-raw", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_set_is_what_aiokafka_reads(magic: int, codec: str) -> None:
    if (magic, codec) == (0, "lz4"):
        codec = "none"  # aiokafka refuses lz4 in format 0
    rows = decoded(legacy_message_set(magic, RECORDS, base_offset=100, codec=codec))
    assert [row[0] for row in rows] == list(range(100, 250))
    assert [(row[2], row[3]) for row in rows] == [(record.key, record.value) for record in RECORDS]
    if magic == 1:
        assert {row[1] for row in rows} == {DEFAULT_TIMESTAMP_MS}


def test_legacy_crc_covers_magic_to_end() -> None:
    message = legacy_message(1, offset=4, key=None, value=b"v", log_append_time=True)
    assert struct.unpack_from(">I", message, 12)[0] == zlib.crc32(message[16:])
    assert message[16:18] == b"\x01\x08"
