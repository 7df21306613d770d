"""Blocks decompressed one after the other, and small ones joined."""

from __future__ import annotations

import pytest

from spark_segmentlog.errors import DecompressedSizeError, DecompressionError
from spark_segmentlog.record.codec.block_window import NO_LIMIT
from spark_segmentlog.record.codec.codec import (
    OutputFullError,
)
from spark_segmentlog.record.codec.codecs import decompress_into
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.testing.builder import (
    CODECS,
    RecordSpec,
    compress,
    v2_batch,
    v2_record,
    varint,
)
from tests.support.blocks import codec_number
from tests.support.decoding import (
    decoder,
    failure,
    outcomes_of_decoder,
    outcomes_of_one_decoder,
    outcomes_of_twin,
    read,
)

COMPRESSED = [name for name in CODECS if name not in ("none", "lz4-legacy-checksum")]


TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


@pytest.mark.parametrize("codec", COMPRESSED)
def test_output_that_is_too_small_is_told_from_a_bad_block(codec: str) -> None:
    block = memoryview(compress(codec, TEXT[:1000]))
    for size in (0, 1, 500, 999):
        with pytest.raises(OutputFullError):
            decompress_into(codec_number(codec), block, memoryview(bytearray(size)), magic=2)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_block_larger_than_the_buffer_is_no_ordinary_one(codec: str) -> None:
    buffer = DecompressionBuffer(NO_LIMIT)
    buffer.clear()
    block = compress(codec, bytes(buffer.BYTES + 1))
    with pytest.raises(OutputFullError):
        buffer.append(codec_number(codec), memoryview(block), magic=2)
    assert buffer.used_bytes == 0


def test_block_that_does_not_fit_after_others_waits_for_the_next_group() -> None:
    buffer = DecompressionBuffer(NO_LIMIT)
    buffer.clear()
    block = memoryview(compress("zstd", bytes(1_500_000)))
    assert buffer.append(CODECS["zstd"], block, magic=2)
    assert not buffer.append(CODECS["zstd"], block, magic=2)
    assert buffer.used_bytes == 1_500_000


def test_bad_block_in_the_middle_is_told_after_the_rows_before_it() -> None:
    good = [
        v2_batch([RecordSpec(value=b"v")], base_offset=offset, codec="zstd") for offset in (0, 1, 3)
    ]
    bad = v2_batch([RecordSpec()], base_offset=2, attributes=4, payload=b"no frame")
    data = good[0] + good[1] + bad + good[2]
    found = list(outcomes_of_decoder(data))
    assert found == list(outcomes_of_twin(data))
    assert [isinstance(outcome, list) for outcome in found] == [True, True, False, True]
    assert decoder().flush() is None


CUT = compress("zstd", v2_batch([RecordSpec(value=bytes(range(256)) * 8)])[61:])


@pytest.mark.parametrize("size", range(4, len(CUT), 97))
def test_cut_frame_is_an_error_whatever_follows(size: int) -> None:
    specs = [RecordSpec(value=bytes(range(256)) * 8)]
    first = v2_batch([RecordSpec(value=b"v")], base_offset=0, codec="zstd")
    cut = v2_batch(specs, base_offset=1, attributes=4, payload=CUT[:size])
    after = b"".join(v2_batch(specs, base_offset=at, codec="zstd") for at in range(2, 5))
    assert failure(first + cut + after, DecompressionError, "zstd block").base_offset == 1
    rows = [row for row in outcomes_of_one_decoder(first + cut + after) if isinstance(row, tuple)]
    assert [row[4] for row in rows] == [b"v", *[specs[0].value] * 3]


def test_record_that_reaches_over_its_batch_takes_nothing_of_the_next_one() -> None:
    after = [v2_record(RecordSpec(value=b"next")) for _ in range(2)]
    length = 10 + len(after[0])
    # Attributes, two deltas and a null key; then a value that is longer than the batch.
    head = b"\x00\x00\x00\x01"
    last = varint(length) + b"ten bytes."
    reaching = varint(len(head) + len(varint(length)) + length + 1) + head + last
    data = b"".join(
        v2_batch(
            payload=compress("zstd", body), count=1, attributes=4, base_offset=at, base_timestamp=0
        )
        for at, body in enumerate([reaching, *after])
    )
    found = outcomes_of_one_decoder(data)
    assert [row[4] for row in found if isinstance(row, tuple)] == [b"next", b"next"]
    assert [outcome.base_offset for outcome in found if not isinstance(outcome, tuple)] == [0]


def test_batch_above_the_limit_among_others_is_told() -> None:
    small = [v2_batch([RecordSpec(value=b"v")], base_offset=at, codec="zstd") for at in range(3)]
    large = v2_batch([RecordSpec(value=bytes(5000))], base_offset=3, codec="zstd")
    with pytest.raises(DecompressedSizeError, match="larger than the 1000 bytes") as caught:
        read(b"".join([*small, large]), max_decompressed_bytes=1000)
    assert caught.value.base_offset == 3
