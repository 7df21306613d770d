"""Completes or rebuilds the `.index` and `.timeindex` of a segment from its batch headers.

Entries up to a known state of the segment stay; those after it are made by walking the log, by
the rules of `segment.growth`. The time index ends with the segment's largest timestamp. An index
that is made again replaces the old one by a rename. One that grows is written in place, and in one
write: where the old final entry made room for others, each of them says at least as much as it
did, so a reader beside it never finds an index that says less than before.
"""

from __future__ import annotations

import os

from spark_segmentlog.log.formats import offset_index, time_index
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from spark_segmentlog.log.segment.growth import (
    AppendedEntries,
    BatchExtents,
    SegmentEnd,
    append_batches,
    final_time_entry,
)
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.write.append_state import batch_extents


def complete_indexes(
    topic_partition: TopicPartition,
    directory: str,
    indexed: SegmentEnd,
    *,
    bytes_after: int,
    index_interval_bytes: int,
    durable: bool,
    batches: BatchExtents | None = None,
) -> SegmentEnd:
    """Walk a segment from where its indexes hold to its end, and write what they lack.

    Parameters
    ----------
    indexed : SegmentEnd
        The segment up to where its indexes hold; an empty one makes them again.
    durable : bool
        Whether to sync the indexes: only where somebody will trust them.
    batches : BatchExtents, optional
        What lies between `indexed` and the end, where it is known; else the log is walked.
    """
    if batches is None:
        segment = Segment(
            topic_partition=topic_partition, directory=directory, base_offset=indexed.base_offset
        )
        batches = _walk(segment, indexed.size_bytes, bytes_after)
    added = append_batches(indexed, batches, index_interval_bytes=index_interval_bytes)
    write_entries(directory, indexed, added, durable=durable)
    return added.segment_end


def rebuilt_indexes(
    segment: Segment, *, bytes_after: int, index_interval_bytes: int
) -> dict[str, bytes]:
    """Give what `complete_indexes` writes where it makes them again, by suffix."""
    empty = SegmentEnd.empty(segment.base_offset, created_ms=0)
    batches = _walk(segment, 0, bytes_after)
    return _entry_bytes(append_batches(empty, batches, index_interval_bytes=index_interval_bytes))


def _walk(segment: Segment, position: int, bytes_after: int) -> BatchExtents:
    parts: list[BatchExtents] = []
    if bytes_after > position:
        tables = segment.headers(position, bytes_after)
        parts.extend(batch_extents(table) for table in tables)
    return BatchExtents.concatenate(parts)


def write_entries(
    directory: str, indexed: SegmentEnd, added: AppendedEntries, *, durable: bool
) -> None:
    """Write entries after those that stay, the final time entry last."""
    kept_bytes = {
        OFFSET_INDEX_SUFFIX: indexed.offset_entries * offset_index.ENTRY.itemsize,
        TIME_INDEX_SUFFIX: indexed.time_entries * time_index.ENTRY.itemsize,
    }
    for suffix, data in _entry_bytes(added).items():
        path = os.path.join(directory, segment_file_name(indexed.base_offset, suffix))
        if indexed.size_bytes == 0:
            files.write_atomically(path, data, durable=durable)
        else:
            _write_after(path, kept_bytes[suffix], data, durable=durable)


def _entry_bytes(added: AppendedEntries) -> dict[str, bytes]:
    # Joined as bytes: numpy would turn entries that it joins to the machine's byte order.
    times = added.time_entries.tobytes() + final_time_entry(added.segment_end).tobytes()
    return {OFFSET_INDEX_SUFFIX: added.offset_entries.tobytes(), TIME_INDEX_SUFFIX: times}


def _write_after(path: str, position: int, data: bytes, *, durable: bool) -> None:
    with files.closed_after(files.open_for_update(path)) as descriptor:
        if data:
            files.write_all(descriptor, data, position)
        if os.fstat(descriptor).st_size > position + len(data):
            files.truncate(descriptor, position + len(data))
        if durable:
            files.fsync(descriptor)
