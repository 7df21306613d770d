"""Kafka's message specifications, as its jars carry them, as the table of the package.

``python -m tests.support.message_table`` writes the table again; a test compares it with the jars.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_segmentlog.record.system.schemas import TABLE_NAME
from tests.support.kafka_jars import KAFKA_VERSION, kafka_jars
from tests.support.project import PROJECT

TABLE = PROJECT / "spark_segmentlog" / "record" / "system" / TABLE_NAME
TOPICS = {
    "kafka-group-coordinator": "__consumer_offsets",
    "kafka-transaction-coordinator": "__transaction_state",
    "kafka-share-coordinator": "__share_group_state",
    "kafka-metadata": "__cluster_metadata",
    "kafka-storage": "__remote_log_metadata",
}
NO_RECORDS = ("ProducerSnapshot",)
CLIENT_MESSAGES = (
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
)


def make_table(libs: Path) -> str:
    """Write the table of the messages in the jars of a folder, a line a message."""
    rows = [
        _message(specification, topic)
        for jar, topic in TOPICS.items()
        for specification in _specifications(libs, jar)
        if specification["name"] not in NO_RECORDS
    ]
    rows += [
        _message(specification, None)
        for specification in _specifications(libs, "kafka-clients")
        if specification["name"] in CLIENT_MESSAGES
    ]
    rows.sort(key=lambda row: (row.get("topic", ""), row.get("id", 0), row["name"]))
    lines = (json.dumps(row, separators=(",", ":")) for row in rows)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _specifications(libs: Path, jar: str) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(libs / f"{jar}-{KAFKA_VERSION}.jar") as archive:
        for name in sorted(archive.namelist()):
            if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                text = archive.read(name).decode()
                yield json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def _message(specification: dict[str, Any], topic: str | None) -> dict[str, Any]:
    structs = {
        struct["name"]: struct["fields"] for struct in specification.get("commonStructs", ())
    }
    row = {
        "topic": topic,
        "id": None if topic is None else specification["apiKey"],
        "name": specification["name"],
        "versions": specification["validVersions"],
        "flexible": specification["flexibleVersions"],
        "fields": [_field(field, structs) for field in specification["fields"]],
    }
    return _without_nones(row)


def _field(specification: dict[str, Any], structs: dict[str, Any]) -> dict[str, Any]:
    kind = specification["type"]
    is_tagged = "tag" in specification
    versions = specification.get("versions") or specification["taggedVersions"]
    # A message whose only version is 0 has no other to be told apart from.
    is_in_all = versions in ("0", "0+")
    nested = specification.get("fields") or structs.get(kind.removeprefix("[]"))
    if is_tagged:
        assert specification["taggedVersions"] == versions, specification
    name = specification["name"]
    return _without_nones(
        {
            "name": name[:1].lower() + name[1:],
            "type": kind,
            "versions": None if is_in_all else versions,
            "nullable": specification.get("nullableVersions"),
            "tag": specification.get("tag"),
            "fields": nested and [_field(inner, structs) for inner in nested],
        }
    )


def _without_nones(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


if __name__ == "__main__":
    TABLE.write_text(make_table(kafka_jars().libs))
