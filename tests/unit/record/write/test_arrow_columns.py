"""Columns of rows as kernels read them, whatever Arrow type they have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_segmentlog.errors import InvalidRowError, SchemaError
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from spark_segmentlog.testing.builder import RecordSpec
from tests.support.encoding import (
    HEADERS_TYPE,
    arrow_batch,
    encode_in_order,
    expected_rows,
    read_by_decoder,
    values,
)


def headers_of(*rows: list[tuple[str | None, bytes | None]] | None) -> pa.RecordBatch:
    return values(*[b"v"] * len(rows)).append_column("headers", pa.array(rows, HEADERS_TYPE))


def test_null_header_key_names_row_and_header() -> None:
    batch = headers_of([("a", b"")], None, [("a", b""), (None, b"x")])
    with pytest.raises(InvalidRowError, match="column headers, row 12: the key of header 1 is nu"):
        encode_in_order(RecordBatchEncoder(), batch, first_row=10)


def test_null_header_key_outside_of_the_slice_does_not_matter() -> None:
    batch = headers_of([(None, b"")], [("a", b"1")], [(None, b"")])
    encoded = encode_in_order(RecordBatchEncoder(), batch.slice(1, 1))
    assert read_by_decoder(encoded)[0][4] == [("a", b"1")]


def test_null_header_struct_is_a_header_without_key() -> None:
    with pytest.raises(InvalidRowError, match="row 0: the key of header 0 is null"):
        encode_in_order(RecordBatchEncoder(), headers_of([None]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "column", "text"),
    [
        ("value", pa.array([1]), "column value is int64, allowed are STRING and BINARY"),
        ("key", pa.array([1.5]), "column key is double, allowed are STRING and BINARY"),
        ("timestamp", pa.array(["x"]), "column timestamp is string, allowed is TIMESTAMP"),
        ("headers", pa.array([["x"]]), "column headers is list<.*ARRAY<STRUCT<key STRING"),
    ],
)
def test_columns_of_another_type_are_refused(name: str, column: pa.Array, text: str) -> None:
    columns = {"value": pa.array([b"v"]), name: column}
    with pytest.raises(SchemaError, match=text):
        encode_in_order(RecordBatchEncoder(), pa.record_batch(columns))


@pytest.mark.parametrize(
    "data_type",
    [
        pa.binary(),
        pa.string(),
        pa.large_binary(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_every_kind_of_text_and_bytes_is_taken(data_type: pa.DataType) -> None:
    expected = ["a", None, "", "schl\u00fcssel"]
    column = pa.array([None, *expected, "z"], pa.string()).cast(data_type)
    batch = pa.record_batch({"key": column, "value": column}).slice(1, 4)
    rows = read_by_decoder(encode_in_order(RecordBatchEncoder(), batch))
    encoded = [None if text is None else text.encode() for text in expected]
    assert [row[2] for row in rows] == [row[3] for row in rows] == encoded


def test_fixed_size_and_null_columns_are_taken() -> None:
    batch = pa.record_batch(
        {"key": pa.array([b"ab", None], pa.binary(2)), "value": pa.nulls(2), "headers": pa.nulls(2)}
    )
    rows = read_by_decoder(encode_in_order(RecordBatchEncoder(), batch))
    assert [row[2:] for row in rows] == [(b"ab", None, []), (None, None, [])]


def test_headers_of_large_types_and_slices() -> None:
    records = [
        RecordSpec(value=b"a", headers=[("n", bytes([place]))] * (place % 3)) for place in range(9)
    ]
    batch = arrow_batch(records)
    large = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    at = batch.schema.names.index("headers")
    batch = batch.set_column(at, "headers", batch.column(at).cast(large))
    encoded = encode_in_order(RecordBatchEncoder(), batch.slice(3, 5))
    assert read_by_decoder(encoded) == expected_rows(records[3:8])
