"""What a commit does to a partition, and what is seen of it meanwhile."""

from __future__ import annotations

from dataclasses import replace

from spark_segmentlog.log.directory.commit_steps import PartitionPlan
from spark_segmentlog.log.names import TopicPartition

PLAN = PartitionPlan(
    topic_partition=TopicPartition("t", 3),
    log_directory="/data/d0",
    start_before=2,
    end_before=7,
    start_after=7,
    end_after=9,
    leader_epoch=0,
    leader_epochs=None,
    partition_metadata=None,
    segments=(),
    steps=(),
)


def test_readers_see_a_partition_as_it_was_and_none_that_is_being_made() -> None:
    assert PLAN.visible_range == (2, 7)
    assert replace(PLAN, start_before=None, end_before=None).visible_range is None


def test_a_plan_names_its_partition_directory() -> None:
    assert PLAN.directory == "/data/d0/t-3"
