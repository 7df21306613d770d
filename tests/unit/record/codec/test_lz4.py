"""LZ4 frames: of several writers, and bytes that are none."""

from __future__ import annotations

import struct

import cramjam
import pytest

from spark_segmentlog.record.codec import lz4
from spark_segmentlog.record.codec.codec import BlockError
from spark_segmentlog.record.layout import MAGIC_V0, MAGIC_V1, MAGIC_V2
from spark_segmentlog.testing.builder import CODECS, compress
from tests.support.blocks import decompress

TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


def frame(data: bytes, **options: bool) -> bytes:
    """An lz4 frame as other libraries write it: linked blocks, checksums."""
    stream = cramjam.lz4.Compressor(**options)
    stream.compress(data)
    return bytes(stream.finish())


@pytest.mark.parametrize("options", [{}, {"content_checksum": True}, {"block_linked": True}])
def test_lz4_frames_of_other_writers_are_decompressed(options: dict[str, bool]) -> None:
    block = frame(TEXT, **options)
    assert decompress(CODECS["lz4"], block, magic=MAGIC_V1) == TEXT
    assert decompress(CODECS["lz4"], block, magic=MAGIC_V0) == TEXT


def test_several_lz4_frames_are_one_block() -> None:
    block = compress("lz4", TEXT[:1000]) + compress("lz4", TEXT[1000:2000])
    assert decompress(CODECS["lz4"], block, magic=MAGIC_V2) == TEXT[:2000]


def test_stored_lz4_blocks_are_copied() -> None:
    header = compress("lz4", b"x")[:7]
    block = header + struct.pack("<I", 0x80000000 | 5) + b"plain" + struct.pack("<I", 0)
    assert bytes(decompress(CODECS["lz4"], block, magic=MAGIC_V2)) == b"plain"


@pytest.mark.parametrize("flags", [0x60, 0x68, 0x64, 0x6C])
def test_wrong_lz4_header_checksum_is_ignored_in_format_0_alone(flags: int) -> None:
    good = compress("lz4", b"x")
    size = struct.pack("<Q", 1) if flags & 8 else b""
    end = good[7:] + (b"\x00\x00\x00\x00" if flags & 4 else b"")
    block = good[:4] + bytes([flags, good[5]]) + size + b"\x55" + end
    if flags == 0x64 or flags == 0x6C:
        checksum = cramjam.lz4.compress(b"x", level=1)
        assert checksum  # The content checksum below is wrong, and that is told in any format.
        with pytest.raises(BlockError):
            decompress(CODECS["lz4"], block, magic=MAGIC_V0)
    else:
        assert bytes(decompress(CODECS["lz4"], block, magic=MAGIC_V0)) == b"x"
    with pytest.raises(BlockError):
        decompress(CODECS["lz4"], block, magic=MAGIC_V1)


def test_hash_of_frame_descriptors_equals_the_reference() -> None:
    # Vectors of the xxHash specification's own test suite, seed 0.
    assert lz4._xxh32(b"") == 0x02CC5D05
    assert lz4._xxh32(b"a") == 0x550D7456
    assert lz4._xxh32(b"abc") == 0x32D153FF


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (compress("lz4", b"x" * 50)[:9], "frame cut off"),
        (compress("lz4", b"x" * 50)[:7] + b"\xff\xff\xff\x7f" + b"a", "block of 2147483647"),
        (compress("lz4", b"x" * 50)[:7] + b"\x00\x00\x00\x80" + b"a", "block of 0 bytes"),
        (b"\x05" + compress("lz4", b"x" * 50)[1:], "frame magic 05224d18"),
        (compress("lz4", b"x")[:5] + b"\x30" + compress("lz4", b"x")[6:], "descriptor 0x30"),
    ],
)
def test_bad_lz4_framing_is_told(block: bytes, reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        decompress(CODECS["lz4"], block, magic=MAGIC_V2)
