"""Settings of compaction: as given, or as the cluster says of each topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spark_segmentlog.clock import DAY_MS
from spark_segmentlog.errors import OptionValueError, UnsafeTargetError
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.partitions import CleanupPolicy, MaintenanceConfig, OwnedPartition
from spark_segmentlog.record.compact.batch_records import MAX_HELD_BYTES
from spark_segmentlog.record.compact.offset_map import SLOT_BYTES

DEFAULT_DEDUPE_BUFFER_BYTES: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig(MaintenanceConfig):
    """Settings of compaction, by Kafka's names and defaults.

    Attributes
    ----------
    delete_retention_ms : int
        How long tombstones, and markers of transactions that are gone, stay after a pass kept them.
    min_compaction_lag_ms : int
        How old the youngest record of a segment must be.
    min_cleanable_ratio : float
        Part of the bytes that must be new; 0 cleans whatever there is.
    segment : SegmentConfig
        Up to which sizes segments are merged, and how far apart index entries are.
    dedupe_buffer_bytes : int
        Memory of the map of latest offsets, 24 bytes a slot; it need not hold all keys.
    producer_id_expiration_ms : int
        How long a producer's last batch is kept after its last write.
    max_decompressed_bytes : int
        Decompressed bytes that are held at most of one batch that loses records, or of one wrapper
        of formats 0 and 1; above it compaction fails, and leaves those segments as they are.
    """

    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    min_cleanable_ratio: float = 0.0
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    dedupe_buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES
    producer_id_expiration_ms: int = DAY_MS
    max_decompressed_bytes: int = MAX_HELD_BYTES

    def __post_init__(self) -> None:
        if self.dedupe_buffer_bytes < 2 * SLOT_BYTES:
            raise OptionValueError(
                f"dedupe buffer of {self.dedupe_buffer_bytes} bytes, at least {2 * SLOT_BYTES} are "
                "needed"
            )

    def settle(self, owned: OwnedPartition) -> CompactionConfig:
        """Give the settings for a partition: these."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCompaction(MaintenanceConfig):
    """Compaction as the cluster's metadata says of each topic, but for what is given.

    Attributes
    ----------
    delete_retention_ms, min_compaction_lag_ms : int or None
        None for what is set for the topic, or Kafka's default for one that the cluster knows.
    is_forced : bool
        Whether topics are compacted whose ``cleanup.policy`` is not to compact.
    leaves_out : bool
        Whether such topics are left out, rather than refused.
    """

    delete_retention_ms: int | None = None
    min_compaction_lag_ms: int | None = None
    min_cleanable_ratio: float = 0.0
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    is_forced: bool = False
    leaves_out: bool = False

    def settle(self, owned: OwnedPartition) -> CompactionConfig | None:
        """Give the settings for a partition; None where its topic is left out.

        Raises
        ------
        OptionValueError
            Nothing says what compaction may take away.
        UnsafeTargetError
            The topic is not to be compacted.
        """
        if owned.settings is None:
            self._check_given(owned)
        elif not self._may_compact(owned):
            return None
        return CompactionConfig(
            **self.shared(),
            delete_retention_ms=_first(
                self.delete_retention_ms, owned.number("delete.retention.ms"), DAY_MS
            ),
            min_compaction_lag_ms=_first(
                self.min_compaction_lag_ms, owned.number("min.compaction.lag.ms"), 0
            ),
            min_cleanable_ratio=self.min_cleanable_ratio,
            segment=self.segment,
        )

    def _check_given(self, owned: OwnedPartition) -> None:
        given = {
            "delete.retention.ms": self.delete_retention_ms,
            "min.compaction.lag.ms": self.min_compaction_lag_ms,
        }
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise OptionValueError(
                f"what compaction may take away from topic {owned.topic_partition.topic} is not "
                f"known: no metadata of a cluster tells it; give {' and '.join(missing)}"
            )

    def _may_compact(self, owned: OwnedPartition) -> bool:
        policy = owned.cleanup_policy
        if self.is_forced or CleanupPolicy.COMPACT in (policy or ()):
            return True
        if self.leaves_out:
            return False
        said = "no cleanup.policy" if policy is None else f"cleanup.policy {','.join(policy)}"
        raise UnsafeTargetError(
            f"topic {owned.topic_partition.topic} has {said}: compaction takes away all records "
            "but the latest of each key, and those without a key; only where it is forced"
        )


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)
