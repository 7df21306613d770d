"""One segment: a `.log` of record batches from its base offset on, and the indexes beside it.

A segment covers ``[base offset, next segment's base offset)``; its first record may lie above its
name, its last far below the next segment's. How its batches are walked, where they end and which
bytes are bad is told in `header_walk`; when an entry of an index is believed, in `index_trust`.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log import names
from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.formats.time_index import TimeEntry, TimeIndex
from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    parse_transaction_index,
)
from spark_segmentlog.log.io.reading import LOCAL, LogFile, Storage
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.segment import index_trust
from spark_segmentlog.log.segment.walk import HeaderWalk, IsReported, OnCorrupt, Piece, ReadBuffer
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs
from spark_segmentlog.record.read.record_filter import EntryChoice, RecordFilter, choose_entries
from spark_segmentlog.record.types import Bools

if TYPE_CHECKING:
    from spark_segmentlog.log.transactions.outcomes import TransactionOutcomes

MAX_TIME_WALK_BYTES: Final = 8 * 1024 * 1024
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

# Told of offsets [start, end) that a segment lacks, and why that is known.
OnLost = Callable[[int, int, str], None]


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
    read_range : tuple of (int, int), optional
        Offsets [start, end) of the read that this scan is a part of; its own where not given. What
        is reported of bad bytes is reported once a read.
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
    read_range: tuple[int, int] | None = None
    read_ahead: bool = True


@dataclass(frozen=True, slots=True)
class RemoteCopy:
    """A segment in a remote tier: the object that holds it, and the offset that it reaches, if
    that is known."""

    object_path: str
    end_offset: int | None = None


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
    reached_offset : int
        The log is known to have reached it, by its high watermark; 0 where nothing tells.
    suffix : str
        ``.swap`` while a cleaner renames it, else empty.
    is_moving : bool
        Whether it, or the one behind it, is taking the place of others at this moment: those stand
        beside it, so that offsets may be there twice.
    is_first : bool
        Whether it may be the log's first, whose first batch may begin below its base offset: a
        replica that began inside a batch, or records that were deleted, leave that.
    copy : RemoteCopy or None
        What is known of a segment that lies in a remote tier; None for a local one.
    """

    topic_partition: TopicPartition
    directory: str
    base_offset: int
    end_offset_bound: int | None
    is_index_trusted: bool = False
    recovery_point: int | None = None
    reached_offset: int = 0
    suffix: str = ""
    is_moving: bool = False
    is_first: bool = True
    copy: RemoteCopy | None = None
    storage: Storage = LOCAL

    @property
    def offset_limit(self) -> int:
        """Offset that no record of the segment reaches: the next segment's, if there is one."""
        is_open = self.end_offset_bound is None or self.is_moving
        return MAX_OFFSET if is_open else self.end_offset_bound or 0

    @property
    def log_path(self) -> str:
        """Path of the `.log` file, or of the object that it was copied to."""
        return self.stored_path if self.copy is None else self.copy.object_path

    @property
    def stored_path(self) -> str:
        """Path by which the storage knows the `.log` file."""
        return self._path(names.LOG_SUFFIX)

    @property
    def tier(self) -> str:
        """Whether it is ``local`` or ``remote``."""
        return "local" if self.copy is None else "remote"

    @property
    def promised_end(self) -> int | None:
        """Offset that its batches are known to reach; None where nothing tells.

        Those of a local log may end before the next segment, since compaction leaves offsets out.
        """
        return None if self.copy is None else self.copy.end_offset

    def size_bytes(self) -> int:
        """Measure the `.log` file."""
        return self.storage.size(self.stored_path)

    def open_log(self) -> LogFile:
        """Open the `.log` file.

        Raises
        ------
        FileNotFoundError
            It was renamed or deleted; the partition's listing is out of date.
        """
        return self.storage.open_input(self.stored_path)

    def check_bound(self) -> None:
        """Make sure that the next segment is still there: this one may have taken it over.

        Raises
        ------
        FileNotFoundError
            It is not; the partition's listing is out of date.
        """
        if self.end_offset_bound is None:
            return
        name = names.segment_file_name(self.end_offset_bound)
        paths = [f"{self.directory}/{name}{suffix}" for suffix in ("", names.SWAP_SUFFIX)]
        if not any(self.storage.exists(path) for path in paths):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), paths[0])

    def offset_index(self) -> OffsetIndex:
        """Open the `.index`; one that is missing has no entries."""
        return OffsetIndex(self._open_index(names.OFFSET_INDEX_SUFFIX), self.base_offset)

    def time_index(self) -> TimeIndex:
        """Open the `.timeindex`; one that is missing has no entries."""
        return TimeIndex(self._open_index(names.TIME_INDEX_SUFFIX), self.base_offset)

    def transaction_index(self) -> list[AbortedTransaction]:
        """Read the `.txnindex`; none where it is missing."""
        return parse_transaction_index(self.transaction_index_bytes() or b"")

    def transaction_index_bytes(self) -> bytes | None:
        """Read the bytes of the `.txnindex`, of a renamed one too; None where it is missing."""
        name = self._path(names.TRANSACTION_INDEX_SUFFIX, suffix="")
        renamed = name + names.SWAP_SUFFIX
        for path in (renamed, name) if self.suffix else (name, renamed):
            data = self.storage.read_file(path)
            if data is not None:
                return data
        return None

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
            entry = index.lookup(offset, below_position=file.size())
        is_believed = entry is not None and index_trust.is_position(self, file, entry)
        return entry.position if entry is not None and is_believed else 0

    def position_below(self, end_position: int) -> int:
        """Find where a batch starts that ends at or before a position, by the index; 0 for none."""
        with self.offset_index() as index, self.open_log() as file:
            entry = index.entry_below(end_position)
            is_believed = entry is not None and index_trust.is_position(self, file, entry)
            return entry.position if entry is not None and is_believed else 0

    def last_time_entry(self) -> TimeEntry | None:
        """Read the last entry of the `.timeindex`, if the log bears it out; None otherwise."""
        with self.time_index() as index:
            return self._believed(index.last_entry())

    def may_reach_timestamp(self, timestamp_ms: int, buffer: ReadBuffer) -> bool:
        """Tell whether a record may lie at or after a time; false only when it is known.

        Behind the last time entry headers are walked, as far as `MAX_TIME_WALK_BYTES`.
        """
        with self.time_index() as index:
            last = index.last_entry()
        if last is not None and last.timestamp >= timestamp_ms:
            return True
        with self.open_log() as file:
            is_believed = last is not None and index_trust.is_largest_timestamp(self, file, last)
            start = self.position_for(last.offset + 1, file) if last and is_believed else 0
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
            entry = self._believed(index.lookup(timestamp_ms))
        return self.base_offset if entry is None else entry.offset + 1

    def _believed(self, entry: TimeEntry | None) -> TimeEntry | None:
        if entry is None:
            return None
        with self.open_log() as file:
            return entry if index_trust.is_largest_timestamp(self, file, entry) else None

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
        check_crcs: bool = True,
    ) -> int:
        """Find the offset behind the segment's last batch, by walking headers from the last entry.

        Where a crash can have left it half written, the last batch's checksum is compared too;
        where bad bytes are skipped, those of all others, unless `check_crcs` is false.
        """
        read_buffer = buffer or ReadBuffer()
        with self.open_log() as file:
            position = self.position_for(MAX_OFFSET, file)
            is_checked = skip_corrupt, check_crcs
            found = self._next_offset_from(position, file, read_buffer, *is_checked)
            if found is None and position > 0:
                # The indexed batch itself is cut off: what lies before it is known by a walk alone.
                found = self._next_offset_from(0, file, read_buffer, *is_checked)
            return self.base_offset if found is None else found

    def _next_offset_from(
        self,
        position: int,
        file: LogFile,
        buffer: ReadBuffer,
        skip_corrupt: bool,
        check_crcs: bool,
    ) -> int | None:
        """Walk from a position to the end; None where no good batch stands from there on."""
        walk = HeaderWalk(self, file, position, buffer, skip_corrupt, None, check_crcs=check_crcs)
        last: HeaderTable | None = None
        before: int | None = None
        for table in walk:
            if len(table) > 1 or last is not None:
                before = walk.offset_before_last(table)
            last = table.select(np.array([len(table) - 1]))
        if last is None:
            return None
        return before if walk.is_torn_end(last) else walk.next_offset

    def lost_at_end(self) -> tuple[int, int] | None:
        """Find offsets [start, end) behind the last batch that were there once; None for none.

        Those that the indexes name, or that are known to have been copied.
        """
        if self.end_offset_bound is None:
            return None
        with self.open_log() as file:
            walk = HeaderWalk(self, file, 0, ReadBuffer(), True, None)
            walk.is_reported = lambda start_offset, end_offset: False
            for _ in walk:
                pass
            start_offset = walk.known_offset
            if self.promised_end is not None and start_offset < self.promised_end:
                return start_offset, self.promised_end
            named = index_trust.offset_beyond_end(self, file, walk.position, start_offset)
        return None if named is None else (start_offset, self.end_offset_bound)

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
            if self.size_bytes() > 0:
                _warn_missing(self.directory, kind)
            return None

    def _path(self, kind: str, suffix: str | None = None) -> str:
        name = names.segment_file_name(self.base_offset, kind)
        return f"{self.directory}/{name}{self.suffix if suffix is None else suffix}"


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
        outcomes: TransactionOutcomes | None = None,
        on_lost: OnLost | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the rows of a segment; some may be held back until `flush`.

        Parameters
        ----------
        start_position, end_position : int, optional
            Starts of batches; found by the filter where not given.
        outcomes : TransactionOutcomes, optional
            Asked for the batches that are not committed, and where the log is stable.
        on_lost : callable, optional
            Told of offsets at the segment's end that are gone, as its indexes tell.

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
                check_crcs=self.options.check_crcs,
            )
            chooser = _PieceChooser(
                self.options,
                segment,
                walk,
                start_offset=self.next_offset,
                end_offset=end_offset,
                end_position=end_position,
                outcomes=outcomes,
                on_lost=on_lost,
            )
            with closing(self._chosen_pieces(walk, chooser)) as chosen_pieces:
                for chosen in chosen_pieces:
                    if chosen.selected.any():
                        yield from self._decode(walk, chosen.piece, chosen.selected)
                        if walk.is_redirected:
                            reached = min(walk.next_offset, chosen.end_offset)
                            self.next_offset = max(self.next_offset, reached)
                            continue
                    next_offset = int(chosen.piece.table.last_offset[-1]) + 1
                    self.next_offset = max(self.next_offset, min(next_offset, chosen.end_offset))
                    if chosen.is_last:
                        return
            if end_position is None and on_lost is not None:
                self._look_for_lost(segment, file, walk, chooser.end_offset, on_lost)

    def _look_for_lost(
        self, segment: Segment, file: LogFile, walk: HeaderWalk, end_offset: int, on_lost: OnLost
    ) -> None:
        """Tell of offsets behind the end of a closed segment that its indexes speak of."""
        if walk.known_offset >= end_offset or segment.end_offset_bound is None:
            return
        promised = segment.promised_end
        if promised is not None and walk.known_offset < promised:
            if walk.is_reported(walk.known_offset, promised):
                reason = f"the segment ends before offset {walk.known_offset}"
                start_offset = max(walk.known_offset, self.next_offset)
                on_lost(start_offset, min(end_offset, promised), reason)
            return
        named = index_trust.offset_beyond_end(segment, file, walk.position, walk.known_offset)
        bound = segment.end_offset_bound
        start_offset = walk.known_offset
        if named is None or not walk.is_reported(start_offset, bound):
            return
        reason = (
            f"the segment ends before offset {start_offset}, its index names offset {named}, "
            f"the next segment starts at {bound}"
        )
        if self.options.skip_corrupt:
            walk.report(walk.position, 0, reason, start_offset=start_offset, end_offset=bound)
        on_lost(max(start_offset, self.next_offset), min(end_offset, bound), reason)

    def _chosen_pieces(self, walk: HeaderWalk, chooser: _PieceChooser) -> Generator[_ChosenPiece]:
        # With `skip_corrupt`, what decoding finds in one piece tells where the next one starts.
        if self.options.read_ahead and not self.options.skip_corrupt:
            yield from walk.pieces_ahead(chooser.choose)
        else:
            yield from map(chooser.choose, walk.pieces())

    def _end_offset(self, segment: Segment) -> int:
        end_offset = self.options.record_filter.end_offset
        if segment.end_offset_bound is not None:
            return min(end_offset, segment.end_offset_bound)
        if segment.recovery_point is not None and end_offset == MAX_OFFSET:
            return segment.next_offset(
                buffer=self._buffer,
                skip_corrupt=self.options.skip_corrupt,
                check_crcs=self.options.check_crcs,
            )
        return end_offset

    def _start_position(self, segment: Segment, file: LogFile) -> int:
        start_offset = self.next_offset
        min_timestamp_ms = self.options.record_filter.min_timestamp_ms
        if min_timestamp_ms is not None:
            start_offset = max(start_offset, segment.offset_below_timestamp(min_timestamp_ms))
        return segment.position_for(start_offset, file)

    def _decode(
        self, walk: HeaderWalk, piece: Piece, selected: npt.NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        table = piece.table
        try:
            yield from self._decoder.decode(
                piece.buffer,
                table,
                selected,
                file_position=piece.file_position,
                min_offset=piece.floor,
                check_wrapper=partial(walk.check_wrapper, table),
            )
        except CorruptRecordError as error:
            if not self.options.skip_corrupt:
                raise error.naming(*walk.missing_offsets(table, error.position)) from error
            walk.step_over_batch(table, error.position, error.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChosenPiece:
    """A piece of a segment, and what a scan reads of it.

    Attributes
    ----------
    selected : ndarray of bool
        The batches that may hold rows.
    end_offset : int
        Where the rows end that the scan may give, as far as is known with this piece.
    is_last : bool
        Whether nothing behind the piece is wanted.
    """

    piece: Piece
    selected: Bools
    end_offset: int
    is_last: bool


class _PieceChooser:
    """Chooses what a scan reads of a segment's pieces, in their order."""

    def __init__(
        self,
        options: ScanOptions,
        segment: Segment,
        walk: HeaderWalk,
        *,
        start_offset: int,
        end_offset: int,
        end_position: int | None,
        outcomes: TransactionOutcomes | None,
        on_lost: OnLost | None,
    ) -> None:
        self.end_offset = end_offset
        self._options = options
        self._segment = segment
        self._walk = walk
        self._start_offset = start_offset
        self._end_position = end_position
        self._outcomes = outcomes
        self._on_lost = on_lost
        self._has_begun = False
        # A walk that steps over bad bytes compares all checksums itself.
        self._compares_unread = options.check_crcs and not options.skip_corrupt
        walk.is_reported = self._reported()

    def choose(self, piece: Piece) -> _ChosenPiece:
        """Choose the batches of the next piece.

        Raises
        ------
        CorruptRecordError
            A batch that gives no row has a wrong checksum, or bad bytes lie up to the markers that
            decide.
        """
        if not self._has_begun:
            self._has_begun = True
            self._look_in_front(piece.table)
        choice = self._choice(piece)
        if self._outcomes is not None:
            uncommitted = self._outcomes.uncommitted(
                self._segment,
                piece,
                self.end_offset,
                has_transactions=choice.has_transactions,
            )
            if self._outcomes.stable_offset < self.end_offset:
                self._end_at_stable(self._outcomes)
                choice = self._choice(piece)
            if uncommitted is not None:
                choice = _without(choice, uncommitted)
        if self._compares_unread and choice.unread.any():
            self._check_unread(piece, choice.unread)
        return _ChosenPiece(
            piece=piece,
            selected=choice.selected,
            end_offset=self.end_offset,
            is_last=self._is_last(piece.table),
        )

    def _look_in_front(self, table: HeaderTable) -> None:
        """Tell of offsets in front of the first batch, where all are known to be there."""
        is_partial = self._options.record_filter.min_timestamp_ms is not None
        if self._segment.promised_end is None or self._on_lost is None or is_partial:
            return
        start, first = max(self._start_offset, self._segment.base_offset), int(table.base_offset[0])
        end = min(first, self.end_offset)
        if start < end and self._walk.is_reported(start, first):
            self._on_lost(start, end, f"the segment begins with offset {first}")

    def _choice(self, piece: Piece) -> EntryChoice:
        """Choose the entries that may hold rows of the range that were not met before."""
        wanted = replace(
            self._options.record_filter,
            start_offset=max(self._start_offset, piece.floor),
            end_offset=self.end_offset,
        )
        return choose_entries(piece.table, wanted, end_position=self._end_position)

    def _end_at_stable(self, outcomes: TransactionOutcomes) -> None:
        self.end_offset = outcomes.stable_offset
        self._walk.is_reported = self._reported()
        if self._on_lost is not None:
            for lost in outcomes.lost:
                self._on_lost(*lost, "the end of an open transaction may be there")

    def _reported(self) -> IsReported:
        """Make what tells whether missing offsets that begin somewhere are this scan's to report.

        They are reported by the scan whose range they begin in, or that begins a read inside them;
        bytes behind the last offset by the one that reads up to the segment's end.
        """
        start_offset, end_offset = self._start_offset, self.end_offset
        read_range = self._options.read_range
        first = start_offset if read_range is None else min(read_range[0], start_offset)
        last = end_offset if read_range is None else read_range[1]
        is_at_end = end_offset >= min(last, self._segment.offset_limit)

        def is_reported(missing_start: int, missing_end: int | None) -> bool:
            if missing_end is not None and max(missing_end, missing_start + 1) <= first:
                return False
            begins = max(missing_start, first)
            return start_offset <= begins and (begins < end_offset or is_at_end)

        return is_reported

    def _is_last(self, table: HeaderTable) -> bool:
        if self._end_position is not None and table.end_position >= self._end_position:
            return True
        # Bad bytes behind the last good batch are reported too, so those who skip them look on
        # until a batch lies beyond the end.
        if self._options.skip_corrupt:
            return int(table.base_offset[-1]) >= self.end_offset
        return int(table.last_offset[-1]) + 1 >= self.end_offset

    def _check_unread(self, piece: Piece, unread: Bools) -> None:
        """Compare the checksums of markers and of what was aborted, as a consumer does."""
        table = piece.table
        rows = np.flatnonzero(unread)
        good = check_crcs(piece.buffer, table.select(rows), file_position=piece.file_position)
        for row in rows[~good].tolist():
            try:
                piece.parse_batch(row, self._segment.log_path)
            except CorruptRecordError as error:
                start, end = self._walk.missing_offsets(table, int(table.position[row]))
                raise error.naming(start, end) from error


def _without(choice: EntryChoice, uncommitted: Bools) -> EntryChoice:
    """Leave out the batches that are not committed; their checksums are compared all the same."""
    left_out = choice.selected & uncommitted
    return replace(choice, selected=choice.selected & ~left_out, unread=choice.unread | left_out)


@lru_cache(maxsize=1024)
def _warn_missing(directory: str, kind: str) -> None:
    """Warn once a partition directory."""
    _log.warning("%s lacks %s files: lookups there take longer", directory, kind)
