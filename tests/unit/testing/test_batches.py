"""Batches and messages byte by byte, against other readers."""

from __future__ import annotations

import struct
import zlib

import crc32c
import pytest
from aiokafka.record.memory_records import MemoryRecords

from spark_segmentlog.testing.builder import (
    CODECS,
    COMMIT,
    DEFAULT_TIMESTAMP_MS,
    RecordSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    summarize_batch,
    unsigned_varint,
    v2_batch,
    varint,
)

RECORDS = [
    RecordSpec(key=b"k", value=b"v" * 500, headers=[("a", None), ("b", b"")]),
    RecordSpec(value=b"", timestamp_ms=DEFAULT_TIMESTAMP_MS - 5),
    RecordSpec(value=None, key=b""),
] * 50


def decoded(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None, list[object]]]:
    """What aiokafka makes of the bytes."""
    rows = []
    memory_records = MemoryRecords(data)
    while memory_records.has_next():
        batch = memory_records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        for record in batch:
            rows.append(
                (record.offset, record.timestamp, record.key, record.value, list(record.headers))
            )
    return rows


# A strict decoder refuses the old checksum, which is its purpose.
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "lz4-legacy-checksum"])
def test_v2_batch_is_what_aiokafka_reads(codec: str) -> None:
    rows = decoded(v2_batch(RECORDS, base_offset=7, codec=codec))
    assert rows == [
        (7 + place, record.timestamp_ms, record.key, record.value, list(record.headers))
        for place, record in enumerate(RECORDS)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "snappy-raw", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_set_is_what_aiokafka_reads(magic: int, codec: str) -> None:
    if (magic, codec) == (0, "lz4"):
        codec = "none"  # aiokafka refuses lz4 in format 0
    records = [RecordSpec(key=record.key, value=record.value) for record in RECORDS]
    rows = decoded(legacy_message_set(magic, records, base_offset=100, codec=codec))
    assert [row[0] for row in rows] == list(range(100, 250))
    assert [(row[2], row[3]) for row in rows] == [(r.key, r.value) for r in records]
    if magic == 1:
        assert {row[1] for row in rows} == {DEFAULT_TIMESTAMP_MS}


def test_legacy_lz4_checksum_covers_the_magic() -> None:
    good = legacy_wrapper(0, b"", offset=0, codec="lz4")
    old = legacy_wrapper(0, b"", offset=0, codec="lz4-legacy-checksum")
    # FLG, BD, HC stand after the frame's magic, which starts at byte 26 of a format 0 message.
    assert good[26:32] == old[26:32]
    assert good[32] == 0x82
    assert old[32] != 0x82


def test_overrides_reach_the_header_and_the_crc_follows() -> None:
    batch = v2_batch(
        [RecordSpec(value=b"a", offset_delta=3)],
        base_offset=10,
        last_offset_delta=9,
        count=10**9,
        delete_horizon_ms=5,
        partition_leader_epoch=7,
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
    )
    assert struct.unpack_from(">I", batch, 17)[0] == crc32c.crc32c(batch[21:])
    assert struct.unpack_from(">qiib", batch) == (10, len(batch) - 12, 7, 2)
    assert struct.unpack_from(">hiqqqhii", batch, 21) == (
        0x40, 9, 5, DEFAULT_TIMESTAMP_MS, 1, 2, 3, 10**9,
    )  # fmt: skip
    assert struct.unpack_from(">I", v2_batch(crc=1), 17)[0] == 1
    assert struct.unpack_from(">i", v2_batch(batch_length=-5), 8)[0] == -5
    assert v2_batch(magic=9)[16] == 9


def test_legacy_crc_covers_magic_to_end() -> None:
    message = legacy_message(1, offset=4, key=None, value=b"v", log_append_time=True)
    assert struct.unpack_from(">I", message, 12)[0] == zlib.crc32(message[16:])
    assert message[16:18] == b"\x01\x08"


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (2**63 - 1, "fe" + "ff" * 8 + "01"),
        (-(2**63), "ff" * 9 + "01"),
    ],
)
def test_varint(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_overlong_varints() -> None:
    assert unsigned_varint(1, width=3) == b"\x81\x80\x00"
    assert len(varint(5, width=11)) == 11


def test_control_batch_types() -> None:
    commit = control_batch(COMMIT, base_offset=1, producer_id=3, producer_epoch=4)
    unknown = control_batch(99, base_offset=2, key_version=1)
    assert summarize_batch(commit).attributes == 0x30  # type: ignore[union-attr]
    assert summarize_batch(unknown).attributes == 0x20  # type: ignore[union-attr]
    assert b"\x00\x01\x00\x63" in unknown
