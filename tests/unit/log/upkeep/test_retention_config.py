"""Settings of retention: what is given, what the cluster says, what nothing says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.partitions import CleanupPolicy, OwnedPartition
from spark_segmentlog.log.upkeep.retention_config import NO_LIMIT, RetentionConfig, TopicRetention

DELETE = frozenset({CleanupPolicy.DELETE})


def owned(settings: Mapping[str, str] | None) -> OwnedPartition:
    return OwnedPartition(
        topic_partition=TopicPartition("t", 0), log_directory="/logs", settings=settings
    )


def test_settings_of_all_topics_are_those_of_each() -> None:
    config = RetentionConfig(retention_ms=7)
    assert config.settle(owned({"cleanup.policy": "compact"})) is config


def test_what_is_given_stands_before_what_the_cluster_says() -> None:
    settings = {"retention.ms": "5", "retention.bytes": "6"}
    settled = TopicRetention(retention_ms=1, lock_timeout_ms=3).settle(owned(settings))
    assert settled == RetentionConfig(retention_ms=1, retention_bytes=6, lock_timeout_ms=3)


@pytest.mark.parametrize("settings", [None, {}, {"cleanup.policy": "delete"}])
def test_one_limit_must_be_known_and_the_other_is_none_then(
    settings: Mapping[str, str] | None,
) -> None:
    with pytest.raises(OptionValueError, match="give one of the two, -1 for no limit"):
        TopicRetention().settle(owned(settings))
    settled = TopicRetention(retention_bytes=9).settle(owned(settings))
    assert settled == RetentionConfig(retention_ms=NO_LIMIT, retention_bytes=9)


def test_a_topic_that_is_compacted_alone_needs_no_limit_unless_forced() -> None:
    compacted = owned({"cleanup.policy": "compact", "retention.ms": "5"})
    policy = TopicRetention().settle(compacted).cleanup_policy
    assert policy == frozenset({CleanupPolicy.COMPACT})
    assert TopicRetention(is_forced=True).settle(compacted) == RetentionConfig(
        retention_ms=5, retention_bytes=NO_LIMIT, cleanup_policy=DELETE
    )
    TopicRetention().settle(owned({"cleanup.policy": "compact"}))
