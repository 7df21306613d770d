"""What a log directory (one of ``log.dirs``) tells of the partitions in it, read once.

The checkpoints cover all partitions of the directory. A reader of one partition directory, or of
one file, finds them in the parent folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_segmentlog.log.directory.open_commit import CommitState, read_commit_state
from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.names import TopicPartition

NOTHING_COMMITTED = CommitState(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryState:
    """Checkpoints, clean-shutdown mark and open commit of one log directory.

    Attributes
    ----------
    is_clean : bool
        Whether the clean-shutdown mark is there: nothing is torn, indexes are complete.
    recovery_points : mapping or None
        None where the checkpoint is missing: then nothing tells what a crash can have left.
    high_watermarks : mapping or None
        None where the checkpoint is missing.
    """

    path: str
    is_clean: bool = False
    log_start_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    recovery_points: Mapping[TopicPartition, int] | None = None
    high_watermarks: Mapping[TopicPartition, int] | None = None
    commit_state: CommitState = NOTHING_COMMITTED

    @classmethod
    def read(cls, path: str, storage: Storage = LOCAL) -> LogDirectoryState:
        """Read the state of a log directory; whatever is missing in it says nothing."""
        return cls.read_checkpoints(path, storage).with_commits(storage)

    @classmethod
    def read_checkpoints(cls, path: str, storage: Storage = LOCAL) -> LogDirectoryState:
        """Read the state of a log directory, but for commits."""
        starts = checkpoints.read_offset_checkpoint(
            storage, path, checkpoints.LOG_START_OFFSET_CHECKPOINT
        )
        return cls(
            path=path,
            is_clean=storage.exists(f"{path}/{checkpoints.CLEAN_SHUTDOWN_MARK}"),
            log_start_offsets=starts or {},
            recovery_points=checkpoints.read_offset_checkpoint(
                storage, path, checkpoints.RECOVERY_POINT_CHECKPOINT
            ),
            high_watermarks=checkpoints.read_offset_checkpoint(
                storage, path, checkpoints.HIGH_WATERMARK_CHECKPOINT
            ),
        )

    def with_commits(self, storage: Storage) -> LogDirectoryState:
        """Give the same state with the commits as they are now; only a local log has some."""
        if storage != LOCAL:
            return self
        return replace(self, commit_state=commit_state(self.path, storage))

    def recovery_point(self, topic_partition: TopicPartition) -> int | None:
        """Find the offset that a crash cannot have torn below; None where it cannot be told."""
        if self.is_clean or self.recovery_points is None:
            return None
        return self.recovery_points.get(topic_partition, 0)

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        """Find the offset that a log is said to start at; 0 where nothing is said."""
        return self.log_start_offsets.get(topic_partition, 0)

    def flushed_offset(self, topic_partition: TopicPartition) -> int:
        """Find the offset below which all of a log was flushed once; 0 where none is known."""
        return (self.recovery_points or {}).get(topic_partition, 0)

    def is_index_whole(self, topic_partition: TopicPartition, end_offset_bound: int | None) -> bool:
        """Tell whether no crash can have left indexes of a segment short of its end."""
        if self.is_clean or end_offset_bound is None:
            return self.is_clean
        return end_offset_bound <= (self.recovery_point(topic_partition) or 0)

    def reached_offset(self, topic_partition: TopicPartition) -> int:
        """Find the offset that a log is known to have reached, its high watermark; 0 for none."""
        return (self.high_watermarks or {}).get(topic_partition, 0)

    def is_hidden(self, topic_partition: TopicPartition) -> bool:
        """Tell whether an open commit is still making this partition."""
        return self.is_written(topic_partition) and self.visible_range(topic_partition) is None

    def is_written(self, topic_partition: TopicPartition) -> bool:
        """Tell whether an open commit changes, or is still making, this partition."""
        return topic_partition in (self.commit_state.visible_ranges or ())

    def visible_range(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Find the (log start, log end) offsets from before an open commit; None for no limit."""
        visible_ranges = self.commit_state.visible_ranges
        return None if visible_ranges is None else visible_ranges.get(topic_partition)


def are_unchanged(states: Mapping[str, LogDirectoryState], storages: Mapping[str, Storage]) -> bool:
    """Tell whether no commit began or ended in log directories since their states were read."""
    return all(
        state.commit_state == commit_state(path, storages[path]) for path, state in states.items()
    )


def commit_state(path: str, storage: Storage) -> CommitState:
    """Read the state of commits; other file systems than the local one are never written to."""
    return read_commit_state(path) if storage == LOCAL else NOTHING_COMMITTED
