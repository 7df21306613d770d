"""What is refused before a write or a cleaning: a broker, or a reader, would not see it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.findings import Finding, refuse
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.append_state import AppendState, last_written_base_offset
from spark_segmentlog.log.write.checkpoint_check import unreadable_checkpoints
from spark_segmentlog.log.write.cut_check import start_beyond_end, torn_segments
from spark_segmentlog.log.write.directory_check import read_offset_checkpoints
from spark_segmentlog.log.write.partition_check import (
    Surroundings,
    losses,
    shared_folder,
    stands_twice,
)
from spark_segmentlog.log.write.targets import TargetLayout


def check_write(
    layout: TargetLayout,
    topic_partitions: Iterable[TopicPartition],
    states: Mapping[str, LogDirectoryState],
    *,
    with_segments: bool = True,
) -> None:
    """Refuse to append to partitions where a broker, or a reader, would not see it.

    Parameters
    ----------
    topic_partitions : iterable of TopicPartition
        Those that have no directory yet are left out.
    with_segments : bool
        Whether closed segments above the recovery point are read: those that no writer of this
        library has read or synced yet.

    Raises
    ------
    PreflightError
    """
    look = _surroundings_of(layout)
    findings = _unreadable_checkpoints(layout)
    for topic_partition in topic_partitions:
        if not layout.exists(topic_partition):
            continue
        directory = layout.directory_of(topic_partition)
        path = os.path.join(directory, str(topic_partition))
        findings += losses(look, topic_partition, path)
        findings += _shared_folders(layout, path)
        if with_segments:
            known_from = last_written_base_offset(path)
            findings += torn_segments(states[directory], path, known_from)
    refuse(findings)


def check_folders(layout: TargetLayout, topic_partitions: Iterable[TopicPartition]) -> None:
    """Refuse to clean partitions that stand twice, or whose starts cannot be read.

    Raises
    ------
    PreflightError
    """
    look = _surroundings_of(layout)
    findings = _unreadable_checkpoints(layout)
    for topic_partition in topic_partitions:
        directory = layout.directory_of(topic_partition)
        path = os.path.join(directory, str(topic_partition))
        findings += stands_twice(look, topic_partition, path)
        findings += _shared_folders(layout, path)
    refuse(findings)


def _unreadable_checkpoints(layout: TargetLayout) -> list[Finding]:
    return [
        finding
        for path in layout.log_directories
        for finding in unreadable_checkpoints(path, read_offset_checkpoints(path))
    ]


def _shared_folders(layout: TargetLayout, path: str) -> Iterator[Finding]:
    if path in layout.twins:
        yield shared_folder(path, layout.twins[path])


def check_log_start(append_state: AppendState) -> None:
    """Refuse to append to a log that ends below its start: a broker deletes all of it.

    Raises
    ------
    PreflightError
    """
    if (
        append_state.file_bytes >= 0
        and append_state.segment.next_offset < append_state.log_start_offset
    ):
        refuse(
            [
                start_beyond_end(
                    append_state.topic_partition,
                    append_state.directory,
                    append_state.log_start_offset,
                    append_state.segment.next_offset,
                )
            ]
        )


def _surroundings_of(layout: TargetLayout) -> Surroundings:
    cluster = layout.cluster
    if cluster is not None and layout.allow_unsafe:
        cluster = replace(cluster, topics=None)
    return Surroundings(log_directories=layout.log_directories, cluster=cluster)
