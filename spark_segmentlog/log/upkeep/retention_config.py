"""Settings of retention: as given, or as the cluster says of each topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_segmentlog.clock import DAY_MS
from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.upkeep.partitions import CleanupPolicy, MaintenanceConfig, OwnedPartition

DEFAULT_RETENTION_MS: Final = 7 * DAY_MS


NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig(MaintenanceConfig):
    """Topic settings of retention, by Kafka's names and defaults.

    Attributes
    ----------
    retention_ms, retention_bytes : int
        -1 for no limit.
    cleanup_policy : frozenset of CleanupPolicy
        Without `DELETE`, segments go by the log start offset alone.
    """

    retention_ms: int = DEFAULT_RETENTION_MS
    retention_bytes: int = NO_LIMIT
    cleanup_policy: frozenset[CleanupPolicy] = frozenset({CleanupPolicy.DELETE})

    def settle(self, owned: OwnedPartition) -> RetentionConfig:
        """Give the settings for a partition: these."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRetention(MaintenanceConfig):
    """Retention as the cluster's metadata says of each topic, but for what is given.

    Attributes
    ----------
    retention_ms, retention_bytes : int or None
        -1 for no limit; None for what is set for the topic, no limit where only the other one is.
    is_forced : bool
        Whether segments of topics go by age and size too whose ``cleanup.policy`` has no delete.
    """

    retention_ms: int | None = None
    retention_bytes: int | None = None
    is_forced: bool = False

    def settle(self, owned: OwnedPartition) -> RetentionConfig:
        """Give the settings for a partition.

        Raises
        ------
        OptionValueError
            Nothing says how long the topic keeps its records.
        """
        policy = owned.cleanup_policy
        if policy is None or self.is_forced:
            policy = frozenset({CleanupPolicy.DELETE})
        limit_ms = _or(self.retention_ms, owned.number("retention.ms"))
        limit_bytes = _or(self.retention_bytes, owned.number("retention.bytes"))
        if CleanupPolicy.DELETE in policy and limit_ms is None and limit_bytes is None:
            raise OptionValueError(
                f"how long topic {owned.topic_partition.topic} keeps its records is not known: "
                f"{owned.missing('retention.ms nor retention.bytes')}; give one of the two, -1 for "
                "no limit"
            )
        return RetentionConfig(
            **self.shared(),
            retention_ms=NO_LIMIT if limit_ms is None else limit_ms,
            retention_bytes=NO_LIMIT if limit_bytes is None else limit_bytes,
            cleanup_policy=policy,
        )


def _or(given: int | None, known: int | None) -> int | None:
    return known if given is None else given
