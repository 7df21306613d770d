"""Compiled loops over blocks: raw snappy, and where frames end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import cramjam
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_segmentlog.record.codec import codec_kernels, snappy
from spark_segmentlog.record.codec.codec import BlockError, BlockTooLargeError
from spark_segmentlog.record.codec.codecs import open_block
from spark_segmentlog.record.layout import MAGIC_V1, MAGIC_V2
from spark_segmentlog.testing.builder import CODECS, compress
from tests.support.blocks import decompress, outcome, streamed, whole
from tests.support.decoding import as_array

FRAMINGS = [name for name in CODECS if name != "none"]


TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


@contextmanager
def snappy_sizes(whole_bytes: int, history_bytes: int) -> Iterator[None]:
    """Let the raw snappy stream decode small blocks element by element."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snappy, "_WHOLE_BYTES", whole_bytes)
        patch.setattr(snappy, "_HISTORY_BYTES", history_bytes)
        patch.setattr(
            snappy,
            "_ROOM_BYTES",
            2 * history_bytes + codec_kernels.SNAPPY_SLACK_BYTES,
        )
        yield


@st.composite
def snappy_blocks(draw: st.DrawFn) -> bytes:
    """Blocks of text that repeats, as the encoder makes them, and with bytes changed."""
    words = draw(st.lists(st.binary(min_size=1, max_size=90), min_size=1, max_size=6))
    picked = draw(st.lists(st.sampled_from(words), max_size=60))
    block = bytearray(cramjam.snappy.compress_raw(b"".join(picked)))
    for at in draw(st.lists(st.integers(0, len(block) - 1), max_size=2)):
        block[at] = draw(st.integers(0, 255))
    return bytes(block)


@given(snappy_blocks(), st.integers(1, 200))
@example(b"\x04\x00a\x0d\x01\x00", 5)
def test_elements_of_raw_snappy_are_decoded_as_by_its_library(
    block: bytes, piece_bytes: int
) -> None:
    with snappy_sizes(-1, 1 << 20):
        found = outcome(lambda codec, data: streamed(codec, data, piece_bytes), "snappy", block)
    assert found == outcome(whole, "snappy-raw", block)


@pytest.mark.parametrize("size", [5_000, 200_000, len(TEXT)])
def test_raw_snappy_keeps_no_more_than_its_history(size: int) -> None:
    block = compress("snappy-raw", TEXT[:size])
    with snappy_sizes(-1, 64 << 10):
        stream = open_block(CODECS["snappy"], memoryview(block), magic=MAGIC_V2)
        assert len(stream._room) <= (128 << 10) + 2 * codec_kernels.SNAPPY_SLACK_BYTES  # type: ignore[attr-defined]
        assert streamed("snappy", block) == TEXT[:size]


def test_raw_snappy_copy_from_beyond_the_history_is_told() -> None:
    # A literal of 3,000 bytes, then a copy of 4 from 3,000 bytes back.
    literal = random.Random(1).randbytes(3000)
    block = bytes([3004 & 0x7F | 0x80, 3004 >> 7]) + b"\xf4" + (2999).to_bytes(2, "little")
    block += literal + b"\x0f" + (3000).to_bytes(4, "little")
    assert decompress(CODECS["snappy"], block, magic=MAGIC_V2) == literal + literal[:4]
    with (
        snappy_sizes(-1, 1000),
        pytest.raises(BlockError, match="further back than the 1000 bytes"),
    ):
        streamed("snappy", block)
    with snappy_sizes(-1, 4000):
        assert streamed("snappy", block) == literal + literal[:4]


def test_raw_snappy_that_declares_more_than_it_can_hold_is_refused_at_once() -> None:
    block = b"\xff\xff\xff\xff\x0f" + compress("snappy-raw", b"x" * 100)[1:]
    with pytest.raises(BlockTooLargeError, match="declares 4294967295 decompressed, it can hold"):
        open_block(CODECS["snappy"], memoryview(block), magic=MAGIC_V1)


# zstd frames


ZSTD_FRAMINGS = [name for name in FRAMINGS if name.startswith("zstd")]


def is_whole(block: bytes) -> bool:
    return codec_kernels.are_whole_frames(as_array(block), 0, len(block))


@pytest.mark.parametrize("codec", ZSTD_FRAMINGS)
@pytest.mark.parametrize("size", [0, 1, 300, 70_000, 140_000])
def test_frames_end_where_zstd_ends_them(codec: str, size: int) -> None:
    block = compress(codec, TEXT[:size])
    assert is_whole(block)
    assert is_whole(block + block)
    assert not is_whole(block + b"x")
    for cut in [*range(1, min(len(block), 200)), *range(max(len(block) - 50, 1), len(block))]:
        is_accepted = outcome(streamed, codec, block[:cut]) is not None
        assert is_whole(block[:cut]) == is_accepted, cut


@pytest.mark.parametrize("window", [0x00, 0x58, 0x88, 0x89, 0x90, 0xFF])
def test_windows_are_refused_as_by_a_stream(window: int) -> None:
    block = b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + (3 << 3 | 1).to_bytes(3, "little") + b"raw"
    assert is_whole(block) == (outcome(streamed, "zstd", block) is not None)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("flags", [0x20, 0x60, 0xA0, 0xE0, 0x00, 0x40, 0x80, 0xC0])
def test_frames_of_raw_and_repeated_blocks_are_stepped_over(flags: int, kind: int) -> None:
    size_bytes = {0: 1 if flags & 0x20 else 0, 1: 2, 2: 4, 3: 8}[flags >> 6]
    content = 300 if flags >> 6 == 1 else 44
    declared = (content - 256 if flags >> 6 == 1 else content).to_bytes(8, "little")[:size_bytes]
    window = b"" if flags & 0x20 else b"\x58"
    header = (content << 3 | kind << 1 | 1).to_bytes(3, "little")
    body = b"r" if kind else b"r" * content
    block = b"\x28\xb5\x2f\xfd" + bytes([flags]) + window + declared + header + body
    assert streamed("zstd", block) == b"r" * content
    assert is_whole(block)
    assert not is_whole(block[:-1])
    reserved = block.replace(header, (content << 3 | 3 << 1 | 1).to_bytes(3, "little"))
    assert not is_whole(reserved)
