"""From batches and messages, chosen by their headers, to Arrow record batches.

`scan_headers` lists the entries of a piece of a file, the caller chooses rows, and a
`RecordDecoder` turns them into columns: one kernel call for many entries checks their checksums,
filters their records and writes those that are wanted straight into Arrow's buffers. Compressed
batches are decompressed some at a time into memory that is reused, those that do not fit there
piece by piece, and decoded from there by the same kernel. Bytes that are bad become errors of
`spark_segmentlog.errors`, worded by the plain twins in `batch` and `legacy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from spark_segmentlog.errors import InvalidRecordError, MalformedTimestampError
from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.codec.block_window import NO_LIMIT, BlockWindow, open_window
from spark_segmentlog.record.codec.codec import BlockError, BlockTooLargeError, OutputFullError
from spark_segmentlog.record.codec.codecs import first_formats
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.kernels import decode as kernels
from spark_segmentlog.record.kernels import headers, output
from spark_segmentlog.record.kernels.checksum import entry_crc_is_good
from spark_segmentlog.record.layout import COMPRESSION_CODEC_MASK, MAGIC_V2
from spark_segmentlog.record.plain.batch import BatchPlace, iterate_records
from spark_segmentlog.record.plain.legacy import iterate_messages
from spark_segmentlog.record.read.arrow_output import ArrowOutput
from spark_segmentlog.record.read.batch_groups import BatchGroups
from spark_segmentlog.record.read.decoder_input import DecoderInput, cut_into_runs
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.read.record_filter import EVERY_RECORD, RecordFilter
from spark_segmentlog.record.read.streamed_batch import BatchPiece, StreamedBatch
from spark_segmentlog.record.read.wrapper import OpenWrapper, plain_messages, wrapper_value
from spark_segmentlog.record.read.wrapper_groups import WrapperGroups
from spark_segmentlog.record.types import Bools, Bytes, Int64s, bytes_view, flat_bytes

# What is written and then read by whoever gets it stays in the CPU's cache.
ARROW_BATCH_ROWS: Final = 8192
ARROW_BATCH_BYTES: Final = 1024 * 1024
# No Arrow array of ours holds more bytes than 32-bit offsets can tell, a single huge record
# included.
_MAX_ARROW_BYTES = 1 << 30


# Told the row of a header table, the first and the last offset of a wrapper.
CheckWrapper = Callable[[int, int, int], None]


class RecordDecoder:
    """Decodes chosen batches and messages into Arrow batches; used in a task, for one file.

    Parameters
    ----------
    columns : sequence of str
        Any of key, value, topic, partition, offset, timestamp, timestampType and headers, in any
        order; nothing else is decoded. It may be empty: then batches only have a number of rows.
    partition : int
        Constants of every row.
    check_crcs : bool
        Whether checksums are compared, those of messages in wrappers included.
    validate_first : bool
        Check a batch as a whole before any of its rows is given out, so that decoding can go on
        after a bad one.
    max_arrow_rows, max_arrow_bytes : int
        Where an Arrow batch is cut. A record above the limit of bytes makes one of its own.
    max_decompressed_bytes : int
        Limit on the decompressed size of a batch or wrapper; memory needs none.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        topic: str,
        partition: int,
        source: str,
        record_filter: RecordFilter = EVERY_RECORD,
        check_crcs: bool = True,
        validate_first: bool = False,
        max_arrow_rows: int = ARROW_BATCH_ROWS,
        max_arrow_bytes: int = ARROW_BATCH_BYTES,
        max_decompressed_bytes: int = NO_LIMIT,
    ) -> None:
        max_bytes = min(max_arrow_bytes, _MAX_ARROW_BYTES)
        self._output = ArrowOutput(
            columns, topic=topic, partition=partition, max_rows=max_arrow_rows, max_bytes=max_bytes
        )
        self._topic = topic
        self._partition = partition
        self._source = source
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_bytes
        self._scratch = DecompressionBuffer(max_decompressed_bytes)
        self._groups = BatchGroups(self._scratch)
        self._wrapper_groups = WrapperGroups(self._scratch)
        self._check_wrapper: CheckWrapper | None = None
        self._first_formats = np.array(first_formats(), np.int64)
        self._start_offset = record_filter.bounds().start_offset
        self._settings = output.Settings(
            **record_filter.bounds()._asdict(),
            max_rows=max_arrow_rows,
            max_bytes=max_bytes,
            check_crcs=check_crcs,
            validate_first=validate_first,
        )

    @property
    def source(self) -> str:
        """Name of the file in errors; may be set when the next file's bytes follow."""
        return self._source

    @source.setter
    def source(self, source: str) -> None:
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        """Schema of the Arrow batches, equal to what Spark makes of the same columns (UTC)."""
        return self._output.schema

    def decode(
        self,
        buffer: Bytes,
        table: HeaderTable,
        selected: Bools | Int64s | None = None,
        *,
        file_position: int,
        min_offset: int = 0,
        check_wrapper: CheckWrapper | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Decode rows of a header table; what does not fill an Arrow batch waits for more.

        Parameters
        ----------
        buffer : ndarray of uint8
            Holds the entries; it may be used for other bytes when the iterator is exhausted.
        selected : ndarray, optional
            Mask or numbers of rows; all of them where not given. Control batches are never rows.
        file_position : int
            Position in the file of ``buffer[0]``.
        min_offset : int
            Records below it are left out, beside those that the filter leaves out.
        check_wrapper : callable, optional
            Told the row, first and last offset of a wrapper whose messages have other offsets than
            its header makes one expect, before they are decoded; may raise.

        Raises
        ------
        CorruptRecordError
            One of its subclasses, naming the entry. With `validate_first` no row of that entry was
            taken, those before it are waiting, and decoding may go on with the rows after it.
        MalformedTimestampError
            When a timestamp cannot be held by Spark, and that column is asked for.
        """
        self._check_wrapper = check_wrapper
        self._settings = self._settings._replace(start_offset=max(self._start_offset, min_offset))
        flat = flat_bytes(buffer)
        source = DecoderInput(flat, bytes_view(flat), table.entries, file_position)
        for kind, rows, spans in cut_into_runs(source, selected, self._first_formats):
            yield from self._decode_run(source, kind, rows, spans)

    @property
    def _checked_settings(self) -> output.Settings:
        """For bytes whose checksum was compared before they were decompressed."""
        return self._settings._replace(check_crcs=False)

    def flush(self) -> pa.RecordBatch | None:
        """Give out the rows that are waiting, if there are any."""
        return self._output.pop_batch()

    def _decode_run(
        self, source: DecoderInput, kind: int, rows: Int64s, spans: Int64s
    ) -> Iterator[pa.RecordBatch]:
        if kind == headers.PLAIN_BATCH:
            return self._decode_batches(source, source.buffer, rows, spans, self._settings)
        if kind == headers.COMPRESSED_BATCH:
            return self._decode_compressed(source, rows, spans)
        if kind == headers.PLAIN_MESSAGE:
            return self._decode_messages(source, rows)
        if kind == headers.WRAPPER:
            return self._decode_wrappers(source, rows)
        return self._raise_error(source, int(rows[0]))

    # Format 2

    def _decode_batches(
        self,
        source: DecoderInput,
        body: Bytes,
        rows: Int64s,
        spans: Int64s,
        settings: output.Settings,
        *,
        first: tuple[int, int] = (0, 0),
    ) -> Iterator[pa.RecordBatch]:
        written = self._output

        def step() -> int:
            return kernels.decode_batches(
                source.buffer,
                source.file_position,
                body,
                source.entries,
                rows,
                spans,
                tuple(settings),
                written.state,
                written.outputs,
            )

        return self._drive(step, source, rows, spans, first)

    def _decode_compressed(
        self, source: DecoderInput, rows: Int64s, spans: Int64s
    ) -> Iterator[pa.RecordBatch]:
        good = self._good(source, rows)
        codecs = source.entries[rows, fields.ATTRIBUTES] & COMPRESSION_CODEC_MASK
        done = 0
        while done < len(rows):
            row = int(rows[done])
            try:
                found = self._groups.decompress(
                    source, rows[done:], spans[done:], codecs[done:], good[done:]
                )
            except OutputFullError:
                yield from self._decode_streamed(source, row)
                done += 1
                continue
            if not len(found):
                self._raise_error(source, row)
            group = rows[done : done + len(found)]
            yield from self._decode_batches(
                source, self._scratch.data, group, found, self._checked_settings
            )
            done += len(found)

    def _decode_streamed(self, source: DecoderInput, row: int) -> Iterator[pa.RecordBatch]:
        """Decode one batch piece by piece: one that does not fit where ordinary ones do."""
        header = source.entries[row]
        window = BlockWindow(
            int(header[fields.ATTRIBUTES]) & COMPRESSION_CODEC_MASK,
            source.records(row),
            magic=MAGIC_V2,
            max_bytes=self._max_decompressed_bytes,
            data=self._scratch.data,
        )
        batch = StreamedBatch(window, header)
        try:
            if self._settings.validate_first:
                batch.check()
            for piece in batch.pieces():
                yield from self._decode_piece(source, piece)
        except (BlockError, BlockTooLargeError):
            self._raise_error(source, row, batch.reached)

    def _decode_piece(self, source: DecoderInput, piece: BatchPiece) -> Iterator[pa.RecordBatch]:
        alone = replace(source, entries=piece.entries)
        rows = np.zeros(1, np.int64)
        yield from self._decode_batches(
            alone, piece.body, rows, piece.spans, self._checked_settings, first=piece.first
        )

    # Formats 0 and 1

    def _decode_messages(self, source: DecoderInput, rows: Int64s) -> Iterator[pa.RecordBatch]:
        messages = plain_messages(source.entries, rows, source.file_position)
        step = self._message_step(source, source.buffer, messages, self._settings)
        return self._drive(step, source, rows)

    def _message_step(
        self, source: DecoderInput, buffer: Bytes, messages: Int64s, settings: output.Settings
    ) -> Callable[[], int]:
        written = self._output
        return lambda: kernels.decode_messages(
            buffer, source.entries, messages, tuple(settings), written.state, written.outputs
        )

    def _decode_wrappers(self, source: DecoderInput, rows: Int64s) -> Iterator[pa.RecordBatch]:
        good = self._good(source, rows)
        done = 0
        while done < len(rows):
            opened, messages = self._wrapper_groups.open(
                source, rows[done:], good[done:], check_crcs=self._check_crcs
            )
            if opened:
                yield from self._decode_wrapped(source, self._scratch.data, messages)
            else:
                yield from self._decode_wrapper(source, int(rows[done]))
            done += max(opened, 1)

    def _decode_wrapper(self, source: DecoderInput, row: int) -> Iterator[pa.RecordBatch]:
        """Decode one wrapper piece by piece: one that is not ordinary."""
        try:
            wrapper = self._unwrap(source, row)
            wrapper.check(check_crcs=self._check_crcs)
            if self._check_wrapper is not None and not wrapper.is_as_expected:
                self._check_wrapper(row, wrapper.first_offset, wrapper.last_offset)
            for messages in wrapper.messages(row):
                yield from self._decode_wrapped(source, wrapper.data, messages)
        except (BlockError, BlockTooLargeError):
            self._raise_error(source, row)

    def _decode_wrapped(
        self, source: DecoderInput, data: Bytes, messages: Int64s
    ) -> Iterator[pa.RecordBatch]:
        step = self._message_step(source, data, messages, self._checked_settings)
        return self._drive(step, source, messages[:, kernels.MESSAGE_ROW])

    def _unwrap(self, source: DecoderInput, row: int) -> OpenWrapper:
        """Open a wrapper, decompressed whole where it fits; `BlockError` where it is bad itself."""
        start, end = source.span(row)
        header = source.entries[row]
        magic = int(header[fields.MAGIC])
        block = wrapper_value(source.view[start:end], magic)
        if block is None or (self._check_crcs and not entry_crc_is_good(source.buffer, start, end)):
            raise BlockError("a wrapper with a wrong checksum, or without a value")
        self._scratch.clear()
        window = open_window(
            int(header[fields.ATTRIBUTES]) & COMPRESSION_CODEC_MASK,
            block,
            magic=magic,
            max_bytes=self._max_decompressed_bytes,
            data=self._scratch.data,
        )
        return OpenWrapper(header, window)

    # Both

    def _good(self, source: DecoderInput, rows: Int64s) -> Bools:
        """Compare the checksums of entries, where that is asked for."""
        good = np.ones(len(rows), np.bool_)
        if self._check_crcs:
            headers.check_entry_crcs(
                source.buffer, source.entries, rows, source.file_position, good
            )
        return good

    def _drive(
        self,
        step: Callable[[], int],
        source: DecoderInput,
        rows: Int64s,
        spans: Int64s | None = None,
        first: tuple[int, int] = (0, 0),
    ) -> Iterator[pa.RecordBatch]:
        """Call a kernel until its input, which comes from these rows, is used up.

        `first` is where the only one of them is taken up: its record, and where that starts.
        """
        written, state = self._output, self._output.state
        state[output.INPUT_FIELDS] = 0
        while (code := step()) != output.DONE:
            index = int(state[output.ROW])
            if code == output.OUTPUT_FULL:
                yield written.pop_batch()
            elif code == output.OUTPUT_SMALL:
                written.grow()
            elif code == output.BAD_TIMESTAMP:
                raise self._timestamp_error()
            elif code == output.BAD_RECORD and spans is not None:
                position = first[1] + int(state[output.BODY_POSITION] - spans[index, 0])
                record = first[0] + int(state[output.RECORD])
                self._raise_error(source, int(rows[index]), (record, position))
            else:
                self._raise_error(source, int(rows[index]))

    def _timestamp_error(self) -> MalformedTimestampError:
        state = self._output.state
        return MalformedTimestampError(
            f"[KAFKA_MALFORMED_RECORD_TIMESTAMP] record timestamp outside of what Spark can hold: "
            f"{state[output.BAD_TIMESTAMP_MS]} ms at topic {self._topic}, "
            f"partition {self._partition}, offset {state[output.BAD_OFFSET]}, "
            f"allowed {output.SPARK_MIN_TIMESTAMP_MS} to {output.SPARK_MAX_TIMESTAMP_MS} ms "
            f"(years 1 to 9999; file {self._source})"
        )

    def _raise_error(
        self, source: DecoderInput, row: int, first_bad: tuple[int, int] = (0, 0)
    ) -> NoReturn:
        """Raise what is wrong with an entry, as its plain twin finds it.

        `first_bad` is the record that a kernel refused and where it starts: a batch may hold
        millions before it.
        """
        start, end = source.span(row)
        header = source.entries[row]
        position = int(header[fields.POSITION])
        twin = iterate_messages
        if header[fields.MAGIC] == MAGIC_V2:
            twin = partial(iterate_records, first=first_bad)
        for _ in twin(
            source.view[start:end],
            source=self._source,
            file_position=position,
            check_crcs=self._check_crcs,
            max_decompressed_bytes=self._max_decompressed_bytes,
        ):
            pass
        place = BatchPlace(self._source, position, int(header[fields.BASE_OFFSET]), end - start)
        raise place.error(
            InvalidRecordError, "records reach beyond their batch, or their offsets do"
        )
