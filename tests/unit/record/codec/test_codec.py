"""What a codec is."""

from __future__ import annotations

import pytest

from spark_segmentlog.record.codec.codec import (
    BlockCode,
    BlockTooLargeError,
    Codec,
    check_block_size,
)
from spark_segmentlog.record.codec.zstd import CODE


def test_a_block_up_to_the_limit_is_let_through() -> None:
    check_block_size(10, 10)
    with pytest.raises(BlockTooLargeError, match="larger than the 10 bytes"):
        check_block_size(11, 10)


def test_what_a_codec_does_is_loaded_once_and_when_asked_for() -> None:
    loaded: list[BlockCode] = []

    def load() -> BlockCode:
        loaded.append(CODE)
        return CODE

    codec = Codec(number=7, name="made-up", first_format=2, framing="frames", load_code=load)
    assert loaded == []
    assert codec.code is codec.code
    assert loaded == [CODE]
