"""Batches byte by byte, and what is read back of their headers."""

from __future__ import annotations

import struct

import crc32c
import pytest

from spark_segmentlog.testing.builder import (
    COMMIT,
    DEFAULT_TIMESTAMP_MS,
    RecordSpec,
    control_batch,
    summarize_batch,
    unsigned_varint,
    v2_batch,
    varint,
)


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
