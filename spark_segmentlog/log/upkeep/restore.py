"""A local log directory made of a log that lies elsewhere: in remote stores, or there and on disk.

Segments keep their bytes, offsets, leader epochs and transactions; checksums are compared on the
way, and indexes made again. The directory gets its name when all of it is durable. It has no
clean-shutdown mark, so a broker that is started on it looks through it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_segmentlog.errors import (
    CrcMismatchError,
    DataLossError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.formats.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    PartitionMetadata,
    format_leader_epochs,
    format_offset_checkpoint,
    format_partition_metadata,
    read_partition_metadata,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import local_path
from spark_segmentlog.log.names import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.batch_order import WRONG_CHECKSUM
from spark_segmentlog.log.segment.pieces import Piece
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.log.upkeep.partitions import epochs_from
from spark_segmentlog.log.upkeep.recovery import reindex
from spark_segmentlog.record.read.header_table import check_crcs
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

UNFINISHED_SUFFIX: Final = ".restoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """One partition that was restored; the end is exclusive."""

    topic_partition: TopicPartition
    directory: str
    segments: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int


def restore(
    paths: str | Sequence[str],
    target: str,
    *,
    remote: RemoteOptions = NO_REMOTE,
    topics: Iterable[str] = (),
    topic_ids_of: str | None = None,
) -> list[RestoredPartition]:
    """Make a log directory of partitions that lie elsewhere.

    Parameters
    ----------
    paths : str or sequence of str
        Log directories, or remote stores by themselves.
    target : str
        A log directory that is not there yet, or is empty.
    remote : RemoteOptions
        Stores of remote segments beside log directories, and how they are read.
    topics : iterable of str
        By default all but a broker's own.
    topic_ids_of : str, optional
        A log directory of the cluster that the partitions are meant for, whose topics of the same
        names have other ids: those are written.

    Raises
    ------
    UnsafeTargetError
        The target holds something, or an earlier restore was not finished.
    DataLossError
        Offsets of the log are not there.
    CorruptRecordError, RemoteStorageError
        Bytes that are not what they must be.
    UnknownTopicOrPartitionError
        A topic is not there.
    """
    target = os.path.realpath(local_path(target))
    unfinished = target + UNFINISHED_SUFFIX
    _check_target(target, unfinished)
    logs = _chosen(LogManager.open(paths, remote=remote), topics)
    ids = {} if topic_ids_of is None else _topic_ids(topic_ids_of)
    files.mkdir(unfinished)
    restored = [_restore(log, unfinished, target, ids) for log in logs]
    starts = {it.topic_partition: it.log_start_offset for it in restored}
    files.write_atomically(
        f"{unfinished}/{LOG_START_OFFSET_CHECKPOINT}", format_offset_checkpoint(starts)
    )
    reindex(unfinished)
    files.fsync_directory(unfinished)
    if os.path.isdir(target):
        files.rmdir(target)
    files.rename(unfinished, target)
    files.fsync_directory(os.path.dirname(target))
    return restored


def _check_target(target: str, unfinished: str) -> None:
    if os.path.lexists(unfinished):
        raise UnsafeTargetError(
            f"{unfinished} is left of a restore that was not finished: delete it"
        )
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise UnsafeTargetError(f"{target} holds something: a log is restored to a new directory")


def _chosen(manager: LogManager, topics: Iterable[str]) -> list[PartitionLog]:
    wanted = list(topics)
    for topic in wanted:
        if topic not in manager.topics():
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} is not there; there are {', '.join(manager.topics())}"
            )
    return [
        log
        for it, log in manager.topic_partitions.items()
        if (it.topic in wanted if wanted else it.topic not in INTERNAL_TOPICS)
    ]


def _topic_ids(log_directory: str) -> dict[str, PartitionMetadata]:
    ids = {}
    for it, log in LogManager.open(log_directory).topic_partitions.items():
        metadata = read_partition_metadata(log.storage, log.directory)
        if metadata is not None:
            ids[it.topic] = metadata
    return ids


def _restore(
    log: PartitionLog, directory: str, target: str, ids: Mapping[str, PartitionMetadata]
) -> RestoredPartition:
    topic_partition = log.topic_partition
    start, end = log.log_start_offset, log.log_end_offset
    folder = f"{directory}/{topic_partition}"
    files.mkdir(folder)
    metadata = ids.get(topic_partition.topic) or read_partition_metadata(log.storage, log.directory)
    if metadata is not None:
        files.write_atomically(
            f"{folder}/{PARTITION_METADATA}", format_partition_metadata(metadata)
        )
    epochs = epochs_from(log.leader_epochs, start)
    files.write_atomically(f"{folder}/{LEADER_EPOCH_CHECKPOINT}", format_leader_epochs(epochs))
    segments = list(log.segments_between(start, end))
    reached, size_bytes = start, 0
    for segment in segments:
        try:
            reached, copied = _copy(segment, folder, reached, end)
        except FileNotFoundError as error:
            raise _lost(log, reached, segment.end_offset_bound or end) from error
        size_bytes += copied
    if reached < end:
        raise _lost(log, reached, end)
    if not segments:
        files.write_atomically(f"{folder}/{segment_file_name(start)}", b"")
    files.fsync_directory(folder)
    return RestoredPartition(
        topic_partition=topic_partition,
        directory=f"{target}/{topic_partition}",
        segments=max(len(segments), 1),
        size_bytes=size_bytes,
        log_start_offset=start,
        log_end_offset=end,
    )


def _copy(segment: Segment, folder: str, reached: int, end_offset: int) -> tuple[int, int]:
    """Copy the batches of a segment that are its part of the log; its indexes are left empty.

    Returns
    -------
    tuple of (int, int)
        The offset after the last one, and how many bytes there are.
    """
    bound = end_offset if segment.end_offset_bound is None else segment.end_offset_bound
    position = 0
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        files.write_atomically(f"{folder}/{segment_file_name(segment.base_offset, suffix)}", b"")
    descriptor = files.create_exclusive(f"{folder}/{segment_file_name(segment.base_offset)}")
    try:
        with segment.walk() as walk:
            for piece in walk.pieces():
                _check(piece, segment)
                table = piece.table
                wanted = np.flatnonzero(table.base_offset < min(bound, end_offset))
                if len(wanted) == 0:
                    break
                first = int(table.position[0]) - piece.file_position
                last = wanted[-1]
                end = int(table.position[last] + table.size_bytes[last]) - piece.file_position
                files.write_all(descriptor, piece.buffer.data[first:end], position)
                position += end - first
                begin = int(table.base_offset[0])
                if segment.promised_end is not None and begin > max(reached, segment.base_offset):
                    raise _lost(segment, reached, begin)
                reached = max(reached, int(table.last_offset[last]) + 1)
        if segment.promised_end is not None and reached < min(segment.promised_end, end_offset):
            raise _lost(segment, reached, segment.promised_end)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    return reached, position


def _check(piece: Piece, segment: Segment) -> None:
    """Compare the checksums of a piece's batches."""
    table = piece.table
    good = check_crcs(piece.buffer, table, file_position=piece.file_position)
    for row in np.flatnonzero(~good).tolist():
        raise CrcMismatchError(
            WRONG_CHECKSUM,
            source=segment.log_path,
            position=int(table.position[row]),
            base_offset=int(table.base_offset[row]),
        )


def _lost(place: PartitionLog | Segment, start_offset: int, end_offset: int) -> DataLossError:
    return DataLossError(
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        f"could not restore offsets [{start_offset}, {end_offset}) of topic partition "
        f"{place.topic_partition}: they are not in {place.directory}",
    )
