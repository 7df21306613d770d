"""The small files that a commit leaves beside logs, as bytes, for those who write or foretell."""

from __future__ import annotations

from spark_segmentlog.log.directory.commit_steps import PartitionPlan
from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.formats.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    format_leader_epochs,
    format_offset_checkpoint,
    read_offset_checkpoint,
)
from spark_segmentlog.log.io.reading import LOCAL


def partition_files(plan: PartitionPlan) -> dict[str, bytes]:
    """Give the files of a partition that are made or replaced, by name."""
    made = {}
    if plan.partition_metadata is not None:
        made[PARTITION_METADATA] = plan.partition_metadata
    if plan.leader_epochs is not None:
        made[LEADER_EPOCH_CHECKPOINT] = format_leader_epochs(plan.leader_epochs)
    return made


def checkpoint_files(journal: Journal) -> dict[str, bytes]:
    """Give log start offsets that moved, and high watermarks where a broker keeps them, by name."""
    directory, plans = journal.log_directory, journal.partitions
    made = {}
    moved = {
        plan.topic_partition: plan.start_after
        for plan in plans
        if plan.start_after != (plan.start_before or 0)
    }
    if moved:
        starts = read_offset_checkpoint(LOCAL, directory, LOG_START_OFFSET_CHECKPOINT) or {}
        made[LOG_START_OFFSET_CHECKPOINT] = format_offset_checkpoint({**starts, **moved})
    marks = read_offset_checkpoint(LOCAL, directory, HIGH_WATERMARK_CHECKPOINT)
    if marks is not None and plans:
        ends = {plan.topic_partition: plan.end_after for plan in plans}
        made[HIGH_WATERMARK_CHECKPOINT] = format_offset_checkpoint({**marks, **ends})
    return made
