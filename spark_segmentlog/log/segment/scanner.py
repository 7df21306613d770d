"""The scan of segments: which of their batches hold wanted rows, and these rows in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.io.remote_file import expect_whole, is_far
from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.log.segment import index_trust
from spark_segmentlog.log.segment.piece_choice import ChosenPiece, PieceChooser
from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES, READ_BUFFER_BYTES, ReadBuffer
from spark_segmentlog.log.segment.read_ahead import pieces_ahead
from spark_segmentlog.log.segment.scanned_piece import ScannedPiece, SharedFile, Spares
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import OnCorrupt, WalkOptions
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.record_filter import RecordFilter

if TYPE_CHECKING:
    from spark_segmentlog.log.transactions.outcomes import TransactionOutcomes

SMALL_FILE_BYTES: Final = index_trust.FAR_WINDOW_BYTES
APART_BYTES: Final = 2 * 1024 * 1024
"""Size of pieces that are decoded apart: several are in memory at once."""

ALL_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)

# Told of offsets [start, end) that a segment lacks, and why that is known.
OnLost = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What a scan gives and how strict it is; travels to tasks.

    Attributes
    ----------
    record_filter : RecordFilter
        Offsets (end exclusive) and timestamps (both inclusive), exact for each record.
    isolation_level : str
        ``read_uncommitted`` or ``read_committed``.
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
        self._decoder = _make_decoder(topic_partition, options)
        # For pieces that others decode.
        self._buffers = Spares(partial(ReadBuffer, APART_BYTES))
        self._decoders = Spares(partial(_make_decoder, topic_partition, options))

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
        outcomes: TransactionOutcomes | None = None,
        on_lost: OnLost | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the rows of a segment; some may be held back until `flush`.

        As `pieces`, with every piece decoded before the next one is chosen.
        """
        scanned = self.pieces(segment, outcomes=outcomes, on_lost=on_lost, gives_apart=False)
        with closing(scanned):
            for piece in scanned:
                yield from piece.decode()

    def pieces(
        self,
        segment: Segment,
        *,
        outcomes: TransactionOutcomes | None = None,
        on_lost: OnLost | None = None,
        gives_apart: bool = True,
    ) -> Generator[ScannedPiece]:
        """Walk a segment and give what of it holds rows, yet to be decoded, in its order.

        Parameters
        ----------
        outcomes : TransactionOutcomes, optional
            Asked for the batches that are not committed, and where the log is stable.
        on_lost : callable, optional
            Told of offsets at the segment's end that are gone, as its indexes tell.
        gives_apart : bool
            Whether large pieces of segments that begin with batches of a slow codec may be decoded
            apart from the scan; others come as fast by one thread that reads ahead. Not with
            `skip_corrupt`, where what decoding finds in one piece tells where the next one starts.

        Raises
        ------
        FileNotFoundError
            The file is gone; nothing of it was delivered.
        CorruptRecordError
            Bad bytes, unless the options say to skip them.
        """
        with SharedFile(segment.open_log()) as shared:
            file = shared.file
            end_offset = self._end_offset(segment)
            start_position = segment.start_position(
                file, self.next_offset, self.options.record_filter.min_timestamp_ms
            )
            chooser = PieceChooser(
                self.options,
                segment,
                start_offset=self.next_offset,
                end_offset=end_offset,
                outcomes=outcomes,
                on_lost=on_lost,
            )
            reads_to_end = segment.is_read_whole(end_offset) or file.size() <= SMALL_FILE_BYTES
            is_whole = start_position == 0 and reads_to_end
            if is_whole:
                expect_whole(file)
            options = WalkOptions(
                skip_corrupt=self.options.skip_corrupt,
                check_crcs=self.options.check_crcs,
                on_corrupt=self._on_corrupt,
                is_reported=chooser.is_reported,
                first_read_bytes=FIRST_READ_BYTES
                if is_whole or not is_far(file)
                else index_trust.FAR_ROWS_BYTES,
            )
            walk = HeaderWalk(segment, file, options, position=start_position, buffer=self._buffer)
            pieces = map(partial(chooser.choose, walk), walk.pieces())
            first = [*islice(pieces, 1)]
            is_apart = gives_apart and not self.options.skip_corrupt
            is_apart = is_apart and any(chosen.is_slow for chosen in first)
            following = self._following(walk, chain(first, pieces), is_apart=is_apart)
            with closing(following) as chosen_pieces:
                for chosen in chosen_pieces:
                    if chosen.selected.any():
                        if is_apart and chosen.is_worth_a_thread:
                            yield from self._apart(shared, walk, chosen)
                        else:
                            yield ScannedPiece(partial(self._decode, self._decoder, walk, chosen))
                            if is_apart and len(self._buffer.array) > READ_BUFFER_BYTES:
                                self._read_elsewhere(walk)
                        if walk.is_redirected:
                            reached = min(walk.next_offset, chosen.end_offset)
                            self.next_offset = max(self.next_offset, reached)
                            continue
                    next_offset = int(chosen.piece.table.last_offset[-1]) + 1
                    self.next_offset = max(self.next_offset, min(next_offset, chosen.end_offset))
                    if chosen.is_last:
                        return
            if on_lost is not None:
                self._look_for_lost(segment, file, walk, chooser.end_offset, on_lost)

    def _look_for_lost(
        self, segment: Segment, file: LogFile, walk: HeaderWalk, end_offset: int, on_lost: OnLost
    ) -> None:
        """Tell of offsets after the end of a closed segment that its indexes speak of."""
        if walk.known_offset >= end_offset or segment.end_offset_bound is None:
            return
        promised = segment.promised_end
        if promised is not None and walk.known_offset < promised:
            if walk.options.is_reported(walk.known_offset, promised):
                reason = f"the segment ends before offset {walk.known_offset}"
                start_offset = max(walk.known_offset, self.next_offset)
                on_lost(start_offset, min(end_offset, promised), reason)
            return
        named = index_trust.offset_beyond_end(segment, file, walk.position, walk.known_offset)
        bound = segment.end_offset_bound
        start_offset = walk.known_offset
        if named is None or not walk.options.is_reported(start_offset, bound):
            return
        reason = (
            f"the segment ends before offset {start_offset}, its index names offset {named}, "
            f"the next segment starts at {bound}"
        )
        if self.options.skip_corrupt:
            walk.report(walk.position, 0, reason, start_offset=start_offset, end_offset=bound)
        on_lost(max(start_offset, self.next_offset), min(end_offset, bound), reason)

    def _apart(
        self, shared: SharedFile, walk: HeaderWalk, chosen: ChosenPiece
    ) -> Iterator[ScannedPiece]:
        """Give a piece that has its memory and its file for as long as it holds them."""
        held_back = self._decoder.flush()
        if held_back is not None:
            yield ScannedPiece(partial(iter, [held_back]))
        held = ExitStack()
        held.callback(self._buffers.give_back, self._buffer)
        held.enter_context(shared)
        self._read_elsewhere(walk)
        yield ScannedPiece(partial(self._decode_apart, walk, chosen), held)

    def _read_elsewhere(self, walk: HeaderWalk) -> None:
        self._buffer = self._buffers.borrow()
        walk.read_into(self._buffer)

    def _decode_apart(self, walk: HeaderWalk, chosen: ChosenPiece) -> Iterator[pa.RecordBatch]:
        decoder = self._decoders.borrow()
        yield from self._decode(decoder, walk, chosen)
        rest = decoder.flush()
        self._decoders.give_back(decoder)
        if rest is not None:
            yield rest

    def _following(
        self, walk: HeaderWalk, pieces: Iterator[ChosenPiece], *, is_apart: bool
    ) -> Generator[ChosenPiece]:
        # With `skip_corrupt`, what decoding finds in one piece tells where the next one starts.
        if self.options.read_ahead and not is_apart and not self.options.skip_corrupt:
            pieces = pieces_ahead(walk, pieces)
        yield from pieces

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

    def _decode(
        self, decoder: RecordDecoder, walk: HeaderWalk, chosen: ChosenPiece
    ) -> Iterator[pa.RecordBatch]:
        piece, table = chosen.piece, chosen.piece.table
        decoder.source = walk.segment.log_path
        try:
            yield from decoder.decode(
                piece.buffer,
                table,
                chosen.selected,
                file_position=piece.file_position,
                min_offset=piece.floor,
                check_wrapper=partial(walk.check_wrapper, table),
            )
        except CorruptRecordError as error:
            if not self.options.skip_corrupt:
                raise error.naming(*walk.missing_offsets_in(piece, error.position)) from error
            walk.step_over_batch(table, error.position, error.reason)


def _make_decoder(topic_partition: TopicPartition, options: ScanOptions) -> RecordDecoder:
    limits = (
        {}
        if options.max_decompressed_bytes is None
        else {"max_decompressed_bytes": options.max_decompressed_bytes}
    )
    return RecordDecoder(
        options.columns,
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        source="",
        record_filter=options.record_filter,
        check_crcs=options.check_crcs,
        validate_first=options.skip_corrupt,
        **limits,
    )
