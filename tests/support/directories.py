"""Log directories whose segments and commits change while they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.directory import state as log_directory
from spark_segmentlog.log.directory.open_commit import CommitState
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.testing.builder import segment_file_name


def names_of(manager: LogManager) -> list[str]:
    return [str(topic_partition) for topic_partition in manager.topic_partitions]


# Commits of this library


def set_commit_states(monkeypatch: pytest.MonkeyPatch, *states: CommitState) -> list[CommitState]:
    """Let the commit state change each time that it is read; the last one stays."""
    left = list(states)

    def read(path: str, storage: object) -> CommitState:
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(log_directory, "commit_state", read)
    return left


KINDS = (".log", ".index", ".timeindex")


def rename_segment(log: PartitionLog, base_offset: int, suffix: str = ".deleted") -> None:
    for kind in KINDS:
        path = Path(log.directory, segment_file_name(base_offset, kind))
        path.rename(f"{path}{suffix}")
