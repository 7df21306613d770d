"""Codecs: each framing that producers write, hostile blocks, bombs, and the limit on size."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from functools import partial
from typing import Any

import cramjam
import pyarrow as pa
import pytest

from spark_segmentlog.errors import DecompressedSizeError, DecompressionError, InvalidBatchError
from spark_segmentlog.query.options import parse_write_options
from spark_segmentlog.record.codec import codecs, decompression_buffer, lz4
from spark_segmentlog.record.codec.block_window import NO_LIMIT, decompress
from spark_segmentlog.record.codec.codec import (
    BlockCode,
    BlockError,
    BlockStream,
    BlockTooLargeError,
    Codec,
    OutputFullError,
)
from spark_segmentlog.record.codec.codecs import decompress_into
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.layout import ATTRIBUTES_OFFSET, MAGIC_V0, MAGIC_V1, MAGIC_V2
from spark_segmentlog.record.plain.varint import VarintError, read_varint
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from spark_segmentlog.testing.builder import (
    CODECS,
    RecordSpec,
    compress,
    v2_batch,
    v2_record,
    varint,
)
from tests.support.decoding import (
    as_array,
    both,
    decoder,
    failure,
    outcomes_of_decoder,
    outcomes_of_one_decoder,
    outcomes_of_twin,
    read,
    scan,
)

COMPRESSED = [name for name in CODECS if name not in ("none", "lz4-legacy-checksum")]
TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


def codec_number(name: str) -> int:
    return CODECS[name]


def frame(data: bytes, **options: bool) -> bytes:
    """An lz4 frame as other libraries write it: linked blocks, checksums."""
    stream = cramjam.lz4.Compressor(**options)
    stream.compress(data)
    return bytes(stream.finish())


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("size", [1, 100, 65536, 65537, len(TEXT)])
def test_every_framing_is_decompressed_whole(codec: str, size: int) -> None:
    block = compress(codec, TEXT[:size])
    assert decompress(codec_number(codec), block, magic=MAGIC_V2) == TEXT[:size]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_records_of_every_framing_are_read(codec: str) -> None:
    records = [RecordSpec(key=b"k%d" % i, value=TEXT[i : i + 1000]) for i in range(300)]
    assert [row[4] for row in both(v2_batch(records, codec=codec))] == [
        record.value for record in records
    ]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_batch_without_records_may_have_a_codec(codec: str) -> None:
    empty = v2_batch([], base_offset=0, last_offset_delta=3, codec=codec)
    assert both(empty + v2_batch([RecordSpec()], base_offset=4))[0][0] == 4


@pytest.mark.parametrize("options", [{}, {"content_checksum": True}, {"block_linked": True}])
def test_lz4_frames_of_other_writers_are_decompressed(options: dict[str, bool]) -> None:
    block = frame(TEXT, **options)
    assert decompress(CODECS["lz4"], block, magic=MAGIC_V1) == TEXT
    assert decompress(CODECS["lz4"], block, magic=MAGIC_V0) == TEXT


def test_several_lz4_frames_are_one_block() -> None:
    block = compress("lz4", TEXT[:1000]) + compress("lz4", TEXT[1000:2000])
    assert decompress(CODECS["lz4"], block, magic=MAGIC_V2) == TEXT[:2000]


def test_several_gzip_members_are_one_block() -> None:
    block = gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:20])
    assert decompress(CODECS["gzip"], block, magic=MAGIC_V2) == TEXT[:20]


def test_xerial_header_may_come_again() -> None:
    block = compress("snappy", TEXT[:10]) + compress("snappy", TEXT[10:20])
    assert decompress(CODECS["snappy"], block, magic=MAGIC_V2) == TEXT[:20]


def test_stored_lz4_blocks_are_copied() -> None:
    header = compress("lz4", b"x")[:7]
    block = header + struct.pack("<I", 0x80000000 | 5) + b"plain" + struct.pack("<I", 0)
    assert bytes(decompress(CODECS["lz4"], block, magic=MAGIC_V2)) == b"plain"


@pytest.mark.parametrize("flags", [0x60, 0x68, 0x64, 0x6C])
def test_wrong_lz4_header_checksum_is_ignored_in_format_0_alone(flags: int) -> None:
    good = compress("lz4", b"x")
    size = struct.pack("<Q", 1) if flags & 8 else b""
    end = good[7:] + (b"\x00\x00\x00\x00" if flags & 4 else b"")
    block = good[:4] + bytes([flags, good[5]]) + size + b"\x55" + end
    if flags == 0x64 or flags == 0x6C:
        checksum = cramjam.lz4.compress(b"x", level=1)
        assert checksum  # The content checksum below is wrong, and that is told in any format.
        with pytest.raises(BlockError):
            decompress(CODECS["lz4"], block, magic=MAGIC_V0)
    else:
        assert bytes(decompress(CODECS["lz4"], block, magic=MAGIC_V0)) == b"x"
    with pytest.raises(BlockError):
        decompress(CODECS["lz4"], block, magic=MAGIC_V1)


def test_hash_of_frame_descriptors_equals_the_reference() -> None:
    # Vectors of the xxHash specification's own test suite, seed 0.
    assert lz4._xxh32(b"") == 0x02CC5D05
    assert lz4._xxh32(b"a") == 0x550D7456
    assert lz4._xxh32(b"abc") == 0x32D153FF


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_blocks_are_told(codec: str) -> None:
    records = [RecordSpec(value=TEXT[:3000])]
    whole = v2_batch(records, codec=codec)[61:]
    for size in range(0, len(whole), 7):
        data = v2_batch(records, attributes=CODECS[codec], payload=whole[:size])
        assert list(outcomes_of_decoder(data)) == list(outcomes_of_twin(data)), size


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("block", [b"", b"garbage, and no block of any codec", b"\x00" * 40])
def test_garbage_is_told(codec: str, block: bytes) -> None:
    data = v2_batch([RecordSpec()], attributes=CODECS[codec], payload=block)
    failure(data, DecompressionError, f"{codec} block|snappy")


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"\x82SNAPPY\x00" + b"\x00" * 5, "xerial header of 13 bytes"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\x00\x00", "length cut off at byte 16"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\x00\x00\x00\x09abc", "block of 9 bytes"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\xff\xff\xff\xffabc", "block of -1 bytes"),
        (b"\x82SNAPPY\x00" + b"\x00" * 8 + b"\x00\x00\x00\x00", "block of 0 bytes"),
    ],
)
def test_bad_xerial_framing_is_told(block: bytes, reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        decompress(CODECS["snappy"], block, magic=MAGIC_V2)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (compress("lz4", b"x" * 50)[:9], "frame cut off"),
        (compress("lz4", b"x" * 50)[:7] + b"\xff\xff\xff\x7f" + b"a", "block of 2147483647"),
        (compress("lz4", b"x" * 50)[:7] + b"\x00\x00\x00\x80" + b"a", "block of 0 bytes"),
        (b"\x05" + compress("lz4", b"x" * 50)[1:], "frame magic 05224d18"),
        (compress("lz4", b"x")[:5] + b"\x30" + compress("lz4", b"x")[6:], "descriptor 0x30"),
    ],
)
def test_bad_lz4_framing_is_told(block: bytes, reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        decompress(CODECS["lz4"], block, magic=MAGIC_V2)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bomb_is_refused_before_its_memory_is_taken(codec: str) -> None:
    data = v2_batch([RecordSpec(value=bytes(128 << 20))], codec=codec)
    limit = 1 << 20
    tracemalloc.start()
    try:
        found = list(outcomes_of_decoder(data, max_decompressed_bytes=limit))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == list(outcomes_of_twin(data, max_decompressed_bytes=limit))
    with pytest.raises(DecompressedSizeError, match="larger than the 1048576 bytes"):
        read(data, max_decompressed_bytes=limit)
    assert peak < 80 << 20


def test_declared_size_of_a_raw_snappy_block_is_not_believed() -> None:
    block = b"\xff\xff\xff\xff\x0f" + compress("snappy-raw", b"x" * 100)[1:]
    with pytest.raises(BlockTooLargeError):
        decompress(CODECS["snappy"], block, magic=MAGIC_V2)


def test_batch_that_declares_more_than_it_can_hold_is_told_with_its_place() -> None:
    block = b"\xff\xff\xff\xff\x0f" + compress("snappy-raw", b"x" * 100)[1:]
    good = v2_batch([RecordSpec(value=b"v")], base_offset=1, codec="snappy-raw")
    data = v2_batch([RecordSpec()], attributes=2, payload=block) + good
    error = failure(data, DecompressedSizeError, "declares 4294967295 decompressed")
    assert (error.position, error.base_offset) == (0, 0)
    assert [row[0] for row in outcomes_of_one_decoder(data) if isinstance(row, tuple)] == [1]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_block_of_exactly_the_limit_is_read(codec: str) -> None:
    block = compress(codec, TEXT)
    number = codec_number(codec)
    assert decompress(number, block, magic=MAGIC_V2, max_bytes=len(TEXT)) == TEXT
    with pytest.raises(BlockTooLargeError):
        decompress(number, block, magic=MAGIC_V2, max_bytes=len(TEXT) - 1)


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


def test_block_that_does_not_fit_behind_others_waits_for_the_next_group() -> None:
    buffer = DecompressionBuffer(NO_LIMIT)
    buffer.clear()
    block = memoryview(compress("zstd", bytes(1_500_000)))
    assert buffer.append(CODECS["zstd"], block, magic=2)
    assert not buffer.append(CODECS["zstd"], block, magic=2)
    assert buffer.used_bytes == 1_500_000


def test_bad_block_in_the_middle_is_told_behind_the_rows_before_it() -> None:
    good = [
        v2_batch([RecordSpec(value=b"v")], base_offset=offset, codec="zstd") for offset in (0, 1, 3)
    ]
    bad = v2_batch([RecordSpec()], base_offset=2, attributes=4, payload=b"no frame")
    data = good[0] + good[1] + bad + good[2]
    found = list(outcomes_of_decoder(data))
    assert found == list(outcomes_of_twin(data))
    assert [isinstance(outcome, list) for outcome in found] == [True, True, False, True]
    assert decoder().flush() is None


# Blocks that are decompressed together


def joined(blocks: list[bytes], max_bytes: int = 1 << 20) -> DecompressionBuffer | None:
    buffer = DecompressionBuffer(max_bytes)
    buffer.clear()
    return buffer if buffer.append_joined([memoryview(block) for block in blocks]) else None


def test_joined_blocks_have_a_marker_behind_each() -> None:
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


def test_small_batches_are_joined_again_behind_batches_that_inflate(
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
    behind = b"".join(v2_batch(specs, base_offset=at, codec="zstd") for at in range(2, 5))
    assert failure(first + cut + behind, DecompressionError, "zstd block").base_offset == 1
    rows = [row for row in outcomes_of_one_decoder(first + cut + behind) if isinstance(row, tuple)]
    assert [row[4] for row in rows] == [b"v", *[specs[0].value] * 3]


def test_record_that_reaches_over_its_batch_takes_nothing_of_the_next_one() -> None:
    marker_bytes = len(DecompressionBuffer(NO_LIMIT).marker)
    behind = [v2_record(RecordSpec(value=b"next")) for _ in range(2)]
    length = 10 + marker_bytes + len(behind[0])
    # Attributes, two deltas and a null key; then a value that is longer than the batch.
    head = b"\x00\x00\x00\x01"
    tail = varint(length) + b"ten bytes."
    reaching = varint(len(head) + len(varint(length)) + length + 1) + head + tail
    data = b"".join(
        v2_batch(
            payload=compress("zstd", body), count=1, attributes=4, base_offset=at, base_timestamp=0
        )
        for at, body in enumerate([reaching, *behind])
    )
    found = outcomes_of_one_decoder(data)
    assert [row[4] for row in found if isinstance(row, tuple)] == [b"next", b"next"]
    assert [it.base_offset for it in found if not isinstance(it, tuple)] == [0]


def test_joined_batch_above_the_limit_is_told() -> None:
    small = [v2_batch([RecordSpec(value=b"v")], base_offset=at, codec="zstd") for at in range(3)]
    large = v2_batch([RecordSpec(value=bytes(5000))], base_offset=3, codec="zstd")
    with pytest.raises(DecompressedSizeError, match="larger than the 1000 bytes") as caught:
        read(b"".join([*small, large]), max_decompressed_bytes=1000)
    assert caught.value.base_offset == 3


# The table of codecs


class _Reversed(BlockStream):
    """Bytes from the last to the first: a codec that nobody has."""

    def __init__(self, block: memoryview) -> None:
        self._rest = bytes(block)[::-1]

    def read_into(self, view: memoryview) -> int:
        data, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(data)] = data
        return len(data)


def _reverse(block: memoryview, output: memoryview) -> int:
    if len(output) < len(block):
        raise OutputFullError
    output[: len(block)] = bytes(block)[::-1]
    return len(block)


REVERSED = Codec(
    number=6,
    name="reversed",
    first_format=MAGIC_V2,
    framing="from the last byte to the first",
    load_code=lambda: BlockCode(
        decompress_into=lambda block, output, _magic: _reverse(block, output),
        open_stream=lambda block, _magic: _Reversed(block),
        is_surely_large=lambda _block: False,
        writer=lambda _level: _reverse,
    ),
)


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_an_added_codec_is_written_and_read(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setitem(codecs.CODECS, REVERSED.number, REVERSED)
    options = parse_write_options(
        {"path": "/logs", "topic": "t", "compression.type": "Reversed", "max.message.bytes": "8m"}
    )
    encoder = RecordBatchEncoder(
        compression=options.compression_type, max_message_bytes=options.max_message_bytes
    )
    value = TEXT[:10] + bytes(size - 10)
    data = encoder.encode(pa.record_batch({"value": [value]})).buffer.tobytes()
    assert scan(data).codec.tolist() == [REVERSED.number]
    assert TEXT[:10][::-1] in data
    assert [row[4] for row in both(data)] == [value]
    assert codecs.names_by_number()[REVERSED.number] == "reversed"


@pytest.mark.parametrize("number", [5, 6, 7])
def test_a_number_that_is_no_codec_is_named(number: int) -> None:
    batch = bytearray(v2_batch([RecordSpec(value=b"v")], codec="none"))
    batch[ATTRIBUTES_OFFSET + 1] |= number
    data = bytes(batch)
    message = (
        f"compression codec {number} in format 2, "
        r"allowed are 0 \(none\), 1 \(gzip\), 2 \(snappy\), 3 \(lz4\), 4 \(zstd\)"
    )
    with pytest.raises(InvalidBatchError, match=message):
        list(decoder(check_crcs=False).decode(as_array(data), scan(data), file_position=0))
    for what in (codecs.block_writer, partial(codecs.open_block, block=memoryview(b"x"), magic=2)):
        with pytest.raises(BlockError, match=f"compression codec {number}: there is none"):
            what(number)
