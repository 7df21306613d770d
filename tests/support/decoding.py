"""Reading bytes twice, by the compiled decoder and by its plain twins, in a form that compares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from spark_segmentlog.errors import CorruptRecordError, MalformedTimestampError, SegmentLogError
from spark_segmentlog.record.codec import block_window
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.kernels import output as kernels
from spark_segmentlog.record.layout import MAGIC_OFFSET, MAGIC_V2
from spark_segmentlog.record.plain.batch import Record, iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.header_table import HeaderTable, StopReason, scan_headers
from spark_segmentlog.testing.builder import RecordSpec, v2_batch

ALL_COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)

# Offset, timestamp (ms), timestamp type, key, value, headers (None for a record without).
Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...] | None]


@dataclass(frozen=True)
class Failure:
    """An error, as far as two readers must agree on it."""

    kind: type[SegmentLogError]
    position: int
    base_offset: int
    length: int


_AFTER = bytes(range(256)) * 2
MALFORMED_TIMESTAMP = Failure(MalformedTimestampError, 0, 0, 0)


@contextmanager
def room_of(size_bytes: int) -> Iterator[None]:
    """Let blocks above a few bytes be read as streams, as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DecompressionBuffer, "BYTES", size_bytes)
        patch.setattr(block_window, "WHOLE_BLOCK_BYTES", size_bytes)
        yield


def as_array(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8).copy()


def _longer(data: bytes) -> NDArray[np.uint8]:
    """Entries with more after them in memory than any loop reads at once."""
    return as_array(data + _AFTER)


def scan(data: bytes, **options: Any) -> HeaderTable:
    array = as_array(data)
    return scan_headers(array, 0, len(array), file_position=0, **options)


def decoder(columns: tuple[str, ...] = ALL_COLUMNS, **options: Any) -> RecordDecoder:
    return RecordDecoder(columns, topic="t", partition=3, source="0.log", **options)


def arrow_batches(data: bytes, **options: Any) -> list[pa.RecordBatch]:
    """Decode whole entries; that they are whole is asserted."""
    table = scan(data)
    assert table.stop is StopReason.END, table
    reader = decoder(**options)
    batches = list(reader.decode(_longer(data), table, file_position=0))
    last = reader.flush()
    batches += [] if last is None else [last]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == reader.schema
    return batches


def rows_of(batches: list[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in _rows(batch)]


def read(data: bytes, **options: Any) -> list[Row]:
    return rows_of(arrow_batches(data, **options))


def read_offsets(data: bytes, **options: Any) -> list[int]:
    return [row[0] for row in read(data, **options)]


def read_plainly(data: bytes, **options: Any) -> list[Row]:
    table = scan(data)
    assert table.stop is StopReason.END, table
    rows = []
    for index in range(len(table)):
        rows += _plain_row_entry(data, table, index, **options)
    return rows


def _plain_row_entry(data: bytes, table: HeaderTable, index: int, **options: Any) -> list[Row]:
    """Read one entry; what a wrapper repeats of those before it is no row of its."""
    position, size = int(table.position[index]), int(table.size_bytes[index])
    rows = plain_entry(data[position : position + size], **options)
    is_wrapper = int(table.records_count[index]) < 0
    return [row for row in rows if not is_wrapper or row[0] >= int(table.base_offset[index])]


def plain_entry(data: bytes, **options: Any) -> list[Row]:
    """Read one batch or message by its plain twin; control records are no rows."""
    if data[MAGIC_OFFSET] != MAGIC_V2:
        return [_plain_row(record) for record in iterate_messages(data, **options)]
    is_control = bool(data[22] & 0x20)
    records = list(iterate_records(data, **options)) if not is_control else []
    return [_plain_row(record) for record in records]


def outcomes_of_decoder(data: bytes, **options: Any) -> Iterator[list[Row] | Failure]:
    """Decode entry by entry: the rows of each, or how it fails.

    The same, as is asserted, with much after the entry in memory and with nothing.
    """
    array, table = as_array(data), scan(data)
    longer = _longer(data)
    for index in range(len(table)):
        reader = decoder(validate_first=True, **options)
        outcome = _outcome_of_entry(reader, array, table, index)
        assert _outcome_of_entry(reader, longer, table, index) == outcome
        yield outcome


def _outcome_of_entry(
    reader: RecordDecoder, array: NDArray[np.uint8], table: HeaderTable, index: int
) -> list[Row] | Failure:
    batches = []
    try:
        batches += list(reader.decode(array, table, np.array([index]), file_position=0))
    except MalformedTimestampError:
        return MALFORMED_TIMESTAMP
    except CorruptRecordError as error:
        failed = Failure(type(error), error.position, error.base_offset, error.length)
    else:
        last = reader.flush()
        return rows_of([*batches, last] if last is not None else batches)
    assert reader.flush() is None, "rows of an entry that failed"
    return failed


def rows_before_failure(data: bytes, **options: Any) -> tuple[list[Row], Failure | None]:
    """Decode one entry whose records nobody checks before: its rows up to how it fails.

    As in `outcomes_of_decoder`, whatever is after the entry in memory.
    """
    table = scan(data)
    found = [
        _rows_before_failure(array, table, **options) for array in (as_array(data), _longer(data))
    ]
    assert found[0] == found[1]
    return found[0]


def _rows_before_failure(
    array: NDArray[np.uint8], table: HeaderTable, **options: Any
) -> tuple[list[Row], Failure | None]:
    reader = decoder(**options)
    batches, failed = [], None
    try:
        for batch in reader.decode(array, table, file_position=0):
            batches.append(batch)
    except MalformedTimestampError:
        failed = MALFORMED_TIMESTAMP
    except CorruptRecordError as error:
        failed = Failure(type(error), error.position, error.base_offset, error.length)
    last = reader.flush()
    return rows_of([*batches, last] if last is not None else batches), failed


def rows_of_twin_before_failure(data: bytes) -> tuple[list[Row], Failure | None]:
    """Read one batch of format 2 with the plain twin, as `rows_before_failure` does."""
    rows: list[Row] = []
    try:
        for record in iterate_records(data):
            if not _can_be_held(record.timestamp_ms):
                return rows, MALFORMED_TIMESTAMP
            rows.append(_plain_row(record))
    except CorruptRecordError as error:
        return rows, Failure(type(error), error.position, error.base_offset, error.length)
    return rows, None


def outcomes_of_one_decoder(data: bytes, **options: Any) -> list[Row | Failure]:
    """Decode all entries with one decoder that goes on after bad ones: rows, then failures."""
    array, table = as_array(data), scan(data)
    reader = decoder(validate_first=True, **options)
    batches, failures = [], []
    selected = np.ones(len(table), np.bool_)
    while True:
        try:
            for batch in reader.decode(array, table, selected, file_position=0):
                batches.append(batch)
        except CorruptRecordError as error:
            failures.append(Failure(type(error), error.position, error.base_offset, error.length))
            selected = table.position > error.position
        else:
            break
    last = reader.flush()
    return [*rows_of([*batches, last] if last is not None else batches), *failures]


def outcomes_of_twin(data: bytes, **options: Any) -> Iterator[list[Row] | Failure]:
    """Read entry by entry with the plain twins, as `outcomes_of_decoder` does."""
    table = scan(data)
    for index in range(len(table)):
        position = int(table.position[index])
        try:
            rows = _plain_row_entry(data, table, index, file_position=position, **options)
        except CorruptRecordError as error:
            yield Failure(type(error), error.position, error.base_offset, error.length)
            continue
        yield rows if all(_can_be_held(row[1]) for row in rows) else MALFORMED_TIMESTAMP


def _can_be_held(timestamp_ms: int) -> bool:
    return kernels.SPARK_MIN_TIMESTAMP_MS <= timestamp_ms <= kernels.SPARK_MAX_TIMESTAMP_MS


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    columns = [
        batch.column("offset").to_pylist(),
        batch.column("timestamp").cast(pa.int64()).to_pylist(),
        batch.column("timestampType").to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        batch.column("headers").to_pylist(),
    ]
    for offset, micros, kind, key, value, headers in zip(*columns, strict=True):
        pairs = None if headers is None else tuple((h["key"], h["value"]) for h in headers)
        assert micros % 1000 == 0
        yield offset, micros // 1000, kind, key, value, pairs


def _plain_row(record: Record) -> Row:
    headers = tuple((header.key, header.value) for header in record.headers) or None
    return (
        record.offset,
        record.timestamp_ms,
        int(record.timestamp_type),
        record.key,
        record.value,
        headers,
    )


def both(data: bytes) -> list[tuple[object, ...]]:
    """Read with the decoder, and hold it against the plain twin."""
    rows = read(data)
    assert rows == read_plainly(data)
    return list(rows)


def failure(data: bytes, kind: type[CorruptRecordError], reason: str) -> CorruptRecordError:
    """Read bytes that must fail in both readers alike; gives the decoder's error."""
    with pytest.raises(kind, match=reason) as caught:
        read(data)
    assert list(outcomes_of_decoder(data)) == list(outcomes_of_twin(data))
    return caught.value


def small_batch(base_offset: int, count: int = 1, **options: Any) -> bytes:
    records = [RecordSpec(key=b"k", value=b"value-%d" % place) for place in range(count)]
    return v2_batch(records, base_offset=base_offset, **options)


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
