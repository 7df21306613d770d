"""The small files that a commit leaves beside logs: only those that change, with all they held."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.directory.open_commit import read_open_commit
from spark_segmentlog.log.formats.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    format_offset_checkpoint,
    parse_offset_checkpoint,
)
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.commit_files import checkpoint_files, partition_files
from tests.support.scenarios import make_decided


def journal_of(directory: str) -> Journal:
    journal = read_open_commit(directory)
    assert journal is not None
    return journal


def test_a_partition_that_is_made_has_its_id_and_its_epochs(tmp_path: Path) -> None:
    scenario = make_decided(tmp_path)
    plans = [plan for path in scenario.directories for plan in journal_of(path).partitions]
    made = {plan.topic_partition: set(partition_files(plan)) for plan in plans}
    for topic_partition, names in made.items():
        is_new = topic_partition.topic == "new"
        assert names == ({PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT} if is_new else set())
    assert {topic_partition.topic for topic_partition in made} == {"old", "new"}


def test_high_watermarks_rise_only_where_they_are_kept(tmp_path: Path) -> None:
    directory = make_decided(tmp_path).directories[0]
    journal = journal_of(directory)
    assert checkpoint_files(journal) == {}
    other = TopicPartition("other", 7)
    kept = Path(directory, HIGH_WATERMARK_CHECKPOINT)
    kept.write_bytes(format_offset_checkpoint({other: 5}))
    (made,) = checkpoint_files(journal).items()
    ends = {plan.topic_partition: plan.end_after for plan in journal.partitions}
    assert made[0] == HIGH_WATERMARK_CHECKPOINT
    assert parse_offset_checkpoint(made[1].decode()) == {other: 5, **ends}
