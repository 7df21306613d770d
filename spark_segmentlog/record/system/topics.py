"""Kafka's own topics, in one table: who keeps what there, how a record says what it is, which view.

Writers and cleaners leave all of them alone; reads show them where they are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """One of Kafka's own topics, whose record types stand in `schemas`.

    Attributes
    ----------
    holds : str
        What it is for, as the pages say it.
    has_keys : bool
        Whether the key of a record says its type, and the value may be null; the value says both
        where not.
    view : str or None
        The view whose rows its records are; None where there is none.
    """

    name: str
    holds: str
    has_keys: bool
    view: str | None = None


CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
REMOTE_LOG_METADATA: Final = "__remote_log_metadata"

# Kafka's Topic.java, its metadata log, and TopicBasedRemoteLogMetadataManagerConfig.
INTERNAL_TOPICS: Final = {
    topic.name: topic
    for topic in (
        InternalTopic(
            name=CONSUMER_OFFSETS,
            holds="committed offsets; members and state of consumer, share and streams groups",
            has_keys=True,
            view="consumer_offsets",
        ),
        InternalTopic(
            name=TRANSACTION_STATE,
            holds="transactional ids, their producers and transactions",
            has_keys=True,
            view="transaction_state",
        ),
        InternalTopic(
            name=CLUSTER_METADATA,
            holds="topics, partitions, replicas, settings, brokers",
            has_keys=False,
            view="cluster_metadata",
        ),
        InternalTopic(
            name=SHARE_GROUP_STATE,
            holds="how far share groups are, batch by batch",
            has_keys=True,
            view="share_group_state",
        ),
        InternalTopic(
            name=REMOTE_LOG_METADATA,
            holds="which segments tiered storage has copied and deleted",
            has_keys=False,
        ),
    )
}
