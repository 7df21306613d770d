"""Columns of the views of Kafka's own topics: from a record that was read to a row.

Every record is a row, in the order of the log: also one that takes back what another said (its
``isTombstone`` is true), and one that cannot be read (``reason`` says why). What has no column of
its own stands in ``decodedKey`` and ``decodedValue``, as Kafka's JSON has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from spark_segmentlog.log.directory.cluster_metadata import TOPIC_RESOURCE
from spark_segmentlog.query.read_options import SYSTEM_TOPICS, View
from spark_segmentlog.record.system.records import SystemRecord, json_value
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS

_TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_DELIVERY_STATES: Final = {0: "Available", 2: "Acknowledged", 4: "Archived"}
_RESOURCES: Final = {
    TOPIC_RESOURCE: "topic",
    4: "broker",
    8: "broker logger",
    16: "client metrics",
    32: "group",
}
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRow:
    """A record of one of Kafka's own topics, and where it stands.

    Attributes
    ----------
    snapshot : str or None
        Name of the file, for one that is of a snapshot of the cluster's metadata.
    topic_names : mapping of topic id to name
        Of the topics that the cluster's metadata has named so far.
    """

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    record: SystemRecord
    snapshot: str | None = None
    topic_names: Mapping[str, str] = field(default_factory=dict)

    def find(self, *names: str) -> Any:
        """Give the first of some fields that the key or the value has; None for none."""
        for fields in (self.record.key or _NOTHING, self.record.value or _NOTHING):
            for name in names:
                if name in fields:
                    return fields[name]
        return None


Getter = Callable[[SystemRow], Any]
Column = tuple[str, pa.DataType, Getter]


def _found(*names: str) -> Getter:
    return lambda row: row.find(*names)


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(json_value(value), separators=(",", ":"))


def _members(row: SystemRow) -> list[dict[str, Any]] | None:
    """Give the members of a group that a record tells of, whichever protocol they speak."""
    value = row.record.value or _NOTHING
    if "members" in value:
        return [_classic_member(member) for member in value["members"]]
    member_id = row.find("memberId")
    if member_id is None or not value:
        return None
    assigned = value.get("assignedPartitions", value.get("topicPartitions"))
    return [
        {
            "memberId": member_id,
            "instanceId": value.get("instanceId"),
            "clientId": value.get("clientId"),
            "clientHost": value.get("clientHost"),
            "topics": value.get("subscribedTopicNames"),
            "assignment": assigned,
        }
    ]


def _classic_member(member: Mapping[str, Any]) -> dict[str, Any]:
    subscription, assignment = member["subscription"], member["assignment"]
    return {
        "memberId": member["memberId"],
        "instanceId": member.get("groupInstanceId"),
        "clientId": member["clientId"],
        "clientHost": member["clientHost"],
        "topics": subscription["topics"] if isinstance(subscription, dict) else None,
        "assignment": assignment["assignedPartitions"] if isinstance(assignment, dict) else None,
    }


def _transaction_state(row: SystemRow) -> str | None:
    status = row.find("transactionStatus")
    if status is None or not 0 <= status < len(_TRANSACTION_STATES):
        return None if status is None else str(status)
    return _TRANSACTION_STATES[status]


def _state_batches(row: SystemRow) -> list[dict[str, Any]] | None:
    batches = row.find("stateBatches")
    if batches is None:
        return None
    return [
        {
            **batch,
            "deliveryState": _DELIVERY_STATES.get(
                batch["deliveryState"], str(batch["deliveryState"])
            ),
        }
        for batch in batches
    ]


def _metadata_topic(row: SystemRow) -> str | None:
    if row.record.type == "TopicRecord":
        return str(row.find("name"))
    if row.record.type == "ConfigRecord":
        return row.find("resourceName") if row.find("resourceType") == TOPIC_RESOURCE else None
    topic_id = row.find("topicId")
    return row.find("topicName") if topic_id is None else row.topic_names.get(topic_id)


def _resource_type(row: SystemRow) -> str | None:
    resource = row.find("resourceType") if row.record.type == "ConfigRecord" else None
    return None if resource is None else _RESOURCES.get(resource, str(resource))


def _of_config(name: str) -> Getter:
    return lambda row: row.find(name) if row.record.type == "ConfigRecord" else None


_TEXTS: Final = pa.list_(pa.string())
_INTS: Final = pa.list_(pa.int32())
_ASSIGNMENT: Final = pa.list_(
    pa.struct([("topic", pa.string()), ("topicId", pa.string()), ("partitions", _INTS)])
)
_MEMBERS: Final = pa.list_(
    pa.struct(
        [
            ("memberId", pa.string()),
            ("instanceId", pa.string()),
            ("clientId", pa.string()),
            ("clientHost", pa.string()),
            ("topics", _TEXTS),
            ("assignment", _ASSIGNMENT),
        ]
    )
)
_TRANSACTION_PARTITIONS: Final = pa.list_(
    pa.struct([("topic", pa.string()), ("partitionIds", _INTS)])
)
_STATE_BATCHES: Final = pa.list_(
    pa.struct(
        [
            ("firstOffset", pa.int64()),
            ("lastOffset", pa.int64()),
            ("deliveryState", pa.string()),
            ("deliveryCount", pa.int32()),
        ]
    )
)

_RECORD_COLUMNS: Final[tuple[Column, ...]] = (
    ("recordPartition", pa.int32(), lambda row: row.partition),
    ("recordOffset", pa.int64(), lambda row: row.offset),
    ("recordTimestampMs", pa.int64(), lambda row: row.timestamp_ms),
    ("type", pa.string(), lambda row: row.record.type),
    ("typeId", pa.int32(), lambda row: row.record.type_id),
    ("version", pa.int32(), lambda row: row.record.version),
)
_TOMBSTONE_COLUMNS: Final[tuple[Column, ...]] = (
    ("isTombstone", pa.bool_(), lambda row: row.value is None),
)
_BYTES_COLUMNS: Final[tuple[Column, ...]] = (
    ("decodedKey", pa.string(), lambda row: _json(row.record.key)),
    ("decodedValue", pa.string(), lambda row: _json(row.record.value)),
    ("key", pa.binary(), lambda row: row.key),
    ("value", pa.binary(), lambda row: row.value),
    ("reason", pa.string(), lambda row: row.record.reason),
)
_CONSUMER_OFFSETS: Final[tuple[Column, ...]] = (
    ("group", pa.string(), _found("group", "groupId")),
    ("topic", pa.string(), _found("topic")),
    ("topicId", pa.string(), _found("topicId")),
    ("partition", pa.int32(), _found("partition")),
    ("offset", pa.int64(), _found("offset")),
    ("leaderEpoch", pa.int32(), _found("leaderEpoch")),
    ("metadata", pa.string(), _found("metadata")),
    ("commitTimestampMs", pa.int64(), _found("commitTimestamp")),
    ("expireTimestampMs", pa.int64(), _found("expireTimestamp")),
    ("protocolType", pa.string(), _found("protocolType")),
    ("protocol", pa.string(), _found("protocol")),
    ("leader", pa.string(), _found("leader")),
    ("epoch", pa.int32(), _found("generation", "epoch", "assignmentEpoch", "memberEpoch")),
    ("members", _MEMBERS, _members),
)
_TRANSACTION_STATE: Final[tuple[Column, ...]] = (
    ("transactionalId", pa.string(), _found("transactionalId")),
    ("state", pa.string(), _transaction_state),
    ("producerId", pa.int64(), _found("producerId")),
    ("producerEpoch", pa.int32(), _found("producerEpoch")),
    ("previousProducerId", pa.int64(), _found("previousProducerId")),
    ("nextProducerId", pa.int64(), _found("nextProducerId")),
    ("nextProducerEpoch", pa.int32(), _found("nextProducerEpoch")),
    ("timeoutMs", pa.int32(), _found("transactionTimeoutMs")),
    ("partitions", _TRANSACTION_PARTITIONS, _found("transactionPartitions")),
    ("lastUpdateTimestampMs", pa.int64(), _found("transactionLastUpdateTimestampMs")),
    ("startTimestampMs", pa.int64(), _found("transactionStartTimestampMs")),
    ("clientTransactionVersion", pa.int32(), _found("clientTransactionVersion")),
)
_CLUSTER_METADATA: Final[tuple[Column, ...]] = (
    ("snapshot", pa.string(), lambda row: row.snapshot),
    ("topic", pa.string(), _metadata_topic),
    ("topicId", pa.string(), _found("topicId")),
    ("partition", pa.int32(), _found("partitionId")),
    ("leader", pa.int32(), _found("leader")),
    ("leaderEpoch", pa.int32(), _found("leaderEpoch")),
    ("replicas", _INTS, _found("replicas")),
    ("isr", _INTS, _found("isr")),
    ("resourceType", pa.string(), _resource_type),
    ("resourceName", pa.string(), _of_config("resourceName")),
    ("configName", pa.string(), _of_config("name")),
    ("configValue", pa.string(), _of_config("value")),
    ("brokerId", pa.int32(), _found("brokerId")),
)
_SHARE_GROUP_STATE: Final[tuple[Column, ...]] = (
    ("group", pa.string(), _found("groupId")),
    ("topicId", pa.string(), _found("topicId")),
    ("partition", pa.int32(), _found("partition")),
    ("snapshotEpoch", pa.int32(), _found("snapshotEpoch")),
    ("stateEpoch", pa.int32(), _found("stateEpoch")),
    ("leaderEpoch", pa.int32(), _found("leaderEpoch")),
    ("startOffset", pa.int64(), _found("startOffset")),
    ("deliveryCompleteCount", pa.int32(), _found("deliveryCompleteCount")),
    ("createTimestampMs", pa.int64(), _found("createTimestamp")),
    ("writeTimestampMs", pa.int64(), _found("writeTimestamp")),
    ("stateBatches", _STATE_BATCHES, _state_batches),
)
_OWN_COLUMNS: Final = {
    View.CONSUMER_OFFSETS: _CONSUMER_OFFSETS,
    View.TRANSACTION_STATE: _TRANSACTION_STATE,
    View.CLUSTER_METADATA: _CLUSTER_METADATA,
    View.SHARE_GROUP_STATE: _SHARE_GROUP_STATE,
}
_COLUMNS: Final[dict[View, tuple[Column, ...]]] = {
    view: (
        *_RECORD_COLUMNS,
        *(_TOMBSTONE_COLUMNS if INTERNAL_TOPICS[topic].has_keys else ()),
        *_OWN_COLUMNS[view],
        *_BYTES_COLUMNS,
    )
    for view, topic in SYSTEM_TOPICS.items()
}

SYSTEM_SCHEMAS: Final = {
    view: pa.schema([(name, kind) for name, kind, _ in columns])
    for view, columns in _COLUMNS.items()
}


def make_batch(view: View, rows: Sequence[SystemRow], names: Iterable[str]) -> pa.RecordBatch:
    """Make an Arrow batch of some columns of a view."""
    columns = {name: (kind, get) for name, kind, get in _COLUMNS[view]}
    wanted = [(name, *columns[name]) for name in names]
    arrays = [pa.array([get(row) for row in rows], kind) for _, kind, get in wanted]
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([(name, kind) for name, kind, _ in wanted])
    )
