"""Blocks read as streams: the same bytes as whole ones, and the same blocks refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import cramjam
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_segmentlog.record.codec import block_window, codec_kernels, snappy
from spark_segmentlog.record.codec.block_window import (
    CERTAIN_BYTES,
    NO_LIMIT,
    BlockWindow,
    decompress,
)
from spark_segmentlog.record.codec.codec import (
    WHOLE_BLOCK_BYTES,
    BlockError,
    BlockStream,
    BlockTooLargeError,
    OutputFullError,
)
from spark_segmentlog.record.codec.codecs import decompress_into, open_block
from spark_segmentlog.record.layout import MAGIC_V0, MAGIC_V1, MAGIC_V2
from spark_segmentlog.testing.builder import CODECS, compress

FRAMINGS = [name for name in CODECS if name != "none"]
TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks
CUT_TEXT = TEXT[:300] + bytes(200) + TEXT[:300]


def magic_of(codec: str) -> int:
    return MAGIC_V0 if codec == "lz4-legacy-checksum" else MAGIC_V2


def streamed(codec: str, block: bytes, piece_bytes: int = 1 << 20) -> bytes:
    stream = open_block(CODECS[codec], memoryview(block), magic=magic_of(codec))
    piece, data = memoryview(bytearray(piece_bytes)), bytearray()
    while count := stream.read_into(piece):
        data += piece[:count]
    assert stream.read_into(piece) == 0
    return bytes(data)


def whole(codec: str, block: bytes) -> bytes:
    room = memoryview(bytearray(1 << 20))
    return bytes(
        room[: decompress_into(CODECS[codec], memoryview(block), room, magic=magic_of(codec))]
    )


def outcome(read: Callable[[str, bytes], bytes], codec: str, block: bytes) -> bytes | None:
    try:
        return read(codec, block)
    except (BlockError, BlockTooLargeError, OutputFullError):
        return None


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
@pytest.mark.parametrize("tail", [b"x", bytes(5), b"garbage and more of it"])
def test_bytes_behind_a_block_are_refused_as_behind_whole_ones(codec: str, tail: bytes) -> None:
    block = compress(codec, CUT_TEXT) + tail
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


# Raw snappy, element by element


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


def frames_are_whole(*blocks: bytes) -> int:
    data = np.frombuffer(b"".join(blocks), np.uint8).copy()
    ends = np.cumsum([len(block) for block in blocks])
    spans = np.column_stack((np.concatenate(([0], ends[:-1])), ends)).astype(np.int64)
    return codec_kernels.whole_frames(data, spans)


@pytest.mark.parametrize("codec", ZSTD_FRAMINGS)
@pytest.mark.parametrize("size", [0, 1, 300, 70_000, 140_000])
def test_frames_end_where_zstd_ends_them(codec: str, size: int) -> None:
    block = compress(codec, TEXT[:size])
    assert frames_are_whole(block, block) == 2
    assert frames_are_whole(block, block + b"x", block) == 1
    for cut in [*range(min(len(block), 200)), *range(max(len(block) - 50, 0), len(block))]:
        is_accepted = outcome(streamed, codec, block[:cut]) is not None
        assert frames_are_whole(block[:cut], block) == (2 if is_accepted else 0), cut


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
    assert frames_are_whole(block) == 1
    assert frames_are_whole(block[:-1]) == 0
    reserved = block.replace(header, (content << 3 | 3 << 1 | 1).to_bytes(3, "little"))
    assert frames_are_whole(reserved) == 0


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


def test_rest_is_told_behind_a_large_record() -> None:
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
