"""The decoder's own doing: scanning, filtering, cutting, columns, buffers, errors in a row."""

from __future__ import annotations

import pickle
import random

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
from spark_segmentlog.record.read.header_table import scan_headers
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
    CODECS,
    arrow_batches,
    as_array,
    decoder,
    read,
    read_offsets,
    rows_of,
    small_batch,
)

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
    batches = arrow_batches(small_batch(0, 5) + small_batch(5, 4), columns=(), max_arrow_rows=6)
    assert [part.num_rows for part in batches] == [6, 3]
    assert batches[0].num_columns == 0


def test_constant_columns() -> None:
    (part,) = arrow_batches(small_batch(0, 3), columns=("partition", "topic"))
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
    assert read_offsets(small_batch(0, 2), record_filter=wide) == [0, 1]


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


# Errors in a row


@pytest.mark.parametrize("codec", CODECS)
def test_decoding_goes_on_after_a_bad_batch(codec: str) -> None:
    batches = [small_batch(10 * index, 10, codec=codec) for index in range(5)]
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
    after = table.position >= error.position + error.length
    parts.extend(reader.decode(data, table, after, file_position=0))
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
    assert read_offsets(small_batch(0) + bytes(marker) + small_batch(2)) == [0, 2]
