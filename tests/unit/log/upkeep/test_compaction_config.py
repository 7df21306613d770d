"""Settings of compaction: what is given, what the cluster says, what nothing says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from spark_segmentlog.clock import DAY_MS
from spark_segmentlog.errors import OptionValueError, UnsafeTargetError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig, TopicCompaction
from spark_segmentlog.log.upkeep.partitions import OwnedPartition
from spark_segmentlog.record.compact.offset_map import SLOT_BYTES


def owned(settings: Mapping[str, str] | None) -> OwnedPartition:
    return OwnedPartition(
        topic_partition=TopicPartition("t", 0),
        log_directory="/logs",
        high_watermark=None,
        settings=settings,
    )


def test_a_map_of_fewer_than_two_keys_is_refused() -> None:
    CompactionConfig(dedupe_buffer_bytes=2 * SLOT_BYTES)
    with pytest.raises(OptionValueError, match="dedupe buffer of 47 bytes, at least 48"):
        CompactionConfig(dedupe_buffer_bytes=2 * SLOT_BYTES - 1)


def test_settings_of_all_topics_are_those_of_each() -> None:
    config = CompactionConfig(min_compaction_lag_ms=7)
    assert config.settle(owned({"cleanup.policy": "delete"})) is config


def test_what_is_given_stands_before_what_the_cluster_says_and_that_before_the_default() -> None:
    settings = {"cleanup.policy": "compact", "delete.retention.ms": "5"}
    config = TopicCompaction(lock_timeout_ms=3).settle(owned(settings))
    assert config == CompactionConfig(delete_retention_ms=5, lock_timeout_ms=3)
    given = TopicCompaction(delete_retention_ms=6, min_compaction_lag_ms=8)
    config = given.settle(owned(settings))
    assert config == CompactionConfig(delete_retention_ms=6, min_compaction_lag_ms=8)
    config = TopicCompaction().settle(owned({"cleanup.policy": "compact"}))
    assert config == CompactionConfig(delete_retention_ms=DAY_MS, min_compaction_lag_ms=0)


def test_where_no_cluster_says_it_both_times_must_be_given() -> None:
    with pytest.raises(OptionValueError, match=r"give min\.compaction\.lag\.ms$"):
        TopicCompaction(delete_retention_ms=1).settle(owned(None))
    given = TopicCompaction(delete_retention_ms=1, min_compaction_lag_ms=2)
    config = given.settle(owned(None))
    assert config == CompactionConfig(delete_retention_ms=1, min_compaction_lag_ms=2)


def test_a_topic_that_is_not_to_be_compacted_is_refused_left_out_or_forced() -> None:
    deleted = owned({"cleanup.policy": "delete"})
    with pytest.raises(UnsafeTargetError, match=r"topic t has cleanup\.policy delete"):
        TopicCompaction().settle(deleted)
    with pytest.raises(UnsafeTargetError, match=r"topic t has no cleanup\.policy"):
        TopicCompaction().settle(owned({}))
    assert TopicCompaction(leaves_out=True).settle(deleted) is None
    assert TopicCompaction(is_forced=True).settle(deleted) == CompactionConfig()
