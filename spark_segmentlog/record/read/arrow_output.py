"""Arrow batches in the making: flat buffers that kernels write, and the columns made of them.

Buffers are handed over to Arrow without a copy, and come back into use when nothing refers to the
batch any more: fresh memory costs page faults that show in the time of a scan. A batch that is kept
keeps its buffers, and others are made. A batch is cut by rows and by bytes, so that memory does not
grow with a file; one record above the limit makes a batch of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from spark_segmentlog.record.kernels import decode as kernels
from spark_segmentlog.record.row_types import COLUMN_TYPES, HEADERS_TYPE
from spark_segmentlog.record.types import ArrowArray, Bytes, Int32s, Int64s

_FIRST_BYTES = 64 * 1024
_FIRST_HEADERS = 1024
_MAX_POOLED = 3


def _bytes_offsets(count: int) -> Int32s:
    offsets = np.empty(count + 1, np.int32)
    offsets[0] = 0
    return offsets


@dataclass(slots=True)
class _Binary:
    """Buffers of one binary column."""

    offsets: Int32s
    data: Bytes
    valid: Bytes

    @classmethod
    def of(cls, count: int, size: int) -> _Binary:
        return cls(_bytes_offsets(count), np.empty(size, np.uint8), np.empty(count, np.uint8))

    def arrays(self) -> tuple[Int32s, Bytes, Bytes]:
        return self.offsets, self.data, self.valid


@dataclass(slots=True)
class _Buffers:
    """All buffers of one Arrow batch; those of columns that are not wanted are empty."""

    offset: Int64s
    timestamp: Int64s
    timestamp_type: Int32s
    key: _Binary
    value: _Binary
    header_offsets: Int32s
    header_valid: Bytes
    header_key: _Binary
    header_value: _Binary
    lent: list[weakref.ref[object]] = field(default_factory=list)

    def outputs(self) -> kernels.Outputs:
        return (
            self.offset,
            self.timestamp,
            self.timestamp_type,
            self.key.arrays(),
            self.value.arrays(),
            self.header_offsets,
            self.header_valid,
            self.header_key.arrays(),
            self.header_value.arrays(),
        )

    def is_free(self) -> bool:
        return all(view() is None for view in self.lent)

    def lend(self, array: Bytes | Int32s | Int64s, count: int) -> pa.Buffer:
        """Hand the start of an array to Arrow, which keeps the view as long as it needs it."""
        view = array[:count]
        self.lent.append(weakref.ref(view))
        return pa.py_buffer(view)


@dataclass(slots=True)
class _Capacity:
    """What the next buffers should hold, as learned from those before."""

    key_bytes: int = _FIRST_BYTES
    value_bytes: int = _FIRST_BYTES
    headers: int = _FIRST_HEADERS
    header_key_bytes: int = _FIRST_BYTES
    header_value_bytes: int = _FIRST_BYTES


class ArrowOutput:
    """Collects rows that kernels write, and makes Arrow batches of them.

    Parameters
    ----------
    columns : sequence of str
        Names of `COLUMN_TYPES`, in the order of the schema.
    topic : str
    partition : int
        Constants of every row.
    max_rows, max_bytes : int
        Where a batch is cut.
    """

    def __init__(
        self, columns: Sequence[str], *, topic: str, partition: int, max_rows: int, max_bytes: int
    ) -> None:
        unknown = [name for name in columns if name not in COLUMN_TYPES]
        assert not unknown, unknown
        self.schema = pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in columns])
        self.state: Int64s = np.zeros(kernels.STATE_FIELDS, np.int64)
        self.outputs: kernels.Outputs
        self._columns = tuple(columns)
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._topic = topic
        self._partition = partition
        self._constants: dict[str, ArrowArray] = {}
        self._capacity = _Capacity()
        self._pool: list[_Buffers] = []
        self._use(self._make_buffers())

    @property
    def count(self) -> int:
        """Rows that are waiting."""
        return int(self.state[kernels.COUNT])

    def grow(self) -> None:
        """Make room for the record that the kernel could not place."""
        buffers, state, capacity = self._buffers, self.state, self._capacity
        key, value = buffers.header_key, buffers.header_value
        capacity.key_bytes = self._grow_data(
            buffers.key, kernels.KEY_BYTES, kernels.NEEDED_KEY_BYTES
        )
        capacity.value_bytes = self._grow_data(
            buffers.value, kernels.VALUE_BYTES, kernels.NEEDED_VALUE_BYTES
        )
        capacity.header_key_bytes = self._grow_data(
            key, kernels.HEADER_KEY_BYTES, kernels.NEEDED_HEADER_KEY_BYTES
        )
        capacity.header_value_bytes = self._grow_data(
            value, kernels.HEADER_VALUE_BYTES, kernels.NEEDED_HEADER_VALUE_BYTES
        )
        needed = int(state[kernels.NEEDED_HEADERS])
        if needed > len(value.valid):
            capacity.headers = max(needed, 2 * len(value.valid))
            for column in (key, value):
                column.offsets = _grown(column.offsets, len(column.offsets), capacity.headers + 1)
                column.valid = _grown(column.valid, len(column.valid), capacity.headers)
        self.outputs = buffers.outputs()

    def take(self) -> pa.RecordBatch | None:
        """Make a batch of the rows that are waiting; None when there are none."""
        count = self.count
        if not count:
            return None
        arrays = [self._array(name, count) for name in self._columns]
        self._release()
        if not arrays:
            rows = pa.Array.from_buffers(pa.struct([]), count, [None])
            return pa.RecordBatch.from_struct_array(rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _grow_data(self, column: _Binary, used_field: int, needed_field: int) -> int:
        needed, size = int(self.state[needed_field]), len(column.data)
        if needed > size:
            size = max(needed, min(4 * size, self._max_bytes))
            column.data = _grown(column.data, int(self.state[used_field]), size)
        return min(size, self._max_bytes)

    def _release(self) -> None:
        """Put the buffers aside until Arrow has done with them, and take others."""
        self.state[kernels.COUNT : kernels.HEADER_KEYS_NOT_ASCII + 1] = 0
        largest = max(len(self._buffers.key.data), len(self._buffers.value.data))
        if len(self._pool) < _MAX_POOLED and largest <= self._max_bytes:
            self._pool.append(self._buffers)
        for index, buffers in enumerate(self._pool):
            if buffers.is_free():
                del self._pool[index]
                buffers.lent.clear()
                self._use(buffers)
                return
        self._use(self._make_buffers())

    def _use(self, buffers: _Buffers) -> None:
        self._buffers = buffers
        self.outputs = buffers.outputs()

    def _make_buffers(self) -> _Buffers:
        capacity = self._capacity

        def rows(name: str) -> int:
            return self._max_rows if name in self._columns else 0

        def size(name: str, wanted: int) -> int:
            return wanted if name in self._columns else 0

        headers = size("headers", capacity.headers)
        return _Buffers(
            offset=np.empty(rows("offset"), np.int64),
            timestamp=np.empty(rows("timestamp"), np.int64),
            timestamp_type=np.empty(rows("timestampType"), np.int32),
            key=_Binary.of(rows("key"), size("key", capacity.key_bytes)),
            value=_Binary.of(rows("value"), size("value", capacity.value_bytes)),
            header_offsets=_bytes_offsets(rows("headers")),
            header_valid=np.empty(rows("headers"), np.uint8),
            header_key=_Binary.of(headers, size("headers", capacity.header_key_bytes)),
            header_value=_Binary.of(headers, size("headers", capacity.header_value_bytes)),
        )

    # Columns

    def _array(self, name: str, count: int) -> ArrowArray:
        buffers, state = self._buffers, self.state
        if name == "key":
            return self._binary(buffers.key, count, kernels.KEY_BYTES, kernels.KEY_NULLS)
        if name == "value":
            return self._binary(buffers.value, count, kernels.VALUE_BYTES, kernels.VALUE_NULLS)
        if name == "headers":
            return self._headers(count, int(state[kernels.HEADERS]))
        if name in ("topic", "partition"):
            return self._constant(name, count)
        arrays: dict[str, Int64s | Int32s] = {
            "offset": buffers.offset,
            "timestamp": buffers.timestamp,
            "timestampType": buffers.timestamp_type,
        }
        lent = [None, buffers.lend(arrays[name], count)]
        return pa.Array.from_buffers(COLUMN_TYPES[name], count, lent, 0)

    def _constant(self, name: str, count: int) -> ArrowArray:
        """A slice of a column that is made once, and again when it is too short."""
        column = self._constants.get(name)
        if column is None or len(column) < count:
            rows = max(count, self._max_rows // 32)
            column = (
                _repeated_text(self._topic, rows)
                if name == "topic"
                else _repeated_int(self._partition, rows)
            )
            self._constants[name] = column
        return column[:count]

    def _binary(
        self,
        column: _Binary,
        count: int,
        used_field: int,
        nulls_field: int | None,
        kind: pa.DataType = COLUMN_TYPES["key"],
    ) -> ArrowArray:
        nulls = int(self.state[nulls_field]) if nulls_field is not None else 0
        lent = [
            _bitmap(column.valid, count) if nulls else None,
            self._buffers.lend(column.offsets, count + 1),
            self._buffers.lend(column.data, int(self.state[used_field])),
        ]
        return pa.Array.from_buffers(kind, count, lent, nulls)

    def _headers(self, count: int, entries: int) -> ArrowArray:
        buffers = self._buffers
        keys = self._binary(
            buffers.header_key, entries, kernels.HEADER_KEY_BYTES, None, pa.string()
        )
        if self.state[kernels.HEADER_KEYS_NOT_ASCII]:
            keys = _valid_text(keys)
        values = self._binary(
            buffers.header_value,
            entries,
            kernels.HEADER_VALUE_BYTES,
            kernels.HEADER_VALUE_NULLS,
        )
        pairs = pa.Array.from_buffers(
            HEADERS_TYPE.value_type, entries, [None], 0, children=[keys, values]
        )
        nulls = int(self.state[kernels.HEADERS_NULLS])
        lent = [
            _bitmap(buffers.header_valid, count) if nulls else None,
            buffers.lend(buffers.header_offsets, count + 1),
        ]
        return pa.Array.from_buffers(HEADERS_TYPE, count, lent, nulls, children=[pairs])


_Array = TypeVar("_Array", Bytes, Int32s)


def _grown(array: _Array, used: int, size: int) -> _Array:
    grown = np.empty(size, array.dtype)
    grown[:used] = array[:used]
    return grown


def _bitmap(valid: Bytes, count: int) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid[:count], bitorder="little"))


def _valid_text(keys: ArrowArray) -> ArrowArray:
    """Replace what is no UTF-8, as Kafka's own client does; Arrow must not hold it as a string."""
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        texts = [key.decode("utf-8", "replace") for key in keys.cast(pa.binary()).to_pylist()]
        return pa.array(texts, pa.string())
    return keys


# Made of buffers, since pa.scalar and pa.array import pandas, which costs a new worker a second.


def _repeated_text(text: str, count: int) -> ArrowArray:
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _repeated_int(value: int, count: int) -> ArrowArray:
    values = np.full(count, value, np.int32)
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(values)])
