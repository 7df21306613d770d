"""Columns to record batches: sizes, timestamps, codecs, and every row that cannot be written."""

from __future__ import annotations

import datetime
import pickle
import struct
from collections.abc import Sequence

import cramjam
import crc32c
import numpy as np
import pytest

from spark_segmentlog.errors import OptionValueError, RecordTooLargeError
from spark_segmentlog.record.write.encoder import (
    DEFAULT_BATCH_SIZE_BYTES,
    EncodedBatches,
    RecordBatchEncoder,
)
from spark_segmentlog.testing.builder import DEFAULT_TIMESTAMP_MS, RecordSpec
from tests.support.encoding import (
    arrow_batch,
    encode_in_order,
    expected_rows,
    noise,
    plain_records,
    read_by_aiokafka,
    read_by_decoder,
    values,
)
from tests.support.plain_encoder import encode_plainly

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


T = DEFAULT_TIMESTAMP_MS


def payload(encoded: EncodedBatches, batch: int = 0) -> bytes:
    start = int(encoded.positions[batch])
    return encoded.buffer[start + 61 : start + int(encoded.sizes_bytes[batch])].tobytes()


# Records


def test_null_and_empty_keys_and_values_stay_apart() -> None:
    kinds = (None, b"", b"x")
    records = [RecordSpec(key=key, value=value) for key in kinds for value in kinds]
    for codec in CODECS:
        encoded = encode_in_order(RecordBatchEncoder(compression=codec), arrow_batch(records))
        assert read_by_decoder(encoded) == expected_rows(records)


def test_null_header_values_stay_null_and_no_headers_stay_none() -> None:
    records = [
        RecordSpec(value=b"a", headers=[("trace-id", None), ("x", b""), ("x", b"1")]),
        RecordSpec(value=b"b"),
        RecordSpec(value=b"c", headers=[("", b"empty name")]),
    ]
    encoded = encode_in_order(RecordBatchEncoder(), arrow_batch(records))
    assert read_by_decoder(encoded) == read_by_aiokafka(encoded.buffer.tobytes())
    assert read_by_decoder(encoded) == expected_rows(records)


def test_a_record_alone_has_the_bytes_of_the_format() -> None:
    batch = arrow_batch([RecordSpec(key=b"k", value=None, headers=[("h", b"v")])])
    encoded = encode_in_order(RecordBatchEncoder(), batch, base_offset=3)
    assert payload(encoded) == bytes.fromhex("16" + "000000026b010202680276")
    data = encoded.buffer.tobytes()
    assert struct.unpack_from(">qiib", data) == (3, len(data) - 12, 0, 2)
    assert struct.unpack_from(">I", data, 17) == (crc32c.crc32c(data[21:]),)
    assert struct.unpack_from(">hiqqqhii", data, 21) == (0, 0, T, T, -1, -1, -1, 1)


def test_no_rows_make_no_batches() -> None:
    for codec in CODECS:
        encoded = encode_in_order(RecordBatchEncoder(compression=codec), arrow_batch([]))
        assert len(encoded) == 0
        assert len(encoded.buffer) == 0


def test_missing_key_column_is_null_keys() -> None:
    encoded = encode_in_order(RecordBatchEncoder(), values(b"a", None))
    assert [row[2:4] for row in read_by_decoder(encoded)] == [(None, b"a"), (None, None)]


def test_offsets_are_dense_over_all_batches() -> None:
    records = [RecordSpec(value=b"x" * (place % 90)) for place in range(300)]
    encoded = encode_in_order(
        RecordBatchEncoder(batch_size_bytes=512), arrow_batch(records), base_offset=7
    )
    assert len(encoded) > 20
    assert encoded.base_offsets[0] == 7
    assert encoded.base_offsets[1:].tolist() == (encoded.last_offsets[:-1] + 1).tolist()
    assert encoded.last_offsets[-1] == 306
    assert read_by_decoder(encoded) == expected_rows(records, 7)


def test_each_group_counts_from_its_own_base_offset() -> None:
    encoded = RecordBatchEncoder().encode_groups(
        values(b"a", b"b", b"c"),
        np.arange(3),
        np.array([1, 1, 3]),
        base_offset=np.array([7, 8, 30]),
    )
    assert encoded.base_offsets.tolist() == [7, 30]
    assert encoded.last_offsets.tolist() == [7, 31]


# Sizes


def test_no_batch_of_several_records_is_above_the_target() -> None:
    records = [RecordSpec(value=b"x" * size) for size in range(0, 700, 3)]
    encoded = encode_in_order(RecordBatchEncoder(batch_size_bytes=600), arrow_batch(records))
    several = encoded.record_counts > 1
    assert encoded.sizes_bytes[several].max() <= 600
    assert encoded.sizes_bytes[~several].max() > 600
    plain = encode_plainly(plain_records(records), batch_limit=600, record_limit=1 << 20)
    assert encoded.buffer.tobytes() == plain


def test_default_batch_size_holds_hundreds_of_usual_records() -> None:
    records = [RecordSpec(key=b"k" * 16, value=b"v" * 100)] * 4000
    encoded = encode_in_order(RecordBatchEncoder(), arrow_batch(records))
    assert encoded.sizes_bytes.max() <= DEFAULT_BATCH_SIZE_BYTES == 131072
    assert encoded.record_counts.max() > 900


def test_batch_ends_before_it_exceeds_max_message_bytes() -> None:
    records = [RecordSpec(value=noise(100))] * 50
    for codec in CODECS:
        encoder = RecordBatchEncoder(compression=codec, max_message_bytes=2500)
        encoded = encode_in_order(encoder, arrow_batch(records))
        assert encoded.sizes_bytes.max() <= 2500
        assert read_by_decoder(encoded) == expected_rows(records)


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_that_do_not_compress_never_push_a_batch_above_the_limit(codec: str) -> None:
    for limit in (300, 1000, 5000, 40_000, 300_000):
        records = [RecordSpec(value=noise(130))] * (limit // 100)
        encoder = RecordBatchEncoder(
            compression=codec, max_message_bytes=limit, batch_size_bytes=1 << 30
        )
        assert encode_in_order(encoder, arrow_batch(records)).sizes_bytes.max() <= limit


@pytest.mark.parametrize("codec", CODECS)
def test_record_too_large_names_its_row(codec: str) -> None:
    batch = values(b"small", noise(3000), b"small")
    encoder = RecordBatchEncoder(compression=codec, max_message_bytes=2000)
    with pytest.raises(RecordTooLargeError, match=r"row 41: .*max\.message\.bytes is 2000") as info:
        encode_in_order(encoder, batch, first_row=40)
    assert str(pickle.loads(pickle.dumps(info.value))) == str(info.value)


def test_size_at_the_limit_is_taken_and_one_byte_more_is_refused() -> None:
    size = len(encode_in_order(RecordBatchEncoder(), values(b"x" * 1000)).buffer)
    encode_in_order(RecordBatchEncoder(max_message_bytes=size), values(b"x" * 1000))
    with pytest.raises(RecordTooLargeError, match=f"of {size} bytes"):
        encode_in_order(RecordBatchEncoder(max_message_bytes=size - 1), values(b"x" * 1000))


def test_record_that_compresses_below_the_limit_is_taken() -> None:
    for codec in CODECS[1:]:
        encoder = RecordBatchEncoder(compression=codec, max_message_bytes=20_000)
        encoded = encode_in_order(encoder, values(bytes(200_000)))
        assert encoded.sizes_bytes.tolist() == [len(encoded.buffer)]
        assert read_by_decoder(encoded)[0][3] == bytes(200_000)


@pytest.mark.parametrize("name", ["batch_size_bytes", "max_message_bytes"])
@pytest.mark.parametrize("size", [0, -1, 2**31])
def test_sizes_outside_of_32_bits_are_refused(name: str, size: int) -> None:
    with pytest.raises(OptionValueError, match=f"is {size}, allowed are 1 to 2147483647"):
        RecordBatchEncoder(**{name: size})  # type: ignore[arg-type]


def test_log_append_time_stamps_every_record() -> None:
    records = [RecordSpec(timestamp_ms=t, value=b"") for t in (T, 5, -1)]
    encoder = RecordBatchEncoder(log_append_time=True, compression="lz4")
    encoded = encode_in_order(encoder, arrow_batch(records), append_time_ms=777, base_offset=4)
    assert struct.unpack_from(">h", encoded.buffer.data, 21) == (0x08 | 3,)
    assert encoded.max_timestamps.tolist() == [777]
    assert [row[1] for row in read_by_decoder(encoded)] == [777] * 3


def test_append_time_is_now_where_not_given() -> None:
    before = datetime.datetime.now(datetime.UTC).timestamp()
    stamped = read_by_decoder(encode_in_order(RecordBatchEncoder(), values(b"a")))[0][1]
    assert int(before * 1000) <= stamped < int(before * 1000) + 600_000


# Codecs


@pytest.mark.parametrize("codec", CODECS)
def test_large_values_are_read_by_independent_readers(codec: str) -> None:
    records = [
        RecordSpec(value=b'{"name": "value"} ' * 17_000),
        RecordSpec(value=noise(200_000)),
        RecordSpec(value=b""),
    ]
    encoded = encode_in_order(RecordBatchEncoder(compression=codec), arrow_batch(records))
    assert read_by_aiokafka(encoded.buffer.tobytes()) == expected_rows(records)
    assert read_by_decoder(encoded) == expected_rows(records)


def test_lz4_frame_has_independent_blocks_of_64_kib() -> None:
    value = b'{"name": "value"} ' * 17_000 + noise(100_000)
    encoded = encode_in_order(RecordBatchEncoder(compression="lz4"), values(value))
    frame = payload(encoded)
    assert frame[:7] == bytes.fromhex("04224d18604082")
    position, plain, stored = 7, b"", 0
    while word := struct.unpack_from("<I", frame, position)[0]:
        block = frame[position + 4 : position + 4 + (word & 0x7FFFFFFF)]
        position += 4 + len(block)
        stored += word >> 31
        # Each block decodes alone.
        plain += (
            block
            if word >> 31
            else bytes(cramjam.lz4.decompress_block(block, output_len=64 * 1024))
        )
    assert position + 4 == len(frame)
    assert value in plain
    assert stored > 0
    assert bytes(cramjam.lz4.decompress(frame)) == plain


def test_snappy_is_framed_in_blocks_of_32_kib() -> None:
    value = b'{"name": "value"} ' * 17_000
    encoded = encode_in_order(RecordBatchEncoder(compression="snappy"), values(value))
    frame = payload(encoded)
    assert frame[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    position, sizes = 16, []
    while position < len(frame):
        (length,) = struct.unpack_from(">i", frame, position)
        block = frame[position + 4 : position + 4 + length]
        sizes.append(cramjam.snappy.decompress_raw_len(block))
        position += 4 + length
    assert len(sizes) == 10
    assert set(sizes[:-1]) == {32 * 1024}


@pytest.mark.parametrize(
    ("codec", "levels"),
    [("gzip", [1, 9]), ("lz4", [1, 17]), ("zstd", [-7, 19])],
)
def test_higher_levels_compress_more(codec: str, levels: Sequence[int]) -> None:
    lines = [f'{{"id": {n}, "square": {n * n}, "name": "n{n % 97}"}}'.encode() for n in range(3000)]
    batch = values(*lines)
    sizes = []
    for level in levels:
        encoded = encode_in_order(RecordBatchEncoder(compression=codec, level=level), batch)
        assert [row[3] for row in read_by_decoder(encoded)] == lines
        sizes.append(len(encoded.buffer))
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("codec", "level", "text"),
    [
        ("gzip", 10, r"compression\.gzip\.level is 10, allowed are 1 to 9"),
        ("lz4", 0, r"compression\.lz4\.level is 0, allowed are 1 to 17"),
        ("zstd", 23, r"compression\.zstd\.level is 23, allowed are -131072 to 22"),
        ("snappy", 1, "snappy has no levels"),
        ("brotli", None, "'brotli', allowed are none, gzip, snappy, lz4, zstd"),
    ],
)
def test_unknown_codecs_and_levels_are_refused(codec: str, level: int | None, text: str) -> None:
    with pytest.raises(OptionValueError, match=text):
        RecordBatchEncoder(compression=codec, level=level)
