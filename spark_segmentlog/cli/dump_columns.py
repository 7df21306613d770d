"""Lines of many batches and their records at once, made column by column.

They are those that `dump_entries` and `dump_text` make entry by entry, which is the rule; tests
compare them. Columns are made of what decodes as it should: where anything is odd (old formats,
bad records, times that no column holds, batches that grow large) the group is left to them, and so
is each value that is no printable ASCII.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_segmentlog.cli.dump_entries import BatchGroup
from spark_segmentlog.cli.dump_options import BytesAs
from spark_segmentlog.cli.dump_records import CODEC_NAMES, TIMESTAMP_TYPES, bytes_field
from spark_segmentlog.cli.dump_text import bytes_text
from spark_segmentlog.cli.output import printable
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.record.layout import MAGIC_V2, NO_SEQUENCE, SEQUENCES, TimestampType
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.record.types import ArrowArray, Bools, Bytes, Int32s, Int64s

_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_BINARY: Final = pa.binary()
_MAX_BYTES: Final = 64 << 20
_MAX_ROWS: Final = 1 << 18
_FIRST_PRINTABLE, _LAST_PRINTABLE = 0x20, 0x7E
_QUOTE, _BACKSLASH = 0x22, 0x5C
_BOOLEANS: Final = (b"false", b"true")

_Part = ArrowArray | bytes


@dataclass(frozen=True, slots=True)
class GroupLines:
    """Lines of a group, with their line ends, and how many batches and records they are of."""

    texts: tuple[memoryview, ...]
    batches: int
    records: int


def group_lines(group: BatchGroup, *, as_json: bool) -> GroupLines | None:
    """Make the lines of a group; None where it is to be taken entry by entry."""
    table = group.table
    if (table.magic != MAGIC_V2).any():
        return None
    records = _decoded(group)
    if records is None:
        return None
    rows = table.last_offset.searchsorted(_int64s(records.column("offset")))
    shown = np.unique(rows) if group.options.is_of_records else np.arange(len(table))
    writer = (_JsonWriter if as_json else _TextWriter)(group)
    texts: tuple[memoryview, ...] = ()
    if len(shown):
        lines = writer.batches(shown)
        texts = (_data(lines).data,)
        if len(rows):
            # Each batch stands in front of its records, and those without any after the others.
            ends = shown.searchsorted(rows, side="right")
            fronts = _parted(lines, np.append(0, ends))
            texts = (
                _data(writer.records(fronts, records, rows)).data,
                _data(lines[int(ends[-1]) :]).data,
            )
    return GroupLines(texts, len(shown), len(rows))


def _parted(lines: ArrowArray, bounds: Int64s) -> ArrowArray:
    """Join neighbouring lines: those from each bound to the next; nothing is copied."""
    offsets = _row_offsets(lines)[bounds]
    buffers = [None, pa.py_buffer(offsets), lines.buffers()[2]]
    return pa.Array.from_buffers(_BINARY, len(bounds) - 1, buffers, 0)


def _decoded(group: BatchGroup) -> pa.Table | None:
    """Decode the records that are wanted; None where not all of that is as it should be."""
    table, options = group.table, group.options
    is_decoded = options.decode and group.segment.topic_partition.topic in INTERNAL_TOPICS
    if is_decoded or (options.records and options.include_control and table.is_control.any()):
        return None
    decoder = RecordDecoder(
        _COLUMNS,
        topic=group.segment.topic_partition.topic,
        partition=group.segment.topic_partition.partition,
        source=group.segment.log_path,
        record_filter=options.record_filter,
        check_crcs=False,
    )
    if not options.records:
        return decoder.schema.empty_table()
    found: list[pa.RecordBatch] = []
    try:
        for batch in decoder.decode(group.buffer, table, file_position=group.file_position):
            found.append(batch)
            size = sum(batch.nbytes for batch in found)
            if size > _MAX_BYTES or sum(batch.num_rows for batch in found) > _MAX_ROWS:
                return None
    except SegmentLogError:
        return None
    rest = decoder.flush()
    records = pa.Table.from_batches([*found, *([rest] if rest else [])], decoder.schema)
    if options.key is not None:
        records = records.filter(pc.equal(records.column("key"), options.key))
    return records.combine_chunks()


class _Writer:
    """Writes lines of one group; `batches` those of its headers, `records` those of records."""

    def __init__(self, group: BatchGroup) -> None:
        self.segment = group.segment
        self.table = group.table
        self.is_valid = group.is_valid
        self.bytes_as = group.options.bytes_as

    def sequences(self, offsets: Int64s, rows: Int64s) -> _Part:
        if (self.table.base_sequence < 0).all():
            return str(NO_SEQUENCE).encode()
        first = self.table.base_sequence[rows]
        counted = (first + offsets - self.table.base_offset[rows]) % SEQUENCES
        return _numbers(np.where(first < 0, NO_SEQUENCE, counted))


class _TextWriter(_Writer):
    def batches(self, shown: Int64s) -> ArrowArray:
        table = self.table.select(shown)
        first = table.base_sequence
        last = (first + table.last_offset - table.base_offset) % SEQUENCES
        no_horizon = b"OptionalLong.empty"
        horizons = _joined(b"OptionalLong[", _numbers(table.base_timestamp), b"]")
        return _joined(
            *(b"baseOffset: ", _numbers(table.base_offset)),
            *(b" lastOffset: ", _numbers(table.last_offset)),
            *(b" count: ", _numbers(table.records_count)),
            *(b" baseSequence: ", _numbers(first)),
            *(b" lastSequence: ", _numbers(np.where(first == NO_SEQUENCE, first, last))),
            *(b" producerId: ", _numbers(table.producer_id)),
            *(b" producerEpoch: ", _numbers(table.producer_epoch)),
            *(b" partitionLeaderEpoch: ", _numbers(table.partition_leader_epoch)),
            *(b" isTransactional: ", _names(_BOOLEANS, table.is_transactional)),
            *(b" isControl: ", _names(_BOOLEANS, table.is_control)),
            *(b" deleteHorizonMs: ", _chosen(table.has_delete_horizon, horizons, no_horizon)),
            *(b" position: ", _numbers(table.position)),
            *(b" ", _timestamp_types(table), b": ", _numbers(table.max_timestamp)),
            *(b" size: ", _numbers(table.size_bytes)),
            b" magic: %d" % MAGIC_V2,
            *(b" compresscodec: ", _codecs(table)),
            *(b" crc: ", _numbers(table.crc)),
            *(b" isvalid: ", _names(_BOOLEANS, self.is_valid[shown])),
            b"\n",
        )

    def records(self, fronts: ArrowArray, records: pa.Table, rows: Int64s) -> ArrowArray:
        offsets = _int64s(records.column("offset"))
        key, value = _binary(records, "key"), _binary(records, "value")
        names, headers = self._headers(records.column("headers").chunk(0))
        return _joined(
            *(fronts, b"| offset: ", _numbers(offsets)),
            *(b" ", _timestamp_types(self.table, rows), b": ", _timestamps(records)),
            *(b" keySize: ", _sizes(key), b" valueSize: ", _sizes(value)),
            *(b" sequence: ", self.sequences(offsets, rows)),
            *(b" headerKeys: [", names, b"]"),
            *self._bytes(b" key: ", key),
            *self._bytes(b" payload: ", value),
            *(headers, b"\n"),
        )

    def _bytes(self, label: bytes, column: ArrowArray) -> tuple[_Part, ...]:
        """Write keys or values after a label; nothing at all for null."""

        def write(data: bytes) -> str:
            return bytes_text(bytes_field("value", data, self.bytes_as), "value") or ""

        texts = _written(column, write, is_text=self.bytes_as is BytesAs.TEXT)
        if not texts.null_count:
            return label, texts
        return (pc.fill_null(_joined(label, texts), b""),)

    def _headers(self, headers: ArrowArray) -> tuple[_Part, _Part]:
        """Write the names of headers, and the headers; both are empty for records without."""
        if headers.null_count == len(headers):
            return b"", b""
        pairs = headers.values
        names = _written(
            pairs.field("key").cast(_BINARY),
            lambda key: printable(key.decode()),
            is_text=True,
        )
        values = self._bytes(b"=", pairs.field("value"))
        joined = _listed(headers, _joined(names, *values), b",")
        present = pc.is_valid(headers).to_numpy(zero_copy_only=False)
        shown = _chosen(present, _joined(b" headers: [", joined, b"]"), b"")
        return _listed(headers, names, b","), shown


class _JsonWriter(_Writer):
    def batches(self, shown: Int64s) -> ArrowArray:
        table = self.table.select(shown)
        has_horizon = table.has_delete_horizon
        base = _numbers(table.base_timestamp)
        return _object(
            b"",
            self._place("batch"),
            {
                "position": _numbers(table.position),
                "sizeBytes": _numbers(table.size_bytes),
                "magic": str(MAGIC_V2).encode(),
                "baseOffset": _numbers(table.base_offset),
                "lastOffset": _numbers(table.last_offset),
                "recordCount": _numbers(table.records_count),
                "codec": _quoted(_codecs(table)),
                "timestampType": _quoted(_timestamp_types(table)),
                "baseTimestampMs": _chosen(~has_horizon, base, b"null"),
                "maxTimestampMs": _numbers(table.max_timestamp),
                "producerId": _numbers(table.producer_id),
                "producerEpoch": _numbers(table.producer_epoch),
                "baseSequence": _numbers(table.base_sequence),
                "partitionLeaderEpoch": _numbers(table.partition_leader_epoch),
                "isTransactional": _names(_BOOLEANS, table.is_transactional),
                "isControl": _names(_BOOLEANS, table.is_control),
                "deleteHorizonMs": _chosen(has_horizon, base, b"null"),
                "crc": _numbers(table.crc),
                "isValid": _names(_BOOLEANS, self.is_valid[shown]),
            },
        )

    def records(self, fronts: ArrowArray, records: pa.Table, rows: Int64s) -> ArrowArray:
        offsets = _int64s(records.column("offset"))
        key, value = _binary(records, "key"), _binary(records, "value")
        return _object(
            fronts,
            self._place("record"),
            {
                "offset": _numbers(offsets),
                "timestampMs": _timestamps(records),
                "timestampType": _quoted(_timestamp_types(self.table, rows)),
                "keySize": _sizes(key),
                "valueSize": _sizes(value),
                "sequence": self.sequences(offsets, rows),
                "magic": str(MAGIC_V2).encode(),
            },
            self._bytes("key", key),
            self._bytes("value", value),
            (b'"headers": [', self._headers(records.column("headers").chunk(0)), b"]"),
        )

    def _place(self, kind: str) -> bytes:
        topic_partition = self.segment.topic_partition
        place = {
            "type": kind,
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "path": self.segment.log_path,
        }
        return json.dumps(place)[1:-1].encode()

    def _bytes(self, name: str, column: ArrowArray) -> tuple[_Part, ...]:
        """Write keys or values with their names, which tell how."""
        front, end = f'"{name}": "'.encode(), b'"'
        if self.bytes_as is not BytesAs.TEXT:
            front = end = b""

        def write(data: bytes) -> str:
            return json.dumps(bytes_field(name, data, self.bytes_as))[1:-1]

        texts = _json_texts(column, write, front, end)
        if not column.null_count:
            return texts
        return (pc.fill_null(_joined(*texts), f'"{name}": null'.encode()),)

    def _headers(self, headers: ArrowArray) -> _Part:
        if headers.null_count == len(headers):
            return b""
        pairs = headers.values
        keys = _json_texts(
            pairs.field("key").cast(_BINARY),
            lambda key: json.dumps(key.decode()),
            b'"',
            b'"',
        )
        values = self._bytes("value", pairs.field("value"))
        return _listed(headers, _joined(b'{"key": ', *keys, b", ", *values, b"}"), b", ")


def _object(
    front: _Part, place: bytes, fields: dict[str, _Part], *written: Sequence[_Part]
) -> ArrowArray:
    """Make JSON objects of fields, and of fields that bring their names, after other lines."""
    parts: list[_Part] = [front, b"{", place]
    for name, values in fields.items():
        parts += [f', "{name}": '.encode(), values]
    for field in written:
        parts += [b", ", *field]
    return _joined(*parts, b"}\n")


def _joined(*parts: _Part) -> ArrowArray:
    """Join parts of each row; null where one of them is. At least one is an array."""
    merged: list[_Part] = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    scalars = [pa.scalar(value, _BINARY) if isinstance(value, bytes) else value for value in merged]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", _BINARY))


def _numbers(values: Int64s) -> ArrowArray:
    return pa.array(values).cast(pa.string()).cast(_BINARY)


def _names(names: Sequence[bytes], numbers: Int64s | Bools) -> _Part:
    """Give each row its name; one for all where it is the same."""
    first = int(numbers[0])
    if (numbers == first).all():
        return names[first]
    return pc.take(pa.array(names, _BINARY), pa.array(numbers.astype(np.int64)))


def _codecs(table: HeaderTable) -> _Part:
    return _names([name.encode() for name in CODEC_NAMES], table.codec)


def _timestamp_types(table: HeaderTable, rows: Int64s | None = None) -> _Part:
    """Name the timestamp types of batches, or of the records of these."""
    kinds = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
    numbers = table.timestamp_type
    names = [TIMESTAMP_TYPES[kind].encode() for kind in kinds]
    return _names(names, numbers if rows is None else numbers[rows])


def _timestamps(records: pa.Table) -> ArrowArray:
    """Write timestamps in milliseconds, of which whole ones were made microseconds."""
    return _numbers(_int64s(records.column("timestamp").cast(pa.int64())) // 1000)


def _sizes(column: ArrowArray) -> _Part:
    """Write sizes, -1 for null; one for all rows where they are the same."""
    sizes = pc.fill_null(pc.binary_length(column), -1).to_numpy()
    is_same = (sizes == sizes[0]).all()
    return str(sizes[0]).encode() if is_same else _numbers(sizes)


def _quoted(names: _Part) -> _Part:
    return b'"' + names + b'"' if isinstance(names, bytes) else _joined(b'"', names, b'"')


def _chosen(mask: Bools, values: ArrowArray, other: bytes) -> ArrowArray:
    return pc.if_else(pa.array(mask), values, pa.scalar(other, _BINARY))


def _listed(lists: ArrowArray, items: ArrowArray, separator: bytes) -> ArrowArray:
    """Join the items of each list; that of no items is empty."""
    whole = pa.ListArray.from_arrays(lists.offsets, items)
    return pc.binary_join(whole, pa.scalar(separator, _BINARY))


def _binary(records: pa.Table, name: str) -> ArrowArray:
    return records.column(name).chunk(0)


def _int64s(column: pa.ChunkedArray) -> Int64s:
    values: Int64s = column.to_numpy()
    return values.astype(np.int64, copy=False)


def _data(column: ArrowArray) -> Bytes:
    """Give the bytes of all rows of a column."""
    offsets = _row_offsets(column)
    data = column.buffers()[2]
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return whole[offsets[0] : offsets[-1]]


def _row_offsets(column: ArrowArray) -> Int32s:
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def _odd_rows(column: ArrowArray, *, is_text: bool) -> Bools | None:
    """Find the rows that are not printable ASCII alone, or all; None where there are none."""
    present: Bools = pc.is_valid(column).to_numpy(zero_copy_only=False)
    if not is_text:
        return present
    data = _data(column)
    if not len(data) or (data.min() >= _FIRST_PRINTABLE and data.max() <= _LAST_PRINTABLE):
        return None
    is_odd = (data - np.uint8(_FIRST_PRINTABLE)) > _LAST_PRINTABLE - _FIRST_PRINTABLE
    offsets = _row_offsets(column) - _row_offsets(column)[0]
    counts = np.append(0, np.cumsum(is_odd))
    odd: Bools = present & (counts[offsets[1:]] > counts[offsets[:-1]])
    return odd


def _written(column: ArrowArray, write: Callable[[bytes], str], *, is_text: bool) -> ArrowArray:
    """Leave rows of printable ASCII as they are, where they are text, and write all others."""
    return _replaced(column, column, write, _odd_rows(column, is_text=is_text))


def _json_texts(
    column: ArrowArray, write: Callable[[bytes], str], front: bytes, end: bytes
) -> tuple[_Part, ...]:
    """Put rows of printable ASCII between `front` and `end`, escaped, and write all others."""
    is_odd = _odd_rows(column, is_text=bool(front))
    escaped = column
    data = _data(column)
    for byte in (_BACKSLASH, _QUOTE):
        if front and (data == byte).any():
            character = bytes([byte])
            escaped = pc.replace_substring(escaped, character, b"\\" + character)
    if is_odd is None:
        return front, escaped, end
    return (_replaced(column, _joined(front, escaped, end), write, is_odd),)


def _replaced(
    column: ArrowArray, texts: ArrowArray, write: Callable[[bytes], str], is_odd: Bools | None
) -> ArrowArray:
    if is_odd is None:
        return texts
    odd = column.filter(pa.array(is_odd)).to_pylist()
    # What text mode prints of odd rows goes through the encoding of the output later on.
    written = pa.array([write(data).encode() for data in odd], _BINARY)
    return pc.replace_with_mask(texts, pa.array(is_odd), written)
