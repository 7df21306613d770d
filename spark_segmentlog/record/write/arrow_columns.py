"""Arrow columns as the flat arrays that kernels take: starts, lengths (-1 a null) and bytes.

Whatever Arrow has for text and bytes (large, view, dictionary) comes out the same. Nothing is
copied but offsets, which become 64 bits wide. Numbers are always writable and bytes never are, so
that a kernel is compiled for one kind of array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_segmentlog.errors import SchemaError
from spark_segmentlog.record.types import NO_INTS, ArrowArray, Bools, Bytes, Int64s

NO_BYTES: Bytes = np.empty(0, np.uint8)
NO_BYTES.flags.writeable = False

_PLAIN_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Bytes by row: `lengths[row]` of them from `starts[row]` on in `data`; -1 is a null."""

    starts: Int64s
    lengths: Int64s
    data: Bytes

    def value(self, row: int) -> bytes | None:
        """Bytes of one row; for messages and plain twins."""
        start, length = int(self.starts[row]), int(self.lengths[row])
        return None if length < 0 else self.data[start : start + length].tobytes()


@dataclass(frozen=True, slots=True)
class HeadersColumn:
    """Headers by row: `lengths[row]` of them from `starts[row]` on in `keys` and `values`."""

    starts: Int64s
    lengths: Int64s
    keys: BinaryColumn
    values: BinaryColumn


NO_BINARY = BinaryColumn(NO_INTS, NO_INTS, NO_BYTES)
NO_HEADERS = HeadersColumn(NO_INTS, NO_INTS, NO_BINARY, NO_BINARY)


def is_binary_like(data_type: pa.DataType) -> bool:
    """Tell whether a key or value may have this type: text or bytes of any width, or only nulls."""
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    return (
        data_type in _PLAIN_TYPES
        or pa.types.is_fixed_size_binary(data_type)
        or pa.types.is_null(data_type)
        or str(data_type) in ("binary_view", "string_view")
    )


def binary_column(array: ArrowArray, name: str) -> BinaryColumn:
    """Flatten a column of text or bytes.

    Raises
    ------
    SchemaError
        When it is of another type.
    """
    if not is_binary_like(array.type):
        raise SchemaError(f"column {name} is {array.type}, allowed are STRING and BINARY")
    if array.type not in _PLAIN_TYPES:
        array = _as_plain(array)
    offsets = _offsets(array)
    lengths = offsets[1:] - offsets[:-1]
    if array.null_count:
        lengths[_nulls(array)] = -1
    data = array.buffers()[2]
    return BinaryColumn(offsets[:-1], lengths, _bytes_of(data))


def null_column(row_count: int) -> BinaryColumn:
    """Make a column of nulls: one that is not there."""
    return BinaryColumn(np.zeros(row_count, np.int64), np.full(row_count, -1, np.int64), NO_BYTES)


def headers_column(array: ArrowArray) -> HeadersColumn:
    """Flatten a column of headers: a list of structs of a key and a value.

    Raises
    ------
    SchemaError
        When it is of another type.
    """
    if pa.types.is_null(array.type):
        return NO_HEADERS
    if not _is_headers_type(array.type):
        raise SchemaError(
            f"column headers is {array.type}, allowed is ARRAY<STRUCT<key STRING, value BINARY>>"
        )
    offsets = _offsets(array)
    lengths = offsets[1:] - offsets[:-1]
    if array.null_count:
        lengths[_nulls(array)] = 0
    items = array.values
    keys = binary_column(items.field(0), "headers.key")
    if items.null_count:
        # A null struct has no key either; its children may hold anything.
        keys.lengths[_nulls(items)] = -1
    return HeadersColumn(offsets[:-1], lengths, keys, binary_column(items.field(1), "headers"))


def _is_headers_type(data_type: pa.DataType) -> bool:
    if not (pa.types.is_list(data_type) or pa.types.is_large_list(data_type)):
        return False
    item = data_type.value_type
    return bool(
        pa.types.is_struct(item)
        and [field.name.lower() for field in item] == ["key", "value"]
        and all(is_binary_like(field.type) for field in item)
    )


def _as_plain(array: ArrowArray) -> ArrowArray:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type in _PLAIN_TYPES:
        return array
    return array.cast(pa.large_binary())


def _offsets(array: ArrowArray) -> Int64s:
    is_large = array.type in (pa.large_binary(), pa.large_string()) or pa.types.is_large_list(
        array.type
    )
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int64)
    offsets = np.frombuffer(buffer, np.int64 if is_large else np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _nulls(array: ArrowArray) -> Bools:
    nulls: Bools = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _bytes_of(buffer: pa.Buffer | None) -> Bytes:
    if buffer is None or buffer.size == 0:
        return NO_BYTES
    data = np.frombuffer(buffer, np.uint8)
    data.flags.writeable = False
    return data


def own_int64s(array: Int64s) -> Int64s:
    """Give numbers as kernels take them: contiguous and writable, copied where they are not."""
    return np.require(array, np.int64, ["C", "W"])
