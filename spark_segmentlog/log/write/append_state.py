"""Where a partition ends and what its last segment's indexes hold: all that an append starts from.

Nothing is written to find this out. The last segment's bytes are valid up to the first batch that
is cut off, or to zeros: what follows is a torn tail, which the next append cuts off. Bytes that are
neither valid nor a tail (a good batch follows them) are an error: cutting there would lose data.

How far the indexes reach is known from one of three:

- ``.segmentlog-tail`` in the partition directory, which every writer of this library leaves behind,
  if it fits: the log has the size it says, and both indexes have the checksums it says. It needs no
  fsync: what the power took with it no longer fits.
- in a cleanly shut directory, a well-formed index, after whose last entry the headers are walked;
- else nothing: the whole last segment is walked, its checksums compared, its indexes made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, NoReturn

import numpy as np

from spark_segmentlog.clock import now_ms
from spark_segmentlog.errors import CorruptRecordError, CrcMismatchError
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import (
    META_PROPERTIES,
    LeaderEpoch,
    read_leader_epochs,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import (
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    find_base_offsets,
    segment_file_name,
)
from spark_segmentlog.log.segment.growth import BatchExtents, SegmentEnd, append_batches
from spark_segmentlog.log.segment.leader_epochs import FIRST_EPOCH, load_leader_epochs
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.segment.walk_options import WalkOptions
from spark_segmentlog.record.layout import NO_TIMESTAMP
from spark_segmentlog.record.plain.crc import crc32c
from spark_segmentlog.record.read.header_table import HeaderTable, check_crcs

TAIL_FILE_NAME: Final = ".segmentlog-tail"
FORMAT_VERSION: Final = 1
ADVICE: Final = "run segmentlog verify, then segmentlog recover, before this log is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolder:
    """How a partition's folder lies in its log directory.

    Attributes
    ----------
    takes_renames : bool
        Whether a file of the log directory can be renamed into it: it is on the same disk.
    linked_inode : int or None
        Of the folder that it is a link to; None where it is none.
    """

    takes_renames: bool = True
    linked_inode: int | None = None

    @classmethod
    def look(cls, log_directory: str, directory: str) -> PartitionFolder:
        """Look at a folder that is there."""
        status = os.stat(directory)
        return cls(
            takes_renames=status.st_dev == os.stat(log_directory).st_dev
            and not os.path.ismount(directory),
            linked_inode=status.st_ino if os.path.islink(directory) else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendState:
    """The state of a partition that is about to be appended to.

    Attributes
    ----------
    log_start_offset, log_end_offset : int
        The end is exclusive.
    leader_epochs : tuple of LeaderEpoch
        The last one is that of new batches.
    epochs_are_kept : bool
        Whether `leader-epoch-checkpoint` holds just these.
    file_bytes : int
        Size of the last segment's `.log`, torn tail included; -1 where there is no segment.
    segment : SegmentEnd
        The last segment up to its end.
    indexed : SegmentEnd
        The last segment up to where its indexes are known to hold: its entries stay, those for
        batches after its `size_bytes` are made again. An empty one where nothing of them stays.
    """

    topic_partition: TopicPartition
    log_directory: str
    log_start_offset: int
    leader_epochs: tuple[LeaderEpoch, ...]
    epochs_are_kept: bool
    file_bytes: int
    segment: SegmentEnd
    indexed: SegmentEnd
    folder: PartitionFolder = PartitionFolder()

    @property
    def log_end_offset(self) -> int:
        """First offset that is free."""
        return max(self.segment.next_offset, self.log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """Leader epoch of new batches."""
        return self.leader_epochs[-1].epoch

    @property
    def directory(self) -> str:
        """The partition directory."""
        return os.path.join(self.log_directory, str(self.topic_partition))


def read_append_state(
    state: LogDirectoryState, topic_partition: TopicPartition, *, index_interval_bytes: int
) -> AppendState:
    """Find a partition's end.

    Raises
    ------
    CorruptRecordError
        Bytes in the last segment that are neither valid nor a torn tail.
    """
    directory = os.path.join(state.path, str(topic_partition))
    bases = find_base_offsets(os.listdir(directory))
    start = max(state.log_start_offset(topic_partition), bases[0] if bases else 0)
    segments = [
        Segment(
            topic_partition=topic_partition,
            directory=directory,
            base_offset=base,
            end_offset_bound=bound,
            recovery_point=state.recovery_point(topic_partition),
        )
        for base, bound in zip(bases or [start], [*bases[1:], None], strict=True)
    ]
    last = segments[-1]
    segment, indexed = _read_last_segment(state, last, index_interval_bytes, exists=bool(bases))
    checkpoint = read_leader_epochs(LOCAL, directory)
    epochs = load_leader_epochs(
        checkpoint,
        segments if bases else (),
        end_position=segment.size_bytes,
        log_end_offset=max(segment.next_offset, start),
    )
    return AppendState(
        topic_partition=topic_partition,
        log_directory=state.path,
        log_start_offset=start,
        leader_epochs=tuple(epochs),
        epochs_are_kept=epochs == checkpoint,
        file_bytes=last.size_bytes() if bases else -1,
        segment=segment,
        indexed=indexed,
        folder=PartitionFolder.look(state.path, directory),
    )


def absent_append_state(log_directory: str, topic_partition: TopicPartition) -> AppendState:
    """Describe a partition that is about to be made."""
    empty = SegmentEnd.empty(0, created_ms=now_ms())
    return AppendState(
        topic_partition=topic_partition,
        log_directory=log_directory,
        log_start_offset=0,
        leader_epochs=(LeaderEpoch(FIRST_EPOCH, 0),),
        epochs_are_kept=False,
        file_bytes=-1,
        segment=empty,
        indexed=empty,
    )


def write_tail_file(directory: str, segment_end: SegmentEnd, *, durable: bool = False) -> None:
    """Leave behind where a segment ends, for the next writer: see the module's text."""
    index_crc, time_index_crc = _index_checksums(directory, segment_end)
    fields = {
        "format": FORMAT_VERSION,
        "tail": asdict(segment_end),
        "index_crc": index_crc,
        "time_index_crc": time_index_crc,
    }
    body = json.dumps(fields, separators=(",", ":")).encode()
    data = b"%08x\n%s" % (crc32c(body), body)
    files.write_atomically(os.path.join(directory, TAIL_FILE_NAME), data, durable=durable)


def last_written_base_offset(directory: str) -> int | None:
    """Tell which segment a writer of this library last found, or left, at the end of a partition.

    What lies before it was closed and synced, or looked at, by then. None where nobody says.
    """
    remembered = _read_tail_file(directory)
    return None if remembered is None else remembered.segment_end.base_offset


def _read_last_segment(
    state: LogDirectoryState, last: Segment, index_interval_bytes: int, *, exists: bool
) -> tuple[SegmentEnd, SegmentEnd]:
    empty = SegmentEnd.empty(last.base_offset, created_ms=now_ms())
    if not exists:
        return empty, empty
    remembered = _read_tail_file(last.directory)
    if remembered is not None and _fits(last, remembered):
        return remembered.segment_end, remembered.segment_end
    indexed = _indexed_end(last, empty) if state.is_clean else empty
    flushed_bytes = _flushed_bytes(state, last, remembered)
    walked = _walk_to_end(last, indexed.size_bytes, flushed_bytes)
    if len(walked) == 0:
        # The indexed batch itself is torn: only the log's start is sure.
        indexed = empty
        walked = _walk_to_end(last, 0, flushed_bytes)
    added = append_batches(indexed, walked, index_interval_bytes=index_interval_bytes)
    return added.segment_end, indexed


# What the last writer left behind


@dataclass(frozen=True, slots=True, kw_only=True)
class _RememberedEnd:
    segment_end: SegmentEnd
    index_checksums: tuple[int, int]


def _read_tail_file(directory: str) -> _RememberedEnd | None:
    data = LOCAL.read_file(os.path.join(directory, TAIL_FILE_NAME))
    if data is None:
        return None
    checksum, _, body = data.partition(b"\n")
    if checksum != b"%08x" % crc32c(body):
        return None
    try:
        fields = json.loads(body)
        if fields["format"] != FORMAT_VERSION or set(map(type, fields["tail"].values())) != {int}:
            return None
        return _RememberedEnd(
            segment_end=SegmentEnd(**fields["tail"]),
            index_checksums=(fields["index_crc"], fields["time_index_crc"]),
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # With a right checksum, and yet not written by any release: as good as none.
        return None


def _fits(last: Segment, remembered: _RememberedEnd) -> bool:
    segment_end = remembered.segment_end
    return (
        segment_end.base_offset == last.base_offset
        and segment_end.size_bytes == last.size_bytes()
        and remembered.index_checksums == _index_checksums(last.directory, segment_end)
    )


def _flushed_bytes(
    state: LogDirectoryState, last: Segment, remembered: _RememberedEnd | None
) -> int | None:
    """Tell up to where the last segment was synced; None where this library did not write last.

    What this library wrote after that was never acknowledged, so that the first bad batch there
    ends the log, whatever the power left after it. In a broker's directory it may have been the
    broker that wrote it.
    """
    if (
        remembered is None
        or state.is_clean
        or remembered.segment_end.base_offset > last.base_offset
    ):
        return None
    if os.path.exists(os.path.join(state.path, META_PROPERTIES)):
        return None
    return (
        remembered.segment_end.size_bytes
        if remembered.segment_end.base_offset == last.base_offset
        else 0
    )


def _index_checksums(directory: str, segment_end: SegmentEnd) -> tuple[int, int]:
    """Give the checksums of the indexes; -1 for one that is missing."""
    index, times = (
        os.path.join(directory, segment_file_name(segment_end.base_offset, suffix))
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    )
    return _file_checksum(index), _file_checksum(times)


def _file_checksum(path: str) -> int:
    data = LOCAL.read_file(path)
    return -1 if data is None else crc32c(data)


# What the log says


def _walk_to_end(last: Segment, position: int, flushed_bytes: int | None) -> BatchExtents:
    """Walk the batches from a position to where the log ends.

    After `flushed_bytes` the first bytes that make no good batch are its end.
    """
    parts: list[BatchExtents] = []
    with last.open_log() as file:
        walk = HeaderWalk(last, file, WalkOptions(compares_last=True), position=position)
        tables = iter(walk)
        while (table := _next_table(tables, flushed_bytes)) is not None:
            is_good = check_crcs(walk.buffer, table, file_position=walk.file_position)
            if is_good.all():
                parts.append(batch_extents(table))
                continue
            bad = int(np.argmin(is_good))
            parts.append(batch_extents(table.select(np.arange(bad))))
            if not _is_unflushed(int(table.position[bad]), flushed_bytes):
                _refuse_bad(walk, table, bad)
            break
    return BatchExtents.concatenate(parts)


def batch_extents(table: HeaderTable) -> BatchExtents:
    """Give what indexes are made from."""
    return BatchExtents(table.size_bytes, table.last_offset, table.max_timestamp)


def _next_table(tables: Iterator[HeaderTable], flushed_bytes: int | None) -> HeaderTable | None:
    try:
        return next(tables, None)
    except CorruptRecordError as error:
        if _is_unflushed(error.position, flushed_bytes):
            return None
        raise


def _is_unflushed(position: int, flushed_bytes: int | None) -> bool:
    return flushed_bytes is not None and position >= flushed_bytes


def _refuse_bad(walk: HeaderWalk, table: HeaderTable, bad: int) -> NoReturn:
    position = int(table.position[bad])
    raise CrcMismatchError(
        f"record batch with a wrong checksum in the segment to append to: {ADVICE}",
        source=walk.segment.log_path,
        position=position,
        base_offset=int(table.base_offset[bad]),
        length=int(table.size_bytes[bad]),
    ).naming(*walk.missing_offsets(table, position))


def _indexed_end(last: Segment, empty: SegmentEnd) -> SegmentEnd:
    """Take a closed segment's state from its indexes, up to the last entry's position."""
    with last.offset_index() as index, last.time_index() as times:
        if not index.is_well_formed(whole=True) or not times.is_well_formed(whole=True):
            return empty
        entries, time_entries = index.entries(), times.entries()
    if len(entries) == 0 or len(time_entries) == 0:
        return empty
    if last.position_for(MAX_OFFSET) != int(entries["position"][-1]):
        return empty
    last_indexed = int(entries["relative_offset"][-1])
    at_intervals = time_entries[time_entries["relative_offset"] <= last_indexed]
    return SegmentEnd(
        base_offset=last.base_offset,
        next_offset=last.base_offset,
        size_bytes=int(entries["position"][-1]),
        rolling_timestamp=_first_timestamp(last),
        created_ms=empty.created_ms,
        largest_timestamp=int(time_entries["timestamp"][-1]),
        offset_of_largest_timestamp=(last.base_offset + int(time_entries["relative_offset"][-1])),
        offset_entries=len(entries),
        time_entries=len(at_intervals),
        last_index_position=int(entries["position"][-1]),
        last_time_entry=(int(at_intervals["timestamp"][-1]) if len(at_intervals) else NO_TIMESTAMP),
    )


def _first_timestamp(last: Segment) -> int:
    for table in last.headers(0, 1):
        return int(table.max_timestamp[0])
    return NO_TIMESTAMP
