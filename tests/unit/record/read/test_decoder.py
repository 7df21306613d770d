"""The decoder's own doing: scanning, filtering, cutting, columns, buffers, errors in a row."""

from __future__ import annotations

import gc
import pickle
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_segmentlog.errors import CrcMismatchError, InvalidRecordError, MalformedTimestampError
from spark_segmentlog.record import header_fields
from spark_segmentlog.record.kernels import decode, output
from spark_segmentlog.record.read.header_table import (
    HeaderTable,
    StopReason,
    check_crcs,
    find_next_batch,
    scan_headers,
)
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.testing.builder import (
    RecordSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    v2_batch,
)
from tests.support.decoding import (
    ALL_COLUMNS,
    arrow_batches,
    as_array,
    decoder,
    read,
    read_offsets,
    rows_of,
    scan,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def batch(base_offset: int, count: int = 1, **options: Any) -> bytes:
    records = [RecordSpec(key=b"k", value=b"value-%d" % place) for place in range(count)]
    return v2_batch(records, base_offset=base_offset, **options)


# Scanning


def test_scan_ends_exactly_with_the_last_batch() -> None:
    data = batch(0) + batch(1)
    table = scan(data)
    assert (len(table), table.end_position, table.stop) == (2, len(data), StopReason.END)


def test_positions_are_those_of_the_file() -> None:
    data = batch(0) + batch(1)
    array = as_array(b"xxxx" + data)
    table = scan_headers(array, 4, len(array), file_position=1000)
    assert table.position.tolist() == [1004, 1004 + len(batch(0))]
    assert table.end_position == 1004 + len(data)
    reader = decoder()
    assert list(reader.decode(array, table, file_position=1000)) == []
    last = reader.flush()
    assert last is not None
    assert last.column("offset").to_pylist() == [0, 1]


def test_positions_beyond_31_bits() -> None:
    array = as_array(batch(0))
    place = 2**31 + 5
    table = scan_headers(array, 0, len(array), file_position=place)
    assert table.position.tolist() == [place]
    assert check_crcs(array, table, file_position=place).tolist() == [True]


def test_cut_header_and_cut_batch_are_incomplete() -> None:
    first, second = batch(0), batch(1)
    for size in range(1, len(second)):
        table = scan(first + second[:size])
        assert (len(table), table.end_position) == (1, len(first))
        assert table.stop is StopReason.INCOMPLETE
        assert table.needed_bytes == (len(second) if size >= 17 else 0)


@pytest.mark.parametrize("zeros", [17, 61, 1000])
def test_zero_tail_ends_the_scan(zeros: int) -> None:
    table = scan(batch(0) + bytes(zeros))
    assert (len(table), table.stop) == (1, StopReason.ZERO)


def test_zeros_with_something_behind_are_invalid() -> None:
    table = scan(batch(0) + bytes(100) + b"x")
    assert table.stop is StopReason.INVALID
    assert table.reason == "length 0 of an entry of format 0, at least 14 is needed"


def test_scan_stops_when_the_table_is_full() -> None:
    data = b"".join(batch(offset) for offset in range(5))
    table = scan(data, max_entries=3)
    assert (len(table), table.stop) == (3, StopReason.FULL)
    rest = scan_headers(as_array(data), table.end_position, len(data), file_position=0)
    joined = HeaderTable.concat([table, rest])
    assert joined.base_offset.tolist() == list(range(5))
    assert joined.stop is StopReason.END


def test_selected_rows_of_a_table() -> None:
    data = batch(0) + batch(1, codec="zstd") + legacy_message(0, offset=2)
    table = scan(data)
    odd = table.select(np.array([False, True, True]))
    assert odd.base_offset.tolist() == [1, 2]
    assert odd.is_compressed.tolist() == [True, False]
    assert odd.codec.tolist() == [4, 0]
    assert odd.timestamp_type.tolist() == [0, -1]
    assert odd.end_position == table.end_position


def test_checksums_of_a_table_are_checked_entry_by_entry() -> None:
    bad = bytearray(batch(1, 50))
    bad[-1] ^= 1
    data = (
        batch(0) + bytes(bad) + legacy_message(1, offset=60) + legacy_message(0, offset=61, crc=1)
    )
    table = scan(data)
    assert check_crcs(as_array(data), table, file_position=0).tolist() == [True, False, True, False]


def test_table_of_other_bytes_is_refused() -> None:
    table = scan(batch(0))
    with pytest.raises(IndexError, match="other bytes"):
        check_crcs(as_array(batch(0)), table, file_position=10)
    with pytest.raises(IndexError, match="other bytes"):
        list(decoder().decode(as_array(batch(0)[:-1]), table, file_position=0))


def test_bytes_that_cannot_be_written_are_read_all_the_same() -> None:
    data = batch(0, 3)
    fixed = np.frombuffer(data, np.uint8)
    table = scan_headers(fixed, 0, len(fixed), file_position=0)
    reader = decoder()
    assert list(reader.decode(fixed, table, file_position=0)) == []
    last = reader.flush()
    assert last is not None
    assert last.num_rows == 3


# Resynchronisation


def test_next_good_batch_is_found_behind_garbage() -> None:
    wrong = bytearray(batch(5))
    wrong[-1] ^= 1
    data = b"\x01garbage" * 9 + bytes(wrong) + batch(3) + batch(7)
    array = as_array(data)

    def find(start: int, min_offset: int) -> int:
        return find_next_batch(array, start, len(array), file_position=100, min_offset=min_offset)

    third = 100 + 72 + len(wrong)
    assert find(0, 0) == third
    assert find(0, 4) == third + len(batch(3))
    assert find(third - 100 + 1, 0) == third + len(batch(3))
    assert find(0, 8) == -1


def test_next_good_message_is_found() -> None:
    data = b"\x00" * 33 + legacy_message(1, offset=4, value=b"v")
    assert find_next_batch(as_array(data), 1, len(data), file_position=0, min_offset=0) == 33


def test_search_among_crafted_headers_ends() -> None:
    # Every entry claims to reach the end, so each would have all that follows checksummed.
    count = 20_000
    data = bytearray()
    for index in range(count):
        header = bytearray(batch(0)[:61])
        header[8:12] = ((count - index) * 61 - 12).to_bytes(4, "big")
        data += header
    assert find_next_batch(as_array(bytes(data)), 0, len(data), file_position=0, min_offset=0) == -1


# Columns


def test_schema_equals_what_spark_makes_of_it() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    spark_types = {
        "key": BinaryType(),
        "value": BinaryType(),
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        "headers": ArrayType(header),
    }
    schema = StructType([StructField(name, spark_types[name]) for name in ALL_COLUMNS])
    assert decoder().schema == to_arrow_schema(schema, timezone="UTC")


@pytest.mark.parametrize("codec", CODECS)
def test_any_columns_in_any_order_hold_the_same_values(codec: str) -> None:
    records = [
        RecordSpec(key=None, value=b"a", headers=[("h", None)]),
        RecordSpec(key=b"k", value=None, timestamp_ms=5),
    ]
    data = v2_batch(records, base_offset=7, codec=codec) + legacy_message(0, offset=9, key=b"z")
    whole = arrow_batches(data)[0]
    order = random.Random(5)
    for _ in range(30):
        columns = order.sample(ALL_COLUMNS, order.randint(1, len(ALL_COLUMNS)))
        (part,) = arrow_batches(data, columns=tuple(columns))
        assert part == whole.select(columns)


def test_no_columns_still_count_rows() -> None:
    batches = arrow_batches(batch(0, 5) + batch(5, 4), columns=(), max_arrow_rows=6)
    assert [part.num_rows for part in batches] == [6, 3]
    assert batches[0].num_columns == 0


def test_constant_columns() -> None:
    (part,) = arrow_batches(batch(0, 3), columns=("partition", "topic"))
    assert part.to_pylist() == [{"partition": 3, "topic": "t"}] * 3


def test_header_columns_survive_a_cut_between_records() -> None:
    records = [
        RecordSpec(value=b"v", headers=[(f"h{i}-{j}", b"x" * j) for j in range(i % 4)])
        for i in range(50)
    ]
    data = v2_batch(records)
    whole = read(data)
    assert read(data, max_arrow_rows=7) == whole
    assert [row[5] for row in whole[:3]] == [
        None,
        (("h1-0", b""),),
        (("h2-0", b""), ("h2-1", b"x")),
    ]


def test_very_many_headers_in_one_record() -> None:
    headers = [(f"name-{i}", b"v" * (i % 5) if i % 3 else None) for i in range(5000)]
    assert read(v2_batch([RecordSpec(headers=headers)]))[0][5] == tuple(headers)


# Filters


def test_filter_is_exact_for_out_of_order_timestamps() -> None:
    times = [100, 50, 200, 10, 300, 150]
    data = v2_batch([RecordSpec(timestamp_ms=time) for time in times])

    def kept(low: int | None, high: int | None) -> list[int]:
        bounds = RecordFilter(min_timestamp_ms=low, max_timestamp_ms=high)
        return read_offsets(data, record_filter=bounds)

    assert kept(60, 179) == [0, 5]
    assert kept(None, 59) == [1, 3]
    assert kept(300, 300) == [4]
    assert kept(301, None) == []


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_offset_range_is_half_open(codec: str, magic: int) -> None:
    records = [RecordSpec(value=b"v%d" % place) for place in range(10)]
    if magic == 2:
        data = v2_batch(records, base_offset=100, codec=codec)
    elif codec == "zstd":
        return
    else:
        data = legacy_message_set(magic, records, base_offset=100, codec=codec)
    wanted = RecordFilter(start_offset=103, end_offset=107)
    assert read_offsets(data, record_filter=wanted) == [103, 104, 105, 106]
    nothing = RecordFilter(start_offset=107, end_offset=103)
    assert read_offsets(data, record_filter=nothing) == []


def test_timestamp_bounds_see_minus_one_of_format_0() -> None:
    data = legacy_message(0, offset=0) + legacy_message(1, offset=1, timestamp_ms=7)
    assert read_offsets(data, record_filter=RecordFilter(min_timestamp_ms=0)) == [1]
    assert read_offsets(data, record_filter=RecordFilter(max_timestamp_ms=0)) == [0]


def test_bounds_beyond_64_bits_are_no_bounds() -> None:
    wide = RecordFilter(end_offset=2**70, min_timestamp_ms=-(2**80), max_timestamp_ms=2**80)
    assert read_offsets(batch(0, 2), record_filter=wide) == [0, 1]


def test_bad_record_outside_of_the_filter_is_still_an_error() -> None:
    data = v2_batch([RecordSpec(), b"\x02\x00"], last_offset_delta=1)
    with pytest.raises(InvalidRecordError):
        read(data, record_filter=RecordFilter(end_offset=1))


# Timestamps that Spark cannot hold


@pytest.mark.parametrize(
    "time", [1_700_000_000_000_000, 1_700_000_000_000_000_000, 2**63 - 1, -62_135_596_800_001]
)
def test_timestamp_outside_of_sparks_range_names_its_record(time: int) -> None:
    data = v2_batch([RecordSpec(), RecordSpec(timestamp_ms=time)], base_offset=40)
    with pytest.raises(MalformedTimestampError) as caught:
        read(data)
    text = str(caught.value)
    assert f"{time} ms at topic t, partition 3, offset 41" in text
    assert "KAFKA_MALFORMED_RECORD_TIMESTAMP" in text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    (part,) = arrow_batches(data, columns=("offset",))
    assert part.column("offset").to_pylist() == [40, 41]


@pytest.mark.parametrize("time", [-62_135_596_800_000, 253_402_300_799_999])
def test_first_and_last_timestamp_of_sparks_range_are_held(time: int) -> None:
    assert read(v2_batch([RecordSpec(timestamp_ms=time)]))[0][1] == time


def test_timestamp_that_is_filtered_out_is_no_error() -> None:
    data = v2_batch([RecordSpec(timestamp_ms=2**62), RecordSpec(timestamp_ms=1)])
    assert read_offsets(data, record_filter=RecordFilter(max_timestamp_ms=5)) == [1]


# Arrow batches


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_cut_by_rows_within_a_record_batch(codec: str) -> None:
    data = batch(0, 100, codec=codec) + batch(100, 3, codec=codec)
    batches = arrow_batches(data, max_arrow_rows=30)
    assert [part.num_rows for part in batches] == [30, 30, 30, 13]
    assert rows_of(batches) == read(data)


def test_batches_are_cut_by_bytes() -> None:
    records = [RecordSpec(key=b"k" * 100, value=b"v" * 900) for _ in range(100)]
    data = v2_batch(records)
    batches = arrow_batches(data, max_arrow_bytes=10_000)
    assert [part.num_rows for part in batches] == [10] * 10
    assert rows_of(batches) == read(data)


def test_headers_count_against_the_limit_of_bytes() -> None:
    records = [RecordSpec(headers=[("h" * 50, b"x" * 41)]) for _ in range(10)]
    batches = arrow_batches(v2_batch(records), max_arrow_bytes=500)
    assert [part.num_rows for part in batches] == [5, 5]


def test_record_above_the_limit_makes_a_batch_of_its_own() -> None:
    values = [b"a", b"b" * 3_000_000, b"c", b"d"]
    data = b"".join(
        v2_batch([RecordSpec(value=value)], base_offset=offset)
        for offset, value in enumerate(values)
    )
    batches = arrow_batches(data, max_arrow_bytes=1000)
    assert [part.num_rows for part in batches] == [1, 1, 2]
    assert [row[4] for row in rows_of(batches)] == values


def test_columns_that_are_not_wanted_do_not_cut_batches() -> None:
    data = batch(0, 100)
    (part,) = arrow_batches(data, columns=("offset",), max_arrow_bytes=10)
    assert part.num_rows == 100


def test_rows_wait_across_calls() -> None:
    reader = decoder(max_arrow_rows=4)
    sizes = []
    for offset in range(0, 9, 3):
        data = as_array(batch(offset, 3))
        table = scan_headers(data, 0, len(data), file_position=0)
        sizes += [part.num_rows for part in reader.decode(data, table, file_position=0)]
    last = reader.flush()
    assert last is not None
    assert (sizes, last.num_rows) == ([4, 4], 1)
    assert reader.flush() is None


def test_batches_that_are_kept_do_not_change() -> None:
    data = b"".join(batch(offset, 10) for offset in range(0, 1000, 10))
    kept = arrow_batches(data, max_arrow_rows=20)
    copies = [pa.record_batch(part.to_pydict(), schema=part.schema) for part in kept]
    assert kept == copies
    assert [row[0] for row in rows_of(kept)] == list(range(1000))


def test_column_that_outlives_its_batch_does_not_change() -> None:
    data = as_array(b"".join(batch(offset, 10) for offset in range(0, 1000, 10)))
    table = scan_headers(data, 0, len(data), file_position=0)
    columns = []
    for part in decoder(max_arrow_rows=10).decode(data, table, file_position=0):
        columns.append(part.column("value"))
        del part
        gc.collect()
    values = [column.to_pylist() for column in columns]
    assert values == [[b"value-%d" % place for place in range(10)]] * 99


def test_buffers_come_back_into_use() -> None:
    data = as_array(b"".join(batch(offset, 10) for offset in range(0, 1000, 10)))
    table = scan_headers(data, 0, len(data), file_position=0)
    addresses = set()
    for part in decoder(("offset",), max_arrow_rows=10).decode(data, table, file_position=0):
        addresses.add(part.column("offset").buffers()[1].address)
        del part
    assert len(addresses) <= 3


# Errors in a row


@pytest.mark.parametrize("codec", CODECS)
def test_decoding_goes_on_behind_a_bad_batch(codec: str) -> None:
    batches = [batch(10 * index, 10, codec=codec) for index in range(5)]
    wrong = bytearray(batches[2])
    wrong[-1] ^= 1
    batches[2] = bytes(wrong)
    data = as_array(b"".join(batches))
    table = scan_headers(data, 0, len(data), file_position=0)
    reader = decoder(validate_first=True, max_arrow_rows=8)
    parts: list[pa.RecordBatch] = []
    with pytest.raises(CrcMismatchError) as caught:
        parts.extend(reader.decode(data, table, file_position=0))
    error = caught.value
    assert (error.base_offset, error.length) == (20, len(wrong))
    behind = table.position >= error.position + error.length
    parts.extend(reader.decode(data, table, behind, file_position=0))
    last = reader.flush()
    assert last is not None
    kept = [row[0] for row in rows_of([*parts, last])]
    # What an exhausted iterator gave out before the error was taken by extend.
    assert kept == [*range(20), *range(30, 50)]


@pytest.mark.parametrize("codec", CODECS)
def test_no_row_of_a_bad_batch_is_given_out_when_it_is_checked_first(codec: str) -> None:
    records: list[RecordSpec | bytes] = [RecordSpec(value=b"v" * 50) for _ in range(40)]
    data = as_array(v2_batch([*records, b"\x02\x00"], codec=codec, last_offset_delta=50))
    table = scan_headers(data, 0, len(data), file_position=0)
    reader = decoder(validate_first=True, max_arrow_rows=8)
    with pytest.raises(InvalidRecordError):
        list(reader.decode(data, table, file_position=0))
    assert reader.flush() is None


def test_control_batches_are_not_looked_into() -> None:
    marker = bytearray(control_batch(0, base_offset=1))
    marker[-1] ^= 1
    assert read_offsets(batch(0) + bytes(marker) + batch(2)) == [0, 2]


def test_large_and_small_entries_of_all_kinds_in_random_order() -> None:
    chance = random.Random(11)
    data, expected = [], []
    offset = 0
    for _ in range(300):
        count = chance.choice([1, 1, 2, 50])
        records = [
            RecordSpec(key=b"k", value=chance.randbytes(chance.choice([0, 10, 3000])))
            for _ in range(count)
        ]
        magic = chance.choice([0, 1, 2, 2, 2])
        codec = chance.choice(CODECS[: 4 if magic == 1 else 3 if magic == 0 else 5])
        if magic == 2:
            data.append(v2_batch(records, base_offset=offset, codec=codec))
        else:
            data.append(legacy_message_set(magic, records, base_offset=offset, codec=codec))
        expected += [(offset + place, record.value) for place, record in enumerate(records)]
        offset += count
    rows = read(b"".join(data), max_arrow_rows=100)
    assert [(row[0], row[4]) for row in rows] == expected


def test_arrays_of_fields_have_room_for_the_last_one() -> None:
    assert output.STATE_FIELDS == output.BAD_TIMESTAMP_MS + 1
    assert decode.MESSAGE_FIELDS == decode.MESSAGE_TIMESTAMP_TYPE + 1
    assert header_fields.HEADER_FIELDS == header_fields.CRC + 1
