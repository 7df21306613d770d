"""Commits of made-up rows, and what is in a log after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.prepare import CommitRequest
from tests.support.scenarios import Writing, read_rows, stage


def commit(directory: str, counts: dict[TopicPartition, int], **settings: Any) -> CommitRequest:
    request = stage([directory], [Writing(counts)], **settings)
    commit_staged_batches(request)
    return request


def keys(directory: str, topic_partition: TopicPartition) -> list[bytes | None]:
    return [key for _, key, _ in read_rows([directory])[topic_partition]]


def segment_names(directory: str, topic_partition: TopicPartition) -> list[str]:
    return sorted(path.name for path in (Path(directory) / str(topic_partition)).glob("*.log"))
