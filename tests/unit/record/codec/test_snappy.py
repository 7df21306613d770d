"""Snappy, framed as Java's library does and raw."""

from __future__ import annotations

import pytest

from spark_segmentlog.record.codec.codec import BlockError, BlockTooLargeError
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.testing.builder import CODECS, compress
from tests.support.blocks import decompress

TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


def test_xerial_header_may_come_again() -> None:
    block = compress("snappy", TEXT[:10]) + compress("snappy", TEXT[10:20])
    assert decompress(CODECS["snappy"], block, magic=MAGIC_V2) == TEXT[:20]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"\x82SNAPPY\x00" + b"\x00" * 5, "xerial header of 13 bytes"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\x00\x00", "length cut off at byte 16"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\x00\x00\x00\x09abc", "block of 9 bytes"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\xff\xff\xff\xffabc", "block of -1 bytes"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\x00\x00\x00\x00", "block of 0 bytes"),
    ],
)
def test_bad_xerial_framing_is_told(block: bytes, reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        decompress(CODECS["snappy"], block, magic=MAGIC_V2)


def test_declared_size_of_a_raw_snappy_block_is_not_believed() -> None:
    block = b"\xff\xff\xff\xff\x0f" + compress("snappy-raw", b"x" * 100)[1:]
    with pytest.raises(BlockTooLargeError):
        decompress(CODECS["snappy"], block, magic=MAGIC_V2)
