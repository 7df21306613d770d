"""Messages of Kafka's own topics, as its own classes wrote them."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from typing import Any

from spark_segmentlog.record.system.schemas import message_schemas
from spark_segmentlog.record.system.topics import (
    CLUSTER_METADATA,
    REMOTE_LOG_METADATA,
)
from tests.support.project import DATA

MESSAGES = DATA / "kafka-4.3.1-messages" / "messages.jsonl.gz"


@cache
def messages_of_kafka() -> list[dict[str, Any]]:
    with gzip.open(MESSAGES, "rt", encoding="utf-8") as lines:
        return [{**row, "bytes": base64.b64decode(row["bytes"])} for row in map(json.loads, lines)]


def wrap(name: str, version: int, data: bytes) -> tuple[str, bytes | None, bytes | None] | None:
    """Make a record of a message: its topic, key and value; None for one that is no record."""
    schema = message_schemas()[name]
    if schema.topic is None or schema.type_id is None:
        return None
    if schema.topic in (CLUSTER_METADATA, REMOTE_LOG_METADATA):
        return schema.topic, None, bytes((1, schema.type_id, version)) + data
    if name.endswith("Key"):
        return schema.topic, schema.type_id.to_bytes(2, "big") + data, None
    key = next(
        row["bytes"]
        for row in messages_of_kafka()
        if row["name"] == f"{name.removesuffix('Value')}Key"
    )
    return schema.topic, schema.type_id.to_bytes(2, "big") + key, version.to_bytes(2, "big") + data
