"""Frames of zstd."""

from __future__ import annotations

import cramjam

from spark_segmentlog.record.codec.codec import WHOLE_BLOCK_BYTES
from spark_segmentlog.record.codec.zstd import CODE


def test_what_is_written_is_read_back() -> None:
    data, output, room = b"value;" * 1000, bytearray(1 << 16), bytearray(1 << 16)
    size = CODE.writer(3)(memoryview(data), memoryview(output))
    count = CODE.decompress_into(memoryview(output)[:size], memoryview(room), 2)
    assert bytes(room[:count]) == data


def test_a_block_that_is_surely_large_is_told_by_its_headers() -> None:
    large = memoryview(bytes(cramjam.zstd.compress(bytes(2 * WHOLE_BLOCK_BYTES))))
    small = memoryview(bytes(cramjam.zstd.compress(bytes(1000))))
    assert CODE.is_surely_large(large)
    assert not CODE.is_surely_large(small)
