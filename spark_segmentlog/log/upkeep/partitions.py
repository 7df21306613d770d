"""What retention and compaction share: whose partitions they may touch, and under which locks.

Both rewrite what a broker keeps, so both hold the locks of all log directories, end an open commit
first, and leave alone what a broker would not take back changed: its own topics, and those of
several replicas. Where those are allowed, nothing at or above the high watermark is touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.clock import now_ms
from spark_segmentlog.errors import (
    OptionValueError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.directory.versions import VERSIONS_FILE_NAME, read_versions
from spark_segmentlog.log.formats.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    LeaderEpoch,
    format_leader_epochs,
    format_offset_checkpoint,
    read_leader_epochs,
    read_offset_checkpoint,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.names import (
    INTERNAL_TOPIC_PREFIX,
    TopicPartition,
    find_topic_partition,
)
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep.swap import (
    SegmentFile,
    finish_deletion,
    finish_replacement,
    sweep_deleted,
)
from spark_segmentlog.log.write.open_commits import locked_for_writing
from spark_segmentlog.log.write.targets import TargetLayout, read_target_layout
from spark_segmentlog.log.write.write_check import check_folders
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

DEFAULT_FILE_DELETE_DELAY_MS: Final = 60_000
_MAX_SLEEP_SECONDS: Final = 0.5


class CleanupPolicy(StrEnum):
    """``cleanup.policy``; both at once is a set of the two."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceConfig:
    """What both are told.

    Attributes
    ----------
    file_delete_delay_ms : int
        How long ``.deleted`` files stay.
    wait_for_deletion : bool
        Whether to wait until they may go; else a later pass takes them.
    allow_replicated : bool
        Whether to touch topics that have several replicas in a cluster.
    """

    file_delete_delay_ms: int = DEFAULT_FILE_DELETE_DELAY_MS
    wait_for_deletion: bool = False
    allow_replicated: bool = False
    lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS

    def shared(self) -> dict[str, Any]:
        """Give what every kind of maintenance is told, for settings that are made of these."""
        return {told.name: getattr(self, told.name) for told in fields(MaintenanceConfig)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartition:
    """One partition in one log directory.

    Attributes
    ----------
    high_watermark : int or None
        Rows from here on may still vanish with another replica; None where there is no other.
    settings : mapping of str to str, or None
        What the cluster's metadata says is set for the topic; None where it does not know it.
    """

    topic_partition: TopicPartition
    log_directory: str
    high_watermark: int | None = None
    settings: Mapping[str, str] | None = None

    @property
    def cleanup_policy(self) -> frozenset[CleanupPolicy] | None:
        """The topic's ``cleanup.policy``; None where nothing is set.

        Raises
        ------
        OptionValueError
            It is set to what is none.
        """
        text = (self.settings or {}).get("cleanup.policy")
        if text is None:
            return None
        try:
            return frozenset(
                CleanupPolicy(part.strip()) for part in text.split(",") if part.strip()
            )
        except ValueError as error:
            raise self._bad_setting("cleanup.policy", text) from error

    def number(self, name: str) -> int | None:
        """Give a setting of the topic that is a number; None where nothing is set.

        Raises
        ------
        OptionValueError
            It is set to what is none.
        """
        text = (self.settings or {}).get(name)
        try:
            return None if text is None else int(text)
        except ValueError as error:
            raise self._bad_setting(name, text) from error

    def missing(self, names: str) -> str:
        """Say why settings are not known."""
        if self.settings is None:
            return "no metadata of a cluster tells it"
        return (
            f"the cluster's metadata has neither {names} for it, and what its brokers' own files "
            "say is not known here"
        )

    def _bad_setting(self, name: str, text: str | None) -> OptionValueError:
        topic = self.topic_partition.topic
        return OptionValueError(f"the cluster's metadata has {name} {text!r} for topic {topic}")

    @property
    def directory(self) -> str:
        """The partition directory."""
        return os.path.join(self.log_directory, str(self.topic_partition))

    def log_start_offset(self, state: LogDirectoryState, found: Sequence[SegmentFile]) -> int:
        """Tell where the log starts, by its checkpoint and its segments."""
        checkpointed = state.log_start_offset(self.topic_partition)
        return max(checkpointed, found[0].base_offset) if found else checkpointed

    def segment(
        self, state: LogDirectoryState, base_offset: int, end_offset_bound: int | None
    ) -> Segment:
        """Describe a segment, and whether its indexes are known to be whole."""
        return Segment(
            topic_partition=self.topic_partition,
            directory=self.directory,
            base_offset=base_offset,
            end_offset_bound=end_offset_bound,
            is_index_trusted=state.is_index_whole(self.topic_partition, end_offset_bound),
            recovery_point=state.recovery_point(self.topic_partition),
        )

    def segments(
        self,
        state: LogDirectoryState,
        found: Sequence[SegmentFile],
        end_offset_bound: int | None = None,
    ) -> list[Segment]:
        """Describe neighbouring segments, ascending; without a bound the last is the open one."""
        bounds = [*(segment.base_offset for segment in found[1:]), end_offset_bound]
        return [
            self.segment(state, segment.base_offset, bound)
            for segment, bound in zip(found, bounds, strict=True)
        ]


@contextmanager
def locked_partitions(
    log_directories: Sequence[str],
    topics: Sequence[str] | None,
    config: MaintenanceConfig,
) -> Iterator[list[OwnedPartition]]:
    """Hold the locks of log directories and give the partitions of topics in them.

    Parameters
    ----------
    topics : sequence of str or None
        None for all but a broker's own, ``__*``.
    config : MaintenanceConfig
        Where replicated topics are allowed, they are given with their high watermarks.

    Raises
    ------
    LogLockedError, UnsafeTargetError, UnknownTopicOrPartitionError
        Nothing was touched.
    CommitPendingError, RecoveryError
        A commit is open and could not be ended.
    """
    with locked_for_writing(log_directories, timeout_ms=config.lock_timeout_ms) as paths:
        yield list_partitions(paths, topics, config)


def list_partitions(
    log_directories: Sequence[str], topics: Sequence[str] | None, config: MaintenanceConfig
) -> list[OwnedPartition]:
    """List the partitions of topics, in their order; as `locked_partitions`, without the locks."""
    log_directories = sorted({os.path.realpath(path) for path in log_directories})
    found = [
        (topic_partition, path)
        for path in log_directories
        for name in LOCAL.list_directories(path)[0]
        if (topic_partition := find_topic_partition(name)) is not None
    ]
    wanted = _wanted_topics({topic_partition.topic for topic_partition, _ in found}, topics)
    chosen = sorted(place for place in found if place[0].topic in wanted)
    layout = read_target_layout(log_directories, allow_unsafe=config.allow_replicated)
    for topic in sorted(wanted):
        _check_replicas(layout, topic)
    check_folders(layout, [topic_partition for topic_partition, _ in chosen])
    return [
        OwnedPartition(
            topic_partition=topic_partition,
            log_directory=path,
            high_watermark=_high_watermark(layout, path, topic_partition),
            settings=None
            if layout.cluster is None
            else layout.cluster.topic_settings(topic_partition.topic),
        )
        for topic_partition, path in chosen
    ]


def finish_earlier_pass(owned: OwnedPartition) -> None:
    """End what a pass that was cut short has left in a partition."""
    finish_replacement(owned.directory)
    starts = read_offset_checkpoint(LOCAL, owned.log_directory, LOG_START_OFFSET_CHECKPOINT) or {}
    finish_deletion(owned.directory, starts.get(owned.topic_partition, 0))


def raise_log_start_offset(owned: OwnedPartition, start_offset: int) -> None:
    """Make a log start at an offset, durably; it never goes down, nor do the leader epochs' starts.

    A leader epoch that ended before the new start goes from ``leader-epoch-checkpoint``, the one in
    which it lies starts there: as a broker does whenever its log start offset rises.
    """
    offsets = read_offset_checkpoint(LOCAL, owned.log_directory, LOG_START_OFFSET_CHECKPOINT) or {}
    if start_offset > offsets.get(owned.topic_partition, 0):
        write_offset(owned, LOG_START_OFFSET_CHECKPOINT, start_offset, offsets)
    epochs = read_leader_epochs(LOCAL, owned.directory)
    kept = epochs_from(epochs, start_offset)
    if kept != epochs:
        path = os.path.join(owned.directory, LEADER_EPOCH_CHECKPOINT)
        files.write_atomically(path, format_leader_epochs(kept))
        files.fsync_directory(owned.directory)


def write_offset(
    owned: OwnedPartition, name: str, offset: int, offsets: Mapping[TopicPartition, int]
) -> None:
    """Replace one partition's offset in an offset checkpoint, durably."""
    path = os.path.join(owned.log_directory, name)
    changed = {**offsets, owned.topic_partition: offset}
    files.write_atomically(path, format_offset_checkpoint(changed))
    files.fsync_directory(owned.log_directory)


def raise_commit_counter(log_directory: str) -> None:
    """Raise the counter that readers compare before and after they list the directory."""
    versions = read_versions(log_directory)
    path = os.path.join(log_directory, VERSIONS_FILE_NAME)
    raised = replace(versions, counter=versions.counter + 1)
    files.write_atomically(path, raised.to_bytes())


def wait_and_sweep(owned_partitions: Sequence[OwnedPartition], config: MaintenanceConfig) -> None:
    """Wait until every ``.deleted`` file of the partitions may go, and unlink them; if asked to."""
    delay_ms = config.file_delete_delay_ms
    while config.wait_for_deletion:
        now = now_ms()
        sweeps = [
            sweep_deleted(owned.directory, now_ms=now, delay_ms=delay_ms)
            for owned in owned_partitions
        ]
        if not any(sweep.waiting for sweep in sweeps):
            return
        time.sleep(min(max(delay_ms / 1000, 0.001), _MAX_SLEEP_SECONDS))


def _wanted_topics(present: set[str], topics: Sequence[str] | None) -> set[str]:
    if topics is None:
        return {topic for topic in present if not topic.startswith(INTERNAL_TOPIC_PREFIX)}
    for topic in topics:
        if topic in INTERNAL_TOPICS:
            raise UnsafeTargetError(
                f"topic {topic!r} is a broker's own: it is cleaned by its broker alone"
            )
        if topic not in present:
            raise UnknownTopicOrPartitionError(
                f"no partition of topic {topic!r} in the log directories; there are "
                f"{', '.join(sorted(present)) or 'none'}"
            )
    return set(topics)


def _check_replicas(layout: TargetLayout, topic: str) -> None:
    if layout.allow_unsafe or layout.cluster_topics is None:
        return
    known = layout.cluster_topics.get(topic)
    if known is not None and known.max_replicas > 1:
        raise UnsafeTargetError(
            f"topic {topic} has {known.max_replicas} replicas, 1 is allowed: its brokers clean it, "
            "each its own replica"
        )


def _high_watermark(
    layout: TargetLayout, log_directory: str, topic_partition: TopicPartition
) -> int | None:
    """Find where a log of several replicas may still be cut; one replica alone is never cut."""
    known = (layout.cluster_topics or {}).get(topic_partition.topic)
    if known is not None and known.max_replicas <= 1:
        return None
    if not LOCAL.exists(os.path.join(log_directory, META_PROPERTIES)):
        return None
    state = LogDirectoryState.read(log_directory)
    return state.reached_offset(topic_partition)


def epochs_from(epochs: Sequence[LeaderEpoch], start_offset: int) -> list[LeaderEpoch]:
    """Cut leader epochs to those of offsets from a log's start on."""
    later = [entry for entry in epochs if entry.start_offset > start_offset]
    earlier = [entry for entry in epochs if entry.start_offset <= start_offset]
    if not earlier:
        return later
    return [LeaderEpoch(earlier[-1].epoch, start_offset), *later]
