"""The topic ``__remote_log_metadata`` of log directories, read as far as it has grown.

All records of a partition are in one partition of the topic, in their order. The last state of a
segment counts; an update does not repeat what the first record of its segment said.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.directory.listing import list_partition
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.names import (
    TopicPartition,
    find_topic_partition,
)
from spark_segmentlog.log.segment.scanner import ScanOptions, SegmentScanner
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.tier.metadata_records import (
    MetadataRecord,
    PartitionDelete,
    SegmentRecord,
    SegmentUpdate,
    parse_metadata_record,
)
from spark_segmentlog.log.tier.remote_segment import TopicIdPartition
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.record.system.message_reader import MessageError
from spark_segmentlog.record.system.topics import REMOTE_LOG_METADATA

_COLUMNS: Final = ("offset", "value")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class PartitionRecords:
    """What the topic tells of one partition.

    Attributes
    ----------
    segments : dict of str to SegmentRecord
        By id, each with its last state, in the order in which their copies began.
    is_whole : bool
        Whether all that is told of is known: no update of a segment without its first record.
    """

    segments: dict[str, SegmentRecord] = field(default_factory=dict)
    is_whole: bool = True


class MetadataTopic:
    """What the topic tells of all partitions, as of the last `refresh`.

    Parameters
    ----------
    log_directories : sequence of (Storage, str)
        In which partitions of the topic may lie.
    """

    def __init__(self, log_directories: Sequence[tuple[Storage, str]]) -> None:
        self._log_directories = tuple(log_directories)
        self._partitions: dict[TopicIdPartition, PartitionRecords] = {}
        self._reached: dict[str, int] = {}

    def find(self, partition: TopicIdPartition) -> PartitionRecords | None:
        """Give what is told of a partition; None for nothing, or not all there is."""
        found = self._partitions.get(partition)
        return found if found is not None and found.is_whole else None

    def partitions(self) -> list[TopicIdPartition]:
        """Name the partitions that are told of."""
        return sorted(self._partitions)

    def refresh(self) -> None:
        """Read what has come since the last time.

        Raises
        ------
        RemoteStorageError
            A record that is none of this topic.
        CorruptRecordError
        """
        for storage, log_directory in self._log_directories:
            try:
                names, _ = storage.list_directories(log_directory)
            except FileNotFoundError:
                continue
            for name in names:
                topic_partition = find_topic_partition(name)
                if topic_partition and topic_partition.topic == REMOTE_LOG_METADATA:
                    self._read(storage, log_directory, topic_partition)

    def _read(self, storage: Storage, log_directory: str, topic_partition: TopicPartition) -> None:
        directory = f"{log_directory.rstrip('/')}/{topic_partition}"
        start_offset = self._reached.get(directory, 0)
        for offset, value in _values(storage, log_directory, topic_partition, start_offset):
            try:
                self._apply(parse_metadata_record(value))
            except MessageError as error:
                raise RemoteStorageError(
                    f"record at offset {offset} of {directory}: {error}"
                ) from error
            self._reached[directory] = offset + 1

    def _apply(self, record: MetadataRecord) -> None:
        known = self._partitions.setdefault(record.partition, PartitionRecords())
        match record:
            case SegmentRecord():
                known.segments[record.segment_id] = record
            case SegmentUpdate():
                before = known.segments.get(record.segment_id)
                if before is None:
                    known.is_whole = False
                    return
                custom = record.custom_metadata or before.custom_metadata
                known.segments[record.segment_id] = replace(
                    before, state=record.state, custom_metadata=custom
                )
            case PartitionDelete():
                known.segments.clear()


def _values(
    storage: Storage, log_directory: str, topic_partition: TopicPartition, start_offset: int
) -> Iterator[tuple[int, bytes]]:
    directory = f"{log_directory.rstrip('/')}/{topic_partition}"
    base_offsets = list_partition(storage, directory).base_offsets
    state = LogDirectoryState.read_checkpoints(log_directory, storage)
    options = ScanOptions(columns=_COLUMNS, record_filter=RecordFilter(start_offset=start_offset))
    scanner = SegmentScanner(topic_partition, options)
    first = max(int(np.searchsorted(base_offsets, start_offset, "right")) - 1, 0)
    for number in range(first, len(base_offsets)):
        is_last = number + 1 == len(base_offsets)
        segment = Segment(
            topic_partition=topic_partition,
            directory=directory,
            base_offset=int(base_offsets[number]),
            end_offset_bound=None if is_last else int(base_offsets[number + 1]),
            recovery_point=state.recovery_point(topic_partition),
            storage=storage,
        )
        for batch in (*scanner.scan(segment), *scanner.flush()):
            offsets, values = batch.columns
            for offset, value in zip(offsets.to_pylist(), values.to_pylist(), strict=True):
                if value is not None:
                    yield offset, value
