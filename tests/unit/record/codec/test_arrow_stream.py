"""Frames decompressed piece by piece, by Arrow's bindings."""

from __future__ import annotations

import cramjam
import pytest

from spark_segmentlog.record.codec.arrow_stream import ArrowStream
from spark_segmentlog.record.codec.codec import BlockError

TEXT = b"".join(b"%06d;" % number for number in range(20_000))
BLOCKS = {"zstd": cramjam.zstd.compress, "gzip": cramjam.gzip.compress}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("piece_bytes", [1000, 1 << 20])
def test_a_block_comes_in_pieces_and_then_nothing(name: str, piece_bytes: int) -> None:
    stream = ArrowStream(name, memoryview(bytes(BLOCKS[name](TEXT))))
    piece, data = memoryview(bytearray(piece_bytes)), b""
    while count := stream.read_into(piece):
        data += bytes(piece[:count])
    assert data == TEXT
    assert stream.read_into(piece) == 0


@pytest.mark.parametrize("name", BLOCKS)
def test_other_bytes_are_named_by_their_codec(name: str) -> None:
    stream = ArrowStream(name, memoryview(b"no frame at all" * 10))
    with pytest.raises(BlockError, match=f"^{name} block: "):
        stream.read_into(memoryview(bytearray(100)))
