"""Rows in Arrow batches: where they are cut, and whose memory they lie in."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from spark_segmentlog.record.read.header_table import scan_headers
from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.decoding import arrow_batches, as_array, decoder, read, rows_of, small_batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_cut_by_rows_within_a_record_batch(codec: str) -> None:
    data = small_batch(0, 100, codec=codec) + small_batch(100, 3, codec=codec)
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
    data = small_batch(0, 100)
    (part,) = arrow_batches(data, columns=("offset",), max_arrow_bytes=10)
    assert part.num_rows == 100


def test_rows_wait_across_calls() -> None:
    reader = decoder(max_arrow_rows=4)
    sizes = []
    for offset in range(0, 9, 3):
        data = as_array(small_batch(offset, 3))
        table = scan_headers(data, 0, len(data), file_position=0)
        sizes += [part.num_rows for part in reader.decode(data, table, file_position=0)]
    last = reader.flush()
    assert last is not None
    assert (sizes, last.num_rows) == ([4, 4], 1)
    assert reader.flush() is None


def test_batches_that_are_kept_do_not_change() -> None:
    data = b"".join(small_batch(offset, 10) for offset in range(0, 1000, 10))
    kept = arrow_batches(data, max_arrow_rows=20)
    copies = [pa.record_batch(part.to_pydict(), schema=part.schema) for part in kept]
    assert kept == copies
    assert [row[0] for row in rows_of(kept)] == list(range(1000))


def test_column_that_outlives_its_batch_does_not_change() -> None:
    data = as_array(b"".join(small_batch(offset, 10) for offset in range(0, 1000, 10)))
    table = scan_headers(data, 0, len(data), file_position=0)
    columns = []
    for part in decoder(max_arrow_rows=10).decode(data, table, file_position=0):
        columns.append(part.column("value"))
        del part
        gc.collect()
    values = [column.to_pylist() for column in columns]
    assert values == [[b"value-%d" % place for place in range(10)]] * 99


def test_buffers_come_back_into_use() -> None:
    data = as_array(b"".join(small_batch(offset, 10) for offset in range(0, 1000, 10)))
    table = scan_headers(data, 0, len(data), file_position=0)
    addresses = set()
    for part in decoder(("offset",), max_arrow_rows=10).decode(data, table, file_position=0):
        addresses.add(part.column("offset").buffers()[1].address)
        del part
    assert len(addresses) <= 3
