"""Blocks decompressed by one call of the codec's own library, or by cramjam without it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.record.codec import native
from spark_segmentlog.record.codec.codecs import many_decompressor
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.testing.builder import CODECS, RecordSpec, compress, v2_batch
from tests.support.blocks import decompress
from tests.support.decoding import as_array, read

TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks
MIB = 1 << 20

both_codecs = pytest.mark.parametrize("codec", ["lz4", "zstd"])


def texts_of(
    codec: str, *blocks: bytes, room: int = MIB, enough: int = MIB, largest: int = MIB
) -> list[bytes]:
    """Decompress blocks that lie one after the other, as far as one call takes them."""
    ends = np.cumsum([len(block) for block in blocks])
    spans = np.column_stack((ends - [len(block) for block in blocks], ends))
    output = np.zeros(room, np.uint8)
    decompress_many = many_decompressor(CODECS[codec])
    assert decompress_many is not None
    limits = np.array((enough, largest))
    found = decompress_many(as_array(b"".join(blocks)), spans, output, limits)
    return [output[start:end].tobytes() for start, end in found.tolist()]


def test_the_libraries_are_found() -> None:
    assert native.lz4_decoder()
    assert native.zstd_decoder() is not None


@both_codecs
@given(
    texts=st.lists(st.integers(0, 200_000).map(lambda size: TEXT[:size]), min_size=1, max_size=4),
    place=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
)
def test_blocks_are_decompressed_together_as_each_alone(
    codec: str, texts: list[bytes], place: float, byte: int
) -> None:
    blocks = [compress(codec, text) for text in texts]
    whole = bytearray(b"".join(blocks))
    assert texts_of(codec, *blocks) == texts
    whole[int(place * len(whole))] = byte
    damaged, at = [], 0
    for block in blocks:
        damaged.append(bytes(whole[at : at + len(block)]))
        at += len(block)
    found = texts_of(codec, *damaged)
    for block, text in zip(damaged[: len(found)], found, strict=True):
        assert decompress(CODECS[codec], block, magic=MAGIC_V2) == text


@both_codecs
def test_blocks_are_decompressed_up_to_one_that_is_not_taken(codec: str) -> None:
    text = TEXT[:100_000]
    block = compress(codec, text)
    for other in (block[:-1], block + b"x", block[:9], b"", b"garbage"):
        assert texts_of(codec, block, other, block) == [text]
    assert texts_of(codec, block, block, room=250_000) == [text] * 2
    assert texts_of(codec, block, block, room=170_000) == [text]
    assert texts_of(codec, block, block, block, enough=150_000) == [text] * 2
    assert texts_of(codec, block, block, largest=99_999) == []
    assert texts_of(codec, block, block, largest=100_000) == [text] * 2


def test_lz4_frames_that_are_not_plain_or_have_many_blocks_are_not_taken() -> None:
    plain, stream = compress("lz4", TEXT[:50]), cramjam.lz4.Compressor(content_checksum=True)
    stream.compress(TEXT[:50])
    assert texts_of("lz4", plain, bytes(stream.finish()), plain) == [TEXT[:50]]
    assert texts_of("lz4", compress("lz4", TEXT * 2), plain) == []


def test_zstd_frames_of_all_kinds_are_taken() -> None:
    framings = [name for name in CODECS if name.startswith("zstd")]
    assert len(framings) > 1
    blocks = [compress(name, TEXT[:5000]) for name in framings]
    assert texts_of("zstd", *blocks) == [TEXT[:5000]] * len(framings)


def test_threads_have_contexts_of_their_own() -> None:
    both_are_there = Barrier(2)

    def context() -> int:
        decoder = native.zstd_decoder()
        both_are_there.wait(timeout=30)
        assert decoder is not None
        assert native.zstd_decoder() is decoder
        return decoder.context

    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(context) for _ in range(2))
        assert first.result() != second.result()


@both_codecs
def test_without_the_libraries_blocks_are_decoded_as_with_them(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = b"".join(
        v2_batch([RecordSpec(value=TEXT[:size])], base_offset=size, codec=codec)
        for size in range(1, 300, 7)
    )
    expected = read(batches)
    monkeypatch.setattr(native, "lz4_decoder", lambda: None)
    monkeypatch.setattr(native, "zstd_decoder", lambda: None)
    assert texts_of(codec, compress(codec, b"v")) == []
    assert read(batches) == expected


@pytest.mark.parametrize(
    ("module", "name"), [("no_such_package._module", "f"), ("lz4.block._block", "no_function")]
)
def test_what_is_not_there_is_no_library(module: str, name: str) -> None:
    assert native._library(module, name) is None
