"""Arrow batches in the making: flat buffers that kernels write, and the columns made of them.

Buffers are handed over to Arrow without a copy, and come back into use when nothing refers to the
batch any more: fresh memory costs page faults that show in the time of a scan. A batch that is kept
keeps its buffers, and others are made. A batch is cut by rows and by bytes, so that memory does not
grow with a file; one record above the limit makes a batch of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar, assert_never

import numpy as np
import pyarrow as pa

from spark_segmentlog.record.columns import (
    COLUMNS,
    HEADERS_TYPE,
    Constant,
    EntryField,
    RecordBytes,
    RecordHeaders,
    RecordNumber,
    RowColumn,
)
from spark_segmentlog.record.kernels import output as kernels
from spark_segmentlog.record.kernels.output import BinaryBuffers, Outputs, plain
from spark_segmentlog.record.types import ArrowArray, Bytes, Int32s, Int64s

_FIRST_BYTES = 64 * 1024
_FIRST_HEADERS = 1024
_MAX_POOLED = 8


class _BytesFields(NamedTuple):
    """Where the state of a decoder tells of the bytes in one field of `Outputs`."""

    used: int
    needed: int
    nulls: int | None = None


_BYTES = {
    "key": _BytesFields(kernels.KEY_BYTES, kernels.NEEDED_KEY_BYTES, kernels.KEY_NULLS),
    "value": _BytesFields(kernels.VALUE_BYTES, kernels.NEEDED_VALUE_BYTES, kernels.VALUE_NULLS),
    "header_keys": _BytesFields(kernels.HEADER_KEY_BYTES, kernels.NEEDED_HEADER_KEY_BYTES),
    "header_values": _BytesFields(
        kernels.HEADER_VALUE_BYTES, kernels.NEEDED_HEADER_VALUE_BYTES, kernels.HEADER_VALUE_NULLS
    ),
}


@dataclass(slots=True)
class _Buffers:
    """All buffers of one Arrow batch."""

    outputs: Outputs
    lent: list[weakref.ref[object]] = field(default_factory=list)

    def is_free(self) -> bool:
        return all(view() is None for view in self.lent)

    def lend(self, array: Bytes | Int32s | Int64s, count: int) -> pa.Buffer:
        """Hand the start of an array to Arrow, which keeps the view as long as it needs it."""
        view = array[:count]
        self.lent.append(weakref.ref(view))
        return pa.py_buffer(view)


class ArrowOutput:
    """Collects rows that kernels write, and makes Arrow batches of them.

    Parameters
    ----------
    columns : sequence of str
        Names of `COLUMNS`, in the order of the schema.
    partition : int
        Constants of every row.
    max_rows, max_bytes : int
        Where a batch is cut.
    """

    def __init__(
        self, columns: Sequence[str], *, topic: str, partition: int, max_rows: int, max_bytes: int
    ) -> None:
        unknown = [name for name in columns if name not in COLUMNS]
        assert not unknown, unknown
        wanted = [COLUMNS[name] for name in columns]
        self.schema = pa.schema([pa.field(column.name, column.type) for column in wanted])
        self.state: Int64s = np.zeros(kernels.STATE_FIELDS, np.int64)
        self._written = {output for column in wanted for output in column.source.outputs}
        self._entry_fields = [
            column.source.field for column in wanted if isinstance(column.source, EntryField)
        ]
        self._columns = [self._maker(column) for column in wanted]
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._constants: dict[str, str | int] = {"topic": topic, "partition": partition}
        self._repeated: dict[str, ArrowArray] = {}
        # What the next buffers should hold, as learned from those before.
        self._bytes_capacity = dict.fromkeys(_BYTES, _FIRST_BYTES)
        self._headers_capacity = _FIRST_HEADERS
        self._pool: list[_Buffers] = []
        self._use(_Buffers(self._make_outputs()))

    @property
    def count(self) -> int:
        """Rows that are waiting."""
        return int(self.state[kernels.COUNT])

    def grow(self) -> None:
        """Make room for the record that the kernel had none for."""
        grown: dict[str, Any] = {
            name: self._grown_data(name, fields) for name, fields in _BYTES.items()
        }
        size, needed = (
            len(self._buffers.outputs.header_values.valid),
            int(self.state[kernels.NEEDED_HEADERS]),
        )
        if needed > size:
            self._headers_capacity = max(needed, 2 * size)
            for name in ("header_keys", "header_values"):
                grown[name] = _with_values(grown[name], self._headers_capacity)
        self._buffers.outputs = self._buffers.outputs._replace(**grown)
        self._use(self._buffers)

    def pop_batch(self) -> pa.RecordBatch | None:
        """Make a batch of the rows that are waiting; None when there are none."""
        count = self.count
        if not count:
            return None
        arrays = [column(count) for column in self._columns]
        self._release()
        if not arrays:
            rows = pa.Array.from_buffers(pa.struct([]), count, [None])
            return pa.RecordBatch.from_struct_array(rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _grown_data(self, name: str, fields: _BytesFields) -> BinaryBuffers:
        column: BinaryBuffers = getattr(self._buffers.outputs, name)
        needed, size = int(self.state[fields.needed]), len(column.data)
        if needed > size:
            size = max(needed, min(4 * size, self._max_bytes))
            column = column._replace(data=_grown(column.data, int(self.state[fields.used]), size))
        self._bytes_capacity[name] = min(size, self._max_bytes)
        return column

    def _release(self) -> None:
        """Put the buffers aside until Arrow has done with them, and use others."""
        self.state[kernels.WRITTEN_FIELDS] = 0
        largest = max(len(self._buffers.outputs.key.data), len(self._buffers.outputs.value.data))
        if len(self._pool) < _MAX_POOLED and largest <= self._max_bytes:
            self._pool.append(self._buffers)
        for index, buffers in enumerate(self._pool):
            if buffers.is_free():
                del self._pool[index]
                buffers.lent.clear()
                self._use(buffers)
                return
        self._use(_Buffers(self._make_outputs()))

    def _use(self, buffers: _Buffers) -> None:
        self._buffers = buffers
        self.outputs = plain(buffers.outputs)

    def _make_outputs(self) -> Outputs:
        def rows(name: str) -> int:
            return self._max_rows if name in self._written else 0

        def binary(name: str, count: int) -> BinaryBuffers:
            size = self._bytes_capacity[name] if name in self._written else 0
            return BinaryBuffers(
                _starts(count), np.empty(size, np.uint8), np.empty(count, np.uint8)
            )

        headers = self._headers_capacity if "header_values" in self._written else 0
        # Of all columns, since kernels are compiled for one type of each field.
        numbers: dict[str, Any] = {
            column.source.output: np.empty(rows(column.source.output), _dtype(column.type))
            for column in COLUMNS.values()
            if type(column.source) is RecordNumber
        }
        return Outputs(
            **numbers,
            key=binary("key", rows("key")),
            value=binary("value", rows("value")),
            list_starts=_starts(rows("list_starts")),
            list_valid=np.empty(rows("list_valid"), np.uint8),
            header_keys=binary("header_keys", headers),
            header_values=binary("header_values", headers),
            entry_fields=np.empty((len(self._entry_fields), self._max_rows), np.int64),
            entry_field_numbers=np.array(self._entry_fields, np.int64),
        )

    # Columns

    def _maker(self, column: RowColumn) -> Callable[[int], ArrowArray]:
        """Choose what makes a column of so many rows, once: batches may have a thousand rows."""
        match column.source:
            case Constant(name):
                return partial(self._constant, name)
            case RecordBytes(output):
                return partial(self._binary, output, column.type)
            case RecordNumber(output):
                return partial(self._numbers, output, column.type)
            case RecordHeaders():
                return self._headers
            case EntryField(number):
                return partial(self._entry_field, self._entry_fields.index(number), column.type)
            case _ as never:
                assert_never(never)

    def _numbers(self, name: str, kind: pa.DataType, count: int) -> ArrowArray:
        values = getattr(self._buffers.outputs, name)
        return pa.Array.from_buffers(kind, count, [None, self._buffers.lend(values, count)], 0)

    def _entry_field(self, index: int, kind: pa.DataType, count: int) -> ArrowArray:
        values = self._buffers.outputs.entry_fields[index, :count].astype(_dtype(kind))
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], 0)

    def _constant(self, name: str, count: int) -> ArrowArray:
        """A column that is made once, and again when it is too short, or a slice of it."""
        column = self._repeated.get(name)
        if column is None or len(column) < count:
            rows = max(count, self._max_rows // 32)
            self._repeated[name] = column = _repeated(self._constants[name], rows)
        return column if len(column) == count else column.slice(0, count)

    def _binary(self, name: str, kind: pa.DataType, count: int) -> ArrowArray:
        column: BinaryBuffers = getattr(self._buffers.outputs, name)
        fields = _BYTES[name]
        nulls = 0 if fields.nulls is None else int(self.state[fields.nulls])
        lent = [
            _bitmap(column.valid, count) if nulls else None,
            self._buffers.lend(column.offsets, count + 1),
            self._buffers.lend(column.data, int(self.state[fields.used])),
        ]
        return pa.Array.from_buffers(kind, count, lent, nulls)

    def _headers(self, count: int) -> ArrowArray:
        entries = int(self.state[kernels.HEADERS])
        keys = self._binary("header_keys", pa.string(), entries)
        if self.state[kernels.HEADER_KEYS_NOT_ASCII]:
            keys = _valid_text(keys)
        values = self._binary("header_values", pa.binary(), entries)
        pairs = pa.Array.from_buffers(
            HEADERS_TYPE.value_type, entries, [None], 0, children=[keys, values]
        )
        nulls = int(self.state[kernels.HEADERS_NULLS])
        lent = [
            _bitmap(self._buffers.outputs.list_valid, count) if nulls else None,
            self._buffers.lend(self._buffers.outputs.list_starts, count + 1),
        ]
        return pa.Array.from_buffers(HEADERS_TYPE, count, lent, nulls, children=[pairs])


def _starts(count: int) -> Int32s:
    starts = np.empty(count + 1, np.int32)
    starts[0] = 0
    return starts


def _dtype(kind: pa.DataType) -> str:
    return f"i{kind.bit_width // 8}"


_Array = TypeVar("_Array", Bytes, Int32s)


def _grown(array: _Array, used: int, size: int) -> _Array:
    grown = np.empty(size, array.dtype)
    grown[:used] = array[:used]
    return grown


def _with_values(column: BinaryBuffers, count: int) -> BinaryBuffers:
    """Make room for so many values."""
    return column._replace(
        offsets=_grown(column.offsets, len(column.offsets), count + 1),
        valid=_grown(column.valid, len(column.valid), count),
    )


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


def _repeated(value: str | int, count: int) -> ArrowArray:
    if isinstance(value, int):
        values = np.full(count, value, np.int32)
        return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(values)])
    data = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)
