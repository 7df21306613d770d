"""Blocks decompressed one after the other, and small ones joined."""

from __future__ import annotations

from typing import Any

import pytest

from spark_segmentlog.errors import DecompressedSizeError, DecompressionError
from spark_segmentlog.record.codec import decompression_buffer
from spark_segmentlog.record.codec.block_window import NO_LIMIT
from spark_segmentlog.record.codec.codec import (
    OutputFullError,
)
from spark_segmentlog.record.codec.codecs import decompress_into
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.plain.varint import VarintError, read_varint
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


def joined(blocks: list[bytes], max_bytes: int = 1 << 20) -> DecompressionBuffer | None:
    buffer = DecompressionBuffer(max_bytes)
    buffer.clear()
    return buffer if buffer.append_joined([memoryview(block) for block in blocks]) else None


def test_joined_blocks_have_a_marker_after_each() -> None:
    buffer = joined([compress("zstd", b"one"), compress("zstd-frames", b"three")])
    assert buffer is not None
    marker = buffer.marker.tobytes()
    assert buffer.data[: buffer.used_bytes].tobytes() == b"one" + marker + b"three" + marker


def test_markers_are_secrets_that_start_no_record() -> None:
    first, second = (DecompressionBuffer(NO_LIMIT).marker.tobytes() for _ in range(2))
    assert first != second
    with pytest.raises(VarintError):
        read_varint(first, 0, len(first))


@pytest.mark.parametrize(
    "bad", [b"garbage", compress("zstd", TEXT[:500])[:-3], compress("zstd", TEXT) + b"x"]
)
def test_bad_block_among_joined_ones_sends_them_back(bad: bytes) -> None:
    assert joined([compress("zstd", b"one"), bad]) is None


def test_joined_blocks_that_are_too_large_are_sent_back_and_fewer_are_joined_next_time() -> None:
    buffer = DecompressionBuffer(NO_LIMIT)
    buffer.clear()
    before = buffer.joined_bytes
    assert not buffer.append_joined([memoryview(compress("zstd", bytes(3 << 20)))] * 2)
    assert buffer.joined_bytes < before
    assert buffer.used_bytes == 0


def zstd_calls(monkeypatch: pytest.MonkeyPatch, data: bytes) -> int:
    """Read batches with one decoder; gives how many calls of the codec that took."""
    calls = []

    def counted(codec: int, *args: Any, **options: Any) -> int:
        calls.append(codec)
        return decompress_into(codec, *args, **options)

    monkeypatch.setattr(decompression_buffer, "decompress_into", counted)
    read(data)
    return len(calls)


def test_small_batches_are_joined_again_after_batches_that_inflate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inflating = b"".join(
        v2_batch([RecordSpec(value=bytes(1 << 20))], base_offset=at, codec="zstd")
        for at in range(40)
    )
    small = b"".join(
        v2_batch([RecordSpec(value=b"v" * 20)], base_offset=at, codec="zstd")
        for at in range(40, 4040)
    )
    alone = zstd_calls(monkeypatch, small)
    before = zstd_calls(monkeypatch, inflating)
    assert alone < 40
    # One group may be decompressed one by one until the ratio is known.
    assert zstd_calls(monkeypatch, inflating + small) <= before + alone + 1024 + 2


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
    marker_bytes = len(DecompressionBuffer(NO_LIMIT).marker)
    after = [v2_record(RecordSpec(value=b"next")) for _ in range(2)]
    length = 10 + marker_bytes + len(after[0])
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


def test_joined_batch_above_the_limit_is_told() -> None:
    small = [v2_batch([RecordSpec(value=b"v")], base_offset=at, codec="zstd") for at in range(3)]
    large = v2_batch([RecordSpec(value=bytes(5000))], base_offset=3, codec="zstd")
    with pytest.raises(DecompressedSizeError, match="larger than the 1000 bytes") as caught:
        read(b"".join([*small, large]), max_decompressed_bytes=1000)
    assert caught.value.base_offset == 3
