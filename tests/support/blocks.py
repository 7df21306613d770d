"""Compressed blocks, decompressed whole and as a stream."""

from __future__ import annotations

from collections.abc import Callable

from spark_segmentlog.record.codec.block_window import NO_LIMIT, open_window
from spark_segmentlog.record.codec.codec import BlockError, BlockTooLargeError, OutputFullError
from spark_segmentlog.record.codec.codecs import decompress_into, open_block
from spark_segmentlog.record.layout import MAGIC_V0, MAGIC_V2
from spark_segmentlog.record.types import ByteSource, bytes_view
from spark_segmentlog.testing.builder import CODECS


def codec_number(name: str) -> int:
    return CODECS[name]


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


def decompress(
    codec: int, block: ByteSource, *, magic: int, max_bytes: int = NO_LIMIT
) -> memoryview:
    """Decompress one block whole; parameters and errors as of `open_window`."""
    window = open_window(codec, memoryview(block), magic=magic, max_bytes=max_bytes)
    while window.hold(len(window.data) + 1):
        pass
    return bytes_view(window.data[: window.end])
