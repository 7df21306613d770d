"""Where a broker would cut a log, or delete all of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Final

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import LOG_START_OFFSET_CHECKPOINT
from spark_segmentlog.log.names import (
    MAX_OFFSET,
    TopicPartition,
    find_base_offsets,
    parse_partition_directory_name,
)
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.record.read.header_table import check_crcs

CUTS_THE_LOG: Final = "a broker cuts it there, and deletes every segment after it"


def torn_segments(state: LogDirectoryState, path: str, known_from: int | None) -> Iterator[Finding]:
    """Find the closed segment at which a broker's recovery would cut the log, if there is one.

    `known_from` is the base offset before which somebody has looked; None for nobody.
    """
    if state.is_clean:
        return
    topic_partition = parse_partition_directory_name(os.path.basename(path))
    flushed = max(state.flushed_offset(topic_partition), known_from or 0)
    for base, bound in pairwise(find_base_offsets(os.listdir(path))):
        if bound <= flushed:
            continue
        segment = Segment(
            topic_partition=topic_partition,
            directory=path,
            base_offset=base,
            end_offset_bound=bound,
        )
        valid_bytes = _valid_bytes(segment)
        if valid_bytes < segment.size_bytes():
            yield torn_segment(segment, valid_bytes)
            return


def torn_segment(segment: Segment, valid_bytes: int) -> Finding:
    """Say that a broker's recovery cuts a closed segment."""
    return Finding(
        kind=FindingKind.TORN_SEGMENT,
        path=segment.log_path,
        topic_partition=segment.topic_partition,
        position=valid_bytes,
        detail="a closed segment above the recovery point does not end with a good batch",
        broker=CUTS_THE_LOG,
        refuses_writes=True,
    )


def _valid_bytes(segment: Segment) -> int:
    """Measure the good batches that a segment starts with."""
    valid_bytes = 0
    with segment.walk() as walk:
        try:
            for table in walk:
                is_good = check_crcs(walk.buffer, table, file_position=walk.file_position)
                if not is_good.all():
                    return int(table.position[is_good.argmin()])
                valid_bytes = int(table.position[-1] + table.size_bytes[-1])
        except CorruptRecordError as error:
            return error.position
    return valid_bytes


def wrong_log_start(
    state: LogDirectoryState, topic_partition: TopicPartition, path: str
) -> Iterator[Finding]:
    """Find that a log is said to start beyond its end."""
    start_offset = state.log_start_offset(topic_partition)
    bases = find_base_offsets(os.listdir(path))
    if not bases or bases[-1] >= start_offset:
        return
    last = Segment(topic_partition=topic_partition, directory=path, base_offset=bases[-1])
    with suppress(CorruptRecordError):
        end_offset = max(
            (int(table.last_offset[-1]) + 1 for table in last.headers(0, MAX_OFFSET)),
            default=last.base_offset,
        )
        if end_offset < start_offset:
            yield start_beyond_end(topic_partition, path, start_offset, end_offset)


def start_beyond_end(
    topic_partition: TopicPartition, path: str, start_offset: int, end_offset: int
) -> Finding:
    """Say that a log starts beyond its end."""
    return Finding(
        kind=FindingKind.LOG_START,
        path=path,
        topic_partition=topic_partition,
        detail=f"the log ends at offset {end_offset}, below its start {start_offset} in "
        f"{LOG_START_OFFSET_CHECKPOINT}",
        broker="a broker deletes all its segments",
        refuses_writes=True,
    )
