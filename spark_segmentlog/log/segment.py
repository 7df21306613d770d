"""One segment: a `.log` of record batches from its base offset on, and the indexes beside it.

A segment covers ``[base offset, next segment's base offset)``; its first record may lie above its
name, its last far below the next segment's. Batches lie in the order of their offsets. The next
offset comes from a batch's header, never from counting records. What a file holds may be cut off
beside the reader: an incomplete last batch, or nothing but zeros, is the end. A complete last batch
with a wrong checksum is the end only where a crash can have left it: at or above the recovery point
of a directory that was not shut cleanly. Any other bad bytes are an error, or are stepped over.

Indexes are hints. A position from an index is taken only if a batch header stands there that lies
at or below the offset sought; else the walk starts at the front.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.errors import CorruptRecordError, InvalidBatchError
from spark_segmentlog.log import file_names
from spark_segmentlog.log.file_names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.files import LOCAL, LogFile, Storage, is_zero_from
from spark_segmentlog.log.offset_index import OffsetIndex
from spark_segmentlog.log.time_index import TimeIndex
from spark_segmentlog.log.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
    parse_transaction_index,
)
from spark_segmentlog.record.batch import iterate_records, parse_record_batch_header
from spark_segmentlog.record.decoder import RecordDecoder
from spark_segmentlog.record.header_table import (
    HeaderTable,
    StopReason,
    check_crcs,
    find_next_batch,
    scan_headers,
)
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    CRC_LENGTH,
    CRC_OFFSET,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_CRC_OFFSET,
    LOG_PREFIX,
    MAGIC_OFFSET,
    MAGIC_V2,
    MIN_MESSAGE_SIZE_V0,
    RECORD_BATCH_OVERHEAD,
)
from spark_segmentlog.record.record_filter import EntryChoice, RecordFilter, choose_entries

FIRST_READ_BYTES: Final = 256 * 1024
READ_BUFFER_BYTES: Final = 2 * 1024 * 1024
RESYNC_WINDOW_BYTES: Final = (8 * 1024 * 1024, 128 * 1024 * 1024)
PROBE_BYTES: Final = 128
MAX_TIME_WALK_BYTES: Final = 8 * 1024 * 1024
LARGE_BATCH_BYTES: Final = 64 * 1024 * 1024
ALL_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Bytes that were stepped over; `length` reaches up to the next good batch."""

    topic_partition: TopicPartition
    path: str
    position: int
    length: int
    reason: str


OnCorrupt = Callable[[CorruptRange], None]
FindAborted = Callable[[], AbortedTransactions]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What a scan gives and how strict it is; travels to tasks.

    Attributes
    ----------
    columns : tuple of str
        Those of the row schema to decode, in this order.
    record_filter : RecordFilter
        Offsets (end exclusive) and timestamps (both inclusive), exact for each record.
    isolation_level : str
        ``read_uncommitted`` or ``read_committed``.
    check_crcs : bool
        Whether checksums are compared.
    skip_corrupt : bool
        False: bad bytes are an error. True: they are stepped over and reported.
    fail_on_data_loss : bool
        Whether offsets that are gone are an error, or are reported and left out.
    max_decompressed_bytes : int or None
        Limit of one decompressed batch; None for the decoder's own.
    read_ahead : bool
        Whether a thread reads a piece of a large file while the one before it is decoded; to no
        avail where all cores are busy.
    """

    columns: tuple[str, ...] = ALL_COLUMNS
    record_filter: RecordFilter = field(default_factory=RecordFilter)
    isolation_level: str = "read_uncommitted"
    check_crcs: bool = True
    skip_corrupt: bool = False
    fail_on_data_loss: bool = True
    max_decompressed_bytes: int | None = None
    read_ahead: bool = True


class ReadBuffer:
    """Memory for pieces of a file, used again for each; grows only for a larger batch."""

    __slots__ = ("array",)

    def __init__(self, size_bytes: int = READ_BUFFER_BYTES) -> None:
        self.array: npt.NDArray[np.uint8] = np.empty(size_bytes, np.uint8)

    def reserve(self, size_bytes: int) -> None:
        """Make room for a batch of this size."""
        if len(self.array) < size_bytes:
            self.array = np.empty(size_bytes, np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment's place and what may be trusted of it; opens files only when asked. Pickles.

    Attributes
    ----------
    directory : str
        The partition directory.
    base_offset : int
        That of its name.
    end_offset_bound : int or None
        Base offset of the next segment; None for the last, which a broker may be writing.
    is_index_trusted : bool
        Whether a well-formed index is known to reach to the segment's end.
    recovery_point : int or None
        Of a directory that was not shut cleanly: at or above it a last batch may be half written.
        None where no crash can have left that, or nothing tells.
    suffix : str
        ``.swap`` while a cleaner renames it, else empty.
    """

    topic_partition: TopicPartition
    directory: str
    base_offset: int
    end_offset_bound: int | None
    is_index_trusted: bool = False
    recovery_point: int | None = None
    suffix: str = ""
    storage: Storage = LOCAL

    @property
    def log_path(self) -> str:
        """Path of the `.log` file."""
        return self._path(file_names.LOG_SUFFIX)

    def size_bytes(self) -> int:
        """Measure the `.log` file."""
        return self.storage.size(self.log_path)

    def open_log(self) -> LogFile:
        """Open the `.log` file.

        Raises
        ------
        FileNotFoundError
            It was renamed or deleted; the partition's listing is out of date.
        """
        return self.storage.open_input(self.log_path)

    def offset_index(self) -> OffsetIndex:
        """Open the `.index`; one that is missing has no entries."""
        return OffsetIndex(self._open_index(file_names.OFFSET_INDEX_SUFFIX), self.base_offset)

    def time_index(self) -> TimeIndex:
        """Open the `.timeindex`; one that is missing has no entries."""
        return TimeIndex(self._open_index(file_names.TIME_INDEX_SUFFIX), self.base_offset)

    def transaction_index(self) -> list[AbortedTransaction]:
        """Read the `.txnindex`; none where it is missing. Looks for a renamed one too."""
        name = self._path(file_names.TRANSACTION_INDEX_SUFFIX, suffix="")
        renamed = name + file_names.SWAP_SUFFIX
        for path in (renamed, name) if self.suffix else (name, renamed):
            data = self.storage.read_file(path)
            if data is not None:
                return parse_transaction_index(data)
        return []

    def position_for(self, offset: int, file: LogFile | None = None) -> int:
        """Find a position at or before the first batch that reaches an offset, by the index.

        Returns
        -------
        int
            Start of a batch; no record at or above `offset` lies before it.
        """
        if offset <= self.base_offset:
            return 0
        if file is None:
            with self.open_log() as opened:
                return self.position_for(offset, opened)
        with self.offset_index() as index:
            position = index.lookup(offset, below_position=file.size())
        return position if position and _stands_at(file, position, offset) else 0

    def largest_timestamp(self) -> int | None:
        """Read the largest timestamp from the `.timeindex`, in ms; None where it cannot be told."""
        if not self.is_index_trusted:
            return None
        with self.time_index() as index:
            last = index.last_entry()
        return None if last is None else last[0]

    def may_reach_timestamp(self, timestamp_ms: int, buffer: ReadBuffer) -> bool:
        """Tell whether a record may lie at or after a time; false only when it is known.

        Behind the last time entry of a segment whose index may be incomplete, headers are walked,
        as far as `MAX_TIME_WALK_BYTES`.
        """
        with self.time_index() as index:
            last = index.last_entry()
        if self.is_index_trusted and last is not None:
            return last[0] >= timestamp_ms
        if last is not None and last[0] >= timestamp_ms:
            return True
        with self.open_log() as file:
            start = 0 if last is None else self.position_for(last[1] + 1, file)
            walk = HeaderWalk(self, file, start, buffer, False, None)
            for table in walk:
                if (table.max_timestamp >= timestamp_ms).any():
                    return True
                if walk.position - start > MAX_TIME_WALK_BYTES:
                    return True
        return False

    def offset_below_timestamp(self, timestamp_ms: int) -> int:
        """Find an offset such that all records before it lie below a timestamp, by the index."""
        with self.time_index() as index:
            entry = index.lookup(timestamp_ms)
        return self.base_offset if entry is None else entry[1] + 1

    def headers(
        self,
        start_position: int = 0,
        end_position: int | None = None,
        *,
        buffer: ReadBuffer | None = None,
        skip_corrupt: bool = False,
        on_corrupt: OnCorrupt | None = None,
    ) -> Iterator[HeaderTable]:
        """Walk the batch headers, many in one table.

        Parameters
        ----------
        start_position : int
            Start of a batch.
        end_position : int, optional
            Batches that start at or behind it are left out.

        Raises
        ------
        InvalidBatchError
            Bytes that are no batch and not the end, unless `skip_corrupt` is true.
        """
        with self.open_log() as file:
            walk = HeaderWalk(
                self, file, start_position, buffer or ReadBuffer(), skip_corrupt, on_corrupt
            )
            for table in walk:
                if end_position is not None and walk.position >= end_position:
                    yield table.select(table.position < end_position)
                    return
                yield table

    def next_offset(
        self,
        *,
        buffer: ReadBuffer | None = None,
        skip_corrupt: bool = False,
    ) -> int:
        """Find the offset behind the segment's last batch, by walking headers from the last entry.

        Where a crash can have left it half written, the last batch's checksum is compared too.
        """
        read_buffer = buffer or ReadBuffer()
        with self.open_log() as file:
            position = self.position_for(MAX_OFFSET, file)
            found = self._next_offset_from(position, file, read_buffer, skip_corrupt)
            if found is None and position > 0:
                # The indexed batch itself is cut off: what lies before it is known by a walk alone.
                found = self._next_offset_from(0, file, read_buffer, skip_corrupt)
            return self.base_offset if found is None else found

    def _next_offset_from(
        self, position: int, file: LogFile, buffer: ReadBuffer, skip_corrupt: bool
    ) -> int | None:
        """Walk from a position to the end; None where no good batch stands from there on."""
        before: int | None = None
        last: HeaderTable | None = None
        for table in HeaderWalk(self, file, position, buffer, skip_corrupt, None):
            if len(table) > 1:
                before = int(table.last_offset[-2]) + 1
            elif last is not None:
                before = int(last.last_offset[-1]) + 1
            last = table.select(np.array([len(table) - 1]))
        if last is None:
            return None
        is_torn = self.is_torn_end(file, last, buffer)
        return before if is_torn else int(last.last_offset[0]) + 1

    def is_torn_end(self, file: LogFile, last: HeaderTable, buffer: ReadBuffer) -> bool:
        """Tell whether a batch, a table of one row, is the half-written last one of a crash.

        It is if it lies where a crash can have reached, its checksum is wrong, and nothing but
        zeros follow. `buffer` is overwritten.
        """
        if not self.may_end_torn(int(last.base_offset[0])):
            return False
        position, size_bytes = int(last.position[0]), int(last.size_bytes[0])
        buffer.reserve(size_bytes)
        count = file.pread_into(buffer.array, position, size_bytes)
        if count == size_bytes and check_crcs(buffer.array, last, file_position=position)[0]:
            return False
        if not is_zero_from(file, position + size_bytes, buffer.array):
            return False
        _warn_torn(self.log_path, position, "a batch with a wrong checksum")
        return True

    def may_end_torn(self, base_offset: int) -> bool:
        """Tell whether a batch at this offset may be the half-written last one of a crash."""
        return (
            self.end_offset_bound is None
            and self.recovery_point is not None
            and base_offset >= self.recovery_point
        )

    def _open_index(self, kind: str) -> LogFile | None:
        try:
            return self.storage.open_input(self._path(kind))
        except FileNotFoundError:
            _warn_missing(self.directory, kind)
            return None

    def _path(self, kind: str, suffix: str | None = None) -> str:
        name = file_names.segment_file_name(self.base_offset, kind)
        return f"{self.directory}/{name}{self.suffix if suffix is None else suffix}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a segment in memory: the headers of its batches, its bytes and where they lie.

    `file_position` is that of the first byte of `buffer`.
    """

    table: HeaderTable
    buffer: npt.NDArray[np.uint8]
    file_position: int

    def parse_batch(self, row: int, source: str) -> None:
        """Parse one batch of format 2 plainly, only to raise what is wrong with it."""
        position, size_bytes = int(self.table.position[row]), int(self.table.size_bytes[row])
        start = position - self.file_position
        batch = self.buffer.data[start : start + size_bytes]
        for _ in iterate_records(batch, source=source, file_position=position):
            pass


class HeaderWalk:
    """Tables of batch headers, one a piece of the file that is in memory.

    While a table is in hand, `buffer` holds its batches, and `file_position` is that of the first
    byte of `buffer`. Tables are never empty.
    """

    def __init__(
        self,
        segment: Segment,
        file: LogFile,
        position: int,
        read_buffer: ReadBuffer,
        skip_corrupt: bool,
        on_corrupt: OnCorrupt | None,
    ) -> None:
        self.segment = segment
        self.position = position
        self.file_position = position
        self._file = file
        self._read_buffer = read_buffer
        self._skip_corrupt = skip_corrupt
        self._on_corrupt = on_corrupt
        self.reported_offsets = (0, MAX_OFFSET)
        self._next_offset = segment.base_offset if position == 0 else 0
        self._offset_before = self._next_offset
        self._read_bytes = FIRST_READ_BYTES

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The piece of the file that is in memory."""
        return self._read_buffer.array

    def __iter__(self) -> Iterator[HeaderTable]:
        needed = 0
        while needed >= 0:
            table, is_end_of_file = self._next_table(needed)
            self.position = table.end_position
            if len(table):
                self._offset_before = self._next_offset
                self._next_offset = int(table.last_offset[-1]) + 1
                yield table
            if self.position != table.end_position:
                # Who took the table found its last batches to be bad, and chose where to go on.
                needed = 0
            elif table.stop is StopReason.END and is_end_of_file:
                return
            else:
                needed = self._after_stop(table, is_end_of_file)

    def pieces(self) -> Iterator[Piece]:
        """Give each table with its bytes, which are good until the next one is asked for."""
        for table in self:
            yield Piece(table, self.buffer, self.file_position)

    def pieces_ahead(self, is_last: Callable[[HeaderTable], bool]) -> Iterator[Piece]:
        """Give the same pieces; while one is in hand, a thread reads the next.

        Reading, walking and decoding hold no GIL. Nothing is read behind a piece that `is_last`.
        To be closed before the file is.
        """
        pieces = self.pieces()
        piece = next(pieces, None)
        if piece is None:
            return
        if self._file.size() - self.position <= FIRST_READ_BYTES:
            yield piece
            yield from pieces
            return
        buffers = [ReadBuffer(), self._read_buffer]

        def read_next() -> Piece | None:
            self._read_buffer = buffers[0]
            buffers.reverse()
            return next(pieces, None)

        with ThreadPoolExecutor(1, "segmentlog-read-ahead") as reader:
            while piece is not None:
                coming = None if is_last(piece.table) else reader.submit(read_next)
                yield piece
                piece = None if coming is None else coming.result()

    def _next_table(self, needed: int) -> tuple[HeaderTable, bool]:
        """Read the next piece of the file and its headers, and whether the file ends with it."""
        length = min(max(self._read_bytes, needed), max(len(self.buffer), needed))
        self._read_buffer.reserve(length)
        count = self._file.pread_into(self.buffer, self.position, length)
        self._read_bytes = min(self._read_bytes * 4, READ_BUFFER_BYTES)
        self.file_position = self.position
        table = scan_headers(
            self.buffer, 0, count, file_position=self.position, first_offset=self._next_offset
        )
        if not self._skip_corrupt:
            table = self._ascending(table)
        return table, count < length

    def _ascending(self, table: HeaderTable) -> HeaderTable:
        """Cut a table before a batch that does not lie behind the one before it.

        A batch's checksum does not cover its base offset, so nothing else tells that it is wrong.
        """
        row = table.unordered_row
        if row < 0:
            return table
        before = table.last_offset[row - 1] if row else self._next_offset - 1
        return HeaderTable(
            entries=table.entries[:row],
            end_position=int(table.position[row]),
            stop=StopReason.INVALID,
            reason=(
                f"base offset {table.base_offset[row]} and last offset {table.last_offset[row]} "
                f"behind offset {before}"
            ),
        )

    def _after_stop(self, table: HeaderTable, is_end_of_file: bool) -> int:
        """Decide what follows a table: bytes to read next time, or -1 for the end."""
        if table.stop is StopReason.ZERO:
            return self._after_zeros()
        if table.stop is StopReason.INVALID:
            return self.step_over(self.position, table.reason)
        if table.stop is StopReason.INCOMPLETE:
            return self._after_incomplete(table, is_end_of_file)
        return 0

    def _after_zeros(self) -> int:
        if is_zero_from(self._file, self.position, self.buffer):
            _log.debug("%s: zeros from position %d on", self.segment.log_path, self.position)
            return -1
        return self.step_over(self.position, "zeros where a batch should start, and data behind")

    def _after_incomplete(self, table: HeaderTable, is_end_of_file: bool) -> int:
        rest = self._file.size() - self.position
        if table.needed_bytes <= rest and not (is_end_of_file and table.needed_bytes == 0):
            if table.needed_bytes > LARGE_BATCH_BYTES and not self._is_good(table.needed_bytes):
                reason = f"batch of {table.needed_bytes} bytes with a wrong checksum"
                return self.step_over(self.position, reason, length=table.needed_bytes)
            return table.needed_bytes
        if rest <= 0:
            return -1
        # A batch that reaches beyond the file is a torn tail, unless good batches lie within it:
        # then its length is wrong.
        position = self._find_next(self.position + 1)
        if position < 0:
            _warn_torn(self.segment.log_path, self.position, f"{rest} bytes of a batch")
            return -1
        reason = f"batch of {table.needed_bytes} bytes, {rest} are left, good batches among them"
        return self.step_over(self.position, reason)

    def _is_good(self, size_bytes: int) -> bool:
        """Compare the checksum of a huge batch piece by piece, before memory is taken for it."""
        header = self._file.read_at(self.position, RECORD_BATCH_OVERHEAD)
        is_batch = header[MAGIC_OFFSET] == MAGIC_V2
        start, stored_at, checksum = (
            (ATTRIBUTES_OFFSET, CRC_OFFSET, crc32c.crc32c)
            if is_batch
            else (MAGIC_OFFSET, LEGACY_CRC_OFFSET, zlib.crc32)
        )
        crc = 0
        for position in range(start, size_bytes, len(self.buffer)):
            length = min(len(self.buffer), size_bytes - position)
            count = self._file.pread_into(self.buffer, self.position + position, length)
            crc = checksum(self.buffer.data[:count], crc)
        return crc == int.from_bytes(header[stored_at : stored_at + CRC_LENGTH], "big")

    def step_over(self, position: int, reason: str, *, length: int = 0) -> int:
        """Go on at the next good batch behind bad bytes; -1 where there is none.

        Raises
        ------
        InvalidBatchError
            Bad bytes are an error here.
        """
        path = self.segment.log_path
        if not self._skip_corrupt:
            raise InvalidBatchError(reason, source=path, position=position, length=length)
        first, last = self.reported_offsets
        is_ours = first <= self._next_offset <= last
        return self.go_to_next_good(position, reason, is_reported=is_ours)

    def go_to_next_good(self, position: int, reason: str, *, is_reported: bool = True) -> int:
        """Go on at the next good batch behind a position; -1 where there is none."""
        found = self._find_next(position + 1)
        end = found if found >= 0 else self._file.size()
        if is_reported:
            self.report(position, end - position, reason)
        self.position = end
        return 0 if found >= 0 else -1

    def distrust(self, table: HeaderTable, position: int) -> None:
        """Take back what the header of a bad batch said of the offsets that follow."""
        row = int(np.searchsorted(table.position, position))
        if row == len(table) - 1:
            self._next_offset = int(table.last_offset[row - 1]) + 1 if row else self._offset_before

    def report(self, position: int, length: int, reason: str) -> None:
        """Tell of bytes that are stepped over."""
        path = self.segment.log_path
        _log.warning("%s: skip %d bytes at position %d: %s", path, length, position, reason)
        if self._on_corrupt is not None:
            self._on_corrupt(
                CorruptRange(
                    topic_partition=self.segment.topic_partition,
                    path=path,
                    position=position,
                    length=length,
                    reason=reason,
                )
            )

    def follows_plausibly(self, position: int) -> bool:
        """Tell whether a batch header, or the end, stands at a position."""
        probe = np.empty(PROBE_BYTES, np.uint8)
        count = self._file.pread_into(probe, position, PROBE_BYTES)
        if count == 0:
            return True
        table = scan_headers(probe, 0, count, file_position=position)
        if len(table):
            return True
        if table.stop is StopReason.ZERO:
            return is_zero_from(self._file, position, probe)
        return table.stop is StopReason.INCOMPLETE and 0 < table.needed_bytes <= (
            self._file.size() - position
        )

    def _find_next(self, position: int) -> int:
        """Find the next good batch; the window is wider in a second pass, for larger batches."""
        size = self._file.size()
        for window in RESYNC_WINDOW_BYTES:
            found = self._find_next_within(position, size, min(window, size - position))
            if found >= 0 or size - position <= window:
                return found
        return -1

    def _find_next_within(self, position: int, size: int, window: int) -> int:
        buffer = np.empty(max(window, 0), np.uint8)
        while position < size:
            count = self._file.pread_into(buffer, position, len(buffer))
            found = find_next_batch(
                buffer, 0, count, file_position=position, min_offset=self._next_offset
            )
            if found >= 0:
                return int(found)
            if count < len(buffer) or position + count >= size:
                return -1
            position += max(count // 2, 1)
        return -1


class SegmentScanner:
    """Decodes segments of one topic partition, one after the other, with one decoder and buffer.

    `next_offset` tells how far it has come: everything below was delivered or is no row.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        options: ScanOptions,
        *,
        on_corrupt: OnCorrupt | None = None,
    ) -> None:
        self.options = options
        self.next_offset = options.record_filter.start_offset
        self._on_corrupt = on_corrupt
        self._buffer = ReadBuffer()
        limits = (
            {}
            if options.max_decompressed_bytes is None
            else {"max_decompressed_bytes": options.max_decompressed_bytes}
        )
        self._decoder = RecordDecoder(
            options.columns,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            source="",
            record_filter=options.record_filter,
            check_crcs=options.check_crcs,
            validate_first=options.skip_corrupt,
            **limits,
        )

    @property
    def schema(self) -> pa.Schema:
        """Schema of the Arrow batches."""
        return self._decoder.schema

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Give the rows that are held back until an Arrow batch is full."""
        arrow_batch = self._decoder.flush()
        if arrow_batch is not None:
            yield arrow_batch

    def scan(
        self,
        segment: Segment,
        *,
        start_position: int | None = None,
        end_position: int | None = None,
        find_aborted: FindAborted | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the rows of a segment; some may be held back until `flush`.

        Parameters
        ----------
        start_position, end_position : int, optional
            Starts of batches; found by the filter where not given.
        find_aborted : callable, optional
            Asked for the aborted transactions when the first transactional batch is met.

        Raises
        ------
        FileNotFoundError
            The file is gone; nothing of it was delivered.
        CorruptRecordError
            Bad bytes, unless the options say to skip them.
        """
        self._decoder.source = segment.log_path
        with segment.open_log() as file:
            end_offset = self._end_offset(segment)
            if start_position is None:
                start_position = self._start_position(segment, file)
            walk = HeaderWalk(
                segment,
                file,
                start_position,
                self._buffer,
                self.options.skip_corrupt,
                self._on_corrupt,
            )
            start_offset = self.next_offset
            walk.reported_offsets = (start_offset, end_offset)
            wanted = replace(
                self.options.record_filter, start_offset=start_offset, end_offset=end_offset
            )

            def is_last(table: HeaderTable) -> bool:
                is_at_end = end_position is not None and table.end_position >= end_position
                return is_at_end or self._is_past(table, end_offset)

            with closing(self._pieces(walk, is_last)) as pieces:
                for piece in pieces:
                    table = piece.table
                    choice = choose_entries(table, wanted, end_position=end_position)
                    if find_aborted is not None and choice.has_transactions:
                        choice = _without_aborted(choice, table, find_aborted())
                    if self.options.check_crcs and choice.unread.any():
                        self._check_unread(walk, piece, choice.unread)
                    if choice.selected.any():
                        yield from self._decode(walk, piece, choice.selected)
                    next_offset = min(int(table.last_offset[-1]) + 1, end_offset)
                    self.next_offset = max(self.next_offset, next_offset)
                    if is_last(table):
                        return

    def _pieces(self, walk: HeaderWalk, is_last: Callable[[HeaderTable], bool]) -> Generator[Piece]:
        # With `skip_corrupt`, what decoding finds in one piece tells where the next one starts.
        if self.options.read_ahead and not self.options.skip_corrupt:
            yield from walk.pieces_ahead(is_last)
        else:
            yield from walk.pieces()

    def _end_offset(self, segment: Segment) -> int:
        end_offset = self.options.record_filter.end_offset
        if segment.end_offset_bound is not None:
            return min(end_offset, segment.end_offset_bound)
        if segment.recovery_point is not None and end_offset == MAX_OFFSET:
            skip_corrupt = self.options.skip_corrupt
            return segment.next_offset(buffer=self._buffer, skip_corrupt=skip_corrupt)
        return end_offset

    def _start_position(self, segment: Segment, file: LogFile) -> int:
        start_offset = self.next_offset
        min_timestamp_ms = self.options.record_filter.min_timestamp_ms
        if min_timestamp_ms is not None:
            start_offset = max(start_offset, segment.offset_below_timestamp(min_timestamp_ms))
        return segment.position_for(start_offset, file)

    def _is_past(self, table: HeaderTable, end_offset: int) -> bool:
        # Bad bytes behind the last good batch are reported too, so those who skip them look on
        # until a batch lies beyond the end.
        if self.options.skip_corrupt:
            return int(table.base_offset[-1]) >= end_offset
        return int(table.last_offset[-1]) + 1 >= end_offset

    def _decode(
        self, walk: HeaderWalk, piece: Piece, selected: npt.NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        table = piece.table
        while True:
            try:
                yield from self._decoder.decode(
                    piece.buffer, table, selected, file_position=piece.file_position
                )
            except CorruptRecordError as error:
                if not self.options.skip_corrupt:
                    raise
                resume_position = self._step_over(walk, table, error)
                selected = selected & (table.position >= resume_position)
            else:
                return

    def _check_unread(self, walk: HeaderWalk, piece: Piece, unread: npt.NDArray[np.bool_]) -> None:
        """Compare the checksums of markers and of what was aborted, as a consumer does."""
        table = piece.table
        rows = np.flatnonzero(unread)
        good = check_crcs(piece.buffer, table.select(rows), file_position=piece.file_position)
        for row in rows[~good].tolist():
            try:
                piece.parse_batch(row, walk.segment.log_path)
            except CorruptRecordError as error:
                if not self.options.skip_corrupt:
                    raise
                size_bytes = int(table.size_bytes[row])
                walk.report(int(table.position[row]), size_bytes, error.reason)

    def _step_over(self, walk: HeaderWalk, table: HeaderTable, error: CorruptRecordError) -> int:
        """Find where to go on behind a bad batch: behind its length, if a batch stands there."""
        walk.distrust(table, error.position)
        end = error.position + error.length
        if error.length > 0 and walk.follows_plausibly(end):
            walk.report(error.position, error.length, error.reason)
            return end
        walk.go_to_next_good(error.position, error.reason)
        return walk.position


def _without_aborted(
    choice: EntryChoice, table: HeaderTable, aborted: AbortedTransactions
) -> EntryChoice:
    """Leave out the batches of aborted transactions."""
    is_aborted = table.is_transactional & aborted.contain(table.producer_id, table.base_offset)
    left_out = choice.selected & is_aborted
    return replace(choice, selected=choice.selected & ~left_out, unread=choice.unread | left_out)


@lru_cache(maxsize=1024)
def _warn_missing(directory: str, kind: str) -> None:
    """Warn once a partition directory."""
    _log.warning("%s lacks %s files: lookups there take longer", directory, kind)


def _warn_torn(path: str, position: int, measured: str) -> None:
    """Warn of a last batch that is cut off or half written."""
    _log.warning("%s ends at position %d: %s follow, a torn last batch", path, position, measured)


def _stands_at(file: LogFile, position: int, offset: int) -> bool:
    """Tell whether a batch that ends at or below an offset stands at a position."""
    last_offset = _last_offset_of(file.read_at(position, RECORD_BATCH_OVERHEAD))
    return last_offset is not None and last_offset <= offset


def _last_offset_of(header: bytes) -> int | None:
    """Read the last offset in a header of any format; None where it is none."""
    if len(header) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    offset, size = LOG_PREFIX.unpack_from(header)
    magic = header[MAGIC_OFFSET]
    if magic == MAGIC_V2:
        try:
            return parse_record_batch_header(header).last_offset
        except InvalidBatchError:
            return None
    is_message = magic < MAGIC_V2 and size >= MIN_MESSAGE_SIZE_V0 and offset >= 0
    return int(offset) if is_message else None
