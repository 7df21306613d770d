"""Codecs: each framing that producers write, hostile blocks, bombs, and the limit on size."""

from __future__ import annotations

import re
import tracemalloc
from functools import partial

import pyarrow as pa
import pytest

from spark_segmentlog.errors import DecompressedSizeError, DecompressionError, InvalidBatchError
from spark_segmentlog.query.options import parse_write_options
from spark_segmentlog.record.codec import codecs
from spark_segmentlog.record.codec.codec import (
    BlockCode,
    BlockError,
    BlockStream,
    BlockTooLargeError,
    Codec,
    OutputFullError,
)
from spark_segmentlog.record.layout import ATTRIBUTES_OFFSET, MAGIC_V2
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from spark_segmentlog.testing.builder import CODECS, RecordSpec, compress, v2_batch
from tests.support.blocks import codec_number, decompress
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
from tests.support.encoding import encode_in_order

COMPRESSED = [name for name in CODECS if name not in ("none", "lz4-legacy-checksum")]


TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


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
    data = encode_in_order(encoder, pa.record_batch({"value": [value]})).buffer.tobytes()
    assert scan(data).codec.tolist() == [REVERSED.number]
    assert TEXT[:10][::-1] in data
    assert [row[4] for row in both(data)] == [value]
    assert codecs.names_by_number()[REVERSED.number] == "reversed"


@pytest.mark.parametrize("number", sorted({*range(1, 8)} - codecs.CODECS.keys()))
def test_a_number_that_is_no_codec_is_named(number: int) -> None:
    batch = bytearray(v2_batch([RecordSpec(value=b"v")], codec="none"))
    batch[ATTRIBUTES_OFFSET + 1] |= number
    data = bytes(batch)
    names = ["none", *(codec.name for codec in codecs.CODECS.values())]
    allowed = ", ".join(f"{each} ({name})" for each, name in enumerate(names))
    message = f"compression codec {number} in format 2, allowed are {allowed}"
    with pytest.raises(InvalidBatchError, match=re.escape(message)):
        list(decoder(check_crcs=False).decode(as_array(data), scan(data), file_position=0))
    for what in (codecs.block_writer, partial(codecs.open_block, block=memoryview(b"x"), magic=2)):
        with pytest.raises(BlockError, match=f"compression codec {number}: there is none"):
            what(number)
