"""A local log directory made of all that is good of a log: on disks, in remote stores, or both.

What of each source counts is told in `replicas`. Batches keep their bytes, offsets, leader epochs
and transactions; checksums are compared, and indexes, producer snapshots and checkpoints made
again. The directory gets its name when all of it is durable. It has no clean-shutdown mark, so a
broker that is started on it looks through it. No source is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_segmentlog.errors import UnknownTopicOrPartitionError, UnsafeTargetError
from spark_segmentlog.log.formats.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    format_leader_epochs,
    format_offset_checkpoint,
    format_topic_id,
    read_topic_id,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import local_path
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.producer_replay import ProducerReplay
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.log.upkeep.batch_copy import NewSegments, WantedOffsets, copy_batches
from spark_segmentlog.log.upkeep.partitions import epochs_from
from spark_segmentlog.log.upkeep.rebuild import rebuild_indexes
from spark_segmentlog.log.upkeep.replicas import (
    JoinedLog,
    LostOffsets,
    join_replicas,
    look_at_replica,
)
from spark_segmentlog.log.upkeep.segment_survey import survey_segment
from spark_segmentlog.log.upkeep.swap import write_snapshot
from spark_segmentlog.log.upkeep.verification import known_aborts
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

UNFINISHED_SUFFIX: Final = ".salvaging"
STRADDLING: Final = "the one source that has them has them in a batch with others"

_INDEX_INTERVAL_BYTES: Final = SegmentConfig().index_interval_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedPartition:
    """One partition of the new log directory; the end is exclusive.

    Attributes
    ----------
    last_stable_offset : int
        Below the end where a transaction is open: how it ended may be among what was lost.
    sources : tuple of str
        The directories that its batches come from, the leader's first.
    lost : tuple of LostOffsets
        Offsets that were there once, and that no source has.
    """

    topic_partition: TopicPartition
    directory: str
    segments: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    sources: tuple[str, ...]
    lost: tuple[LostOffsets, ...]


def salvage(
    sources: str | Sequence[str],
    target: str,
    *,
    remote: RemoteOptions = NO_REMOTE,
    topics: Iterable[str] = (),
    topic_ids_of: str | None = None,
) -> list[SalvagedPartition]:
    """Make a log directory of all good batches of partitions that lie elsewhere.

    Parameters
    ----------
    sources : str or sequence of str
        Log directories, partition directories, or remote stores by themselves. A partition that
        lies in several of them is one log: leader epochs decide where its replicas differ.
    target : str
        A log directory that is not there yet, or is empty.
    remote : RemoteOptions
        Stores of remote segments beside log directories, and how they are read.
    topics : iterable of str
        By default all but a broker's own, and of those the partitions whose paths are given.
    topic_ids_of : str, optional
        A log directory of the cluster that the partitions are meant for, whose topics of the same
        names have other ids: those are written.

    Raises
    ------
    UnsafeTargetError
        The target holds something, an earlier run was not finished, or topics of one name have
        different ids.
    UnknownTopicOrPartitionError
        A topic is not there.
    RemoteStorageError
        A store cannot be read, or what it says of itself is not what it must be.
    """
    target = os.path.realpath(local_path(target))
    unfinished = target + UNFINISHED_SUFFIX
    _check_target(target, unfinished)
    manager = LogManager.open(sources, remote=remote, skip_corrupt=True)
    replicas = _chosen(manager, topics)
    ids = {topic_partition: _topic_id(logs) for topic_partition, logs in replicas.items()}
    known = {} if topic_ids_of is None else _topic_ids(topic_ids_of)
    files.mkdir(unfinished)
    copied = [
        _copy(
            topic_partition,
            logs,
            unfinished,
            known.get(topic_partition.topic, ids[topic_partition]),
        )
        for topic_partition, logs in replicas.items()
    ]
    starts = {partition.topic_partition: partition.start_offset for partition in copied}
    files.write_atomically(
        f"{unfinished}/{LOG_START_OFFSET_CHECKPOINT}", format_offset_checkpoint(starts)
    )
    salvaged = [_finish(partition, target) for partition in copied]
    files.fsync_directory(unfinished)
    files.rename(unfinished, target)
    files.fsync_directory(os.path.dirname(target))
    return salvaged


def _check_target(target: str, unfinished: str) -> None:
    if os.path.lexists(unfinished):
        raise UnsafeTargetError(
            f"{unfinished} is left of a salvage that was not finished: delete it"
        )
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise UnsafeTargetError(f"{target} holds something: a log is salvaged to a new directory")


def _chosen(manager: LogManager, topics: Iterable[str]) -> dict[TopicPartition, list[PartitionLog]]:
    """Choose partitions, each with all its replicas, in the order of the sources."""
    wanted = list(topics)
    present = sorted({log.topic_partition.topic for log in manager.copies})
    for topic in wanted:
        if topic not in present:
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} is not there; there are {', '.join(present)}"
            )
    chosen: dict[TopicPartition, list[PartitionLog]] = {}
    for log in manager.copies:
        topic_partition = log.topic_partition
        if (
            topic_partition.topic in wanted
            if wanted
            else topic_partition.topic not in INTERNAL_TOPICS or log.is_named
        ):
            chosen.setdefault(topic_partition, []).append(log)
    return chosen


def _topic_id(logs: Sequence[PartitionLog]) -> str | None:
    """Give the topic id that all replicas have that have one."""
    ids = {
        topic_id: log.directory
        for log in logs
        if (topic_id := read_topic_id(log.storage, log.directory)) is not None
    }
    if len(ids) > 1:
        told = ", ".join(f"{topic_id} in {directory}" for topic_id, directory in ids.items())
        raise UnsafeTargetError(
            f"partition {logs[0].topic_partition} is of topics that share a name only ({told}): "
            "name the sources of one of them"
        )
    return next(iter(ids), None)


def _topic_ids(log_directory: str) -> dict[str, str]:
    ids = {}
    for topic_partition, log in LogManager.open(log_directory).topic_partitions.items():
        topic_id = read_topic_id(log.storage, log.directory)
        if topic_id is not None:
            ids[topic_partition.topic] = topic_id
    return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copied:
    """A partition whose batches are there, and nothing beside them yet."""

    topic_partition: TopicPartition
    folder: str
    logs: Sequence[PartitionLog]
    joined: JoinedLog
    new: NewSegments
    lost: tuple[LostOffsets, ...]

    @property
    def start_offset(self) -> int:
        """Where the log starts."""
        return max(self.joined.start_offset, self.new.base_offsets[0])

    @property
    def end_offset(self) -> int:
        """Where the log ends (exclusive)."""
        return max(self.new.next_offset, self.start_offset)

    @property
    def sources(self) -> tuple[str, ...]:
        """The directories that it comes from, the leader's first."""
        joined = self.joined
        numbers = dict.fromkeys([joined.leader, *(share.number for share in joined.shares)])
        return tuple(self.logs[number].directory for number in numbers)


def _copy(
    topic_partition: TopicPartition,
    logs: Sequence[PartitionLog],
    directory: str,
    topic_id: str | None,
) -> _Copied:
    joined = join_replicas([look_at_replica(log, number) for number, log in enumerate(logs)])
    folder = f"{directory}/{topic_partition}"
    files.mkdir(folder)
    if topic_id is not None:
        files.write_atomically(f"{folder}/{PARTITION_METADATA}", format_topic_id(topic_id))
    lost = list(joined.lost)
    new = NewSegments(folder)
    try:
        for share in joined.shares:
            wanted = WantedOffsets(
                start_offset=share.start_offset,
                end_offset=share.end_offset,
                is_first=share.start_offset == joined.start_offset,
            )
            lost += [
                LostOffsets(start_offset=start, end_offset=end, detail=STRADDLING)
                for start, end in copy_batches(logs[share.number], wanted, new)
            ]
        if not new.base_offsets:
            new.begin(joined.start_offset)
        new.finish()
    finally:
        new.close()
    return _Copied(
        topic_partition=topic_partition,
        folder=folder,
        logs=logs,
        joined=joined,
        new=new,
        lost=tuple(sorted(lost, key=lambda span: span.start_offset)),
    )


def _finish(copied: _Copied, target: str) -> SalvagedPartition:
    """Make all that stands beside the batches of a partition."""
    epochs = [entry for entry in copied.joined.epochs if entry.start_offset <= copied.end_offset]
    files.write_atomically(
        f"{copied.folder}/{LEADER_EPOCH_CHECKPOINT}",
        format_leader_epochs(epochs_from(epochs, copied.start_offset)),
    )
    shares = copied.joined.shares
    first = copied.logs[shares[0].number if shares else copied.joined.leader]
    base_offset = copied.new.base_offsets[0]
    write_snapshot(copied.folder, base_offset, first.snapshot_at(base_offset) or ())
    log = PartitionLog.open(copied.folder)
    _write_indexes(log)
    files.fsync_directory(copied.folder)
    return SalvagedPartition(
        topic_partition=copied.topic_partition,
        directory=f"{target}/{copied.topic_partition}",
        segments=len(copied.new.base_offsets),
        size_bytes=copied.new.size_bytes,
        log_start_offset=copied.start_offset,
        log_end_offset=copied.end_offset,
        last_stable_offset=log.last_stable_offset(),
        sources=copied.sources,
        lost=copied.lost,
    )


def _write_indexes(log: PartitionLog) -> None:
    """Make the indexes of all segments, and snapshots where each begins and the last ends."""
    producers = ProducerReplay(log)
    end_offset = log.log_start_offset
    for segment in log.segments:
        write_snapshot(log.directory, segment.base_offset, producers.states or ())
        survey = survey_segment(segment)
        known = known_aborts(survey, producers)
        rebuild_indexes(survey, known.aborted, index_interval_bytes=_INDEX_INTERVAL_BYTES)
        end_offset = max(end_offset, survey.next_offset)
    write_snapshot(log.directory, end_offset, producers.states or ())
