"""Blocks read as streams: the same bytes as whole ones, and the same blocks refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.record.codec import block_window
from spark_segmentlog.record.codec.block_window import (
    CERTAIN_BYTES,
    NO_LIMIT,
    BlockWindow,
)
from spark_segmentlog.record.codec.codec import (
    WHOLE_BLOCK_BYTES,
    BlockStream,
    BlockTooLargeError,
)
from spark_segmentlog.record.codec.codecs import open_block
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.testing.builder import CODECS, compress
from tests.support.blocks import magic_of, outcome, streamed, whole

FRAMINGS = [name for name in CODECS if name != "none"]


TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


CUT_TEXT = TEXT[:300] + bytes(200) + TEXT[:300]


@pytest.mark.parametrize("codec", FRAMINGS)
@pytest.mark.parametrize("size", [0, 1, 100, 65536, 65537, len(TEXT)])
@pytest.mark.parametrize("piece_bytes", [777, 1 << 20])
def test_every_framing_is_streamed_whole(codec: str, size: int, piece_bytes: int) -> None:
    assert streamed(codec, compress(codec, TEXT[:size]), piece_bytes) == TEXT[:size]


@pytest.mark.parametrize("codec", [name for name in FRAMINGS if name != "snappy-raw"])
def test_several_frames_are_one_stream(codec: str) -> None:
    block = compress(codec, TEXT[:1000])
    if codec == "lz4-legacy-checksum":
        block += compress("lz4", TEXT[1000:2000])
    else:
        block += compress(codec, b"") + compress(codec, TEXT[1000:2000])
    assert streamed(codec, block) == TEXT[:2000]


@pytest.mark.parametrize("codec", FRAMINGS)
def test_cut_blocks_are_refused_as_whole_ones_are(codec: str) -> None:
    block = compress(codec, CUT_TEXT)
    for size in range(len(block)):
        assert outcome(streamed, codec, block[:size]) == outcome(whole, codec, block[:size]), size


@pytest.mark.parametrize("codec", FRAMINGS)
@pytest.mark.parametrize("rest", [b"x", bytes(5), b"garbage and more of it"])
def test_bytes_after_a_block_are_refused_as_after_whole_ones(codec: str, rest: bytes) -> None:
    block = compress(codec, CUT_TEXT) + rest
    assert outcome(streamed, codec, block) == outcome(whole, codec, block)


@pytest.mark.parametrize("codec", FRAMINGS)
def test_flipped_bits_are_refused_as_in_whole_blocks(codec: str) -> None:
    block = compress(codec, CUT_TEXT)
    for at in range(len(block)):
        for bit in range(8):
            flipped = block[:at] + bytes([block[at] ^ 1 << bit]) + block[at + 1 :]
            found, expected = outcome(streamed, codec, flipped), outcome(whole, codec, flipped)
            if codec == "gzip" and found is None:
                # What goes wrong behind zlib's back leaves the bytes as they were.
                assert expected in (None, CUT_TEXT), (at, bit)
            else:
                assert found == expected, (at, bit)


# The window


def window_of(codec: str, data: bytes, size: int, max_bytes: int = NO_LIMIT) -> BlockWindow:
    return BlockWindow(
        CODECS[codec],
        memoryview(compress(codec, data)),
        magic=magic_of(codec),
        max_bytes=max_bytes,
        data=np.empty(size, np.uint8),
    )


@given(st.sampled_from(FRAMINGS), st.lists(st.integers(0, 3000), max_size=12), st.integers(1, 500))
def test_window_gives_all_bytes_in_order(codec: str, steps: list[int], size: int) -> None:
    window, found = window_of(codec, TEXT[:9000], size), b""
    for step in steps:
        is_there = window.hold(step)
        assert is_there == (len(found) + step <= 9000)
        count = step if is_there else window.rest_bytes
        assert window.position == len(found)
        found += window.data[window.start : window.start + count].tobytes()
        window.start += count
    assert found == TEXT[: len(found)]
    window.rewind()
    window.skip(4000)
    window.fill()
    assert window.data[window.start : window.end].tobytes() == TEXT[4000 : 4000 + window.end]


def test_window_takes_no_memory_for_a_record_that_is_not_there() -> None:
    window = window_of("zstd", bytes(3 << 20), 1 << 10)
    assert not window.hold(2**31 - 1)
    assert window.rest_bytes == 3 << 20
    assert len(window.data) == 1 << 10


def test_window_grows_at_once_for_a_record_that_is_there() -> None:
    window = window_of("zstd", bytes(CERTAIN_BYTES + 2), 1 << 10)
    assert window.hold(CERTAIN_BYTES + 1)
    assert len(window.data) == CERTAIN_BYTES + 1


def test_large_records_are_looked_for_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def counted(codec: int, block: memoryview, *, magic: int) -> BlockStream:
        opened.append(codec)
        return open_block(codec, block, magic=magic)

    monkeypatch.setattr(block_window, "CERTAIN_BYTES", 100)
    monkeypatch.setattr(block_window, "open_block", counted)
    window = window_of("zstd", TEXT, 50)
    for size in range(110, 350):
        assert window.hold(size)
        window.start += size
    # The block itself, and passes for 110, 221 and 443 bytes at most.
    assert len(opened) <= 4


def test_rest_is_told_after_a_large_record() -> None:
    window = window_of("zstd", bytes(CERTAIN_BYTES + 100), 1 << 10)
    assert window.hold(CERTAIN_BYTES + 1)
    window.start += CERTAIN_BYTES + 1
    assert not window.hold(100)
    assert window.rest_bytes == 99


def test_window_refuses_a_block_above_its_limit() -> None:
    assert window_of("lz4", TEXT, 1000, max_bytes=len(TEXT)).hold(len(TEXT))
    with pytest.raises(BlockTooLargeError, match="larger than the 5000 bytes"):
        window_of("lz4", TEXT, 1000, max_bytes=5000).hold(len(TEXT))


def test_only_ordinary_blocks_are_decompressed_whole() -> None:
    ordinary = memoryview(compress("zstd", bytes(WHOLE_BLOCK_BYTES)))
    assert block_window.open_window(CODECS["zstd"], ordinary, magic=MAGIC_V2).is_whole
    large = memoryview(compress("zstd", bytes(WHOLE_BLOCK_BYTES + 1)))
    assert not block_window.open_window(CODECS["zstd"], large, magic=MAGIC_V2).is_whole
