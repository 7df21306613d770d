"""Dumped entries as lines of text: those of ``kafka-dump-log`` (Kafka 4), and a few of our own.

What parses the one parses the other. Ours are the lines for bad bytes inside of a log, for the
record with the largest timestamp, for transactions, and the values of headers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from spark_segmentlog.cli.dump_options import Entry
from spark_segmentlog.cli.dump_records import add_sequence
from spark_segmentlog.cli.output import printable
from spark_segmentlog.record.layout import MAGIC_V2, NO_SEQUENCE
from spark_segmentlog.record.plain.control import ControlRecordType

_KRAFT_NAMES: Final = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}
_WORD_START: Final = re.compile("(?<!^)(?=[A-Z])")


def text_line(entry: Entry) -> str:
    """Write an entry as text, mostly one line."""
    return _WRITERS[entry["type"]](entry)


def _segment(entry: Entry) -> str:
    return f"Dumping {printable(entry['path'])}\nLog starting offset: {entry['baseOffset']}"


def _batch(entry: Entry) -> str:
    front = _batch_front(entry) if entry["magic"] == MAGIC_V2 else f"offset: {entry['lastOffset']}"
    return (
        f"{front} position: {entry['position']} "
        f"{entry['timestampType']}: {entry['maxTimestampMs']} size: {entry['sizeBytes']} "
        f"magic: {entry['magic']} compresscodec: {entry['codec']} crc: {entry['crc']} "
        f"isvalid: {_boolean(entry['isValid'])}"
    )


def _batch_front(entry: Entry) -> str:
    first_sequence = last_sequence = entry["baseSequence"]
    if first_sequence != NO_SEQUENCE:
        last_sequence = add_sequence(first_sequence, entry["lastOffset"] - entry["baseOffset"])
    return (
        f"baseOffset: {entry['baseOffset']} lastOffset: {entry['lastOffset']} "
        f"count: {entry['recordCount']} "
        f"baseSequence: {first_sequence} lastSequence: {last_sequence} "
        f"producerId: {entry['producerId']} producerEpoch: {entry['producerEpoch']} "
        f"partitionLeaderEpoch: {entry['partitionLeaderEpoch']} "
        f"isTransactional: {_boolean(entry['isTransactional'])} "
        f"isControl: {_boolean(entry['isControl'])} "
        f"deleteHorizonMs: {_optional(entry['deleteHorizonMs'])}"
    )


def _record(entry: Entry) -> str:
    front = f"| offset: {entry['offset']} {entry['timestampType']}: {entry['timestampMs']}"
    parts = [front, f"keySize: {entry['keySize']} valueSize: {entry['valueSize']}"]
    headers = entry["headers"]
    if entry["magic"] == MAGIC_V2:
        keys = ",".join(printable(header["key"]) for header in headers)
        parts.append(f"sequence: {entry['sequence']} headerKeys: [{keys}]")
    if "controlType" in entry:
        return " ".join([*parts, _control(entry)])
    decoded = entry.get("decoded", {})
    for name, field in (("key", "key"), ("payload", "value")):
        text = _decoded(decoded, field) or bytes_text(entry, field)
        if text is not None:
            parts.append(f"{name}: {text}")
    if decoded.get("reason") is not None:
        parts.append(f"reason: {printable(decoded['reason'])}")
    if headers:
        parts.append(f"headers: [{','.join(_header(header) for header in headers)}]")
    return " ".join(parts)


def _header(header: Mapping[str, Any]) -> str:
    """Write a header: its name alone where the value is null."""
    key, value = printable(header["key"]), bytes_text(header, "value")
    return key if value is None else f"{key}={value}"


def _decoded(decoded: Mapping[str, Any], field: str) -> str | None:
    """Write what was read of a key or value, as the decoders of the broker's tool do."""
    data = decoded.get(field)
    if data is None:
        has_key = decoded.get("key") is not None and decoded["reason"] is None
        return "<DELETE>" if field == "value" and has_key else None
    if field == "key":
        shown = {"type": str(decoded["typeId"])}
    elif decoded["key"] is not None:
        shown = {"version": str(decoded["version"])}
    else:
        name = _WORD_START.sub("_", decoded["type"]).upper()
        shown = {"type": name, "version": decoded["version"]}
    text = json.dumps({**shown, "data": data}, separators=(",", ":"), ensure_ascii=False)
    return printable(text)


def _control(entry: Entry) -> str:
    if entry["controlTypeId"] is None:
        return f"controlType: none, {entry['reason']}"
    if "content" in entry:
        content = json.dumps(entry["content"], separators=(",", ":"))
        # The broker's tool has a colon after the first of these alone.
        colon = ":" if entry["controlTypeId"] == ControlRecordType.LEADER_CHANGE else ""
        return f"{_KRAFT_NAMES[entry['controlTypeId']]}{colon} {content}"
    if entry["coordinatorEpoch"] is not None:
        return f"endTxnMarker: {entry['controlType']} coordinatorEpoch: {entry['coordinatorEpoch']}"
    return f"controlType: {entry['controlType']}({entry['controlTypeId']})"


def _corrupt_bytes(entry: Entry) -> str:
    return (
        f"Found {entry['lengthBytes']} invalid bytes at position {entry['position']} of "
        f"{_name(entry)}: {entry['reason']}"
    )


def _torn_end(entry: Entry) -> str:
    what = "zero" if entry["isZero"] else "invalid"
    return f"Found {entry['lengthBytes']} {what} bytes at the end of {_name(entry)}"


def _largest_timestamp(entry: Entry) -> str:
    return f"Largest timestamp: {entry['timestampMs']} at offset {entry['offset']}"


def _index(entry: Entry) -> str:
    path = printable(entry["path"])
    return f"Dumping {path}" if entry["entries"] else f"Dumping {path}\n{path} is empty."


def _offset_index_entry(entry: Entry) -> str:
    return f"offset: {entry['offset']} position: {entry['position']}"


def _time_index_entry(entry: Entry) -> str:
    return f"timestamp: {entry['timestampMs']} offset: {entry['offset']}"


def _aborted_transaction(entry: Entry) -> str:
    return (
        f"version: 0 producerId: {entry['producerId']} firstOffset: {entry['firstOffset']} "
        f"lastOffset: {entry['lastOffset']} lastStableOffset: {entry['lastStableOffset']}"
    )


def _snapshot(entry: Entry) -> str:
    path = printable(entry["path"])
    if entry["isValid"]:
        return f"Dumping {path}"
    return f"Dumping {path}\n{path} is damaged: a broker leaves it out."


def _producer(entry: Entry) -> str:
    front = (
        f"producerId: {entry['producerId']} producerEpoch: {entry['producerEpoch']} "
        f"coordinatorEpoch: {entry['coordinatorEpoch']} "
        f"currentTxnFirstOffset: {_optional(entry['currentTxnFirstOffset'])} "
        f"lastTimestamp: {entry['timestampMs']}"
    )
    if entry["lastOffset"] < 0:
        return front
    last_sequence = entry["lastSequence"]
    return (
        f"{front} firstSequence: {add_sequence(last_sequence, -entry['offsetDelta'])} "
        f"lastSequence: {last_sequence} lastOffset: {entry['lastOffset']} "
        f"offsetDelta: {entry['offsetDelta']} timestamp: {entry['timestampMs']}"
    )


def _transactions(entry: Entry) -> str:
    return f"Transactions in {printable(entry['path'])}"


def _transaction(entry: Entry) -> str:
    marker = entry["markerOffset"]
    return (
        f"producerId: {entry['producerId']} producerEpoch: {entry['producerEpoch']} "
        f"state: {entry['state']} firstOffset: {entry['firstOffset']} "
        f"lastOffset: {entry['lastOffset']} count: {entry['recordCount']} "
        f"markerOffset: {'none' if marker is None else marker}"
    )


_WRITERS: Final[Mapping[str, Callable[[Entry], str]]] = {
    "segment": _segment,
    "batch": _batch,
    "record": _record,
    "corruptBytes": _corrupt_bytes,
    "tail": _torn_end,
    "largestTimestamp": _largest_timestamp,
    "index": _index,
    "offsetIndexEntry": _offset_index_entry,
    "timeIndexEntry": _time_index_entry,
    "abortedTransaction": _aborted_transaction,
    "snapshot": _snapshot,
    "producer": _producer,
    "transactions": _transactions,
    "transaction": _transaction,
}


def bytes_text(fields: Mapping[str, Any], name: str) -> str | None:
    """Write a key or value; None for null. What is no text is told by what stands before it."""
    if f"{name}Hex" in fields:
        return f"0x{fields[f'{name}Hex']}"
    if f"{name}Base64" in fields:
        return f"base64:{fields[f'{name}Base64']}"
    text: str | None = fields[name]
    return None if text is None else printable(text)


def _name(entry: Entry) -> str:
    return printable(os.path.basename(str(entry["path"])))


def _boolean(value: bool) -> str:
    return str(value).lower()


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
